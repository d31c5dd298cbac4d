"""Recordings of the simulator (GPUSIM_RECORD): the header and the columns of the events."""

from __future__ import annotations

import json
import sys
from array import array
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"GPUSIMR"
FORMAT = 1
RECORD_BYTES = 32
NONE = 0xFFFFFFFF
# The members of a record: four bytes that the page reads as one number each, then words.
COLUMNS = ("kind", "flags", "warp", "part", "site", "lanes", "array", "pattern", "offset", "link", "time")
BYTE_COLUMNS = 4
LISTS = ("sections", "sites", "arrays", "patterns", "barriers", "copies", "products", "defects")


class WatchError(Exception):
    """One line that says what is wrong with a recording or a page."""


@dataclass
class Recording:
    """@param header  every list of the format is present, even if the file has left it out
    @param events  the records as they are in the file"""

    header: dict
    events: bytes

    @property
    def count(self) -> int:
        return len(self.events) // RECORD_BYTES

    def column(self, name: str) -> array:
        """One member of all records."""
        number = COLUMNS.index(name)
        if number < BYTE_COLUMNS:
            return array("B", self.events[number::RECORD_BYTES])
        words = array("I", self.events)
        if sys.byteorder == "big":
            words.byteswap()
        return words[number - BYTE_COLUMNS + 1 :: RECORD_BYTES // 4]


def parse(data: bytes, name: str = "recording") -> Recording:
    """@param name  how an error message calls the file"""
    if data[: len(MAGIC)] != MAGIC:
        raise WatchError(f"{name}: not a recording of the simulator")
    version = data[len(MAGIC) : 8].decode("latin-1")
    if version != str(FORMAT):
        raise WatchError(f"{name}: format {version!r} of a recording; this program reads format {FORMAT}")
    if len(data) < 12:
        raise WatchError(f"{name}: the file is cut off in its header")
    length = int.from_bytes(data[8:12], "little")
    if len(data) < 12 + length:
        raise WatchError(f"{name}: the file is cut off in its header")
    try:
        header = json.loads(data[12 : 12 + length])
    except ValueError as error:
        raise WatchError(f"{name}: the header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise WatchError(f"{name}: the header is not a JSON object")
    if header.get("format", FORMAT) != FORMAT:
        raise WatchError(
            f"{name}: format {header['format']} of a recording; this program reads format {FORMAT}"
        )
    for key in LISTS:
        if not isinstance(header.setdefault(key, []), list):
            raise WatchError(f"{name}: {key!r} of the header is not a list")
    events = data[12 + length :]
    count = header.get("event_count", len(events) // RECORD_BYTES)
    if not isinstance(count, int) or count < 0:
        raise WatchError(f"{name}: 'event_count' of the header is not a count")
    if len(events) < count * RECORD_BYTES:
        raise WatchError(f"{name}: the file is cut off: {len(events) // RECORD_BYTES} of {count} events")
    if not header["sections"]:
        raise WatchError(f"{name}: no block was recorded")
    for section in header["sections"]:
        if not 0 <= section.get("begin", 0) <= section.get("end", count) <= count:
            raise WatchError(f"{name}: a section lies outside the events")
    return Recording(header, events[: count * RECORD_BYTES])


def read(path: Path) -> Recording:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise WatchError(f"{path}: {error.strerror}") from None
    return parse(data, str(path))
