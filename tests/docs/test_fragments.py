"""The drawings of chapter 06 show the maps that kernels use: python3 test_fragments.py."""

import unittest
from pathlib import Path

from tools.docs import fragments

ROOT = Path(__file__).resolve().parents[2]
DEVICE = ROOT / "common" / "device"


class Maps(unittest.TestCase):
    """What the chapter writes out is what later chapters include."""

    def headers(self, *names: str) -> str:
        return "\n".join((DEVICE / name).read_text() for name in names)

    def test_fragments(self):
        source = self.headers("fragments.cuh")
        for matrix, count in (("a", 8), ("b", 4), ("c", 4)):
            theirs = fragments.cpp_function(source, f"element_of_{matrix}")
            own = fragments.element_of(matrix)
            for lane in range(32):
                for i in range(count):
                    self.assertEqual(own(lane, i), theirs(lane, i))
        self.assertEqual(fragments.element_of("a")(5, 7), (9, 11))

    def test_rows(self):
        source = self.headers("fragments.cuh")
        for name in ("row_for_a", "row_for_b"):
            theirs = fragments.cpp_function(source, name)
            own = fragments.cpp_function(fragments.kernel(), name)
            self.assertEqual([*map(own, range(32))], [*map(theirs, range(32))])

    def test_layouts(self):
        source = self.headers("swizzle.cuh")
        for cols in (32, 64, 128):
            for name in ("RowMajor", "Padded", "Swizzled"):
                own = fragments.layout(name, cols)
                theirs = fragments.cpp_function(
                    source,
                    f"{name}::offset",
                    kStride=cols + 8 * (name == "Padded"),
                    kRowsPerLine=max(64 // cols, 1),
                )
                for row in range(16):
                    for col in range(cols):
                        self.assertEqual(own(row, col), theirs(row, col))


class Drawings(unittest.TestCase):
    def test_ldmatrix_fills_the_fragments(self):
        for (lane, register), place in fragments.loaded("row_for_a").items():
            self.assertEqual(fragments.element_of("a")(lane, 2 * register), place)
        for (lane, register), (row, col) in fragments.loaded("row_for_b").items():
            k, n = fragments.element_of("b")(lane, register % 2 * 2)
            self.assertEqual((row, col), (n + register // 2 * 8, k))

    def test_banks(self):
        text = fragments.banks()
        self.assertIn("chunk 2 of 8 rows: 8 wavefronts", text)
        self.assertEqual(text.count("chunk 2 of 8 rows: 1 wavefront<"), 2)

    def test_every_drawing_is_made(self):
        for name, draw in fragments.DRAWINGS.items():
            self.assertIn("</svg>", draw(), name)


if __name__ == "__main__":
    unittest.main()
