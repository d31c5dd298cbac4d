"""The drawings of tools/docs/plots.py agree with docs/results/ and the kernels."""

from __future__ import annotations

import json
import unittest
from pathlib import Path
from xml.etree import ElementTree

from tools.docs import plots

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def texts(drawing: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(drawing).iter(f"{SVG}text")]


class PlotsTest(unittest.TestCase):
    def test_every_drawing_is_an_svg_with_a_title(self):
        for name, draw in plots.DRAWINGS.items():
            root = ElementTree.fromstring(draw())
            self.assertEqual(root.attrib["role"], "img", name)
            self.assertTrue(root.find(f"{SVG}title").text, name)

    def test_bytes_are_those_of_the_formulas(self):
        panel = plots.PANELS["fp32"]
        fp32, seq, d = plots.bytes_of_head(panel), panel.seq, panel.head_dim
        for name, br in (("sliced_q", 32), ("large_tiles", 128)):  # chapter 05: 2Nd + 2 Tr N d + N
            numbers = 2 * seq * d + 2 * (seq // br) * seq * d + seq
            self.assertEqual(fp32["05_loop_swapped_v2", name], 4 * numbers, name)
        for name, bc in (("cooperative", 32), ("bc_64", 64), ("bc_128", 128)):  # chapter 04
            tiles = seq // bc
            numbers = 2 * seq * d + (3 * tiles - 1) * seq * d + (4 * tiles + 1) * seq
            self.assertEqual(fp32["04_tiled_v1", name], 4 * numbers, name)
        panel = plots.PANELS["bf16"]
        bf16, seq, d = plots.bytes_of_head(panel), panel.seq, panel.head_dim
        for (_, name), count in bf16.items():
            numbers = 2 * seq * d + 2 * (seq // 128) * seq * d  # tiles of 128 queries
            if name == "three_kernels":
                numbers = 4 * seq * d + 4 * seq * seq
            self.assertEqual(count, 2 * numbers + 4 * seq, name)
        elements = {name: count for (_, name), count in plots.bytes_of_element().items()}
        self.assertEqual(elements["row_per_warp"], 16)  # read three times, written once
        self.assertEqual(elements["online"], 12)
        self.assertEqual(elements["on_chip"], 8)

    def test_every_variant_with_a_time_has_its_bytes(self):
        def timed(timings):
            return {(t["chapter"], t["variant"]) for t in timings if t["chapter"]}

        for name, panel in plots.PANELS.items():
            of_head = set(plots.bytes_of_head(panel))
            if panel.backward and panel.dtype == "bf16":
                of_head -= {("08_backward", "standard")}  # timed in fp32 alone
            if panel.hopper:  # timed for comparison
                of_head |= (
                    {("08_backward", "mma_pipelined")}
                    if panel.backward
                    else {("07_multi_stage", "two_rows_of_mma"), ("07_multi_stage", "final")}
                )
            self.assertEqual(timed(plots.timings(panel)), of_head, name)
        softmax = timed(plots.softmax_timings())
        self.assertEqual(softmax, set(plots.bytes_of_element()))

    def test_every_time_is_shown(self):
        shown = texts(plots.climb()) + texts(plots.ladder())
        for panel in plots.PANELS.values():
            for timing in plots.timings(panel):
                self.assertIn(f"{timing['tflops']:.1f}", shown)
        for timing in plots.softmax_timings():
            self.assertIn(f"{timing['gb_per_s']:.0f}", shown)

    def test_both_passes_are_relative_to_cudnn_in_the_same_run(self):
        shown = texts(plots.both_passes())
        for backward in (False, True):
            problems, means = plots.standing(backward)
            self.assertEqual(means["", "cuDNN"], 1)
            self.assertEqual(len(problems), 4)
            run = json.loads((plots.RESULTS / plots.STANDING[1]).read_text(encoding="utf-8"))
            product = 1.0
            for batch, heads, seq, causal in problems:
                problem = {"batch": batch, "heads": heads, "seq": seq, "causal": causal, "head_dim": 128}
                problem["backward"] = backward
                ms = {t["variant"]: t["median_ms"] for t in run["timings"] if problem.items() <= t.items()}
                product *= ms["cuDNN"] / ms["FlashAttention-4"]
            self.assertAlmostEqual(means["", "FlashAttention-4"], product**0.25)
            self.assertEqual(("", "FlashAttention-3") in means, not backward)
            for mean in means.values():
                self.assertIn(f"{mean:.2f}", shown)

    def test_the_roofline_has_every_chapter(self):
        kernels = list(plots.placed_kernels())
        chapters = {chapter for chapter, *_ in kernels}
        of_panels = {"hopper": "09", "hopper backward": "10"}
        not_timed = {n for name, n in of_panels.items() if name not in plots.PANELS}
        self.assertEqual(chapters, set(plots.CHAPTER_COLOURS) - not_timed)
        asked = plots.bytes_of_head(plots.PANELS["bf16"])
        bytes_asked = asked["07_multi_stage", "final"]
        operations = next(k[2] for k in kernels if k[:2] == ("07", "final"))
        self.assertAlmostEqual(operations, 4 * 4096**2 * 128 / bytes_asked)

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
