"""The data of a page: events in columns that compress well, and the lines of source that they name."""

from __future__ import annotations

import base64
import os
import zlib
from array import array
from pathlib import Path

from .recording import COLUMNS, NONE, RECORD_BYTES, Recording

WHOLE_FILE = 700  # lines: a longer file is reduced to what surrounds the lines that ran
CONTEXT = 25  # lines before and after a line that ran


def _planes(words: array) -> bytes:
    """The lowest bytes of all words, then the second ones, and so on: neighbours are alike."""
    if words.itemsize == 1:
        return words.tobytes()
    if array("H", [1]).tobytes() == b"\0\1":
        words = words[:]
        words.byteswap()
    data = words.tobytes()
    return b"".join(data[byte::4] for byte in range(4))


def _differences(values: array, keys: list[int]) -> array:
    """Each value as the difference, modulo 2^32, from the one before it with the same key."""
    last: dict[int, int] = {}
    found = array("I", bytes(4 * len(values)))
    for index, (value, key) in enumerate(zip(values, keys, strict=True)):
        found[index] = (value - last.get(key, 0)) & NONE
        last[key] = value
    return found


def pack_events(recording: Recording) -> str:
    """All columns, one after the other, as zlib data in base64. recording.js reads them.

    A time is the difference from the warp's previous event, an offset from the previous one of the same warp
    and site. A link is the distance to the event that it names, or 0.
    """
    columns = {name: recording.column(name) for name in COLUMNS}
    warps, sites = columns["warp"], columns["site"]
    columns["time"] = _differences(columns["time"], list(warps))
    keys = [site << 8 | warp for site, warp in zip(sites, warps, strict=True)]
    columns["offset"] = _differences(columns["offset"], keys)
    columns["link"] = array(
        "I", (0 if link == NONE else (index - link) & NONE for index, link in enumerate(columns["link"]))
    )
    data = b"".join(_planes(columns[name]) for name in COLUMNS)
    assert len(data) == recording.count * RECORD_BYTES
    return base64.b64encode(zlib.compress(data, 9)).decode("ascii")


def _find(path: str, root: Path) -> Path | None:
    """A source file of a recording, which may come from another folder than this one."""
    named = Path(path)
    try:
        if named.is_file():
            return named
        for start in range(1, len(named.parts)):
            if (found := root.joinpath(*named.parts[start:])).is_file():
                return found
    except OSError:
        pass
    return None


def _shown(path: str, root: Path) -> str:
    for base in (root, root.resolve()):
        if Path(path).is_relative_to(base):
            return Path(path).relative_to(base).as_posix()
    return path


def _ranges(lines: list[str], used: set[int]) -> list[dict]:
    """The lines that the page shows of a file: all of a short one."""
    if len(lines) <= WHOLE_FILE:
        return [{"first": 1, "lines": lines}]
    wanted = sorted(
        {
            near
            for line in used
            for near in range(line - CONTEXT, line + CONTEXT + 1)
            if 1 <= near <= len(lines)
        }
    )
    found: list[dict] = []
    for line in wanted:
        if not found or line != found[-1]["first"] + len(found[-1]["lines"]):
            found.append({"first": line, "lines": []})
        found[-1]["lines"].append(lines[line - 1])
    return found


def sources_of(header: dict, root: Path) -> tuple[list[dict], list[list[list[int]]]]:
    """The files that sites name, and each site as pairs of a file's number and a line, innermost first."""
    numbers: dict[str, int] = {}
    used: list[set[int]] = []
    sites = []
    for site in header["sites"]:
        frames = []
        for text in site.get("lines", []):
            path, _, line = str(text).rpartition(":")
            path = os.path.normpath(path) if path else path
            if not path or not line.isdigit():
                continue
            number = numbers.setdefault(path, len(numbers))
            if number == len(used):
                used.append(set())
            used[number].add(int(line))
            frames.append([number, int(line)])
        sites.append(frames)
    files = []
    for path, number in numbers.items():
        found = _find(path, root)
        entry = {"name": _shown(str(found or path), root), "ranges": []}
        if found:
            text = found.read_text(encoding="utf-8", errors="replace")
            entry["ranges"] = _ranges(text.split("\n"), used[number])
        else:
            entry["missing"] = True
        files.append(entry)
    return files, sites
