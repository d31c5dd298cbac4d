"""The drawings of chapter 14 show what its plan says, and its tables what tools/bench/decoding.py writes."""

import unittest

from tools.docs import decoding, measured


class Work(unittest.TestCase):
    def test_blocks_have_equal_shares(self):
        for total in (1, 2, 7, 32, 100):
            for blocks in (1, 3, 4, 132):
                own = decoding.division(total, blocks)
                self.assertEqual([granule for share in own for granule in share], list(range(total)))
                self.assertLessEqual(max(map(len, own)) - min(map(len, own)), 1)

    def test_splits_leave_no_tile_out(self):
        for tiles in (0, 1, 5, 12):
            for splits in (1, 2, 7):
                own = decoding.shares(tiles, splits)
                self.assertEqual([tile for share in own for tile in share], list(range(tiles)))

    def test_what_the_lesson_says(self):
        self.assertEqual(decoding.longest(decoding.owners_of_splits(1)), 12)
        self.assertEqual(decoding.longest(decoding.owners_of_splits(2)), 6)
        self.assertEqual(decoding.longest(decoding.owners_of_balanced()), 8)

    def test_pages(self):
        self.assertEqual(decoding.place_of(decoding.SEQUENCES[0], 37), (7, 5))
        for sequence in decoding.SEQUENCES:
            self.assertEqual(len(sequence.pages), -(-sequence.length // decoding.PAGE_SIZE))


class Tables(unittest.TestCase):
    def row(self, group: str, name: str, kernel: str, us: float) -> dict:
        shape = {"batch": 64, "heads": 32, "kv_heads": 8, "queries": 1, "keys": 8192, "head_dim": 128}
        return (
            {"group": group, "name": name, "page_size": 0, "kernel": kernel, "us": us}
            | shape
            | {"share_of_roof": 600 / us}
        )

    def test_kernels_by_problems(self):
        rows = [self.row("shapes", "a", kernel, us) for kernel, us in (("read", 600), ("one_kernel", 625))]
        rows += [self.row("shapes", "a", "cuDNN", 750), self.row("splits", "a", "in_flight 8 splits", 800)]
        text = measured.decoding({"device": "GPU", "timings": rows}, "shapes")
        for line in (
            "| us (of the speed of reading) | a: 64 x 32/8, 1 x 8,192, $d$ = 128 |",
            "| read | 600.0 |",
            "| `one_kernel` | 625.0 (0.96) |",
            "| cuDNN | 750.0 (0.80) |",
        ):
            self.assertIn(line, text)
        text = measured.decoding({"device": "GPU", "timings": rows}, "splits")
        self.assertIn("| `in_flight` 8 splits | 800.0 (0.75) |", text)
        with self.assertRaises(measured.NoSuchMeasurement):
            measured.decoding({"device": "GPU", "timings": rows}, "pages")

    def test_problems_by_kernels(self):
        rows = [self.row("pages", name, "paged", 625) | {"page_size": 64} for name in "ab"]
        text = measured.decoding({"device": "GPU", "timings": rows}, "pages")
        self.assertIn("| us (of the speed of reading) | `paged` |", text)
        self.assertIn("| b: 64 x 32/8, 1 x 8,192, $d$ = 128, pages of 64 | 625.0 (0.96) |", text)

    def test_variants(self):
        """Each beside the one that it changes. Times with pages are not compared with others."""
        rows = []
        for name, before, _, (old_group, group, problem) in measured.DECODING_VARIANTS:
            rows.append(self.row(group, problem, name, 500))
            if before:
                rows.append(self.row(old_group, problem, before, 1000))
        rows = list({(r["group"], r["name"], r["kernel"]): r for r in rows}.values())
        rows.append(self.row("fp8", "b", "fp8_cache", 9) | {"page_size": 16})
        text = measured.decoding_variants({"device": "GPU", "timings": rows})
        self.assertIn("| `fp8_cache` | `paged` | elements of 8 bits | b | 1000.0 | 500.0 (0.50) |", text)
        self.assertIn("| `one_block_a_head` | chapter 07 |", text)
        self.assertEqual(text.count("\n| `"), len(measured.DECODING_VARIANTS))


if __name__ == "__main__":
    unittest.main()
