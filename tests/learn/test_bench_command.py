"""Tests of ./learn bench, as far as possible without a GPU: python3 test_bench_command.py."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tools.bench import bench as bench_program
from tools.bench import plans, summary
from tools.learn.commands import bench
from tools.learn.console import LearnError

from . import fakes


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.tree = fakes.Tree()
        self.addCleanup(self.tree.close)

    def assert_one_line(self, done, status: int, word: str):
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(word, done.stderr)

    def test_without_a_gpu_nothing_is_built(self):
        self.assert_one_line(self.tree.learn("bench"), 3, "no GPU")
        self.assertEqual(self.tree.calls("cmake"), [])

    def test_bad_arguments(self):
        self.assert_one_line(self.tree.learn("bench", "99"), 2, "no chapter 99")
        self.assert_one_line(
            self.tree.learn("bench", "--repeat", "0"), 2, "must be 1 or more"
        )
        self.assert_one_line(
            self.tree.learn("bench", "--json", "/nowhere/x.json"), 2, "--json"
        )

    def test_peers_need_pytorch(self):
        with (
            mock.patch.object(sys, "executable", "/bin/false"),
            mock.patch.object(bench.shutil, "which", return_value="/bin/false"),
            mock.patch.object(bench.subprocess, "run") as run,
        ):
            run.return_value.returncode = 1
            with self.assertRaisesRegex(LearnError, "needs PyTorch"):
                bench.python_with_torch()

    def test_file_named_after_the_gpu(self):
        self.assertEqual(bench.short_name("NVIDIA H100 80GB HBM3, 81559 MiB"), "h100")
        self.assertEqual(bench.short_name("Card"), "gpu")


class TimingTest(unittest.TestCase):
    """Chapters' programs, as shell scripts."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = Path(folder.name)
        (self.build / "bin").mkdir()

    def time(self, refusal: str) -> tuple[list[dict], str]:
        result = {
            "name": "small",
            "time_ms": {"median": 2.0, "min": 1.5, "max": 2.5, "repeats": 3},
            "check": {"passed": True, "tensors": {"o": {"rel_l2": 1e-7}}},
        }
        program = self.build / "bin" / "ch04_x"
        program.write_text(
            "#!/bin/sh\n"
            f'case "$*" in *"--variant large"*) echo "{refusal}" >&2; exit 2;; esac\n'
            f"echo '{json.dumps({'variants': [result]})}'\n"
        )
        program.chmod(0o755)
        point = plans.Point("fp32", 1, 2, 128, 256, False)
        plan = plans.Plan([point], [("04_x", ["large", "small"])], [])
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            rows = bench_program.time_alone(plan, self.build, 3)
        return rows, said.getvalue()

    def test_what_the_device_cannot_run_is_skipped_and_named(self):
        why = "a block needs 84480 bytes of shared memory, this device has 65536"
        rows, said = self.time(f"error: --variant large cannot run this: {why}")
        self.assertEqual([row["variant"] for row in rows], ["small"])
        self.assertIn(f"  skipped: large cannot run this: {why}\n", said)

    def test_any_other_failure_stops(self):
        with self.assertRaisesRegex(bench_program.Stop, "no device"):
            self.time("error: no device")

    def test_modules_that_are_imported_late_exist(self):
        source = Path(bench_program.__file__).read_text()
        late = re.findall(r"^ +(?:from (\S+) )?import (\w+)$", source, re.MULTILINE)
        self.assertEqual(set(late), {(".", "attention")})
        self.assertTrue(Path(bench_program.__file__).with_name("attention.py").exists())


class GridTest(unittest.TestCase):
    def test_flops_of_a_point(self):
        full = plans.Point("bf16", 2, 3, 10, 64, False)
        self.assertEqual(full.flops, 4 * 2 * 3 * 100 * 64)
        causal = plans.Point("bf16", 2, 3, 10, 64, True, backward=True)
        self.assertEqual(causal.flops, 1.25 * full.flops)

    def test_the_papers_grid_has_as_many_tokens_everywhere(self):
        for point in plans.constant_tokens(128, plans.LENGTHS):
            self.assertEqual((point.batch * point.seq, point.heads), (16384, 16))

    def test_only_the_same_problem_is_compared(self):
        ours = {"chapter": "08_x", "variant": "v", "rows": 1, "cols": 2}
        peer = {"chapter": None, "variant": "p", "rows": 1, "cols": 3}
        rows = [ours | {"median_ms": 1.0}, peer | {"median_ms": 1.0}]
        self.assertEqual(list(summary.compare(rows)), [])
        rows.append(peer | {"cols": 2, "median_ms": 3.0})
        (found,) = summary.compare(rows)
        self.assertAlmostEqual(found["mean"], 3.0)
        self.assertEqual(found["where"], "1 x 2")


if __name__ == "__main__":
    unittest.main()
