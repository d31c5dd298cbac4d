"""The drawing of chapter 13 shows what its schedule says.

python3 -m tests.docs.test_ring BUILD_DIR: its bin/ring_schedule prints it.
"""

import sys
import unittest
from pathlib import Path

from tools.docs import fragment_maps, ring


class Work(unittest.TestCase):
    def test_every_pair_is_computed_once(self):
        data = ring.schedule()
        for name in ring.SCHEDULES:
            computed = sum(map(sum, data[name]["pairs"]))
            self.assertEqual(computed, data["tokens"] * (data["tokens"] + 1) // 2)

    def test_every_token_has_one_rank(self):
        data = ring.schedule()
        for name in ring.SCHEDULES:
            pieces = sorted(piece for own in data[name]["pieces"] for piece in own)
            ends = [0, *(end for _, end in pieces)]
            self.assertEqual([begin for begin, _ in pieces], ends[:-1])
            self.assertEqual(ends[-1], data["tokens"])

    def test_what_the_lesson_says(self):
        data = ring.schedule()
        ranks = data["ranks"]
        steps = {
            name: ring.slowest(ring.shares(data[name]["pairs"], data["tokens"]))
            for name in ring.SCHEDULES
        }
        self.assertAlmostEqual(sum(steps["ring"]), ranks - 0.5, places=2)
        self.assertAlmostEqual(sum(steps["zigzag"]), ranks / 2, places=2)
        for pairs in zip(*data["zigzag"]["pairs"], strict=True):
            self.assertEqual(len(set(pairs)), 1, "ranks have different work in a step")


if __name__ == "__main__":
    fragment_maps.build = Path(sys.argv.pop(1))
    unittest.main()
