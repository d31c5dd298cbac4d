"""The drawings of chapter 06 show the maps that kernels use.

python3 -m tests.docs.test_fragments BUILD_DIR: its bin/fragment_maps prints these maps.
"""

import sys
import unittest
from pathlib import Path
from unittest import mock

from tools.docs import fragment_maps, fragments


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
                self.assertEqual(rows, theirs[name][cols], f"{name}, {cols} columns")
        self.assertEqual(fragment_maps.layout("Swizzled", 64)(3, 9), 3 * 64 + (9 ^ 24))

    def test_a_program_that_is_missing(self):
        nowhere = mock.patch.object(fragment_maps, "build", Path("/nowhere"))
        with (
            nowhere,
            self.assertRaisesRegex(fragment_maps.NotBuilt, "fragment_maps makes it"),
        ):
            fragment_maps.maps()


class Drawings(unittest.TestCase):
    def test_ldmatrix_fills_the_fragments(self):
        for (lane, register), place in fragment_maps.loaded("row_for_a").items():
            self.assertEqual(fragment_maps.element_of("a")(lane, 2 * register), place)
        for (lane, register), (row, col) in fragment_maps.loaded("row_for_b").items():
            k, n = fragment_maps.element_of("b")(lane, register % 2 * 2)
            self.assertEqual((row, col), (n + register // 2 * 8, k))

    def test_banks(self):
        text = fragments.banks()
        self.assertIn("chunk 2 of 8 rows: 8 wavefronts", text)
        self.assertEqual(text.count("chunk 2 of 8 rows: 1 wavefront<"), 2)

    def test_every_drawing_is_made(self):
        for name, draw in fragments.DRAWINGS.items():
            self.assertIn("</svg>", draw(), name)


if __name__ == "__main__":
    fragment_maps.build = Path(sys.argv.pop(1)).resolve()
    unittest.main()
