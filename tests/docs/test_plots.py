"""The drawings of docs/plots.py: what they draw is what docs/results/ and the kernels have."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import plots

SVG = "{http://www.w3.org/2000/svg}"


def texts(drawing: str) -> list[str]:
    return [
        element.text or ""
        for element in ElementTree.fromstring(drawing).iter(f"{SVG}text")
    ]


class PlotsTest(unittest.TestCase):
    def test_every_drawing_is_an_svg_with_a_title(self):
        for name, draw in plots.DRAWINGS.items():
            root = ElementTree.fromstring(draw())
            self.assertEqual(root.attrib["role"], "img", name)
            self.assertTrue(root.find(f"{SVG}title").text, name)

    def test_bytes_are_those_of_the_formulas(self):
        fp32, bf16 = plots.bytes_of_head(plots.FP32), plots.bytes_of_head(plots.BF16)
        seq, d = plots.POINTS[plots.FP32]
        for name, br in (
            ("sliced_q", 32),
            ("large_tiles", 128),
        ):  # chapter 05: 2Nd + 2 Tr N d + N
            numbers = 2 * seq * d + 2 * (seq // br) * seq * d + seq
            self.assertEqual(fp32["05_loop_swapped_v2", name], 4 * numbers, name)
        for name, bc in (
            ("cooperative", 32),
            ("bc_64", 64),
            ("bc_128", 128),
        ):  # chapter 04
            tiles = seq // bc
            numbers = 2 * seq * d + (3 * tiles - 1) * seq * d + (4 * tiles + 1) * seq
            self.assertEqual(fp32["04_tiled_v1", name], 4 * numbers, name)
        seq, d = plots.POINTS[plots.BF16]
        for (_, name), count in bf16.items():  # chapters 06 and 07, with 128 queries
            numbers = 2 * seq * d + 2 * (seq // 128) * seq * d
            self.assertEqual(count, 2 * numbers + 4 * seq, name)

    def test_every_variant_with_a_time_has_its_bytes(self):
        for plan in plots.POINTS:
            timed = {
                (t["chapter"], t["variant"])
                for t in plots.timings(plan)
                if t["chapter"]
            }
            self.assertEqual(timed, set(plots.bytes_of_head(plan)))

    def test_the_ladder_shows_every_time(self):
        shown = texts(plots.ladder())
        for plan in plots.POINTS:
            for timing in plots.timings(plan):
                self.assertIn(f"{timing['tflops']:.1f}", shown)

    def test_each_pair_of_tiles_is_visited_once(self):
        pairs = {(query, key) for query in range(4) for key in range(4)}
        for visits in (plots.visits_of_v1(4), plots.visits_of_v2(4)):
            together = [pair for step in visits for pair in step]
            self.assertEqual(len(together), 16)
            self.assertEqual(set(together), pairs)

    def test_the_walk_stands_still_for_those_who_want_that(self):
        self.assertIn("prefers-reduced-motion: reduce", plots.swap())


if __name__ == "__main__":
    unittest.main()
