"""The exercises marked in a chapter's kernels, and the learner's copy of these files, with blanks to fill in.

A region of a chapter's file:

    // EXERCISE 1: what to do, on one line
    ... the solution ...
    // END 1

becomes, in the learner's copy,

    // EXERCISE 1: what to do, on one line
    ... the stub from exercises.toml, which the learner replaces ...
    // END 1

A copy is a mapping from file names to texts.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .console import LearnError

MARK = re.compile(r"^(\s*)// (EXERCISE|END) (\d+)\b:?\s*(.*)")

# The beginning of a learner's copy of a file.
HEADER = """\
// Your copy of chapters/{name}/{file}. Write between EXERCISE and END, then: ./learn check {number}
// A hint: ./learn hint {number}      Back to the blanks, with a backup: ./learn reset {number}
"""


# Stands before a stub, which looks like code to keep.
PLACEHOLDER = "// Placeholder: it compiles, but computes nothing right. Replace it."


# The state of an exercise that nobody has changed: a stub to fill in, or code with a mistake to find.
BLANK, GIVEN = "blank", "not solved yet"


class RegionError(LearnError):
    """A mark, or an entry of exercises.toml, makes no sense. The message begins with the file."""

    def __init__(self, message: str):
        super().__init__(message, 2)


@dataclass(frozen=True)
class Region:
    """An exercise. Lines are numbered from 0, as in text.splitlines()."""

    number: int
    task: str
    solution: tuple[str, ...]
    file: str  # the name of the chapter's file that contains it
    begin: int  # the line of EXERCISE
    end: int  # the line after END
    indent: str
    # From exercises.toml:
    minutes: int = 0  # that a learner is likely to need
    hints: tuple[str, ...] = ()
    stub: tuple[str, ...] = ()
    is_bug: bool = False  # the stub is code with a mistake to find

    @property
    def untouched(self) -> str:
        """The state of the exercise as long as it has its stub."""
        return GIVEN if self.is_bug else BLANK

    @property
    def still(self) -> str:
        """The same in a sentence: the exercise is .."""
        return "still the code that you were given" if self.is_bug else "still blank"

    @property
    def lines_of_stub(self) -> tuple[str, ...]:
        """What a fresh copy has between the marks."""
        return self.stub if self.is_bug else (f"{self.indent}{PLACEHOLDER}", *self.stub)


def parse(text: str, file: str, folder: str, first: int = 1) -> list[Region]:
    """The regions of a chapter's file, without hints and stubs. RegionError if a mark is misplaced.

    @param folder  the folder's name, for messages
    @param first   the number of the first region
    """
    lines = text.splitlines()
    found: list[Region] = []
    opened: tuple[int, re.Match] | None = None
    for at, line in enumerate(lines):
        mark = MARK.match(line)
        if not mark:
            continue
        kind, number, expected = mark[2], int(mark[3]), first + len(found)
        where = f"{folder}/{file}:{at + 1}: {kind} {number}"
        if kind == "EXERCISE":
            if first <= number < expected + bool(opened):
                raise RegionError(f"{where} occurs twice")
            if opened:
                break
            if number != expected:
                raise RegionError(f"{where} must be EXERCISE {expected}")
            if not mark[4]:
                raise RegionError(f"{where} has no task")
            opened = at, mark
            continue
        if not opened:
            raise RegionError(f"{where} comes before its EXERCISE")
        if number != expected:
            raise RegionError(f"{where} ends EXERCISE {expected}: must be END {expected}")
        begin, start = opened
        solution = tuple(lines[begin + 1 : at])
        if not any(code.strip() for code in solution):
            raise RegionError(f"{where}: there is no solution before it")
        found.append(Region(number, start[4].rstrip(), solution, file, begin, at + 1, start[1]))
        opened = None
    if opened:
        begin, start = opened
        where = f"{folder}/{file}:{begin + 1}: EXERCISE {start[3]}"
        raise RegionError(f"{where} has no END {start[3]}")
    return found


def without_solutions(lines: Iterable[str]) -> list[str]:
    """Lines of a chapter's file, with the tasks of exercises instead of the solutions."""
    kept, inside = [], False
    for line in lines:
        mark = MARK.match(line)
        if mark and mark[2] == "EXERCISE" or not (mark or inside):
            kept.append(line)
        inside = mark[2] == "EXERCISE" if mark else inside
    return kept


def without_marks(text: str) -> str:
    """A chapter's file with the solutions, and nothing that says where exercises are."""
    return "".join(line for line in text.splitlines(keepends=True) if not MARK.match(line))


def blank_copy(
    text: str, regions: Iterable[Region], chapter: str, contents: Mapping[int, tuple[str, ...]] = {}
) -> str:
    """The learner's copy of a chapter's file.

    @param regions   the regions of this file, one or more
    @param chapter   "01_safe_softmax"
    @param contents  lines for some regions, instead of their stubs
    """
    regions = list(regions)
    lines = text.splitlines()
    for region in reversed(regions):
        lines[region.begin : region.end] = [
            f"{region.indent}// EXERCISE {region.number}: {region.task}",
            *contents.get(region.number, region.lines_of_stub),
            f"{region.indent}// END {region.number}",
        ]
    header = HEADER.format(name=chapter, file=regions[0].file, number=chapter[:2])
    return header + "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Place:
    """A learner's answer: lines[begin:end] of the copy of a file, without the two marks."""

    file: str
    begin: int
    end: int
    lines: tuple[str, ...]


def places(copy: Mapping[str, str], regions: Iterable[Region], folder: str) -> dict[int, Place]:
    """Where the regions are in a learner's copy. RegionError if marks are missing."""
    marked = {name: _marked(text, name, folder) for name, text in copy.items()}
    found = {}
    for region in regions:
        if region.number not in marked[region.file]:
            raise RegionError(
                f"{folder}/{region.file}: the lines `// EXERCISE {region.number}: ..` and "
                f"`// END {region.number}` are gone"
            )
        found[region.number] = marked[region.file][region.number]
    return found


def _marked(text: str, file: str, folder: str) -> dict[int, Place]:
    """The text between the marks of one file, by number."""
    lines = text.splitlines()
    found: dict[int, Place] = {}
    open_since: tuple[int, int] | None = None
    for at, line in enumerate(lines):
        mark = MARK.match(line)
        if not mark:
            continue
        kind, number = mark[2], int(mark[3])
        if kind == "EXERCISE" and open_since is None and number not in found:
            open_since = (number, at + 1)
        elif kind == "END" and open_since and open_since[0] == number:
            begin = open_since[1]
            found[number] = Place(file, begin, at, tuple(lines[begin:at]))
            open_since = None
        else:
            raise RegionError(f"{folder}/{file}:{at + 1}: {kind} {number} is out of place")
    return found


def unbalanced(lines: tuple[str, ...]) -> bool:
    """Whether some bracket has no counterpart."""
    code = re.sub(r"//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'", "", "\n".join(lines))
    return any(code.count(a) != code.count(b) for a, b in ("()", "[]", "{}"))


def same_code(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two pieces of code differ in nothing but comments and white space."""

    def bare(lines: tuple[str, ...]) -> str:
        return " ".join(" ".join(line.split("//")[0] for line in lines).split())

    return bare(one) == bare(other)


@dataclass(frozen=True)
class Alone:
    """A learner's copy with solutions in all regions but one."""

    texts: dict[str, str]
    # For each line of a file, its line in the learner's file, from 1; None inside solutions.
    lines: dict[str, tuple[int | None, ...]]
    # For each line of a file, the exercise that it belongs to; None outside of all.
    exercises: dict[str, tuple[int | None, ...]]


def alone(copy: Mapping[str, str], regions: Iterable[Region], folder: str, keep: int | None) -> Alone:
    """Puts solutions into every region of a copy except the one to keep, or into all of them if that is None.

    The texts depend only on that region and on what is outside the regions, not on the other answers.
    """
    regions = list(regions)
    where = places(copy, regions, folder)
    lines = {name: text.splitlines() for name, text in copy.items()}
    origins: dict[str, list[int | None]] = {name: [*range(1, len(lines[name]) + 1)] for name in copy}
    owners: dict[str, list[int | None]] = {name: [None] * len(lines[name]) for name in copy}
    for region in sorted(regions, key=lambda region: -where[region.number].begin):
        place = where[region.number]
        answer = slice(place.begin, place.end)
        if region.number != keep:
            lines[place.file][answer] = region.solution
            origins[place.file][answer] = [None] * len(region.solution)
        length = len(place.lines if region.number == keep else region.solution)
        owners[place.file][answer] = [region.number] * length
    return Alone(
        {name: "\n".join(lines[name]) + "\n" for name in copy},
        {name: tuple(origins[name]) for name in copy},
        {name: tuple(owners[name]) for name in copy},
    )


def for_debugger(alone: Alone, own: Path) -> dict[str, str]:
    """The texts with #line, so that a debugger shows the learner's lines, and for a solution the line of its
    task.

    @param own  the folder of the learner's files
    """
    texts = {}
    for name, text in alone.texts.items():
        marked: list[str] = []
        previous, shown = -1, 0
        for line, origin in zip(text.splitlines(), alone.lines[name], strict=True):
            shown = origin or shown  # a solution follows the line of EXERCISE
            if shown != previous + 1:
                marked.append(f'#line {shown} "{own / name}"')
            previous = shown
            marked.append(line)
        texts[name] = "\n".join(marked) + "\n"
    return texts


NO_FUNCTION = re.compile(r"[\s#/}]|(namespace|template|struct|class|enum|using)\b|$")

IN_CLASS = re.compile(r".*\b__(device|global)__\b")  # a member function is indented


def function_at(text: str, line: int) -> str | None:
    """The function of a kernel file that a line, from 1, is in."""
    lines = text.splitlines()[:line]
    for begin in range(len(lines) - 1, -1, -1):
        if IN_CLASS.match(lines[begin]) or not NO_FUNCTION.match(lines[begin]):
            declared = "\n".join(lines[begin:])
            names = re.findall(r"\b(?!__launch_bounds__)(\w+)\s*\(", declared)
            return names[0] if names else None
    return None


def outside(text: str) -> list[str]:
    """The lines of a file that are in no region. The file may be a learner's or a fresh copy."""
    kept, inside = [], False
    for line in text.splitlines():
        mark = MARK.match(line)
        inside = bool(mark and mark[2] == "EXERCISE") or (inside and not mark)
        if not inside or mark:
            kept.append(line.rstrip())
    return kept


def changed_lines(text: str, blank: str) -> set[int]:
    """The lines of a learner's file, counted from 1, that the copy with blanks does not have."""
    own = text.splitlines()
    matcher = difflib.SequenceMatcher(None, blank.splitlines(), own, autojunk=False)
    return {
        line + 1
        for kind, _, _, begin, end in matcher.get_opcodes()
        if kind != "equal"
        for line in range(begin, end)
    }
