"""The maps that a learner writes: which lane supplies which row, where a layout puts an element.

A small program without kernels prints them, so that a wrong map is found before any kernel runs.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import diagnosis, machine, project, regions
from .exercises import Exercise
from .trials import CompileError, how_it_ended, run_contained

TIME_LIMIT = 5.0  # seconds for a program that takes a hundredth of one

Place = tuple[int, int]  # row, column
LANES = 32
LESSON_COLS = "64"  # of the tiles in the lesson's pictures


class Stopped(Exception):
    """The program that prints the maps came to no end, or to a bad one; the text says which."""


# --- the kinds of maps: each says what is wrong with a learner's ----------------------------------


@dataclass(frozen=True)
class Rows:
    """Which row of a 16 x 16 tile a lane passes to ldmatrix.x4."""

    exercise: int
    name: str
    transposed: bool = False  # whether the kernel loads with ldmatrix_transposed()

    def problem(self, right: list[Place], own: list[Place]) -> str | None:
        """A sentence on the first lane that differs; None if none does."""
        wrong = [lane for lane in range(LANES) if own[lane] != right[lane]]
        if not wrong:
            return None
        lane = wrong[0]
        verb = "differs" if len(wrong) == 1 else "differ"
        return (
            f"{self.name}: lane {lane} gives {tuple(own[lane])}, should give {tuple(right[lane])}; "
            f"{len(wrong)} of {LANES} lanes {verb}"
        )


@dataclass(frozen=True)
class Layout:
    """Where a tile's elements lie in shared memory, by the number of columns. More than one layout is right."""

    exercise: int
    name: str

    def problem(self, right: Mapping, own: Mapping) -> str | None:
        """A sentence on the first element of a layout that is wrong; None if none is."""
        cols = self.shown(own)
        why = fault_of(own[cols], int(cols))
        if not why:
            return None
        row, col, gives, should = next(
            (row, col, at, right[cols][row][col])
            for row, places in enumerate(own[cols])
            for col, at in enumerate(places)
            if at != right[cols][row][col]
        )
        at = f"{self.name}<{cols}>: offset({row}, {col})"
        return f"{at} gives {gives}, the chapter's gives {should}; {why}"

    def shown(self, own: Mapping) -> str:
        """The number of columns for which a picture tells most: the first that is wrong, or else that of the lesson."""
        sizes = sorted(own, key=lambda cols: (cols != LESSON_COLS, int(cols)))
        wrong = (cols for cols in sizes if fault_of(own[cols], int(cols)))
        return next(wrong, LESSON_COLS)


def fault_of(offsets: list[list[int]], cols: int) -> str | None:
    """Why a swizzled layout of rows without padding is wrong. None if it is right, however it permutes the chunks."""
    taken: dict[int, Place] = {}
    for row, places in enumerate(offsets):
        for col, at in enumerate(places):
            if not 0 <= at < len(offsets) * cols:
                return f"({row}, {col}) is outside of the tile"
            if at in taken:
                return f"{taken[at]} and {(row, col)} have the same place"
            taken[at] = row, col
            if col % 8 and at != places[col - 1] + 1 or not col % 8 and at % 8:
                return "the 8 elements of a chunk are torn apart"
    rows_per_line = max(1, 64 // cols)
    for row, places in enumerate(offsets):
        for col in range(cols):  # as advance() computes it from a column < 16
            first = offsets[row % (8 * rows_per_line)][col % 16]
            down = row // (8 * rows_per_line) * 8 * rows_per_line * cols
            right = col // 16 * 16
            if places[col] != (first ^ right % 64) + right // 64 * 64 + down:
                start = f"({row % (8 * rows_per_line)}, {col % 16})"
                return f"advance() does not lead from {start} to ({row}, {col})"
    for chunk in range(0, cols, 8):
        groups: dict[int, int] = {}
        for row in range(8):
            other = groups.setdefault(offsets[row][chunk] // 8 % 8, row)
            if other != row:
                return (
                    f"rows {other} and {row} have chunk {chunk // 8} in the same banks"
                )
    return None


@dataclass(frozen=True)
class Copies:
    """Which 16 bytes of a matrix go to each chunk of a tile, by rows: [row, column], "zeros", or None for nothing."""

    exercise: int
    name: str

    def problem(self, right: list[list], own: list[list]) -> str | None:
        """A sentence on the first chunk that differs; None if none does."""
        wrong = [
            (row, chunk)
            for row, chunks in enumerate(right)
            for chunk, source in enumerate(chunks)
            if own[row][chunk] != source
        ]
        if not wrong:
            return None
        row, chunk = wrong[0]
        gets, should = (source_in_words(each[row][chunk]) for each in (own, right))
        total = sum(map(len, right))
        verb = "differs" if len(wrong) == 1 else "differ"
        return (
            f"{self.name}: {(row, 8 * chunk)} of the tile gets {gets}, should get {should}; "
            f"{len(wrong)} of {total} chunks {verb}"
        )


def source_in_words(source: list[int] | str | None) -> str:
    if isinstance(source, list):
        return f"{tuple(source)} of the matrix"
    return source or "nothing"


Map = Rows | Layout | Copies

MAPS: dict[str, list[Map]] = {
    "06": [Rows(1, "row_for_a"), Rows(2, "row_for_b"), Layout(3, "Swizzled")],
    "07": [Copies(1, "load_tile")],
    "08": [Rows(9, "from_a", transposed=True), Rows(9, "from_b", transposed=True)],
}
# The programs that print them: {"own": {name: values}, "right": {name: values}}, or "chapter" and "device" instead.
PROGRAMS = {
    "06": "tools/docs/fragment_maps.cu",
    "07": "chapters/07_multi_stage/maps.cpp",
    "08": "chapters/08_backward/maps.cpp",
}
# What a learner should know about errors where not the whole file is compiled.
_ALONE = (
    "this compiles the answer by itself; ./learn check {} compiles it where it stands"
)
HOW_COMPILED = {number: _ALONE.format(number) for number in ("07", "08")}


def of(chapter: project.Chapter) -> list[Map]:
    """The maps in the exercises of a chapter."""
    return MAPS.get(chapter.number, [])


# --- the program that prints them -----------------------------------------------------------------


@dataclass(frozen=True)
class Printed:
    """The values of all maps, by name."""

    own: dict
    right: dict

    def problem(self, which: Map) -> str | None:
        """What is wrong with a learner's map, in a sentence; None if it is right."""
        return which.problem(self.right[which.name], self.own[which.name])


def _write(folder: Path, exercise: Exercise, copy: Mapping[str, str]) -> None:
    """Writes what the program includes: NN_name with a learner's files, and each answer with its solution."""
    own = folder / exercise.chapter.name
    own.mkdir()
    for name, text in copy.items():
        (own / name).write_text(text, encoding="utf-8")
    where = regions.places(copy, exercise.regions, project.shown(exercise.folder))
    for region in exercise.regions:
        place = where[region.number]
        answer = [f'#line {place.begin + 1} "{own / place.file}"', *place.lines, ""]
        for whose, lines in (("own", answer), ("right", [*region.solution, ""])):
            path = folder / f"{whose}_{region.number}.inc"
            path.write_text("\n".join(lines), encoding="utf-8")


def printed(exercise: Exercise, copy: Mapping[str, str]) -> Printed:
    """What the maps in a learner's copy return, next to the chapter's. It is compiled for the CPU, without the simulator.

    CompileError if it does not compile, Stopped if the program does not end well, RegionError if marks are missing
    """
    chapter, root = exercise.chapter, project.ROOT
    with tempfile.TemporaryDirectory(prefix="learn-maps-") as name:
        folder, program = Path(name), Path(name) / "maps"
        _write(folder, exercise, copy)
        # In the order of cmake/Chapters.cmake: the learner's files come first.
        files = folder / chapter.name
        includes = (folder, files, exercise.folder)
        includes += (chapter.path, root / "chapters", root / "common")
        words = [
            *shlex.split(machine.compiler_command()),
            *("-std=c++20", "-O0", "-w", "-x", "c++"),
            str(root / PROGRAMS[chapter.number]),
            *(f"-I{path}" for path in includes),
            f"-isystem{root / 'common' / 'gpusim' / 'shim'}",
            *("-o", str(program)),
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            text = done.stderr or done.stdout
            raise CompileError(text.replace(str(files), str(exercise.folder)))
        status = run_contained(folder, program, [], TIME_LIMIT)
        if status is None:
            raise Stopped("they did not end, and were stopped")
        if status != 0:
            why = diagnosis.reason_of(how_it_ended(status))
            raise Stopped(f"they stopped the program: {why}")
        try:
            own, right = json.loads((folder / "output").read_bytes()).values()
        except ValueError:
            raise Stopped("they print something themselves") from None
    return Printed(own, right)


def remarks(exercise: Exercise, copy: Mapping[str, str], number: int) -> list[str]:
    """What is wrong with the maps of one exercise, for `check`; nothing if it has none, or if they cannot be printed."""
    own = [which for which in of(exercise.chapter) if which.exercise == number]
    if not own:
        return []
    try:
        values = printed(exercise, copy)
    except (CompileError, Stopped):
        return []
    problems = [problem for which in own if (problem := values.problem(which))]
    return [f"{problem} (./learn look {exercise.number})" for problem in problems]
