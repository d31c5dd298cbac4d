"""Examples of what the function of an exercise returns: a learner's answer next to the chapter's.

A chapter's examples.cpp calls the function for a few arguments. A wrong formula is then explained by one call
that can be worked out by hand, and one that no input of the chapter shows is found.
"""

from __future__ import annotations

import functools
import math
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from . import maps, regions
from .exercises import Exercise
from .trials import CompileError

PROGRAM = "examples.cpp"
SECTION = re.compile(r"^#(?:el)?if EXERCISE == (\d+)$", re.MULTILINE)
INTEGER = re.compile(r"-?\d+")
FOLDER = Path(__file__).parent  # of examples.hpp
REL_TOLERANCE, ABS_TOLERANCE = 2e-3, 1e-6  # functions of the CPU's library, and others of the same meaning
MOST_VALUES = 3  # that are told of a call

Values = dict[str, str]  # by name
Calls = dict[str, Values]


@functools.cache
def _sections(program: Path) -> frozenset[int]:
    text = program.read_text(encoding="utf-8") if program.is_file() else ""
    return frozenset(map(int, SECTION.findall(text)))


def exercises_of(exercise: Exercise) -> frozenset[int]:
    """The exercises of a chapter that have examples."""
    return _sections(exercise.chapter.path / PROGRAM)


def _calls(exercise: Exercise, number: int, answer: Iterable[str]) -> Calls:
    """What comes out of each call with an answer. CompileError or maps.Stopped if nothing does."""
    with tempfile.TemporaryDirectory(prefix="learn-examples-") as name:
        folder = Path(name)
        (folder / "answer.inc").write_text("\n".join([*answer, ""]), encoding="utf-8")
        source = exercise.chapter.path / PROGRAM
        includes = (folder, FOLDER, exercise.chapter.path)
        printed = maps.output_of(folder, source, includes, [f"-DEXERCISE={number}"])
    return _parsed(printed)


def _parsed(printed: bytes) -> Calls:
    calls: Calls = {}
    for line in printed.decode(errors="replace").splitlines():
        call, what, value = line.split("\t")
        calls.setdefault(call, {})[what] = value
    return calls


@functools.cache
def _right_calls(exercise: Exercise, number: int) -> Calls:
    return _calls(exercise, number, exercise.region(number).solution)


def _is_same(one: str, other: str) -> bool:
    if INTEGER.fullmatch(one) and INTEGER.fullmatch(other):
        return one == other
    try:
        own, right = float(one), float(other)
    except ValueError:
        return one == other
    if math.isnan(own) or math.isnan(right):
        return math.isnan(own) and math.isnan(right)
    return math.isclose(own, right, rel_tol=REL_TOLERANCE, abs_tol=ABS_TOLERANCE)


def compared(own: Calls, right: Calls) -> str | None:
    """A sentence on the first call with a wrong value; None if all are right."""
    wrong = {
        call: [
            (what, values.get(what, "nothing"), value)
            for what, value in right[call].items()
            if not _is_same(values.get(what, "nothing"), value)
        ]
        for call, values in ((call, own.get(call, {})) for call in right)
    }
    first = next((call for call, values in wrong.items() if values), None)
    if first is None:
        return None
    told = [f"{what} is {value}, should be {should}" for what, value, should in wrong[first][:MOST_VALUES]]
    count = sum(bool(values) for values in wrong.values())
    differ = f" ({count} of {len(right)} examples differ)" if len(right) > 1 else ""
    return f"{first}: {'; '.join(told)}{differ}"


def remark(exercise: Exercise, copy: dict[str, str], number: int) -> str | None:
    """A sentence on what the answer to an exercise returns; None if that is right, or if there are no
    examples."""
    if number not in exercises_of(exercise):
        return None
    answer = regions.places(copy, exercise.regions, "")[number].lines
    try:
        right = _right_calls(exercise, number)
        try:
            return compared(_calls(exercise, number, answer), right)
        except maps.Stopped as stopped:
            own = _parsed(stopped.output)
            first = next((call for call in right if call not in own), "an example")
            how = str(stopped).removeprefix("they ").replace("were", "was")
            return compared(own, {call: right[call] for call in own if call in right}) or f"{first}: {how}"
    except (CompileError, ValueError):  # it prints something itself
        return None
