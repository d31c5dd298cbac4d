"""./learn look: the maps that the learner wrote, drawn next to the correct ones."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from ...docs import fragment_maps, fragments
from .. import checking, exercises, machine, maps, project, regions
from ..console import Console, LearnError
from ..trials import CompileError
from .check import show_failure
from .run import write_whole
from .start import add_chapter

HELP = "draw the maps that you wrote, such as row_for_a, next to the correct ones"

Cell = tuple[str, bool]  # its text, and whether it differs from the correct one
Table = list[list[Cell]]
GAP = "   "


def add_options(parser: argparse.ArgumentParser) -> None:
    add_chapter(parser)


# --- in the terminal ------------------------------------------------------------------------------


def held_cells(places: fragment_maps.Received, right: fragment_maps.Received, transposed: bool) -> Table:
    """The 16 x 16 elements of a tile in pairs: "5.1" if lane 5 has both in register 1.

    A pair is two elements of a row; of a column if ldmatrix transposes them. "*" marks another lane or
    register than in `right`, "+" several of them, "-" none.
    """
    held, wanted = fragment_maps.holders(places), fragment_maps.holders(right)
    down, across = (2, 1) if transposed else (1, 2)

    def cell(row: int, col: int) -> Cell:
        pair = (row, col), (row + down - 1, col + across - 1)
        wrong = any(held.get(at) != wanted.get(at) for at in pair)
        here = held.get(pair[0], [])
        if not here:
            return "-", wrong
        mark = "+" if len(here) > 1 else "*" if wrong else ""
        return f"{here[0][0]}.{here[0][1]}{mark}", wrong

    return [[cell(row, col) for col in range(0, 16, across)] for row in range(0, 16, down)]


def chunk_cells(offsets: list[list[int]], right: list[list[int]], cols: int) -> Table:
    """In which group of four banks the first 8 chunks of the first 8 rows begin. "*" marks another place than
    in `right`.
    """

    def cell(row: int, chunk: int) -> Cell:
        at = offsets[row][8 * chunk]
        wrong = at != right[row][8 * chunk]
        return f"{at // 8 % 8}{'*' if wrong else ''}", wrong

    return [[cell(row, chunk) for chunk in range(min(8, cols // 8))] for row in range(8)]


def copied_cells(chunks: list[list], right: list[list]) -> Table:
    """Row and column of what is copied to each chunk, "zeros", or "-". "*" marks what differs from
    `right`.
    """

    def cell(row: int, chunk: int) -> Cell:
        source = chunks[row][chunk]
        wrong = source != right[row][chunk]
        text = ",".join(map(str, source)) if isinstance(source, list) else source or "-"
        return f"{text}{'*' if wrong else ''}", wrong

    return [[cell(row, chunk) for chunk in range(len(right[0]))] for row in range(len(right))]


def lines_of(
    console: Console, title: str, table: Table, step: tuple[int, int], columns: range
) -> list[tuple[str, int]]:
    """A table with a title and numbered rows and columns: each line as it is printed, and its width without
    colours.

    @param step  from one row to the next, and from one column to the next
    """
    wide = max(len(text) for row in table for text, _ in row)
    width = 4 + len(columns) * (wide + 1) - 1
    numbers = " ".join(f"{step[1] * at:>{wide}}" for at in columns)
    lines = [(title, len(title)), (f"    {numbers}", width)]
    for at, row in enumerate(table):
        cells = (
            console.paint(f"{text:>{wide}}", "red" if wrong else "plain")
            for text, wrong in (row[column] for column in columns)
        )
        lines.append((f"{step[0] * at:3} {' '.join(cells)}", width))
    return lines


def say_tables(console: Console, right: Table, own: Table, step: tuple[int, int]) -> None:
    """Prints the correct map and the learner's next to each other, in two parts if they are too wide for
    one.
    """
    across = len(right[0])

    def part(first: int, count: int) -> tuple[list, list, int, bool]:
        columns = range(first, first + count)
        left = lines_of(console, "as it should be", right, step, columns)
        beside = lines_of(console, "yours", own, step, columns)
        room = max(width for _, width in left)
        needed = 2 * len(GAP) + room + max(width for _, width in beside)
        return left, beside, room, needed <= console.width

    count = across if part(0, across)[-1] else across // 2
    for first in range(0, across, count):
        left, beside, room, fits = part(first, count)
        if not fits:
            for text, _ in left + beside:
                console.say(GAP + text)
            continue
        for (one, width), (other, _) in zip(left, beside, strict=True):
            console.say(f"{GAP}{one}{' ' * (room - width)}{GAP}{other}")


# --- one map --------------------------------------------------------------------------------------


def address(rows: list[list[int]]) -> fragment_maps.Address:
    return lambda lane: tuple(rows[lane])


def offset(places: list[list[int]]) -> Callable[[int, int], int]:
    return lambda row, col: places[row][col]


def outside_in_words(rows: list[list[int]]) -> str:
    """The lanes that give rows outside of the 16 x 16 tile, which the table does not show."""
    lanes = [lane for lane, (row, col) in enumerate(rows) if not (0 <= row < 16 and 0 <= col <= 8)]
    if not lanes:
        return ""
    who = f"lane {lanes[0]} gives" if len(lanes) == 1 else f"{len(lanes)} lanes give"
    example = "" if len(lanes) == 1 else f", lane {lanes[0]} for example"
    where = f"({rows[lanes[0]][0]}, {rows[lanes[0]][1]})"
    return f"not in the table: {who} a place outside of the 16 x 16 tile{example}: {where}"


def show_rows(console: Console, which: maps.Rows, right: list, own: list) -> None:
    pair, load = ("row", "ldmatrix")
    if which.transposed:
        pair, load = ("column", "ldmatrix_transposed")
    text = (
        f"5.1 means: after {load}, register 1 of lane 5 holds these two neighbouring elements of a {pair}. "
        "* another lane or register should, + several do (the first is shown), - none does"
    )
    console.wrap(text, GAP, style="dim")
    places = [fragment_maps.received(address(rows), which.transposed) for rows in (right, own)]
    tables = (held_cells(each, places[0], which.transposed) for each in places)
    say_tables(console, *tables, (2, 1) if which.transposed else (1, 2))
    if outside := outside_in_words(own):
        console.wrap(outside, GAP)


def show_layout(console: Console, which: maps.Layout, right: dict, own: dict) -> None:
    cols = which.shown(own)
    text = (
        "a number: which of the 8 groups of four banks holds this chunk (8 elements, 16 bytes) of this row. "
        "* the chapter puts it elsewhere"
    )
    console.wrap(text, GAP, style="dim")
    tables = (chunk_cells(each[cols], right[cols], int(cols)) for each in (right, own))
    say_tables(console, *tables, (1, 1))


def show_copies(console: Console, which: maps.Copies, right: list, own: list) -> None:
    text = (
        "2,8 means: this chunk of the tile gets the 16 bytes from row 2, column 8 of the matrix. "
        "* it should get others, - it gets nothing"
    )
    console.wrap(text, GAP, style="dim")
    tables = (copied_cells(each, right) for each in (right, own))
    say_tables(console, *tables, (1, 8))


def show_elements(console: Console, which: maps.Elements, right: dict, own: dict) -> None:
    for call, elements in right.items():
        problems = which.problems(elements, own[call])
        console.wrap("; ".join(problems) or "right", f"{GAP}{call}: ", style="dim")


SHOW = {
    maps.Rows: show_rows,
    maps.Layout: show_layout,
    maps.Copies: show_copies,
    maps.Elements: show_elements,
}


def picture(which: maps.Map, right: list | dict, own: list | dict) -> str:
    """The text of an SVG file: the correct map and the learner's, drawn as in the lessons."""
    if isinstance(which, maps.Rows):
        addresses = address(right), address(own)
        return fragments.compared_rows(which.name, *addresses, which.transposed)
    if isinstance(which, maps.Copies):
        return fragments.compared_copies(which.name, right, own)
    cols = which.shown(own)
    offsets = offset(right[cols]), offset(own[cols])
    return fragments.compared_layouts(f"{which.name}<{cols}>", *offsets, int(cols))


def draw(folder: Path, chosen: list[maps.Map], values: maps.Printed) -> list[str]:
    """Writes a picture of each map, and removes those of earlier calls. Returns the files' names."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for which in chosen:
        text = picture(which, values.right[which.name], values.own[which.name])
        write_whole(folder / f"{which.name}.svg", text)
    return [project.shown(folder / f"{which.name}.svg") for which in chosen]


# --- the command ----------------------------------------------------------------------------------


def require_maps(chapter: project.Chapter) -> None:
    """LearnError if the exercises of a chapter have no maps."""
    if not maps.of(chapter):
        *others, last = maps.MAPS
        raise LearnError(
            f"the exercises of chapter {chapter.number} have no maps to look at: "
            f"{', '.join(others)} and {last} have some",
            2,
        )


def look(console: Console, exercise: exercises.Exercise, values: maps.Printed) -> list[int]:
    """Shows every map that is not blank. Returns the numbers of the exercises that are blank or wrong."""
    where = exercise.own_places()
    bad, filled = [], []
    for which in maps.of(exercise.chapter):
        number = which.exercise
        title = f"exercise {number}, "
        region = exercise.region(number)
        if regions.same_code(where[number].lines, region.stub):
            console.wrap(f"{which.name}: {region.still}", title, style="dim")
            bad.append(number)
            continue
        filled.append(which)
        problem = values.problem(which)
        if not problem:
            console.wrap(f"{which.name}: right", title, style="green")
            continue
        bad.append(number)
        console.wrap(problem, title, style="red")
        pair = values.right[which.name], values.own[which.name]
        SHOW[type(which)](console, which, *pair)
        console.say()
    filled = [which for which in filled if not isinstance(which, maps.Elements)]
    if filled:
        files = draw(project.ROOT / "build" / "look" / exercise.number, filled, values)
        console.wrap(", ".join(files), "pictures:  ")
    return bad


def main(console: Console, args: argparse.Namespace) -> int:
    chapter = project.select([args.chapter])[0]
    require_maps(chapter)
    exercise = exercises.Exercise(chapter)
    copy = exercise.own_copy()  # LearnError if the chapter is not started
    if problem := machine.compiler().problem:
        raise LearnError(f"{problem} (./learn doctor says more)", 3)
    try:
        values = maps.printed(exercise, copy)
    except CompileError as error:
        verdict = checking.compile_failure(exercise, str(error).splitlines())
        verdict.remark = verdict.remark or maps.HOW_COMPILED.get(exercise.number)
        show_failure(console, exercise, verdict)
        return 1
    except maps.Stopped as why:
        console.wrap(f"your maps cannot be shown: {why}", style="red")
        console.say(f"next:  ./learn check {exercise.number}")
        return 1
    bad = look(console, exercise, values)
    step = f"hint {exercise.number} {bad[0]}" if bad else f"check {exercise.number}"
    console.say(f"next:  ./learn {step}")
    return 1 if bad else 0
