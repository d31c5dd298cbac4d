"""The drawings of chapter 11 show what its masks and its dropout say.

python3 -m tests.docs.test_masks BUILD_DIR: its bin/mask_kinds and bin/fragment_maps print it.
"""

import itertools
import sys
import unittest
from pathlib import Path

from tools import masks as files
from tools.docs import fragment_maps
from tools.docs import masks as drawn

CHAPTER = Path(__file__).resolve().parents[2] / "chapters" / "11_masks"


class Kinds(unittest.TestCase):
    def test_kinds_are_what_the_scores_say(self):
        data = drawn.masks()
        br, bc = data["tile"]
        self.assertEqual(data["masks"].keys(), drawn.PANELS.keys())
        for name, mask in data["masks"].items():
            for kinds, seen in zip(mask["kinds"], mask["seen"], strict=True):
                right = [
                    drawn.EMPTY if pairs == 0 else drawn.FULL if pairs == br * bc else drawn.PARTIAL
                    for pairs in seen
                ]
                self.assertEqual(kinds, right, name)

    def test_runs_of_keys(self):
        data = drawn.masks()
        seq, masks = data["seq"], data["masks"]
        step = seq // len(masks["causal"]["keys"])
        for row in range(seq // step):
            query = row * step
            self.assertEqual(masks["causal"]["keys"][row], [[0, query + 1]])
            window = [[max(0, query - 299), min(seq, query + 300)]]
            self.assertEqual(masks["window"]["keys"][row], window)
            window[0][1] = query + 1
            self.assertEqual(masks["causal window"]["keys"][row], window)
            self.assertEqual(masks["key length"]["keys"][row], [[0, 1350]])

    def test_butterfly_is_that_of_the_tool(self):
        data = drawn.masks()
        blocks = data["seq"] // 128
        pattern = files.butterfly(blocks, blocks)
        twice = [[drawn.FULL * seen for seen in row for _ in range(2)] for row in pattern]
        self.assertEqual(data["masks"]["butterfly"]["kinds"], twice)

    def test_lists_are_filled_as_in_the_kernel(self):
        source = (CHAPTER / "list_tiles.cuh").read_text()
        self.assertIn("tiles[partial + __popc(partial_lanes & lanes_before)]", source)
        self.assertIn("tiles[block_mask.most - 1 - full - __popc(full_lanes & lanes_before)]", source)
        empty, partial, full = drawn.EMPTY, drawn.PARTIAL, drawn.FULL
        kinds = [full, empty, partial, full, partial]
        self.assertEqual(drawn.in_lists(kinds), ([2, 4], [3, 0]))


class Dropout(unittest.TestCase):
    def test_each_place_of_a_call_is_that_of_one_element(self):
        decided = [element for row in drawn.decisions() for element in map(tuple, row)]
        everything = {(call, place) for call in range(64) for place in range(16)}
        self.assertEqual(len(decided), 1024)
        self.assertEqual(set(decided), everything)

    def test_a_lane_has_all_elements_of_two_calls(self):
        for lane in fragment_maps.LANES:
            for transposed in (False, True):
                held = drawn.held_by_lane(lane, transposed)
                calls = drawn.calls_of_lane(lane, transposed)
                self.assertEqual(len(calls), 2)
                places_held = {tuple(drawn.decisions()[q][k]) for q, k in held}
                everything = {(call, place) for call in calls for place in range(16)}
                self.assertEqual(places_held, everything)

    def test_places_go_along_rows(self):
        for query in range(32):
            for key in range(32):
                place = query // 8 * 4 + key // 8
                self.assertEqual(drawn.decisions()[query][key][1], place)

    def test_bits_decide_as_numbers_do(self):
        for largest in range(4):
            for numbers in itertools.product(range(4), repeat=4):
                kept = [int(number <= largest) for number in numbers]
                self.assertEqual(drawn.compared(numbers, largest, 2)[-1], kept)
        source = (CHAPTER.parents[1] / "common" / "device" / "dropout.cuh").read_text()
        formula = "(~bits[bit] & most[bit]) | (~bits[bit] & smaller) | (most[bit] & smaller)"
        self.assertIn(formula, source)


if __name__ == "__main__":
    fragment_maps.build = Path(sys.argv.pop(1)).resolve()
    unittest.main()
