"""The exercises that a kernel.cuh marks, and the copy of it that a learner fills in.

A region of the chapter's file, which is the only source:

    // EXERCISE 1: what to do, on one line
    // HINT 1: from gentle to plain, a line for each
    ... the solution ...
    // STUB:   what stands in its place, a mark for each line

becomes in the learner's copy

    // EXERCISE 1: what to do, on one line
    ... the stub, and later the learner's own ...
    // END 1
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

MARK = re.compile(r"^(\s*)// (?:(EXERCISE|HINT) (\d+)|(STUB)):(\s*)(.*)")
COPY_MARK = re.compile(r"^\s*// (EXERCISE|END) (\d+)\b")

# A learner's copy begins with it.
HEADER = """\
// Your copy of chapters/{name}/kernel.cuh. Write between EXERCISE and END, then: ./learn check {number}
// A hint: ./learn hint {number}      Back to the blanks, with a backup: ./learn reset {number}
"""


class RegionError(ValueError):
    """A mark that makes no sense. The message begins with file and line."""


@dataclass(frozen=True)
class Region:
    """An exercise of a chapter's kernel.cuh. Lines count from 0, as in text.splitlines()."""

    number: int
    task: str
    hints: tuple[str, ...]
    solution: tuple[str, ...]
    stub: tuple[str, ...]
    begin: int  # the line of EXERCISE
    end: int  # the line behind the last STUB
    indent: str


def parse(text: str, name: str) -> list[Region]:
    """The regions of a chapter's kernel.cuh; RegionError where a mark is out of place."""
    lines = text.splitlines()
    marks: list[re.Match | None] = [MARK.match(line) for line in lines]
    regions: list[Region] = []
    at = 0
    while at < len(lines):
        mark = marks[at]
        if not mark:
            at += 1
            continue
        regions.append(_region(lines, marks, at, f"{name}:", len(regions) + 1))
        at = regions[-1].end
    return regions


def _region(
    lines: list[str], marks: list[re.Match | None], begin: int, file: str, number: int
) -> Region:
    """The region whose EXERCISE should stand in line `begin`, and should have this number."""
    indent, kind, found, stub, _, task = marks[begin].groups()
    if kind != "EXERCISE":
        what = f"HINT {found}" if kind else stub
        raise RegionError(f"{file}{begin + 1}: {what} before its EXERCISE")
    if int(found) < number:
        raise RegionError(f"{file}{begin + 1}: EXERCISE {found} is there twice")
    if int(found) != number:
        raise RegionError(
            f"{file}{begin + 1}: EXERCISE {found} must be EXERCISE {number}"
        )
    if not task:
        raise RegionError(f"{file}{begin + 1}: EXERCISE {number} says no task")

    hints: list[str] = []
    at = begin + 1
    while at < len(lines) and (mark := marks[at]) and mark[2] == "HINT":
        if int(mark[3]) != number:
            raise RegionError(
                f"{file}{at + 1}: HINT {mark[3]} in EXERCISE {number}: must be HINT {number}"
            )
        hints.append(mark[6])
        at += 1
    first = at
    while at < len(lines) and not marks[at]:
        at += 1
    if at < len(lines) and marks[at][2] == "EXERCISE" and int(marks[at][3]) <= number:
        raise RegionError(f"{file}{at + 1}: EXERCISE {marks[at][3]} is there twice")
    if at == len(lines) or not marks[at][4]:
        raise RegionError(f"{file}{begin + 1}: EXERCISE {number} has no STUB")
    solution = lines[first:at]
    stub_marks = []
    while at < len(lines) and marks[at] and marks[at][4]:
        stub_marks.append(marks[at])
        at += 1
    margin = min(len(mark[5]) for mark in stub_marks)
    stub = [f"{indent}{mark[5][margin:]}{mark[6]}".rstrip() for mark in stub_marks]
    return Region(
        number, task, tuple(hints), tuple(solution), tuple(stub), begin, at, indent
    )


def _with_regions(text: str, regions: list[Region], fill: dict[int, list[str]]) -> str:
    """A chapter's kernel.cuh with these lines in place of its regions."""
    lines = text.splitlines()
    for region in reversed(regions):
        lines[region.begin : region.end] = fill[region.number]
    return "\n".join(lines) + "\n"


def blank_copy(
    text: str,
    name: str,
    chapter: str,
    contents: Mapping[int, tuple[str, ...]] = {},
) -> str:
    """The learner's copy of a chapter's kernel.cuh.

    @param contents  lines by region, where they are to be others than the stub's
    """
    regions = parse(text, name)
    fill = {
        region.number: [
            f"{region.indent}// EXERCISE {region.number}: {region.task}",
            *contents.get(region.number, region.stub),
            f"{region.indent}// END {region.number}",
        ]
        for region in regions
    }
    header = HEADER.format(name=chapter, number=chapter[:2])
    return header + _with_regions(text, regions, fill)


@dataclass(frozen=True)
class Place:
    """What a learner wrote in a region: lines[begin:end] of the copy, without the two marks."""

    begin: int
    end: int
    lines: tuple[str, ...]


def places(copy: str, regions: list[Region], name: str) -> dict[int, Place]:
    """Where the regions are in a learner's copy; RegionError where marks are missing."""
    lines = copy.splitlines()
    found: dict[int, Place] = {}
    open_since: tuple[int, int] | None = None
    for at, line in enumerate(lines):
        mark = COPY_MARK.match(line)
        if not mark:
            continue
        kind, number = mark[1], int(mark[2])
        if kind == "EXERCISE" and open_since is None and number not in found:
            open_since = (number, at + 1)
        elif kind == "END" and open_since and open_since[0] == number:
            begin = open_since[1]
            found[number] = Place(begin, at, tuple(lines[begin:at]))
            open_since = None
        else:
            raise RegionError(f"{name}:{at + 1}: {kind} {number} is out of place")
    for region in regions:
        if region.number not in found:
            raise RegionError(
                f"{name}: the lines `// EXERCISE {region.number}: ..` and "
                f"`// END {region.number}` are gone"
            )
    return found


def unbalanced(lines: tuple[str, ...]) -> bool:
    """Whether brackets are opened that are not closed, or closed that were not opened."""
    code = re.sub(
        r"//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'", "", "\n".join(lines)
    )
    return any(code.count(a) != code.count(b) for a, b in ("()", "[]", "{}"))


def same_code(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two pieces of code differ at most in comments and blanks."""

    def bare(lines: tuple[str, ...]) -> str:
        return " ".join(" ".join(line.split("//")[0] for line in lines).split())

    return bare(one) == bare(other)


@dataclass(frozen=True)
class Alone:
    """A learner's copy in which every region but one is solved."""

    text: str
    lines: tuple[
        int | None, ...
    ]  # for each of its lines the learner's, from 1; None in solutions


def alone(copy: str, regions: list[Region], name: str, keep: int | None) -> Alone:
    """Solves every region of a copy but the one to keep; all of them where it is None.

    The text follows from that region and from what is outside of the regions: the others may change.
    """
    where = places(copy, regions, name)
    lines: list[str] = copy.splitlines()
    origins: list[int | None] = [*range(1, len(lines) + 1)]
    for region in sorted(regions, key=lambda region: -where[region.number].begin):
        if region.number != keep:
            place = where[region.number]
            lines[place.begin : place.end] = region.solution
            origins[place.begin : place.end] = [None] * len(region.solution)
    return Alone("\n".join(lines) + "\n", tuple(origins))


def outside(text: str) -> list[str]:
    """The lines of a learner's copy, or of a fresh one, that are in no region."""
    kept, inside = [], False
    for line in text.splitlines():
        mark = COPY_MARK.match(line)
        inside = bool(mark and mark[1] == "EXERCISE") or (inside and not mark)
        if not inside or mark:
            kept.append(line.rstrip())
    return kept
