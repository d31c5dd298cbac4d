"""The maps that a learner writes: which lane supplies which row, where a layout puts an element.

A small program without kernels prints them, so that a wrong map is found before any kernel runs.
"""

from __future__ import annotations

import itertools
import json
import shlex
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
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

    def __init__(self, text: str, output: bytes = b"") -> None:
        super().__init__(text)
        self.output = output  # what it has printed before


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
    """Where a tile's elements lie in shared memory, by the number of columns. More than one layout is
    right.
    """

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
        """The number of columns for which a picture tells most: the first that is wrong, or else that of the
        lesson.
        """
        sizes = sorted(own, key=lambda cols: (cols != LESSON_COLS, int(cols)))
        wrong = (cols for cols in sizes if fault_of(own[cols], int(cols)))
        return next(wrong, LESSON_COLS)


def fault_of(offsets: list[list[int]], cols: int) -> str | None:
    """Why a swizzled layout of rows without padding is wrong. None if it is right, however it permutes the
    chunks.
    """
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
                return f"rows {other} and {row} have chunk {chunk // 8} in the same banks"
    return None


@dataclass(frozen=True)
class Copies:
    """Which 16 bytes of a matrix go to each chunk of a tile, by rows: [row, column], "zeros", or None for
    nothing.
    """

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


@dataclass(frozen=True)
class Elements:
    """What threads write to each element of a tile, by call: rows of [source, number of threads, last
    thread].

    A source is [row, column] of the matrix, "zero", "another number", or None for nothing. Later columns are
    padding.
    """

    exercise: int
    name: str
    cols = 64  # without padding

    def problem(self, right: Mapping, own: Mapping) -> str | None:
        """A sentence on the first call that is wrong: elements without a thread or with several, then wrong
        contents.
        """
        for call in right:
            if lines := self.problems(right[call], own[call]):
                return f"{call}: {'; '.join(lines)}"
        return None

    def problems(self, right: list[list], own: list[list]) -> list[str]:
        """What is wrong with a call: how many threads write an element, what they write, and if that is
        right, which.
        """
        found = self._of_threads(own), self._of_contents(right, own)
        problems = [words for words in found if words]
        return problems or ([words] if (words := self._of_neighbours(own)) else [])

    def _of_neighbours(self, own: list[list]) -> str | None:
        """If most neighbouring columns are written neither by the same thread nor by neighbours, an
        example.
        """
        threads = [thread for _, _, thread in own[0][: self.cols]]
        pairs = list(itertools.pairwise(threads))
        apart = [
            (col, *pair) for col, pair in enumerate(pairs) if pair[1] - pair[0] not in (0, 1) and pair[1] % 32
        ]
        if 2 * len(apart) < len(pairs):
            return None
        col, one, other = apart[0]
        return (
            f"threads {one} and {other} write {(0, col)} and {(0, col + 1)} of the tile, should be neighbours"
        )

    def _of_threads(self, own: list[list]) -> str | None:
        """Of the first row where not every element is written once, which elements are written by how many
        threads.
        """
        for row, elements in enumerate(own):
            by_count: dict[int, list[int]] = {}
            for col, (_, threads, _) in enumerate(elements[: self.cols]):
                by_count.setdefault(threads, []).append(col)
            wrong = [
                f"{diagnosis.columns_in_words(cols)} {how_often(threads, len(cols))}"
                for threads, cols in sorted(by_count.items())
                if threads != 1
            ]
            if wrong:
                rows = sum(any(threads != 1 for _, threads, _ in each[: self.cols]) for each in own)
                others = f" ({rows} of {len(own)} rows are like that)"
                words = f"row {row} of the tile: {', '.join(wrong)}"
                return words + (others if rows > 1 else "")
        return None

    def _of_contents(self, right: list[list], own: list[list]) -> str | None:
        wrong = [
            (row, col)
            for row, elements in enumerate(right)
            for col, (source, *_) in enumerate(elements)
            if own[row][col][0] not in (source, None)
        ]
        if not wrong:
            return None
        row, col = wrong[0]
        gets, should = (
            "a zero" if source == "zero" else source_in_words(source)
            for source in (own[row][col][0], right[row][col][0])
        )
        place = f"{(row, col)} of the tile"
        if col >= self.cols:
            place += ", in its padding,"
        return f"{place} gets {gets}, should get {should}"


def how_often(threads: int, elements: int) -> str:
    """ "are written by 2 threads" """
    verb = "is" if elements == 1 else "are"
    how = f"written by {threads} threads" if threads else "never written"
    return f"{verb} {how}"


def source_in_words(source: list[int] | str | None) -> str:
    if isinstance(source, list):
        return f"{tuple(source)} of the matrix"
    return source or "nothing"


Map = Rows | Layout | Copies | Elements

MAPS: dict[str, list[Map]] = {
    "04": [Elements(3, "load_tile")],
    "06": [Rows(1, "row_for_a"), Rows(2, "row_for_b"), Layout(3, "Swizzled")],
    "07": [Copies(1, "load_tile")],
    "08": [Rows(9, "from_a", transposed=True), Rows(9, "from_b", transposed=True)],
    "09": [Copies(1, "load_tile")],
    "10": [Elements(4, "store_pair"), Elements(5, "rows_of_dq")],
}
# The programs that print them: {"own": {name: values}, "right": {name: values}}, or "chapter" and "device"
# instead.
PROGRAMS = {
    "04": "chapters/04_tiled_v1/maps.cpp",
    "06": "tools/docs/fragment_maps.cu",
    "07": "chapters/07_multi_stage/maps.cpp",
    "08": "chapters/08_backward/maps.cpp",
    "09": "chapters/09_hopper/maps.cpp",
    "10": "chapters/10_hopper_backward/maps.cpp",
}
# What a learner should know about errors where not the whole file is compiled.
_ALONE = "this compiles the answer by itself; ./learn check {} compiles it where it stands"
HOW_COMPILED = {number: _ALONE.format(number) for number in ("04", "07", "08", "09", "10")}


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


def output_of(folder: Path, source: Path, includes: Iterable[Path], options: Iterable[str] = ()) -> bytes:
    """What a small program prints, compiled for the CPU, without the simulator. @param folder  for its files

    CompileError if it does not compile, Stopped if it does not end well
    """
    program = folder / "program"
    paths = (*includes, project.ROOT / "chapters", project.ROOT / "common")
    words = [
        *shlex.split(machine.compiler_command()),
        *("-std=c++20", "-O0", "-w", "-x", "c++", str(source), *options),
        *(f"-I{path}" for path in paths),
        f"-isystem{project.ROOT / 'common' / 'gpusim' / 'shim'}",
        *("-o", str(program)),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(done.stderr or done.stdout)
    status = run_contained(folder, program, [], TIME_LIMIT)
    output = (folder / "output").read_bytes()
    if status is None:
        raise Stopped("they did not end, and were stopped", output)
    if status != 0:
        why = diagnosis.reason_of(how_it_ended(status))
        raise Stopped(f"they stopped the program: {why}", output)
    return output


def printed(exercise: Exercise, copy: Mapping[str, str]) -> Printed:
    """What the maps in a learner's copy return, next to the chapter's. It is compiled for the CPU, without
    the simulator.

    CompileError if it does not compile, Stopped if the program does not end well, RegionError if marks are
    missing
    """
    chapter, root = exercise.chapter, project.ROOT
    with tempfile.TemporaryDirectory(prefix="learn-maps-") as name:
        folder = Path(name)
        _write(folder, exercise, copy)
        # In the order of cmake/Chapters.cmake: the learner's files come first.
        files = folder / chapter.name
        source = root / PROGRAMS[chapter.number]
        try:
            text = output_of(folder, source, (folder, files, exercise.folder, chapter.path))
        except CompileError as error:
            raise CompileError(str(error).replace(str(files), str(exercise.folder))) from None
        try:
            own, right = json.loads(text).values()
        except ValueError:
            raise Stopped("they print something themselves") from None
    return Printed(own, right)


def remarks(exercise: Exercise, copy: Mapping[str, str], number: int) -> list[str]:
    """What is wrong with the maps of one exercise, for `check`; nothing if it has none, or if they cannot be
    printed.
    """
    own = [which for which in of(exercise.chapter) if which.exercise == number]
    if not own:
        return []
    try:
        values = printed(exercise, copy)
    except (CompileError, Stopped):
        return []
    problems = [problem for which in own if (problem := values.problem(which))]
    return [f"{problem} (./learn look {exercise.number})" for problem in problems]
