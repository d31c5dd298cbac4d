"""tools/masks.py: what its patterns are, and the files that it writes. tools/bench/masks.py: what it times
with them.
"""

import ast
import contextlib
import io
import json
import random
import struct
import tempfile
import unittest
from array import array
from pathlib import Path
from unittest import mock

from tools import masks
from tools.bench import masks as bench
from tools.docs import measured


def read_npy(path: Path) -> tuple[str, tuple, list[int]]:
    """Type, shape and values, read as the format is described (NEP 1)."""
    data = path.read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    (size,) = struct.unpack("<H", data[8:10])
    assert (10 + size) % 64 == 0 and data[9 + size] == ord("\n")
    header = ast.literal_eval(data[10 : 10 + size].decode())
    assert not header["fortran_order"]
    kind = {"|u1": "B", "<i4": "i"}[header["descr"]]
    return header["descr"], header["shape"], array(kind, data[10 + size :]).tolist()


class Patterns(unittest.TestCase):
    def test_butterfly_is_the_sum_of_the_factors(self):
        # Factor k of a butterfly matrix: blocks of 2^(k + 1), which have entries where i = j modulo 2^k.
        for levels in range(5):
            expected = [[int(i == j) for j in range(16)] for i in range(16)]
            for k in range(levels):
                for i in range(16):
                    for j in range(16):
                        if i >> k + 1 == j >> k + 1 and i % 2**k == j % 2**k:
                            expected[i][j] = 1
            self.assertEqual(masks.butterfly(16, 16, levels), expected)
        self.assertEqual(masks.butterfly(16, 16), masks.butterfly(16, 16, 4))
        self.assertEqual([sum(row) for row in masks.butterfly(32, 32)], [6] * 32)

    def test_other_sizes_are_cut_from_a_larger_butterfly(self):
        large = masks.butterfly(8, 8)
        self.assertEqual(masks.butterfly(3, 5), [row[:5] for row in large[:3]])
        self.assertEqual(masks.butterfly(1, 1), [[1]])

    def test_random_has_the_fraction_in_equal_rows(self):
        for fraction, count in ((0, 0), (1 / 32, 3), (0.3, 29), (1, 96)):
            pattern = masks.random_blocks(12, 8, fraction, random.Random(5))
            sums = [sum(row) for row in pattern]
            self.assertEqual(sum(sums), count)
            self.assertLessEqual(max(sums) - min(sums), 1)
            self.assertEqual({len(row) for row in pattern}, {8})

    def test_window_ends_at_the_bottom_right(self):
        expected = [[1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
        self.assertEqual(masks.window(3, 4, 2), expected)
        self.assertEqual(masks.window(3, 3, 1), masks.butterfly(3, 3, 0))

    def test_global_blocks_see_all_and_are_seen(self):
        pattern = masks.with_global(masks.window(4, 4, 1), 1)
        expected = [[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]]
        self.assertEqual(pattern, expected)

    def test_documents(self):
        self.assertEqual(masks.documents(6, [1, 3, 5, 9]), [0, 1, 1, 1, 2, 2])

    def test_lengths_do_not_depend_on_how_many_are_drawn(self):
        lengths = masks.draw_lengths(20, 3, 9, 7)
        self.assertEqual(masks.draw_lengths(5, 3, 9, 7), lengths[:5])
        self.assertEqual(set(lengths), set(range(3, 10)))
        self.assertNotEqual(masks.draw_lengths(20, 3, 9, 8), lengths)


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name) / "mask.npy"

    def run_with(self, *words: str) -> tuple[int, str, str]:
        said, wrong = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
            try:
                status = masks.main([*words, str(self.out)])
            except SystemExit as exit:
                status = exit.code
        return status, said.getvalue(), wrong.getvalue()

    def test_an_error_is_one_line(self):
        for words in (["nope"], ["butterfly", "--sequence"], ["lengths", "--longest"]):
            status, _, wrong = self.run_with(*words)
            self.assertEqual((status, wrong.count("\n")), (2, 1), wrong)

    def test_blocks(self):
        status, said, _ = self.run_with(
            *["butterfly", "--seq", "300", "--seq-k", "129", "--size", "64", "--heads", "2", "--global", "1"]
        )
        self.assertEqual(status, 0)
        kind, shape, values = read_npy(self.out)
        self.assertEqual((kind, shape), ("|u1", (2, 5, 3)))
        one = [1, 1, 1, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1, 0, 0]
        self.assertEqual(values, one + one)
        self.assertIn("2 x 5 x 3 blocks of 64, of which 22 exist: s = 0.7333", said)

    def test_random_heads_differ_and_a_seed_repeats_them(self):
        words = ["random", "--seq", "2048", "--heads", "2", "--fraction", "1/4"]
        self.run_with(*words)
        _, shape, values = read_npy(self.out)
        self.assertEqual((shape, sum(values)), ((2, 16, 16), 128))
        self.assertNotEqual(values[:256], values[256:])
        self.run_with(*words)
        self.assertEqual(read_npy(self.out)[2], values)
        self.run_with(*words, "--seed", "2")
        self.assertNotEqual(read_npy(self.out)[2], values)

    def test_packed_and_padded_are_the_same_sequences(self):
        drawn = ["--shortest", "3", "--longest", "20", "--seed", "4"]
        status, said, _ = self.run_with("lengths", "--batch", "4", *drawn)
        kind, shape, lengths = read_npy(self.out)
        self.assertEqual((status, kind, shape), (0, "<i4", (4,)))
        self.assertIn(f"{sum(lengths) / max(lengths) / 4:.1%} of a batch padded to the longest", said)
        status, said, _ = self.run_with("documents", "--seq", str(sum(lengths)), *drawn)
        kind, shape, numbers = read_npy(self.out)
        self.assertEqual((status, kind, shape), (0, "<i4", (sum(lengths),)))
        expected = [n for n, length in enumerate(lengths) for _ in range(length)]
        self.assertEqual(numbers, expected)
        self.assertIn("4 documents of", said)

    def test_what_is_refused(self):
        for words, text in (
            ("random --seq 5 --fraction 2", "2: must be from 0 to 1, such as 0.25"),
            ("random --seq 5 --fraction 1/0", "1/0: must be from 0 to 1"),
            ("window --seq 0 --blocks 1", "0: must be a number of 1 or more"),
            ("butterfly --seq x", "x: must be a number of 1 or more"),
            ("butterfly --seq 5 --size 32", "invalid choice: 32"),
            ("lengths --batch 2 --shortest 9 --longest 8", "--shortest 9: must not exceed --longest 8"),
        ):
            status, _, wrong = self.run_with(*words.split())
            self.assertEqual(status, 2)
            self.assertIn(text, wrong)
        self.out = self.out.parent / "missing" / "mask.npy"
        status, _, wrong = self.run_with("lengths", "--batch", "2")
        self.assertEqual(status, 2)
        self.assertEqual(wrong, f"tools.masks: {self.out}: No such file or directory\n")


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_every_group_has_both_passes_and_head_dimensions(self):
        for group in bench.GROUPS:
            kinds = {(c.head_dim, c.backward) for c in bench.cases([group])}
            self.assertEqual(len(kinds), 4)

    def test_files_are_those_of_the_problem(self):
        for case in bench.cases(list(bench.GROUPS)):
            words = case.mask_options(self.folder)
            self.assertEqual("--backward" in words, case.backward)
            files = dict(word.split("=") for word in words if ".npy" in word)
            self.assertEqual(case.heads * case.head_dim, bench.MODEL)
            if case.blocks:
                kind, shape, values = read_npy(Path(files["--block-mask"]))
                self.assertEqual((kind, shape), ("|u1", (1, *[case.seq // 128] * 2)))
                self.assertEqual(sum(values) / len(values), float(case.name))
            if case.documents:
                kind, shape, values = read_npy(Path(files["--documents"]))
                self.assertEqual((kind, shape), ("<i4", (case.seq,)))
            if case.key_lengths:
                kind, shape, values = read_npy(Path(files["--key-lengths"]))
                self.assertEqual((kind, shape), ("<i4", (case.batch,)))
                self.assertEqual((sum(values), max(values)), (case.tokens, case.seq))

    def test_every_call_runs_the_program_of_its_name(self):
        ran = []

        def run(chapter, variant, words):
            ran.append((chapter, variant, words))
            return 1.0

        with mock.patch.object(bench, "time_of_program", run):
            for case in bench.cases(list(bench.GROUPS)):
                calls = bench.calls_of_programs(case, self.folder)
                ran.clear()
                for call in calls.values():
                    call()
                beside = [name for name in case.beside if name in bench.OURS]
                dense = [bench.DENSE[name, case.backward] for name in beside]
                ours = [("11_masks", variant) for variant in case.variants]
                self.assertEqual([each[:2] for each in ran], dense + ours)
                self.assertEqual(list(calls), [*beside, *case.variants])
                for chapter, variant, words in ran:
                    masked = chapter == "11_masks"
                    self.assertEqual("--backward" in words, masked and case.backward)
                    drops = [word for word in words if word.startswith("--dropout")]
                    self.assertEqual(len(drops), variant == "dropout")
                    functions = [word for word in words if word in bench.SCORE_FUNCTIONS.values()]
                    self.assertEqual(len(functions), variant == "scores")

    def test_hopper_stands_beside_compressed(self):
        for group in ("blocks", "masks", "packed"):
            for case in bench.cases([group]):
                self.assertEqual(case.variants[0], "compressed")
                self.assertIn("hopper", case.variants)
                others = bench.without_hopper(case)
                self.assertNotIn("hopper", others.variants)
                self.assertNotIn(bench.DENSE_HOPPER, others.beside)
                self.assertNotIn(bench.FLEX_MMA, others.beside)
                self.assertEqual(str(others), str(case))

    def test_deterministic_is_timed_with_random_blocks_backward(self):
        for case in bench.cases(["blocks"]):
            self.assertEqual("deterministic" in case.variants, case.backward)

    def test_a_run_that_was_stopped_goes_on(self):
        file = self.folder / "masks.json"
        now = {"device": "a GPU", "torch": "2", "rounds": 1}
        self.assertEqual(bench.measured_before(file, now), [])
        self.assertEqual(bench.measured_before(None, now), [])
        case = bench.cases(["masks"])[0]
        row = bench.row_of(case) | {"ms": {"dense": 1.0}}
        file.write_text(json.dumps(now | {"rows": [row]}))
        self.assertEqual(bench.measured_before(file, now), [row])
        with self.assertRaisesRegex(ValueError, "has rounds 1, this run 3; name ano"):
            bench.measured_before(file, now | {"rounds": 3})

    def test_packed_and_padded_have_the_same_tokens(self):
        packed, padded = bench.cases(["packed"])[:2]
        self.assertEqual(packed.documents, padded.key_lengths)
        self.assertEqual(packed.batch * packed.seq, packed.tokens)
        self.assertGreater(padded.batch * padded.seq, padded.tokens)

    def test_the_table(self):
        case = bench.cases(["blocks"])[0]
        row = {
            "group": "blocks", "mask": "0.25", "pass": "forward", "batch": 4, "heads": 32,
            "seq": case.seq, "head_dim": 64, "tokens": 16384, "ms": {"dense": 2.0, "compressed": 0.55},
        }  # fmt: skip
        data = {"device": "a GPU", "rows": [row]}
        text = measured.masks(data, "blocks", "forward")
        self.assertIn("| blocks that exist; ms | problem | dense | compressed |", text)
        self.assertIn("| 0.25 | [4,32,4096,64] | 2.000 (1.00) | 0.550 (0.28) |", text)
        row |= {"group": "packed", "ms": {"compressed": 4.0}}
        text = measured.masks(data, "packed", "forward")
        self.assertIn("| 4.10 |", text)
        with self.assertRaisesRegex(measured.NoSuchMeasurement, "no packed backward"):
            measured.masks(data, "packed", "backward")


if __name__ == "__main__":
    unittest.main()
