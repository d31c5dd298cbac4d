"""The report of what kernels have done does not depend on the way in which the program ends.

endings_test.py PROGRAM
"""

import subprocess
import sys
import unittest

DEFECT = "Invalid __global__ read of size 4 bytes at endings.cu:"


class Endings(unittest.TestCase):
    program: str

    def run_program(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [self.program, *arguments], capture_output=True, text=True, check=False, timeout=60
        )

    def test_the_report_is_made_once(self) -> None:
        for how in ("return", "exit", "abort", "assert", "segv", "thread", "throw", "quick", "_exit"):
            with self.subTest(how):
                done = self.run_program(how)
                self.assertEqual(done.stderr.count(DEFECT), 1, done.stderr)
                self.assertEqual(done.stderr.count("ERROR SUMMARY: 1 defect, 1 hazard"), 1, done.stderr)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(done.stdout.count("the results are wrong"), 1, done.stdout)

    def test_the_signal_is_named(self) -> None:
        self.assertIn("The program was ended by a signal: Aborted", self.run_program("abort").stderr)
        self.assertIn("Assertion `is_right' failed", self.run_program("assert").stderr)

    def test_a_heap_in_ruins(self) -> None:
        done = self.run_program("heap")
        self.assertNotEqual(done.returncode, 0)

    def test_without_a_defect_nothing_changes(self) -> None:
        for how, status in (
            ("return", 0),
            ("exit", 7),
            ("quick", 7),
            ("_exit", 7),
            ("abort", -6),
            ("segv", -11),
        ):
            with self.subTest(how):
                done = self.run_program(how, "right")
                self.assertEqual((done.returncode, done.stderr), (status, ""))


if __name__ == "__main__":
    Endings.program = sys.argv[1]
    unittest.main(argv=[__file__])
