"""Tests of ./learn notebooks. They run no notebook: python3 test_notebooks.py."""

from __future__ import annotations

import subprocess
import sys
import unittest
from unittest import mock

from tools.learn import console, packages, phases
from tools.learn.commands import notebooks

from . import fakes


class CommandTest(unittest.TestCase):
    """With a separate tree for every test, and a stand-in for the Python that runs notebooks."""

    def setUp(self):
        self.tree = fakes.Tree()
        self.addCleanup(self.tree.close)
        self.tree.add_notebooks(_01_plain=[], _02_counted=["02", "08"], _03_both=["01", "02"])

    def assert_one_line(self, done: subprocess.CompletedProcess, status: int, *words: str):
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def builds(self) -> list[str]:
        return [call for call in self.tree.calls("cmake") if "--build" in call]

    def test_runs_all_after_it_built_what_they_run(self):
        done = self.tree.learn("notebooks")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual(
            self.builds(), ["cmake --build --preset sim --target ch01_safe_softmax ch02_online_softmax"]
        )
        for name in ("01_plain  ", "02_counted", "03_both   "):
            page = f"build/notebooks/{name.strip()}.html"
            self.assertIn(f"   {name}   1.5 s  {page}\n", done.stdout)
        self.assertNotIn("a warning", done.stdout)
        self.assertNotIn(str(self.tree.root), done.stdout)

    def test_those_that_were_named_and_their_programs_only(self):
        done = self.tree.learn("notebooks", "2", "notebooks/02_counted.ipynb")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.builds(), ["cmake --build --preset sim --target ch02_online_softmax"])
        self.assertNotIn("01_plain", done.stdout)
        self.assertEqual(done.stdout.count("1.5 s"), 1)

    def test_without_programs_nothing_is_built_or_installed(self):
        done = self.tree.learn("notebooks", "01", FAKE_MISSING="g++")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.tree.calls("cmake") + self.tree.calls("apt-get"), [])

    def test_a_failing_cell_is_one_line_and_the_others_run(self):
        done = self.tree.learn("notebooks", FAKE_FAILS_AT="02")
        self.assert_one_line(done, 1, "1 of 3 failed: 02_counted")
        line = r"   02_counted   1.5 s  failed  cell 2 \(two\): AssertionError: assert x == 4\n"
        self.assertRegex(done.stdout, line)
        self.assertIn("build/notebooks/03_both.html", done.stdout)

    def test_a_run_that_dies_says_its_last_words(self):
        done = self.tree.learn("notebooks", FAKE_DIES_AT="02")
        self.assert_one_line(done, 1, "ended with status 1")
        self.assertIn("the kernel could not be started", done.stdout)

    def test_unknown_ones(self):
        done = self.tree.learn("notebooks", "7")
        self.assert_one_line(done, 2, "no notebook 7", "01, 02, 03")
        self.assertEqual(self.tree.calls("cmake"), [])

    def test_a_file_that_is_no_notebook(self):
        (self.tree.root / "notebooks/02_counted.ipynb").write_text("{}")
        done = self.tree.learn("notebooks")
        self.assert_one_line(done, 2, "notebooks/02_counted.ipynb is not a notebook")

    def test_the_preset_is_one_of_the_simulator(self):
        done = self.tree.learn("notebooks", "02", FA_PRESET="cuda")
        self.assertIn("--preset sim", done.stdout)
        with mock.patch.dict("os.environ", {"FA_PRESET": "cuda"}):
            self.assertEqual(notebooks.preset_of_simulator(None), "sim")
        with mock.patch.dict("os.environ", {"FA_PRESET": "sim-clang"}):
            self.assertEqual(notebooks.preset_of_simulator(None), "sim-clang")
        with (
            mock.patch.object(notebooks.machine, "choose_preset", return_value=("cuda", "")),
            self.assertRaisesRegex(console.LearnError, "simulator counts"),
        ):
            notebooks.preset_of_simulator("cuda")


class PythonTest(unittest.TestCase):
    """Which Python runs them, and what is installed if none can."""

    def setUp(self):
        self.terminal = mock.Mock(spec=console.Console, live=False, width=100)

    def require(self, *found: str | None, may_install: bool = True, apt: bool = True):
        with (
            mock.patch.object(notebooks, "find_python", side_effect=found),
            mock.patch.object(packages, "can_install", return_value=apt),
            mock.patch.object(packages, "ensure") as ensure,
            mock.patch.object(phases, "execute") as execute,
        ):
            execute.return_value = 0, mock.Mock(output=[])
            python = notebooks.require_python(self.terminal, may_install)
        commands = [call.args[2] for call in execute.call_args_list]
        return python, ensure.call_args_list, commands

    def test_one_that_has_the_packages_is_taken(self):
        self.assertEqual(self.require("python3"), ("python3", [], []))

    def test_the_distributions_packages_come_first(self):
        python, ensured, commands = self.require(None, "/usr/bin/python3")
        wanted = mock.call(self.terminal, packages.NOTEBOOK_PACKAGES)
        self.assertEqual((python, ensured), ("/usr/bin/python3", [wanted]))
        self.assertEqual(commands, [])

    def test_without_apt_or_root_an_environment_is_made(self):
        python, ensured, (make, install) = self.require(None, "its/python", apt=False)
        self.assertEqual((python, ensured), ("its/python", []))
        self.assertEqual(make[1:], ["-m", "venv", str(notebooks.ENVIRONMENT)])
        self.assertEqual(install[-2:], ["-r", str(notebooks.REQUIREMENTS)])

    def test_nothing_is_installed_against_ones_will(self):
        with self.assertRaisesRegex(console.LearnError, "requirements.txt"):
            self.require(None, may_install=False)

    def test_packages_that_nobody_finds(self):
        with self.assertRaisesRegex(console.LearnError, "no Python finds them"):
            self.require(None, None)

    def test_a_python_without_the_packages_is_none(self):
        self.assertFalse(notebooks.has_packages("/nowhere/python"))
        missing = packages.Package("x", "y", module="there_is_no_such_module")
        with mock.patch.object(packages, "NOTEBOOK_PACKAGES", (missing,)):
            self.assertFalse(notebooks.has_packages(sys.executable))


if __name__ == "__main__":
    unittest.main()
