"""Finds the moment of a recording that is worth looking at, and the block that writes an element."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..watch.recording import NONE, Recording

ACCESS, OPERATION, WAIT, ARRIVE, COPY, PRODUCT, DEFECT = 1, 2, 3, 5, 7, 9, 12  # kinds
READ, WRITE, ATOMIC, ASYNCHRONOUS, LDMATRIX, TRANSPOSED = range(6)  # flags of an access
READING = (READ, ATOMIC, LDMATRIX, TRANSPOSED)
WRITING = (WRITE, ATOMIC, ASYNCHRONOUS)
SHUFFLE, MMA = 1, 3  # flags of an operation

# What a search can look for: the kind of event, and its flags; none: all of them.
SEARCHES: dict[str, tuple[int, tuple[int, ...]]] = {
    "conflicts": (ACCESS, ()),
    "waste": (ACCESS, ()),
    "read": (ACCESS, READING),
    "write": (ACCESS, WRITING),
    "atomic": (ACCESS, (ATOMIC,)),
    "ldmatrix": (ACCESS, (LDMATRIX, TRANSPOSED)),
    "cp.async": (ACCESS, (ASYNCHRONOUS,)),
    "shuffle": (OPERATION, (SHUFFLE,)),
    "mma": (OPERATION, (MMA,)),
    "wait": (WAIT, ()),
    "arrive": (ARRIVE, ()),
    "copy": (COPY, ()),
    "product": (PRODUCT, ()),
    "defect": (DEFECT, ()),
}


class Event(NamedTuple):
    """An event, and its place in the recording."""

    index: int
    warp: int
    site: int
    lanes: int
    array: int
    pattern: int
    offset: int


def _events(recording: Recording, kind: int, flags: tuple[int, ...]) -> Iterator[Event]:
    """The events of a kind, in order. @param flags  those that count; none: all of them"""
    kinds, flag = recording.column("kind"), recording.column("flags")
    columns = [recording.column(name) for name in Event._fields[1:]]
    for index, each in enumerate(kinds):
        if each == kind and (not flags or flag[index] in flags):
            yield Event(index, *(column[index] for column in columns))


def has_work(recording: Recording) -> bool:
    """Whether any recorded block writes to memory, copies or multiplies."""
    return any(
        next(_events(recording, *SEARCHES[name]), None) for name in ("write", "copy", "mma", "product")
    )


@functools.cache
def _source(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _line_at(place: str) -> str:
    """The text of a line of source: "/abs/kernel.cuh:48"."""
    path, _, number = place.rpartition(":")
    lines, at = _source(path), int(number) if number.isdecimal() else 0
    return lines[at - 1] if 0 < at <= len(lines) else ""


def _in_space(recording: Recording, event: Event, space: str) -> bool:
    arrays = recording.header["arrays"]
    return event.array != NONE and arrays[event.array]["space"] == space


@dataclass(frozen=True)
class Search:
    """Describes an event in words that stay true when a kernel changes a little."""

    on: str  # one of SEARCHES
    line: str = ""  # part of the line of source, or of one that it is called from
    of: str = ""  # how the name of the array or of the barrier begins
    warp: int | None = None
    nth: int = 1  # of the events that match

    def _named(self, recording: Recording) -> set[int] | None:
        """The numbers of the arrays, barriers or copies with the wanted name; None if any will do."""
        if not self.of:
            return None
        header, kind = recording.header, SEARCHES[self.on][0]
        things = header["arrays"]
        if kind in (WAIT, ARRIVE):
            things = header["barriers"]
        elif kind == COPY:
            numbers = [copy["tensor"] for copy in header["copies"]]
            things = [{"name": ""} if n is None else things[n] for n in numbers]
        return {n for n, each in enumerate(things) if each["name"].startswith(self.of)}

    def _sites(self, recording: Recording) -> set[int] | None:
        if not self.line:
            return None
        return {
            number
            for number, site in enumerate(recording.header["sites"])
            if any(self.line in _line_at(place) for place in site["lines"])
        }

    def _matches(self, recording: Recording, event: Event) -> bool:
        """The condition on the pattern of an access."""
        if self.on not in ("conflicts", "waste"):
            return True
        pattern = recording.header["patterns"][event.pattern]
        if self.on == "conflicts":
            in_shared = _in_space(recording, event, "shared")
            return in_shared and pattern["wavefronts"] > pattern["ideal"]
        in_global = _in_space(recording, event, "global")
        return in_global and 32 * pattern["sectors"] >= 2 * pattern["bytes"]

    def first(self, recording: Recording) -> int | None:
        """The index of the event; None if there is none."""
        named, sites, left = self._named(recording), self._sites(recording), self.nth
        for event in _events(recording, *SEARCHES[self.on]):
            if self.warp not in (None, event.warp):
                continue
            if sites is not None and event.site not in sites:
                continue
            if named is not None and event.array not in named:
                continue
            if self._matches(recording, event):
                left -= 1
            if left == 0:
                return event.index
        return None


def _covers(recording: Recording, event: Event, byte: int) -> bool:
    """Whether an access touches a byte of its array."""
    pattern = recording.header["patterns"][event.pattern]
    return any(
        0 <= byte - event.offset - far < pattern["size"]
        for lane, far in enumerate(pattern["offsets"])
        if event.lanes >> lane & 1
    )


def _copy_covers(copy: dict, byte: int) -> bool:
    """Whether a copy by the copy engine touches a byte of its tensor."""
    return any(
        0 <= (byte - begin) - step * stride < length
        for begin, length, count, stride, *_ in copy["runs"]
        for step in range(count)
    )


@dataclass(frozen=True)
class Element:
    """An element of a tensor in global memory."""

    tensor: str
    byte: int  # its first, in the tensor

    def last_write(self, recording: Recording) -> int | None:
        """The index of the last event that writes it; None if there is none."""
        header = recording.header
        wanted = {
            number
            for number, each in enumerate(header["arrays"])
            if each["space"] == "global" and each["name"] == self.tensor
        }
        stored = {
            number
            for number, copy in enumerate(header["copies"])
            if copy["kind"] != "load" and copy["tensor"] in wanted and _copy_covers(copy, self.byte)
        }
        found = [
            event.index
            for event in _events(recording, ACCESS, WRITING)
            if event.array in wanted and _covers(recording, event, self.byte)
        ]
        found += [e.index for e in _events(recording, COPY, ()) if e.array in stored]
        return max(found, default=None)


def section_of(recording: Recording, index: int) -> int:
    """The number of the section that an event belongs to."""
    sections = recording.header["sections"]
    return next(n for n, s in enumerate(sections) if s["begin"] <= index < s["end"])
