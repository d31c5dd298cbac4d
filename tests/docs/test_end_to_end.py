"""The tables and the curves of docs/pages/training.md: python3 -m tests.docs.test_end_to_end."""

from __future__ import annotations

import json
import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tools.docs import end_to_end
from tools.docs.measured import NoSuchMeasurement


def step(attention: str, context: int, ms: float | None) -> dict:
    row = {"attention": attention, "context": context, "fits": ms is not None}
    if ms:
        row |= {"median_ms": ms, "tokens_per_second": 1e6 / ms, "bytes": 3 << 30}
    return row


STEPS = {
    "device": "GPU",
    "steps": [step("unfused", 1024, None), step("09 + 10", 1024, 20.0), step("flash (FA2)", 1024, 30.0)],
}


def run(name: str, shift: float) -> dict:
    losses = [3.0 + shift - number / 100 for number in range(200)]
    memory = {"tokens_per_second": 5e5, "peak_bytes": 2 << 30}
    return {"run": name, "losses": losses, "sample": "def \x1b[31m\n"} | memory


RUNS = {"device": "GPU", "runs": [run("ours", 0.25), run("sdpa", 0.0)]}


class Tables(unittest.TestCase):
    def test_steps(self):
        row = end_to_end.step_times(STEPS).splitlines()[-1]
        self.assertEqual(row, "| 1,024 | does not fit | 20.0 (1.50) | 30.0 |")
        row = end_to_end.step_tokens(STEPS).splitlines()[-1]
        self.assertEqual(row, "| 1,024 | does not fit | 50 | 33 |")
        memory = end_to_end.step_memory(STEPS).splitlines()[-1]
        self.assertEqual(memory, "| 1,024 | does not fit | 3.0 | 3.0 |")

    def test_longest_context(self):
        found = {
            "unfused": {"fits": 0, "fails": 4096},
            "07 + 08": {"fits": 20480, "fails": 24576},
            "09 + 10": {"fits": 1 << 20, "fails": None},
        }
        data = {"device": "GPU", "memory_gib": 138.4, "stride": 4096, "longest": found}
        told, *_, row = end_to_end.longest_context(data).splitlines()
        self.assertIn("fit into 138 GiB, in multiples of 4,096:", told)
        self.assertEqual(row, "| longest context | less than 4,096 | 20,480 | at least 1,048,576 |")

    def test_losses(self):
        ours, sdpa = end_to_end.losses(RUNS).splitlines()[-2:]
        self.assertIn("| `ours` | 1.7550 | +0.2500 | 0.2500 | 500 | 2.00 |", ours)
        self.assertIn("| `sdpa` | 1.5050 | - | - |", sdpa)
        with self.assertRaises(NoSuchMeasurement):
            end_to_end.losses(RUNS | {"runs": RUNS["runs"][:1]})

    def test_writing(self):
        rates = {"no_cache": 901.4, "cache": 1234}
        one = RUNS["runs"][0] | {"written_per_second": rates | {"graph": 3210}}
        other = RUNS["runs"][1] | {"written_per_second": rates}
        ours, sdpa = end_to_end.writing(RUNS | {"runs": [one, other]}).splitlines()[-2:]
        self.assertEqual(ours, "| `ours` | 901 | 1,234 | 3,210 |")
        self.assertEqual(sdpa, "| `sdpa` | 901 | 1,234 | - |")
        with self.assertRaises(NoSuchMeasurement):
            end_to_end.writing(RUNS)

    def test_samples(self):
        text = end_to_end.samples(RUNS, "ours")
        self.assertEqual(text, "```text\ndef \ufffd[31m\n```")
        with self.assertRaises(NoSuchMeasurement):
            end_to_end.samples(RUNS, "unfused")

    def test_course(self):
        row = {"attention": "ours", "mean_ms": 3.456, "rel_l2": 2e-3}
        row |= {"rel_l2_gradients": 3e-3}
        data = {"device": "GPU", "heads": 16, "seq": 64, "head_dim": 64, "rep": 1500}
        text = end_to_end.course(data | {"rows": [row], "public_ms": [5.36, 6.78]})
        self.assertIn("forward + backward, mean of 1.5 s |", text)
        self.assertIn("| ours | 3.46 | 2.0e-03 | 3.0e-03 |", text)
        self.assertIn("| the second | 6.78 |", text)

    def test_models(self):
        rows = [
            {"model": "Llama", "case": "prefill", "ms": {"sdpa": 9.0, "fa_tutorial": 8.0}},
            {"model": "attention", "case": "packed", "ms": {"padded": 3.0, "packed": 1.5}},
        ]
        text = end_to_end.models({"device": "GPU", "rows": rows})
        self.assertIn("| Llama | prefill | 9.00 | 8.00 | 1.12 |", text)
        self.assertIn("| attention alone | packed | 3.00 | 1.50 | 2.00 |", text)

    def test_random_calls(self):
        data = {"device": "GPU", "calls": 2000, "wrong": [{}]}
        data |= {"count": {"dtype": {"float32": 1200, "float16": 800}}}
        data |= {"largest": {"o float32": 0.5, "o float16": 0.25}}
        text = end_to_end.random_calls(data)
        self.assertIn("GPU, 2,000 calls, 1 wrong results:", text)
        self.assertIn("| dtype | float16 800, float32 1,200 |", text)
        self.assertIn("| float16 | 0.25 |", text)

    def test_curves(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(end_to_end, "RESULTS", Path(folder)):
            Path(folder, end_to_end.FILE).write_text(json.dumps(RUNS))
            drawing = end_to_end.training_curves()
        # two curves and a difference, of ten points each
        lines = re.findall(r'points="([^"]*)"', drawing)
        self.assertEqual(sum(len(line.split()) == 10 for line in lines), 3)


if __name__ == "__main__":
    unittest.main()
