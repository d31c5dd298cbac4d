"""Tests of ./learn debug, with a stand-in for gdb: python3 test_debug_command.py."""

from __future__ import annotations

import subprocess
import unittest

from . import fakes

GDB = """#!/bin/sh
for word in "$@"; do echo "[$word]"; done
exit 7
"""


class DebugTest(unittest.TestCase):
    """With a separate tree for every test."""

    def setUp(self):
        self.tree = fakes.Tree()
        self.addCleanup(self.tree.close)
        self.gdb = self.tree.root / "bin" / "gdb"
        self.gdb.write_text(GDB)
        self.gdb.chmod(0o755)

    def learn(self, *words: str, **variables: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            self.tree.command("debug", *words),
            env=self.tree.environment(**variables),
            cwd=self.tree.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def words(self, done: subprocess.CompletedProcess) -> list[str]:
        """The arguments of gdb, whose exit status is passed on."""
        self.assertEqual((done.returncode, done.stderr), (7, ""), done.stdout)
        return [line[1:-1] for line in done.stdout.splitlines() if line[0] == "["]

    def assert_one_line(self, done: subprocess.CompletedProcess, status: int, text: str):
        self.assertEqual((done.returncode, done.stderr), (status, f"learn: {text}\n"))

    def test_it_builds_the_program_with_local_variables_and_runs_it_in_gdb(self):
        done = self.learn("1", "--variant", "unsafe", "--rows", "5")
        self.assertEqual(
            self.words(done),
            ["-q", "-x", "common/gpusim/gdb.py", "-ex", "run", "--args"]
            + ["build/sim/bin/ch01_safe_softmax_debug"]
            + ["--variant", "unsafe", "--rows", "5"],
        )
        built = self.tree.calls("cmake")[-1]
        self.assertIn("--preset sim --target ch01_safe_softmax_debug", built)

    def test_the_command_is_shown_as_a_shell_reads_it(self):
        place = "kernel.cuh:48 if threadIdx.x == 5"
        done = self.learn("1", "--break", "kernel.cuh:3", "--rows", "5", "--break", place)
        stops = ["-ex", "break kernel.cuh:3", "-ex", f"break {place}", "-ex", "run"]
        self.assertEqual(self.words(done)[3:9], stops)
        self.assertIn(
            "\ngdb -q -x common/gpusim/gdb.py -ex 'break kernel.cuh:3' "
            f"-ex 'break {place}' -ex run --args build/sim/bin/ch01_safe_softmax_debug --rows 5\n",
            done.stdout,
        )

    def test_a_missing_gdb_is_installed_or_named(self):
        self.gdb.unlink()
        why = "gdb is not in PATH: ./learn debug needs it"
        self.assert_one_line(self.learn("1", "--no-install"), 3, why)
        done = self.learn("1", FAKE_MISSING="gdb")
        self.assertEqual(self.tree.calls("apt-get")[-1].split()[-1], "gdb")
        self.assertIn("   gdb                   debugger\n", done.stdout)
        self.assert_one_line(done, 3, why)  # the stand-in installs nothing

    def test_the_learners_own_kernels(self):
        for words in (["--exercise"], ["--answer", "2"]):
            done = self.learn("1", "--rows", "5", *words)
            self.assert_one_line(done, 2, "chapter 01 has no exercises yet")

    def test_what_makes_no_sense(self):
        self.assert_one_line(
            self.learn("1", "--break"),
            2,
            "argument --break: expected one argument (see ./learn debug --help)",
        )
        self.assert_one_line(self.learn("77"), 2, "there is no chapter 77: the chapters are 01, 02")


if __name__ == "__main__":
    unittest.main()
