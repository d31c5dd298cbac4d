"""Tests of ./learn train and ./learn test --pytorch, without PyTorch: python3 -m
tests.learn.test_pytorch_commands.
"""

from __future__ import annotations

import io
import json
import sys
import unittest
from unittest import mock

from tools.learn import environments, packages, phases, pytorch
from tools.learn.commands import test, train
from tools.learn.console import Console, LearnError

from . import fakes


class CommandsTest(unittest.TestCase):
    def setUp(self):
        self.tree = fakes.Tree()
        self.addCleanup(self.tree.close)

    def assert_one_line(self, status: int, words: str, *command: str):
        done = self.tree.learn(*command)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertRegex(done.stderr, f"^learn: [^\n]*{words}[^\n]*\n$")
        self.assertEqual(self.tree.calls("cmake"), [])

    def test_bad_arguments(self):
        self.assert_one_line(2, "--steps 0: must be 1 or more", "train", "--steps", "0")
        self.assert_one_line(2, "--preset simm", "train", "--preset", "simm")
        runs = ("train", "--preset", "sim", "--runs", "ours,efficient-again")
        self.assert_one_line(2, "--runs efficient: is for GPUs", *runs)
        self.assert_one_line(2, "name none", "test", "01", "--pytorch")
        words = "--preset sim-asan: --pytorch needs sim or cuda"
        self.assert_one_line(2, words, "test", "--pytorch", "--preset", "sim-asan")
        words = "--preset cuda: nvidia-smi finds no GPU"
        self.assert_one_line(3, words, "test", "--pytorch", "--preset", "cuda")

    def test_a_test_run_mentions_the_other_tests(self):
        done = self.tree.learn("test")
        self.assertIn("./learn test --pytorch\n", done.stdout)
        self.assertNotIn("--pytorch", self.tree.learn("test", "01").stdout)


class PythonTest(unittest.TestCase):
    """Which Python runs PyTorch, and what is installed if none can."""

    def setUp(self):
        self.console = mock.Mock(spec=Console, live=False, width=100)

    def require(self, *found: str | None, may_install: bool = True, status: int = 0):
        with (
            mock.patch.object(pytorch, "find_python", side_effect=found),
            mock.patch.object(packages, "ensure"),
            mock.patch.object(phases, "execute") as execute,
        ):
            execute.return_value = status, mock.Mock(output=["no space left"])
            python = pytorch.require_python(self.console, may_install)
        return python, [call.args[2] for call in execute.call_args_list]

    def test_one_that_has_pytorch_is_taken(self):
        self.assertEqual(self.require("python3"), ("python3", []))

    def test_an_environment_is_made(self):
        python, (make, install) = self.require(None, "its/python")
        self.assertEqual(python, "its/python")
        self.assertEqual(make[1:], ["-m", "venv", str(pytorch.ENVIRONMENT)])
        self.assertEqual(install[-1], f"{pytorch.FOLDER}[pictures,models]")

    def test_failures_are_one_line(self):
        for words, *found, options in (
            ("no Python here has PyTorch 2.6", None, {"may_install": False}),
            ("could not be installed", None, {"status": 1}),
            ("no Python finds it", None, None, {}),
        ):
            with self.assertRaisesRegex(LearnError, words) as raised:
                self.require(*found, **options)
            self.assertEqual(raised.exception.status, 3)

    def test_versions(self):
        code = "import importlib.metadata as m; m.version = lambda name: {!r}\n"
        for version, wanted in (("2.15.0+cu132", True), ("2.5.1", False)):
            found = environments.accepts(sys.executable, code.format(version) + pytorch.FIND, pytorch.OLDEST)
            self.assertEqual(found, wanted)
        self.assertFalse(environments.accepts("/nowhere/python", pytorch.FIND, "2.6"))


class OutputTest(unittest.TestCase):
    def setUp(self):
        self.stream = io.StringIO()
        self.phase = phases.Phase(Console(self.stream))

    def test_of_unittest(self):
        reader = test.UnittestReader()
        for line in (
            "test_a (tests.x.A.test_a) ... ok",
            "test_b (tests.x.A.test_b)",
            "What it is about. ... ok",
            "test_c (tests.x.A.test_c) ... FAIL",
            "FAIL: test_c (tests.x.A.test_c)",
        ):
            reader(self.phase, line)
        self.assertEqual(reader.passed, 2)
        self.assertEqual(reader.failed, ["test_c (tests.x.A.test_c)"])

    def test_of_a_training(self):
        reader = train.Reader()
        place = {"of": 4, "runs": 2}
        one = {"run": "ours", "losses": [5.0, 4.5], "sample": "def \x1b[31m"}
        one["written_per_second"] = {"no_cache": 900.4, "cache": 1100, "graph": 3200}
        other = {"run": "sdpa", "losses": [5.0, 4.25], "sample": "x"}
        for event in (
            {"run": "ours", "number": 0, "step": 2} | place,
            {"run": "ours", "number": 0, "step": 3, "loss": 5.0} | place,
            {"run": "sdpa", "number": 1, "step": 0} | place,
            {"run": "sdpa", "number": 1, "step": 1, "loss": 4.0} | place,
            {"drawn": "losses: losses.png", "results": [one, other]},
        ):
            reader(self.phase, json.dumps(event))
        reader(self.phase, "a warning")
        reader(self.phase, "[1]")
        self.assertEqual(reader.said, ["a warning", "[1]"])
        train.show(self.phase.console, reader.results)
        text = self.stream.getvalue()
        for words in (
            "ours goes on after step 2\n",
            "[3/8] 37 %",
            "sdpa begins\n",
            "[5/8] 62 %",
            "ours        loss 5.000 -> 4.500   at most 2.5e-01 from sdpa's\n",
            "ours        writes, in tokens/s: 900 without a cache, 1,100 with a cache, 3,200 with a cache in",
            "ours writes:\ndef \ufffd[31m\n",
        ):
            self.assertIn(words, text)


if __name__ == "__main__":
    unittest.main()
