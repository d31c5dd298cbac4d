"""The example of common/gpusim builds on its own, counts what it should, and has its defect found.

example_test.py [--cmake CMAKE] [--generator NAME] [--compiler CXX]

The output of the programs is also compared with common/gpusim/README.md, which quotes it.
"""

import argparse
import os
import re
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "common" / "gpusim" / "example"
SECONDS = 10.0  # for one program on a busy machine; on an idle one, it takes a few hundredths of a second

SUMS = "sums: 128 128 128 128 128 128 128 104\n"
# 1000 floats are 31 warps and 8 lanes of another; 8 blocks of 4 warps.
COUNTERS = """\
sums  read     0 bytes    0 sectors   0 requests
sums  write   32 bytes    8 sectors   8 requests
x     read  4000 bytes  125 sectors  32 requests
x     write    0 bytes    0 sectors   0 requests
shared: 16 bytes per block; wavefronts (ideal): load 32 (32), store 32 (32)
32 barriers, 160 shuffles
"""


def line_of(text: str) -> int:
    """The number of the only line of the example that contains the text."""
    lines = (EXAMPLE / "block_sums.cu").read_text(encoding="utf-8").splitlines()
    (number,) = (n for n, line in enumerate(lines, 1) if text in line)
    return number


def barrier() -> str:
    return f"block_sums.cu:{line_of('__syncthreads();')}"


class Example(unittest.TestCase):
    options: argparse.Namespace

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="gpusim-example-")
        cls.addClassCleanup(folder.cleanup)
        cls.build = Path(folder.name)
        configure = [cls.options.cmake, "-S", str(EXAMPLE), "-B", str(cls.build)]
        configure.append("-DGPUSIM_OPTIONS=-O0")  # its programs are over at once
        if cls.options.generator:
            configure += ["-G", cls.options.generator]
        if cls.options.compiler:
            configure.append(f"-DCMAKE_CXX_COMPILER={cls.options.compiler}")
        for command in (configure, [cls.options.cmake, "--build", str(cls.build), "--parallel", "2"]):
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            if done.returncode != 0:
                raise AssertionError(f"{command}\n{done.stdout}{done.stderr}")
            if "warning:" in done.stdout + done.stderr:
                raise AssertionError(f"{command}\n{done.stdout}{done.stderr}")
        cls.readme = (EXAMPLE.parent / "README.md").read_text(encoding="utf-8")

    def run_program(
        self, name: str, *arguments: str, skip: str = "", debug: str = ""
    ) -> subprocess.CompletedProcess:
        start = time.monotonic()
        done = subprocess.run(
            [str(self.build / name), *arguments],
            env=os.environ | {"GPUSIM_SKIP_BARRIER": skip, "GPUSIM_DEBUG": debug},
            check=False,
            capture_output=True,
            text=True,
        )
        self.assertLess(time.monotonic() - start, SECONDS)
        return done

    def test_right_program_says_nothing(self) -> None:
        done = self.run_program("block_sums")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, SUMS, ""))

    def test_right_program_counts(self) -> None:
        done = self.run_program("block_sums", "--counters")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, SUMS + COUNTERS, ""))
        self.assertIn(SUMS + COUNTERS, self.readme)

    def test_missing_barrier_is_reported_at_exit(self) -> None:
        done = self.run_program("block_sums", skip=barrier())
        self.assertEqual(done.returncode, 1, done.stderr)
        write = line_of("partials[threadIdx.x / 32] = sum;")
        read = line_of("total += partials[warp];")
        self.assertRegex(
            done.stderr,
            r"(?m)^========= Race reported between "
            rf"Write access by thread \S+ at block_sums\.cu:{write} and "
            rf"Read access by thread \S+ at block_sums\.cu:{read}$",
        )
        self.assertRegex(
            done.stderr, r'shared memory, partials\[1\] \(byte 4 of "partials"\) in block \(0,0,0\)'
        )
        self.assertTrue(re.search(r"ERROR SUMMARY: \d+ defects?, ", done.stderr))
        self.assertEqual(
            done.stderr.splitlines()[-1],
            "========= To stop there in gdb: set GPUSIM_DEBUG=1, and break at gpusim_defect",
        )
        quoted = "".join(line.rstrip() + "\n" for line in done.stderr.splitlines())
        self.assertIn(quoted, self.readme)
        self.assertIn(f"GPUSIM_SKIP_BARRIER={barrier()} ", self.readme)

    def test_in_a_debugger_a_defect_is_reported_when_it_happens(self) -> None:
        done = self.run_program("block_sums", skip=barrier(), debug="1")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("Race reported between"), 2)  # now, at exit
        self.assertNotIn("To stop there in gdb", done.stderr)
        self.assertEqual(self.run_program("block_sums", debug="1").stderr, "")

    def test_a_barrier_that_is_not_there_is_no_barrier_that_is_not_needed(self) -> None:
        elsewhere = f"block_sums.cu:{line_of('total += partials[warp];')}"
        done = self.run_program("block_sums", skip=elsewhere)
        why = f"gpusim: GPUSIM_SKIP_BARRIER={elsewhere}: no thread reached a barrier there\n"
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, SUMS, why))

    def test_counters_option_leaves_the_exit_status_to_the_program(self) -> None:
        done = self.run_program("block_sums", "--counters", skip=barrier())
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("ERROR SUMMARY"), 1)

    def test_a_stripped_program_is_refused(self) -> None:
        command = ["strip", "-o", self.build / "stripped", self.build / "block_sums"]
        subprocess.run(command, check=True)
        done = self.run_program("stripped")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        self.assertIn("gpusim: the executable is stripped of the symbols", done.stderr)

    def test_unknown_argument_is_refused(self) -> None:
        done = self.run_program("block_sums", "--count")
        self.assertEqual((done.returncode, done.stderr), (2, "usage: block_sums [--counters]\n"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--generator")
    parser.add_argument("--compiler")
    Example.options = parser.parse_args()
    unittest.main(argv=[__file__])
