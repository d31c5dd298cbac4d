"""Tests of ./learn look and of the maps that ./learn check tests. They compile small programs without a
build.

python3 -m tests.learn.test_look
"""

from __future__ import annotations

import argparse
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tools.docs import fragment_maps
from tools.learn import console, exercises, machine, maps, project
from tools.learn.commands import look
from tools.learn.trials import CompileError

SOURCE = Path(__file__).resolve().parents[2]
WIDTH = 100

needs_compiler = unittest.skipIf(machine.compiler().problem, "there is no C++ compiler")


# --- the values of maps ---------------------------------------------------------------------------


def row_for_a(lane: int) -> tuple[int, int]:
    return lane % 16, lane // 16 * 8


def row_for_b(lane: int) -> tuple[int, int]:
    return lane % 8 + lane // 16 * 8, lane // 8 % 2 * 8


def swizzled(row: int, col: int, cols: int = 64) -> int:
    per_line = max(1, 64 // cols)
    line, in_line = row // per_line, row % per_line * cols + col
    return line * per_line * cols + (in_line ^ line % 8 * 8)


def table(offset, cols: int = 64) -> list[list[int]]:
    return [[offset(row, col) for col in range(cols)] for row in range(64)]


class RowsTest(unittest.TestCase):
    WHICH = maps.Rows(1, "row_for_a")

    def problem(self, own) -> str | None:
        right = [row_for_a(lane) for lane in range(32)]
        return self.WHICH.problem(right, [own(lane) for lane in range(32)])

    def test_right(self):
        self.assertIsNone(self.problem(row_for_a))

    def test_the_first_lane_that_differs_is_named(self):
        self.assertEqual(
            self.problem(row_for_b),
            "row_for_a: lane 8 gives (0, 8), should give (8, 0); 16 of 32 lanes differ",
        )

    def test_one_lane(self):
        own = {31: (16, 8)}
        self.assertEqual(
            self.problem(lambda lane: own.get(lane) or row_for_a(lane)),
            "row_for_a: lane 31 gives (16, 8), should give (15, 8); 1 of 32 lanes differs",
        )


class LayoutTest(unittest.TestCase):
    WHICH = maps.Layout(3, "Swizzled")

    def fault(self, offset, cols: int = 64) -> str | None:
        return maps.fault_of(table(offset, cols), cols)

    def test_the_chapters_is_right_for_every_size(self):
        for cols in (32, 64, 128, 256):
            fault = self.fault(lambda row, col, n=cols: swizzled(row, col, n), cols)
            self.assertIsNone(fault)

    def test_another_permutation_is_right_as_well(self):
        self.assertIsNone(self.fault(lambda row, col: 64 * row + (col ^ (7 - row % 8) * 8)))
        turned = (0, 3, 5, 6, 7, 4, 2, 1)
        self.assertIsNone(self.fault(lambda row, col: 64 * row + (col ^ turned[row % 8] * 8)))

    def test_what_is_wrong_is_said(self):
        for says, offset in {
            "rows 0 and 1 have chunk 0 in the same banks": (lambda row, col: 64 * row + col),
            "rows 0 and 4 have chunk 0 in the same banks": (lambda row, col: 64 * row + (col ^ row % 4 * 8)),
            "advance() does not lead from (0, 0) to (8, 0)": (
                lambda row, col: 64 * row + (col ^ row // 8 % 8 * 8)
            ),
            "the 8 elements of a chunk are torn apart": (lambda row, col: 64 * row + (col ^ row % 8)),
            "(7, 8) and (8, 0) have the same place": (lambda row, col: 64 * row + col + row % 8 * 8),
            "(0, 0) is outside of the tile": lambda row, col: 64 * row + col - 1,
        }.items():
            self.assertEqual(self.fault(offset), says)

    def test_the_first_size_that_is_wrong_is_named(self):
        right = {str(n): table(lambda r, c, n=n: swizzled(r, c, n), n) for n in (32, 64)}
        self.assertIsNone(self.WHICH.problem(right, right))
        self.assertEqual(self.WHICH.shown(right), "64")
        own = right | {"32": table(lambda row, col: 32 * row + col, 32)}
        self.assertEqual(self.WHICH.shown(own), "32")
        self.assertEqual(
            self.WHICH.problem(right, own),
            "Swizzled<32>: offset(2, 0) gives 64, the chapter's gives 72; "
            "rows 0 and 2 have chunk 0 in the same banks",
        )


class CopiesTest(unittest.TestCase):
    WHICH = maps.Copies(1, "load_tile")

    def test_right_and_wrong(self):
        right = [[[0, 0], [0, 8]], ["zeros", "zeros"]]
        self.assertIsNone(self.WHICH.problem(right, right))
        own = [[[0, 0], None], ["zeros", [1, 8]]]
        self.assertEqual(
            self.WHICH.problem(right, own),
            "load_tile: (0, 8) of the tile gets nothing, should get (0, 8) of the matrix; "
            "2 of 4 chunks differ",
        )
        own[0][1] = [0, 8]
        self.assertEqual(
            self.WHICH.problem(right, own),
            "load_tile: (1, 8) of the tile gets (1, 8) of the matrix, should get zeros; "
            "1 of 4 chunks differs",
        )


class ElementsTest(unittest.TestCase):
    WHICH = maps.Elements(3, "load_tile")

    def setUp(self):
        self.right = [[[[row, col], 1, col % 32] for col in range(64)] for row in range(2)]
        self.pad = [[None, 0, 0]]

    def problem(self, own: list[list]) -> str | None:
        right = {"load<64>": [row + self.pad for row in self.right]}
        return self.WHICH.problem(right, {"load<64>": [row + self.pad for row in own]})

    def test_right(self):
        self.assertIsNone(self.problem(self.right))

    def test_elements_that_are_never_written_and_written_twice(self):
        first = [[[0, col], 2, col] for col in range(32)]
        first += [[None, 0, 0] for col in range(32, 64)]
        self.assertEqual(
            self.problem([first, self.right[1]]),
            "load<64>: row 0 of the tile: columns 32 to 63 are never written, columns 0 to 31 are written by "
            "2 threads",
        )
        self.assertIn("(2 of 2 rows are like that)", self.problem([first, first]))
        one = [[None, 0, 0], *self.right[1][1:]]
        says = "load<64>: row 1 of the tile: column 0 is never written"
        self.assertEqual(self.problem([self.right[0], one]), says)

    def test_wrong_contents(self):
        for source, words in {
            (1, 0): "(1, 0) of the matrix",
            "zero": "a zero",
            "another number": "another number",
        }.items():
            source = [*source] if isinstance(source, tuple) else source
            own = [[[source, 1, 0], *self.right[0][1:]], self.right[1]]
            says = f"(0, 0) of the tile gets {words}, should get (0, 0) of the matrix"
            self.assertEqual(self.problem(own), f"load<64>: {says}")
        right = {"f": [row + self.pad for row in self.right]}
        own = {"f": [row + [[[1, 0], 1, 0]] for row in self.right]}
        self.assertIn(
            "(0, 64) of the tile, in its padding, gets (1, 0) of the matrix, should get nothing",
            self.WHICH.problem(right, own),
        )

    def test_neighbours(self):
        def with_threads(thread_of) -> list[list]:
            return [[[source, 1, thread_of(at)] for at, (source, *_) in enumerate(row)] for row in self.right]

        says = "threads 0 and 6 write (0, 0) and (0, 1) of the tile, should be neighbours"
        self.assertIn(says, self.problem(with_threads(lambda col: 6 * col % 32)))
        for right in (lambda col: col // 4, lambda col: col, lambda col: col % 32 + 64):
            self.assertIsNone(self.problem(with_threads(right)))


# --- tables ---------------------------------------------------------------------------------------


class TablesTest(unittest.TestCase):
    def cells(self, address, transposed: bool = False) -> look.Table:
        right = fragment_maps.received(row_for_a, transposed)
        own = fragment_maps.received(address, transposed)
        return look.held_cells(own, right, transposed)

    def test_a_right_map_has_no_marks(self):
        for transposed in (False, True):
            cells = [cell for row in self.cells(row_for_a, transposed) for cell in row]
            self.assertEqual(len(cells), 128)
            self.assertFalse(any(wrong for _, wrong in cells))
            self.assertFalse(any(set("*+-") & set(text) for text, _ in cells))

    def test_pairs_of_a_row_and_of_a_column(self):
        self.assertEqual(self.cells(row_for_a)[1][1], ("5.0", False))
        self.assertEqual(self.cells(row_for_a)[9][5], ("5.3", False))
        self.assertEqual(self.cells(row_for_a, True)[1][1], ("5.0", False))
        self.assertEqual(self.cells(row_for_a, True)[5][9], ("5.3", False))

    def test_another_several_and_none(self):
        self.assertEqual(self.cells(row_for_b)[1][5], ("5.1*", True))
        same = self.cells(lambda lane: (lane % 8, 0))
        self.assertEqual(same[1][1], ("5.0+", True))
        self.assertEqual(same[9][1], ("-", True))

    def test_places_outside_of_the_tile_are_named(self):
        right = [row_for_a(lane) for lane in range(32)]
        self.assertEqual(look.outside_in_words(right), "")
        one = [*right[:31], (16, 8)]
        says = "not in the table: lane 31 gives a place outside of the 16 x 16 tile: (16, 8)"
        self.assertEqual(look.outside_in_words(one), says)
        many = [(lane, 0) for lane in range(32)]
        says = "16 lanes give a place outside of the 16 x 16 tile, lane 16 for example: (16, 0)"
        self.assertIn(says, look.outside_in_words(many))

    def test_chunks(self):
        right, own = table(swizzled), table(lambda row, col: 64 * row + col)
        cells = look.chunk_cells(own, right, 64)
        self.assertEqual(cells[0], [(str(chunk), False) for chunk in range(8)])
        self.assertEqual(cells[1], [(f"{chunk}*", True) for chunk in range(8)])
        self.assertEqual(len(look.chunk_cells(own, own, 32)[0]), 4)

    def test_copies(self):
        right, own = [[[0, 0], [0, 8], "zeros"]], [[[1, 0], None, "zeros"]]
        self.assertEqual(look.copied_cells(own, right), [[("1,0*", True), ("-*", True), ("zeros", False)]])

    def shown(self, width: int) -> list[str]:
        out = io.StringIO()
        terminal = console.Console(out)
        terminal.width = width
        tables = self.cells(row_for_a), self.cells(row_for_b)
        look.say_tables(terminal, *tables, (1, 2))
        return out.getvalue().splitlines()

    def test_next_to_each_other_in_100_columns(self):
        lines = self.shown(WIDTH)
        self.assertEqual(len(lines), 18)
        self.assertEqual(max(map(len, lines)), WIDTH)
        self.assertRegex(lines[0], r"^   as it should be +yours$")
        self.assertRegex(lines[1], r"^ +0 +2 .* 14 +0 +2 .* 14$")
        right = "     8  0.1  1.1  2.1  3.1  0.3  1.3  2.3  3.3"
        own = "     8  0.2*  1.2*  2.2*  3.2*   0.3   1.3   2.3   3.3"
        self.assertEqual(lines[10], right + own)

    def test_in_two_parts_in_80_columns_and_below_each_other_in_40(self):
        lines = self.shown(80)
        self.assertEqual(len(lines), 2 * 18)
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertRegex(lines[19], r"^ +8 +10 +12 +14 +8 +10 +12 +14$")
        lines = self.shown(40)
        self.assertEqual(len(lines), 4 * 18)
        self.assertLessEqual(max(map(len, lines)), 40)

    def test_wrong_cells_are_red_on_a_terminal(self):
        terminal = console.Console(io.StringIO())
        terminal._colour = True
        cells = [[("0.1*", True), ("1.1", False)]]
        lines = look.lines_of(terminal, "yours", cells, (1, 2), range(2))
        self.assertEqual(lines[2], ("  0 \x1b[31m0.1*\x1b[0m  1.1", 13))


# --- the command ----------------------------------------------------------------------------------


@needs_compiler
class LookTest(unittest.TestCase):
    """With the chapters of this tree, and exercises of a learner elsewhere."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="test-look-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        for name in ("chapters", "common", "tools"):
            (self.root / name).symlink_to(SOURCE / name)
        patch = mock.patch.object(project, "ROOT", self.root)
        patch.start()
        self.addCleanup(patch.stop)

    def exercise(self, number: str) -> exercises.Exercise:
        return exercises.Exercise(project.select([number])[0])

    def copy(self, number: str, **answers: str) -> dict[str, str]:
        """A learner's files with the solutions, except for some answers: exercise_1="return {lane, 0};"."""
        exercise = self.exercise(number)
        contents = {region.number: region.solution for region in exercise.regions}
        for name, answer in answers.items():
            contents[int(name.removeprefix("exercise_"))] = tuple(answer.splitlines())
        return exercise.copy_with(contents)

    def write(self, number: str, copy: dict[str, str]) -> None:
        folder = self.exercise(number).folder
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in copy.items():
            (folder / name).write_text(text)

    def look(self, number: str) -> list[str]:
        """The lines that the command prints. Sets self.status."""
        parser = argparse.ArgumentParser()
        look.add_options(parser)
        out = io.StringIO()
        self.status = look.main(console.Console(out), parser.parse_args([number]))
        lines = out.getvalue().splitlines()
        for line in lines:
            self.assertLessEqual(len(line), WIDTH, line)
        return lines

    def pictures(self, number: str) -> dict[str, str]:
        folder = self.root / "build" / "look" / number
        return {file.name: file.read_text() for file in folder.glob("*")}

    def refused(self, number: str) -> str:
        with self.assertRaises(console.LearnError) as caught:
            self.look(number)
        self.assertEqual(caught.exception.status, 2)
        return str(caught.exception)

    def test_a_chapter_without_maps(self):
        self.assertEqual(
            self.refused("01"),
            "the exercises of chapter 01 have no maps to look at: 04, 06, 07, 08, 09 and 10 have some",
        )

    def test_a_chapter_that_is_not_started(self):
        for number in maps.MAPS:
            says = f"chapter {number} is not started: ./learn start {number}"
            self.assertEqual(self.refused(number), says)

    def test_all_right(self):
        for number, names in {
            "06": {1: "row_for_a", 2: "row_for_b", 3: "Swizzled"},
            "07": {1: "load_tile"},
            "09": {1: "load_tile"},
        }.items():
            self.write(number, self.copy(number))
            lines = self.look(number)
            right = [f"exercise {k}, {name}: right" for k, name in names.items()]
            files = ", ".join(f"build/look/{number}/{n}.svg" for n in names.values())
            last = [f"pictures:  {files}", f"next:  ./learn check {number}"]
            self.assertEqual((self.status, lines), (0, right + last))
            drawn = self.pictures(number)
            self.assertEqual(set(drawn), {f"{name}.svg" for name in names.values()})

    def test_all_right_in_chapter_08(self):
        self.write("08", self.copy("08"))
        lines = self.look("08")
        self.assertEqual(self.status, 0)
        right = ["exercise 9, from_a: right", "exercise 9, from_b: right"]
        self.assertEqual(lines[:2], right)

    def test_blanks(self):
        self.write("06", self.exercise("06").blank_copy)
        names = ("row_for_a", "row_for_b", "Swizzled")
        blank = [f"exercise {k}, {n}: still blank" for k, n in enumerate(names, 1)]
        self.assertEqual(self.look("06"), [*blank, "next:  ./learn hint 06 1"])
        self.assertEqual((self.status, self.pictures("06")), (1, {}))

    def test_a_wrong_map_is_compared(self):
        wrong = "  return {lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8};"
        self.write("06", self.copy("06", exercise_1=wrong))
        lines = self.look("06")
        self.assertEqual(self.status, 1)
        self.assertEqual(
            lines[0], "exercise 1, row_for_a: lane 8 gives (0, 8), should give (8, 0); 16 of 32 lanes differ"
        )
        how = (
            "5.1 means: after ldmatrix, register 1 of lane 5 holds these two neighbouring elements of a row."
        )
        self.assertIn(how, lines[1])
        self.assertIn(
            "     8  0.1  1.1  2.1  3.1  0.3  1.3  2.3  3.3     8  0.2*  1.2*  2.2*  3.2*   0.3   1.3   2.3  "
            " 3.3",
            lines,
        )
        self.assertIn("exercise 2, row_for_b: right", lines)
        self.assertEqual(lines[-1], "next:  ./learn hint 06 1")
        self.assertIn("row_for_a, yours", self.pictures("06")["row_for_a.svg"])

    def test_a_header_of_the_learners_own_is_found(self):
        copy = self.copy("06", exercise_1="  return {mine::row(lane), lane / 16 * 8};")
        include = '#include "mine.cuh"\n'
        self.write("06", {name: include + text for name, text in copy.items()})
        header = "namespace mine { constexpr int row(int lane) { return lane % 16; } }\n"
        self.exercise("06").folder.joinpath("mine.cuh").write_text(header)
        self.assertIn("exercise 1, row_for_a: right", self.look("06"))

    def test_pictures_of_earlier_calls_are_removed(self):
        self.write("06", self.copy("06"))
        self.look("06")
        self.assertEqual(len(self.pictures("06")), 3)
        stub = "\n".join(self.exercise("06").region(2).stub)
        self.write("06", self.copy("06", exercise_2=stub))
        self.look("06")
        self.assertEqual(set(self.pictures("06")), {"row_for_a.svg", "Swizzled.svg"})

    def test_a_layout_without_xor_and_another_one_that_is_right(self):
        begin = "    return line * kRowsPerLine * kStride + "
        self.write("06", self.copy("06", exercise_3=f"{begin}(in_line ^ line % 4 * 8);"))
        text = " ".join(" ".join(self.look("06")).split())
        self.assertIn(
            "exercise 3, Swizzled<64>: offset(4, 0) gives 256, the chapter's gives 288; "
            "rows 0 and 4 have chunk 0 in the same banks",
            text,
        )
        self.assertIn(" 4 4 5 6 7 0 1 2 3 4 0* 1* 2* 3* 4* 5* 6* 7* ", text)
        own = f"{begin}(in_line ^ (7 - line % 8) * 8);"
        self.write("06", self.copy("06", exercise_3=own))
        self.assertIn("exercise 3, Swizzled: right", self.look("06"))
        self.assertEqual(self.status, 0)

    def test_transposed_loads_are_shown_in_pairs_of_a_column(self):
        own = "  const Coord from_a = row_for_a(threadIdx.x), from_b = row_for_a(lane);"
        self.write("08", self.copy("08", exercise_9=own))
        lines = self.look("08")
        self.assertEqual(
            lines[0], "exercise 9, from_a: lane 8 gives (8, 0), should give (0, 8); 16 of 32 lanes differ"
        )
        self.assertIn("after ldmatrix_transposed, register 1 of lane 5", lines[1])
        self.assertIn("elements of a column.", " ".join(" ".join(lines).split()))
        self.assertIn("exercise 9, from_b: right", lines)
        self.assertEqual(lines[-1], "next:  ./learn hint 08 9")

    def test_copies_are_shown_by_chunk(self):
        own = """\
      if (first + row >= end) continue;
      cp_async_16(sTile + Tile::Rows::offset(row, col), gRows[first + mine.row] + col);"""
        self.write("07", self.copy("07", exercise_1=own))
        lines = self.look("07")
        self.assertEqual(
            " ".join(" ".join(lines[:2]).split()),
            "exercise 1, load_tile: (8, 0) of the tile gets (0, 0) of the matrix, should get "
            "(8, 0) of the matrix; 64 of 128 chunks differ",
        )
        text = " ".join(" ".join(lines).split())
        self.assertIn(" 8 8,0 8,8 8,16 8,24 8 0,0* 0,8* 0,16* 0,24* ", text)
        self.assertIn(" 13 zeros zeros zeros zeros 13 -* -* -* -* ", text)

    def test_boxes_are_shown_by_chunk(self):
        solution = "\n".join(self.exercise("09").region(1).solution)
        own = solution.replace("s + panel * kRows * 64", "s + panel * 64")
        self.write("09", self.copy("09", exercise_1=own))
        lines = self.look("09")
        self.assertEqual(
            " ".join(" ".join(lines[:2]).split()),
            "exercise 1, load_tile: (0, 64) of the tile gets zeros, should get (8, 64) of the matrix; "
            "104 of 128 chunks differ",
        )
        self.assertEqual(lines[-1], "next:  ./learn hint 09 1")

    def test_elements_are_told_call_by_call(self):
        solution = "\n".join(self.exercise("04").region(3).solution)
        self.write("04", self.copy("04"))
        self.assertEqual(self.look("04"), ["exercise 3, load_tile: right", "next:  ./learn check 04"])
        own = solution.replace("n += kThreads", "n += 32")
        self.write("04", self.copy("04", exercise_3=own))
        text = " ".join(" ".join(self.look("04")).split())
        self.assertIn(
            "exercise 3, load_tile<128, 64, 68>: row 0 of the tile: columns 32 to 63 are written by 2 "
            "threads",
            text,
        )
        self.assertIn("load_tile<32, 64, 65>: right load_tile<128", text)
        self.assertEqual(self.status, 1)

    def test_pairs_of_a_fragment_are_told_by_panel(self):
        solution = "\n".join(self.exercise("10").region(4).solution)
        self.write("10", self.copy("10"))
        self.assertEqual(
            self.look("10"),
            ["exercise 4, store_pair: right", "exercise 5, rows_of_dq: right", "next:  ./learn check 10"],
        )
        own = solution.replace("n / 8 * kRows", "n / 8 * 8")
        self.write("10", self.copy("10", exercise_4=own))
        text = " ".join(" ".join(self.look("10")).split())
        self.assertIn(
            "store_pair, panel 1: row 8 of the tile: columns 0 to 63 are never written "
            "(8 of 16 rows are like that)",
            text,
        )
        self.assertEqual(self.status, 1)
        solution = "\n".join(self.exercise("10").region(5).solution)
        own = solution.replace("part / kParts", "0")
        self.write("10", self.copy("10", exercise_5=own))
        text = " ".join(" ".join(self.look("10")).split())
        self.assertIn(
            "rows_of_dq, 64 queries, columns 64 to 127: row 0 of the tile: columns 0 to 63 are never written",
            text,
        )

    def test_what_does_not_compile_is_shown_as_check_does(self):
        self.write("06", self.copy("06", exercise_1="  return {lane % 16, column};"))
        lines = self.look("06")
        own = "exercises/06_tensor_core_mma/kernel.cuh"
        self.assertEqual(lines[0], f"{own} does not compile:")
        self.assertRegex(lines[1], rf"^   {own}:\d+:\d+: error: .*\bcolumn\b")
        self.assertIn("exercise 1 does not compile", lines)
        self.assertEqual((self.status, lines[-1]), (1, "next:  ./learn hint 06 1"))

    def test_an_answer_that_is_compiled_by_itself_says_so(self):
        self.write("08", self.copy("08", exercise_9="  const Coord from_a = f(lane);"))
        lines = self.look("08")
        self.assertEqual(lines[0], "exercises/08_backward does not compile:")
        own = r"exercises/08_backward/tensor_cores\.cuh"
        self.assertRegex(lines[1], rf"^   {own}:\d+:\d+: error: ")
        place = self.exercise("08").own_places()[9]
        self.assertIn(f"tensor_cores.cuh:{place.begin + 1}:", lines[1])
        why = "this compiles the answer by itself; ./learn check 08 compiles it where it stands"
        self.assertIn(f"   {why}", lines)
        self.assertIn("exercise 9 does not compile", lines)

    def test_what_stops_the_program_is_told(self):
        rows = "  const Coord from_a = row_for_b(lane), from_b = row_for_a(lane);"
        for number, answer, says in (
            (
                "06",
                {"exercise_1": "  return {lane / (lane - lane), 0};"},
                "they stopped the program: it divided an integer by 0 (SIGFPE)",
            ),
            (
                "06",
                {"exercise_1": "  for (int i = lane; i >= 0; i ^= 1) {}\n  return {0, 0};"},
                "they did not end, and were stopped",
            ),
            ("08", {"exercise_9": f"{rows}\n  exit(3);"}, "they stopped the program: it ended with status 3"),
            ("08", {"exercise_9": f'{rows}\n  printf("lane %d", lane);'}, "they print something themselves"),
        ):
            self.write(number, self.copy(number, **answer))
            with mock.patch.object(maps, "TIME_LIMIT", 0.5):
                lines = self.look(number)
            told = f"your maps cannot be shown: {says}"
            self.assertEqual(lines, [told, f"next:  ./learn check {number}"])
            self.assertEqual(self.status, 1)

    def test_what_check_adds_to_a_finding(self):
        exercise = self.exercise("06")
        copy = self.copy("06", exercise_2="  return {lane % 16, lane / 16 * 8};")
        line = "row_for_b: lane 8 gives (8, 0), should give (0, 8); 16 of 32 lanes differ"
        self.assertEqual(maps.remarks(exercise, copy, 2), [f"{line} (./learn look 06)"])
        self.assertEqual(maps.remarks(exercise, copy, 1), [])
        with mock.patch.object(maps, "printed", side_effect=AssertionError):
            self.assertEqual(maps.remarks(exercise, copy, 4), [])  # has no map
            self.assertEqual(maps.remarks(self.exercise("01"), {}, 1), [])
        for error in (CompileError("x"), maps.Stopped("y")):
            with mock.patch.object(maps, "printed", side_effect=error):
                self.assertEqual(maps.remarks(exercise, copy, 2), [])

    def test_a_program_of_a_chapter_has_no_warnings(self):
        strict = f"{machine.compiler_command()} -Wall -Wextra -Wpedantic -Wshadow -Wold-style-cast -Werror"
        run = maps.subprocess.run
        for number in ("07", "08", "09", "10"):

            def without_w(words, **settings):
                return run([word for word in words if word != "-w"], **settings)

            with (
                mock.patch.object(machine, "compiler_command", return_value=strict),
                mock.patch.object(maps.subprocess, "run", without_w),
            ):
                maps.printed(self.exercise(number), self.copy(number))


class MapsTest(unittest.TestCase):
    """The list of maps fits the chapters."""

    def test_every_map_is_in_an_exercise_that_names_it(self):
        self.assertEqual(set(maps.MAPS), set(maps.PROGRAMS))
        for number, listed in maps.MAPS.items():
            exercise = exercises.Exercise(project.select([number])[0])
            self.assertTrue((SOURCE / maps.PROGRAMS[number]).is_file())
            for which in listed:
                region = exercise.region(which.exercise)
                lines = exercise.source(region).read_text().splitlines()
                before = "\n".join(lines[: region.end])
                self.assertIn(which.name, before)

    def test_the_wrong_answers_of_maps_promise_the_line(self):
        for number, says in {
            "06": "row_for_a: lane 8 gives (0, 8), should give (8, 0)",
            "07": "(13, 0) of the tile gets (13, 0) of the matrix, should get zeros",
            "08": "from_a: lane 8 gives (8, 0), should give (0, 8)",
            "09": "(0, 0) of the tile gets (0, 8) of the matrix, should get (8, 0)",
            "10": "(1, 0) of the tile gets (1, 0) of the matrix, should get (1, 8)",
        }.items():
            exercise = exercises.Exercise(project.select([number])[0])
            promised = [mutant.says for mutant in exercise.mutants()]
            self.assertTrue(any(says in words for words in promised), promised)


if __name__ == "__main__":
    unittest.main()
