"""What a page should show, computed from the recording itself: a second implementation, one event at a
time.
"""

from __future__ import annotations

import json
import struct
from collections import Counter, defaultdict
from pathlib import Path

NONE = 0xFFFFFFFF
# Kinds of events that take none of their warp's time.
SILENT = {4, 8, 10, 11, 12, 13}


class Replayed:
    def __init__(self, path: Path):
        data = path.read_bytes()
        length = int.from_bytes(data[8:12], "little")
        self.header = json.loads(data[12 : 12 + length])
        records = struct.iter_unpack("<4B7I", data[12 + length :])
        names = ("kind", "flags", "warp", "part", "site", "lanes", "array")
        names += ("pattern", "offset", "link", "time")
        self.events = [dict(zip(names, record, strict=True)) for record in records]

    def lanes(self, event: dict) -> list[tuple[int, int]]:
        """The lanes that take part, each with the offset of its first byte."""
        offsets = self.header["patterns"][event["pattern"]]["offsets"]
        return [(lane, event["offset"] + offsets[lane]) for lane in range(32) if event["lanes"] >> lane & 1]

    def _accesses(self, space: str):
        for event in self.events:
            if event["kind"] != 1:
                continue
            if self.header["arrays"][event["array"]]["space"] == space:
                yield event, self.header["patterns"][event["pattern"]]

    def totals(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for _, pattern in self._accesses("shared"):
            found["wavefronts"] += pattern["wavefronts"]
            found["ideal wavefronts"] += pattern["ideal"]
        for _, pattern in self._accesses("global"):
            found["sectors"] += pattern["sectors"]
            found["ideal sectors"] += -(-pattern["bytes"] // 32)
        began: dict[tuple, int] = {}
        for event in self.events:
            key = (event["warp"], event["array"], event["offset"])
            if event["kind"] == 3:
                began[key] = event["time"]
            elif event["kind"] == 4:
                waited = event["time"] - began.pop(key)
                found["longest wait"] = max(found["longest wait"], waited)
        return dict(found)

    def lines(self) -> dict[int, dict[str, int]]:
        """Executions and extra wavefronts of each line, whatever its file."""
        found: dict[int, Counter] = defaultdict(Counter)
        for event in self.events:
            if event["kind"] in SILENT or event["site"] == NONE:
                continue
            copied = event["kind"] == 1 and event["flags"] == 3
            extra = 0
            if event["kind"] == 1:
                pattern = self.header["patterns"][event["pattern"]]
                extra = pattern["wavefronts"] - pattern["ideal"]
            for frame in self.header["sites"][event["site"]]["lines"]:
                line = int(frame.rpartition(":")[2])
                found[line]["executions"] += not copied
                found[line]["extra wavefronts"] += extra
        return {line: dict(counts) for line, counts in found.items()}

    def shared_at(self, time: int) -> dict[int, tuple[int, int] | None]:
        """Of each byte of shared memory that was written: the tensor and the offset it came from; None if
        computed.
        """
        bytes_now: dict[int, tuple[int, int] | None] = {}
        for _, event in sorted(enumerate(self.events), key=lambda item: (item[1]["time"], item[0])):
            if event["time"] > time:
                break
            if event["kind"] != 1 or event["flags"] not in (1, 2, 3):
                continue
            array = self.header["arrays"][event["array"]]
            if array["space"] != "shared":
                continue
            loaded = {}
            if event["link"] != NONE:
                load = self.events[event["link"]]
                loaded = {lane: (load["array"], at + event["part"]) for lane, at in self.lanes(load)}
            size = self.header["patterns"][event["pattern"]]["size"]
            for lane, at in self.lanes(event):
                for byte in range(size):
                    source = loaded.get(lane)
                    bytes_now[array.get("begin", 0) + at + byte] = source and (source[0], source[1] + byte)
        return bytes_now

    def touched_at(self, time: int, name: str) -> tuple[int, int]:
        """How many bytes of a tensor have been read and written so far."""
        read, written = set(), set()
        for event, pattern in self._accesses("global"):
            if event["time"] > time:
                continue
            if self.header["arrays"][event["array"]]["name"] != name:
                continue
            to = written if event["flags"] in (1, 2) else read
            for _, at in self.lanes(event):
                to.update(range(at, at + pattern["size"]))
        return len(read), len(written)
