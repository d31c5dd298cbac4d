"""The drawings of chapter 08 show what its kernels do.

python3 -m tests.docs.test_backward BUILD_DIR: its bin/fragment_maps prints the maps.
"""

import sys
import unittest
from pathlib import Path

from tools.docs import backward, fragment_maps

ROOT = Path(__file__).resolve().parents[2]
CHAPTER = ROOT / "chapters" / "08_backward"


class Operands(unittest.TestCase):
    def test_ldmatrix_trans_deals_out_what_dq_needs(self):
        self.assertEqual(backward.loaded_transposed("row_for_b"), backward.needed_for_dq())

    def test_the_kernel_loads_with_these_addresses(self):
        source = (CHAPTER / "tensor_cores.cuh").read_text()
        self.assertIn("from_a = row_for_b(lane)", source)
        self.assertIn("ldmatrix_transposed(a[mi], sdS", source)

    def test_no_lane_has_all_that_it_needs(self):
        has, needs = backward.held_after_s(), backward.needed_for_dq()
        for lane in range(32):
            own = {place for r in range(4) for place in has[lane, r]}
            wanted = {place for r in range(4) for place in needs[lane, r]}
            self.assertEqual(len(own), 8)
            self.assertLess(len(own & wanted), 8)
        self.assertIn("needs none of the 8 elements", backward.two_operands())


class Owners(unittest.TestCase):
    def test_the_first_query_tile_is_the_kernels(self):
        kernel = (CHAPTER / "fp32.cuh").read_text()
        self.assertIn("begin = max(0, a.first_query(first_key)) / Br * Br;", kernel)
        header = (CHAPTER / "backward.cuh").read_text()
        self.assertIn("causal ? key - this->seq_k + this->seq_q : 0", header)
        self.assertEqual(backward.first_query_tile(128, 320, 320, 64, True), 2)
        self.assertEqual(backward.first_query_tile(128, 100, 320, 64, True), 0)
        self.assertEqual(backward.first_query_tile(128, 320, 320, 64, False), 0)


class KeyTile(unittest.TestCase):
    def test_the_sizes_are_the_kernels(self):
        sizes = (CHAPTER / "key_tiles.cuh").read_text()
        for name, value in (
            ("kKeys", backward.KEYS),
            ("kQueries", backward.QUERIES),
            ("kWarpRows", backward.WARP_KEYS),
        ):
            self.assertRegex(sizes, rf"int {name} = (kHeadDim(ension)? <= 128 \? )?{value}[;,> ]")
        for line in ("Bc = kKeys;", "Br = kQueries;", "kScoreCols = Br / 2;"):
            self.assertIn(f"int {line}", sizes)
        self.assertEqual(backward.SCORE_COLS, backward.QUERIES / 2)
        self.assertIn("kWarpsPerKeys = kHeadDim <= 64 ? 1 : 2;", sizes)
        self.assertIn("kWarps = Bc / kWarpRows * kWarpsPerKeys;", sizes)
        self.assertIn(f"kColWarps = Base::kHeadDim / {backward.DQ_COLS};", sizes)

    def test_the_warps_have_what_they_have_in_the_kernels(self):
        sizes = (CHAPTER / "key_tiles.cuh").read_text()
        self.assertIn("warp_key = warp / Tile::kWarpsPerKeys * Tile::kWarpRows;", sizes)
        self.assertIn("part = warp % Tile::kWarpsPerKeys;", sizes)
        sources = sizes + (CHAPTER / "tensor_cores.cuh").read_text()
        query = r"\(n \* Tile::kWarpsPerKeys \+ (block\.)?part\) \* Tile::kScoreCols;"
        self.assertRegex(sources, query)
        sums = (CHAPTER / "dq_sums.cuh").read_text()
        row = "warp / Tile::kColWarps * Tile::kDqRowFragments * 16 + "
        self.assertIn(row, sums)
        self.assertIn("warp % Tile::kColWarps * 32 + ", sums)

    def test_every_element_has_one_warp(self):
        for d in (32, 64, 128):
            for shares, rows, cols in (
                (backward.shares_of_scores(d), backward.KEYS, backward.QUERIES),
                (backward.shares_of_keys(d), backward.KEYS, d),
                (backward.shares_of_dq(d), backward.QUERIES, d),
            ):
                elements = [
                    (row, col)
                    for share in shares
                    for row in range(share.row, share.row + share.rows)
                    for col in range(share.col, share.col + share.cols)
                ]
                self.assertEqual(len(elements), rows * cols, d)
                self.assertEqual(len(set(elements)), rows * cols, d)


class Drawings(unittest.TestCase):
    def test_every_drawing_is_made(self):
        for name, draw in backward.DRAWINGS.items():
            self.assertIn("</svg>", draw(), name)


if __name__ == "__main__":
    fragment_maps.build = Path(sys.argv.pop(1)).resolve()
    unittest.main()
