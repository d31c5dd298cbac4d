"""The search for the longest context that fits: python3 -m tests.bench.test_longest. Needs no GPU."""

from __future__ import annotations

import random
import unittest

from tools.bench import longest


class Search(unittest.TestCase):
    def find(self, limit: int, stride: int, bound: int) -> longest.Longest:
        """What is found if `limit` fits and nothing above it."""
        self.tried: list[int] = []

        def fits(length: int) -> bool:
            self.tried.append(length)
            return length <= limit

        return longest.find(fits, stride, bound)

    def test_neighbours_are_found_for_any_limit(self):
        choose = random.Random(3)
        for _ in range(500):
            stride, limit = choose.randint(1, 50), choose.randint(0, 5000)
            bound = choose.randint(stride, 6000)
            last, right = bound // stride * stride, limit // stride * stride
            found = self.find(limit, stride, bound)
            what = (limit, stride, bound)
            if right >= last:
                self.assertEqual(found, longest.Longest(last, None), what)
                self.assertIn(last, self.tried)
                continue
            self.assertEqual(found, longest.Longest(right, right + stride), what)
            self.assertIn(right + stride, self.tried)
            self.assertTrue(right == 0 or right in self.tried, what)

    def test_no_length_is_tried_twice_and_none_above_the_bound(self):
        for limit in (0, 4095, 4096, 70000, 1 << 30):
            self.find(limit, 4096, 200_000)
            self.assertEqual(len(set(self.tried)), len(self.tried), limit)
            self.assertLessEqual(max(self.tried), 200_000, limit)
            self.assertTrue(all(n > 0 and n % 4096 == 0 for n in self.tried), limit)

    def test_few_tries(self):
        self.find(390_000, 4096, 1 << 20)
        self.assertLessEqual(len(self.tried), 14)


if __name__ == "__main__":
    unittest.main()
