"""The drawings of chapter 06 show the maps that kernels use, and those of ./learn look what differs from
them.

python3 -m tests.docs.test_fragments BUILD_DIR: its bin/fragment_maps prints these maps.
"""

import sys
import unittest
from pathlib import Path
from unittest import mock

from tools.docs import fragment_maps, fragments

ROOT = Path(__file__).resolve().parents[2]
CHAPTER = ROOT / "chapters" / "06_tensor_core_mma"


class Maps(unittest.TestCase):
    """The maps in the chapter are the same as those that later chapters include."""

    def test_fragments(self):
        for matrix, count in (("a", 8), ("b", 4), ("c", 4)):
            own = fragment_maps.element_of(matrix)
            theirs = fragment_maps.element_of(matrix, "device")
            for lane in range(32):
                for i in range(count):
                    self.assertEqual(own(lane, i), theirs(lane, i))
        self.assertEqual(fragment_maps.element_of("a")(5, 7), (9, 11))

    def test_rows(self):
        for name in ("row_for_a", "row_for_b"):
            own = fragment_maps.row_for(name)
            theirs = fragment_maps.row_for(name, "device")
            self.assertEqual([*map(own, range(32))], [*map(theirs, range(32))])

    def test_layouts(self):
        own, theirs = fragment_maps.maps(), fragment_maps.maps("device")
        for name in ("RowMajor", "Padded", "Swizzled"):
            self.assertEqual(own[name].keys(), {"32", "64", "128", "256"})
            for cols, rows in own[name].items():
                self.assertEqual([len(row) for row in rows], [int(cols)] * 64)
                if (name, cols) != ("Swizzled", "32"):  # device/swizzle.cuh says why
                    self.assertEqual(rows, theirs[name][cols], f"{name}, {cols}")
        self.assertEqual(fragment_maps.layout("Swizzled", 64)(3, 9), 3 * 64 + (9 ^ 24))

    def test_a_program_that_is_missing(self):
        nowhere = mock.patch.object(fragment_maps, "build", Path("/nowhere"))
        with nowhere, self.assertRaisesRegex(fragment_maps.NotBuilt, "fragment_maps makes it"):
            fragment_maps.maps()


class Drawings(unittest.TestCase):
    def test_ldmatrix_fills_the_fragments(self):
        for (lane, register), place in fragment_maps.loaded("row_for_a").items():
            self.assertEqual(fragment_maps.element_of("a")(lane, 2 * register), place)
        for (lane, register), (row, col) in fragment_maps.loaded("row_for_b").items():
            k, n = fragment_maps.element_of("b")(lane, register % 2 * 2)
            self.assertEqual((row, col), (n + register // 2 * 8, k))

    def test_the_quarters_of_v_are_two_operands_b(self):
        address = fragment_maps.row_for("row_for_a")
        element_of_b = fragment_maps.element_of("b")
        loads = fragment_maps.received(address, transposed=True)
        self.assertEqual(len(loads), 32 * 4)
        for (lane, register), pair in loads.items():
            fragment, half = divmod(register, 2)
            for i, (key, col) in enumerate(pair):
                in_b = element_of_b(lane, 2 * half + i)
                self.assertEqual((key, col - 8 * fragment), in_b, (lane, register))
        self.assertEqual(loads[5, 0], [(2, 1), (3, 1)])
        self.assertEqual(loads[5, 3], [(10, 9), (11, 9)])

    def test_the_drawing_of_v_says_what_the_kernel_does(self):
        kernel = (CHAPTER / "kernel.cuh").read_text()
        values = kernel[kernel.index("void multiply_pv") :]
        for line in (
            "const Coord from = row_for_a(threadIdx.x % 32);",
            "ldmatrix_transposed(v, sV +",
            "mma<T>(rO[ni], p, {v[0], v[1]});",
            "mma<T>(rO[ni + 1], p, {v[2], v[3]});",
        ):
            self.assertIn(line, values)
        drawing = fragments.value_quarters()
        self.assertIn("B for rO[ni]: {v[0], v[1]}. The right half is", drawing)
        self.assertIn("B for rO[ni + 1]: {v[2], v[3]}.<", drawing)
        text = "It receives keys 2 and 3, 10 and 11 of columns 1 and 9."
        self.assertIn(f"Lane 5 supplies row 5 of the first quarter. {text}", drawing)
        # 32 addresses, 128 pairs of keys, and a legend of 4 registers.
        self.assertEqual(drawing.count("<rect"), 32 + 128 + 4)

    def test_the_lesson_shows_this_drawing_of_v(self):
        file = CHAPTER / "value_quarters.svg"
        self.assertEqual(file.read_text(), fragments.value_quarters())

    def test_banks(self):
        text = fragments.banks()
        self.assertIn("chunk 2 of 8 rows: 8 wavefronts", text)
        self.assertEqual(text.count("chunk 2 of 8 rows: 1 wavefront<"), 2)

    def test_every_drawing_is_made(self):
        for name, draw in fragments.DRAWINGS.items():
            self.assertIn("</svg>", draw(), name)


def frames(drawing: str) -> int:
    """How many boxes are marked as wrong, without that of the legend."""
    return drawing.count(f'stroke="{fragments.WRONG}"') - 1


class Comparisons(unittest.TestCase):
    """A learner's maps next to the correct ones."""

    def setUp(self):
        self.a, self.b = map(fragment_maps.row_for, ("row_for_a", "row_for_b"))

    def test_who_holds_an_element(self):
        held = fragment_maps.holders(fragment_maps.received(self.a))
        self.assertEqual(held[9, 11], [(5, 3, 1)])
        same = fragment_maps.received(lambda lane: (lane % 8, 0))
        held = fragment_maps.holders(same)
        self.assertEqual(held[1, 2], [(5, register, 0) for register in range(4)])
        self.assertNotIn((8, 0), held)

    def test_equal_rows_have_no_frames(self):
        for transposed in (False, True):
            drawing = fragments.compared_rows("f", self.a, self.a, transposed)
            self.assertEqual(frames(drawing), 0)

    def test_what_differs_has_a_frame(self):
        # Quarters 1 and 2 have changed places: 16 addresses, 2 x 64 elements.
        for transposed in (False, True):
            drawing = fragments.compared_rows("f", self.a, self.b, transposed)
            self.assertEqual(frames(drawing), 16 + 128)
        self.assertIn("f, as it should be", drawing)
        self.assertIn("f, yours", drawing)

    def test_what_several_lanes_supply(self):
        drawing = fragments.compared_rows("f", self.a, lambda lane: (lane % 8, 0), False)
        self.assertIn(">lanes 5, 13, 21, 29<", drawing)
        self.assertEqual(drawing.count(">4 x<"), 64)
        # 8 addresses, of which a lane each is right; 64 elements held four times, and 192 that no lane holds.
        self.assertEqual(frames(drawing), 8 + 256)
        drawing = fragments.compared_rows("f", self.a, lambda lane: (0, 0), False)
        self.assertIn(">32 lanes<", drawing)

    def test_rows_outside_of_the_tile_are_left_out(self):
        drawing = fragments.compared_rows("f", self.a, lambda lane: (lane % 16 + 8, lane // 16 * 8), False)
        self.assertEqual(drawing.count(">lane 8<"), 1)  # only in the correct map

    def test_layouts(self):
        right = fragment_maps.layout("Swizzled", 64)
        plain = fragment_maps.layout("RowMajor", 64)
        drawing = fragments.compared_layouts("Swizzled<64>", right, plain, 64)
        self.assertIn("Swizzled&lt;64&gt;, yours", drawing)
        self.assertIn("chunk 0 of 8 rows: 1 wavefront<", drawing)
        self.assertIn("chunk 0 of 8 rows: 8 wavefronts<", drawing)
        self.assertEqual(frames(drawing), 7 * 8)  # row 0 is the same
        drawing = fragments.compared_layouts("Swizzled<64>", right, right, 64)
        self.assertEqual(frames(drawing), 0)

    def test_copies(self):
        right = [[[0, 0], [0, 8]], ["zeros", "zeros"]]
        own = [[[0, 0], None], ["zeros", [1, 8]]]
        drawing = fragments.compared_copies("load_tile", right, own)
        self.assertEqual(frames(drawing), 2)
        self.assertEqual(drawing.count(">zeros<"), 3)
        self.assertIn(">1, 8<", drawing)


if __name__ == "__main__":
    fragment_maps.build = Path(sys.argv.pop(1)).resolve()
    unittest.main()
