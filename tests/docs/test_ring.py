"""The drawings of chapter 13 show what its schedule says.

python3 -m tests.docs.test_ring BUILD_DIR: its bin/ring_schedule prints it.
"""

import contextlib
import io
import itertools
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tools.bench import ring as bench
from tools.docs import fragment_maps, measured, ring

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"


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
            name: ring.slowest(ring.shares(data[name]["pairs"], data["tokens"])) for name in ring.SCHEDULES
        }
        self.assertAlmostEqual(sum(steps["ring"]), ranks - 0.5, places=2)
        self.assertAlmostEqual(sum(steps["zigzag"]), ranks / 2, places=2)
        for pairs in zip(*data["zigzag"]["pairs"], strict=True):
            self.assertEqual(len(set(pairs)), 1, "ranks have different work in a step")


class Streams(unittest.TestCase):
    """The drawing of streams is near what was measured, and no stream does two things at a time."""

    def test_times(self):
        for variant, bars_of in (("zigzag", ring.bars_of_zigzag), ("overlapped", ring.bars_of_overlapped)):
            call, transfer, measured_ms = ring.times_of(variant)
            bars = bars_of(call, transfer)
            self.assertAlmostEqual(max(bar.end for bar in bars) / measured_ms, 1, delta=0.05)
            for stream in {bar.stream for bar in bars}:
                own = sorted((bar.begin, bar.end) for bar in bars if bar.stream == stream)
                for (_, end), (begin, _) in itertools.pairwise(own):
                    self.assertLessEqual(end, begin)


class Home(unittest.TestCase):
    def test_how_a_rank_gets_its_gradients(self):
        data = ring.schedule()
        round_trip, straight = ([tuple(m) for m in data[name]] for name in ("round", "straight"))
        self.assertEqual(ring.way_home(round_trip, 0), [(2, 1, 2, 2), (3, 2, 3, 4), (4, 3, 0, 4)])
        self.assertEqual(ring.way_home(straight, 0), [(0, 3, 0, 2), (1, 2, 0, 2), (2, 1, 0, 2)])


class Tables(unittest.TestCase):
    """Tables from what tools/bench/ring.py writes."""

    def run_of(self, options: str, ideal: float) -> dict:
        def variant(name: str, ms: float) -> dict:
            times = {"ideal_ms": ideal, "own_ms": ideal / 2, "rest_ms": 1.0}
            return {"name": name, "time_ms": {"median": ms}} | times

        variants = [variant("ring", 2 * ideal), variant("zigzag", 1.25 * ideal)]
        variants.append(variant("overlapped", ideal))
        variants[1]["ideal_ms"] = 0.9 * ideal  # each variant has its own
        for each in variants:
            each["links"] = [[{"predicted_bytes": 2_000_000}] * 2] * 2
            each["measured_link_bytes"] = [4_000_000, 4_010_000]
        return {
            "options": options.split(),
            "result": {"device": "GPU", "variants": variants},
            "by_itself": {"ideal_ms": 0.8 * ideal, "ms": ideal},
            "peers": {"ring, flash": {"forward": 4 * ideal, "both": 5 * ideal}},
        }

    def test_times(self):
        runs = [self.run_of("--causal", 3.0), self.run_of("--backward", 8.0)]
        text = measured.ring_times({"gpus": 2, "runs": runs})
        self.assertIn("2 x GPU:", text)
        row = "| `overlapped`, one GPU by itself | 3.00 (0.80) | 8.00 (0.80) |"
        self.assertIn(row, text)
        self.assertIn("| `zigzag` | 3.75 (0.72) | 10.00 (0.72) |", text)
        self.assertIn("| PyTorch, ring, flash | 12.00 (0.25) | 40.00 (0.20) |", text)
        self.assertIn("| causal, forward | full, both passes |", text)

    def test_variants(self):
        """Each beside the one that it changes; both tables of the chapter name all variants."""
        names = [name for name, _, _ in measured.RING_VARIANTS]
        runs = [self.run_of(options, 3.0) for options in ("--causal", "--causal --backward", "")]
        for run in runs:
            variants = run["result"]["variants"]
            for name in ("all_gather", "all_to_all"):
                variants.append({**variants[0], "name": name, "time_ms": {"median": 5.0}})
            self.assertEqual({v["name"] for v in variants}, set(names))
        text = measured.ring_variants({"gpus": 2, "runs": runs})
        self.assertIn("| `zigzag` | `ring` |", text)
        self.assertIn("| 6.00 | 3.75 (0.62) | 6.00 | 3.75 (0.62) |", text)

    def test_waits(self):
        """The last rank of a causal ring has one causal block and R - 1 whole ones: 2 R - 1 causal ones."""
        runs = [self.run_of(options, 3.0) for options in ("--causal", "", "--backward")]
        text = measured.ring_waits({"gpus": 2, "runs": runs})
        for row in (
            "| `ring`, causal | 3 x 1.50 | 1.00 | 4.50 (0.67) | 5.50 (0.55) | 6.00 (0.50) |",
            "| `overlapped`, causal | 2 x 1.50 | 1.00 | 3.00 (1.00) | 4.00 (0.75) | 3.00 (1.00) |",
            "| `ring`, full | 2 x 1.50 | 1.00 | 3.00 (1.00) | 4.00 (0.75) | 6.00 (0.50) |",
        ):
            self.assertIn(row, text)
        self.assertEqual(text.count("`ring`"), 2, "only forward passes")

    def test_links(self):
        runs = [self.run_of("--causal", 3.0)]
        text = measured.ring_links({"gpus": 2, "runs": runs})
        self.assertIn("| `zigzag` | 8.00 / 8.01 |", text)

    def test_changes(self):
        """Medians of rounds; a run that has failed leaves the others."""
        options = ["--causal", "--variant", "overlapped"]

        def changed(ms: float, *words: str) -> dict:
            return {"options": [*options, *words], "variant": {"ideal_ms": 3.0, "time_ms": {"median": ms}}}

        with self.assertRaises(measured.NoSuchMeasurement):
            measured.ring_changes({"gpus": 2, "runs": [self.run_of("--causal", 3.0)]})
        runs = [changed(4.0), changed(9.0), changed(4.0), changed(5.0, "--without", "steps")]
        runs.append({"options": [*options, "--without", "parts"], "error": "it has died"})
        text = measured.ring_changes({"gpus": 2, "device": "GPU", "runs": runs})
        for row in ("| - | 4.00 (0.75) |", "| steps | 5.00 (0.60), +25.0 % |", "| parts | failed |"):
            self.assertIn(row, text)

    def test_million(self):
        variant = {"ideal_ms": 800.0, "time_ms": {"median": 1000.0}, "tflops": 600.4}
        variant |= {"workspace_bytes": 2 * 10**9}
        variant["check"] = {"tensors": {"o": {"rel_l2": 0.0025}}}
        result = {
            "device": "GPU",
            "problem": {"ranks": 4, "seq_q": 1 << 20, "heads": 8},
            "tensors": {"q": {"bytes": 2 * 10**9}, "k": {"bytes": 2 * 10**9}},
            "variants": [variant],
        }
        text = measured.ring_million({"gpus": 4, "million": {"result": result}})
        self.assertIn("| 1,048,576 | 8 | 1000 | 3200 | 0.80 | 600 | 3.0 | 2.5e-03 |", text)


class Bench(unittest.TestCase):
    """tools/bench/ring.py, with a program that is not run."""

    def setUp(self):
        self.runs: list[tuple[int, str]] = []
        self.fails: set[str] = set()  # words of runs that fail

    def fake_run(self, ranks: int, options: list[str], seconds: int = 0) -> dict:
        """10 ms for `ring`, 8 for `overlapped`, 6 for each ideal; 12 for one GPU by itself."""
        chosen = options[options.index("--variant") + 1]
        self.runs.append((ranks, chosen))
        if self.fails & set(options):
            raise bench.Failed("it has died")
        ms = {"ring": 10.0 if ranks > 1 else 12.0, "overlapped": 8.0}
        return {
            "device": "GPU",
            "variants": [
                {"name": name, "ideal_ms": 6.0, "time_ms": {"median": ms[name]}} | {"tflops": 1.0}
                for name in ([*ms] if chosen == "all" else [chosen])
            ],
        }

    def measure(self, words: str, status: int = 0) -> tuple[dict, str]:
        """What the bench writes, and what it prints."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "ring.json"
            with (
                mock.patch.object(bench, "run", self.fake_run),
                mock.patch.object(bench, "PROGRAM", Path(folder)),
                mock.patch("sys.argv", f"ring --gpus 2 --no-check --json {file} {words}".split()),
                contextlib.redirect_stdout(io.StringIO()) as said,
            ):
                self.assertEqual(bench.main(), status)
            return json.loads(file.read_text()), said.getvalue()

    def test_a_run_of_the_sweep_that_fails(self):
        self.fails = {"steps"}
        data, said = self.measure("--no-variants --sweep 2", status=1)
        self.assertEqual(self.runs, 2 * 12 * [(2, "overlapped")])
        self.assertRegex(said, r"round 2 of 2\n.*\n.*\n +forward, steps +failed: it has died\n")
        text = measured.ring_changes(data)
        self.assertIn("2 x GPU:", text)
        for row in ("| - | 8.00 (0.75) | 8.00 (0.75) |", "| steps | failed | failed |"):
            self.assertIn(row, text)

    def test_writes_what_the_tables_read(self):
        data, said = self.measure("--no-peers --sweep")
        once = [(2, "all"), (1, "ring"), (2, "overlapped")]
        self.assertEqual(self.runs, 4 * once + 12 * [(2, "overlapped")])
        text = measured.ring_times(data)
        for row in (
            "| `ring` |" + " 10.00 (0.60) |" * 4,
            "| `overlapped`, one GPU by itself |" + " 8.00 (0.75) |" * 4,
        ):
            self.assertIn(row, text)
        self.assertRegex(said, r"overlapped, one GPU by itself +8\.000 +0\.750")
        for without in bench.CHANGES:
            row = f"| {without} | 8.00 (0.75), +0.0 % | 8.00 (0.75), +0.0 % |"
            self.assertIn(row, measured.ring_changes(data))


class Links(unittest.TestCase):
    def test_nvlink_has_carried_what_the_formula_says(self):
        """To 0.5 %: packets are not always full, and NCCL exchanges a few bytes of its own."""
        compared = 0
        for file in sorted(RESULTS.glob("ring_*.json")):
            for run in json.loads(file.read_text())["runs"]:
                for variant in run.get("result", {}).get("variants", []):
                    for steps, seen in zip(variant["links"], variant["measured_link_bytes"], strict=True):
                        predicted = sum(step["predicted_bytes"] for step in steps)
                        self.assertGreaterEqual(seen, predicted, variant["name"])
                        self.assertLess(seen, 1.005 * predicted, variant["name"])
                        compared += 1
        self.assertGreaterEqual(compared, 120)


if __name__ == "__main__":
    fragment_maps.build = Path(sys.argv.pop(1))
    unittest.main()
