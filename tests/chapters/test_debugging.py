"""gdb shows a kernel on the simulator as docs/pages/debugging.md says: test_debugging.py BUILD_DIR

The kernel is chapter 01's, with defects planted in some of its blocks, and one of chapter 09's.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from tools.learn import exercises, project, regions, trials
from tools.learn.commands import debug

BUILD = Path()
VARIANT = "row_per_block"
BEFORE = "  y += size_t(blockIdx.x) * cols;\n"
PLANTED = """\
  const int block = blockIdx.x, planted = 100 * block + thread;
  if (block == 0 && thread == 64) y[64] = sPartial[2];  // unwritten
  if (block == 1 && thread == 40) y[planted << 20] = 0.0f;  // outside
  if (block == 2 && thread < 96) __syncthreads();  // divergent
  if (block == 4 && thread == 3) *reinterpret_cast<double*>(y + 1) = planted;  // misaligned
  if (block == 5 && thread == 9) y[9 - 2 * cols] = 0.0f;  // row of block 3
"""
OPTIONS = f"--variant {VARIANT} --rows 6 --cols 1000"


@functools.cache
def cannot_debug() -> str | None:
    """The reason why no program can be started in gdb here."""
    if not shutil.which("gdb"):
        return "gdb is not installed"
    done = subprocess.run(
        ["gdb", "-q", "-batch", "-ex", "run", "--args", "true"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if "exited normally" in done.stdout:
        return None
    return f"gdb cannot start a program here: {done.stderr.strip()}"


class Debugging(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.chapter = project.select(["01"])[0]
        text = (cls.chapter.path / "kernel.cuh").read_text(encoding="utf-8")
        assert text.count(BEFORE) == 1
        cls.text = text.replace(BEFORE, BEFORE + PLANTED)
        folder = tempfile.TemporaryDirectory(prefix="debugging-")
        cls.addClassCleanup(folder.cleanup)
        bench = trials.Workbench(BUILD, cls.chapter, debug=True)
        cls.program = bench.program({"kernel.cuh": cls.text}, Path(folder.name), ["--rows 1"], VARIANT)

    def line(self, text: str) -> int:
        """The number of the last line of the kernels that contains the text."""
        numbers = [n for n, s in enumerate(self.text.splitlines(), 1) if text in s]
        return numbers[-1]

    def gdb(self, options: str, *commands: str, program: Path | None = None, **variables: str) -> list[str]:
        """What gdb prints for each of the commands, the first of which is the start."""
        reason = cannot_debug()
        if reason:
            self.skipTest(reason)
        words = debug.command_of(program or self.program, [], options.split())
        assert words[0] == "gdb"
        at = words.index("--args")
        extra = [word for c in commands for word in ("-ex", "echo @@@\\n", "-ex", c)]
        done = subprocess.run(
            ["gdb", "-batch", *words[1:at], *extra, *words[at:]],
            env=os.environ | {"GPUSIM_SKIP_BARRIER": ""} | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )
        return done.stdout.split("@@@\n")

    def assert_stop(self, said: str, thread: str, block: str, line: int, report: str):
        """gdb has stopped at a defect: the report, the thread, the kernel's frame."""
        self.assertIn(report, said)
        self.assertIn(f"[thread ({thread}) of block ({block})]", said)
        kernel = r"fa::ch01::row_per_block_softmax\[abi:kernel\]\(.*\) "
        frame = rf"{kernel}\(.*\n?.*kernel\.cuh:{line}\n{line}\t"
        self.assertRegex(said, frame)

    def test_it_stops_at_each_defect_in_the_kernels_frame(self):
        show = "print planted"
        said = self.gdb(OPTIONS, show, *(["continue", show] * 4), "continue")
        stops = [
            ("64,0,0", "0,0,0", "// unwritten", "Uninitialized __shared__ memory read"),
            ("40,0,0", "1,0,0", "// outside", "Invalid __global__ write of size 4"),
            ("0,0,0", "2,0,0", "// divergent", "Barrier error detected."),
            ("3,0,0", "4,0,0", "// misaligned", "Misaligned __global__ write of size 8"),
            ("9,0,0", "5,0,0", "// row of block 3", "Race reported between"),
        ]
        for at, (thread, block, place, report) in enumerate(stops):
            with self.subTest(place):
                line = self.line(place)
                self.assert_stop(said[2 * at], thread, block, line, report)
                value = 100 * int(block[0]) + int(thread.split(",")[0])
                self.assertIn(f"= {value}\n", said[2 * at + 1])
        self.assertIn(" DEFECTS\n", said[-1])
        self.assertNotIn("./learn debug", said[-1])  # this is it

    def test_a_race_is_shown_at_the_second_access(self):
        barrier = self.line("__syncthreads();  // every warp has written its sum")
        read = self.line("l += sPartial[other]")
        said = self.gdb(
            f"--variant {VARIANT} --rows 1 --cols 1000",
            "continue",
            "print other",
            "print thread",
            "print sPartial",
            "print threadIdx",
            GPUSIM_SKIP_BARRIER=f"kernel.cuh:{barrier}",
        )
        report = (
            f"Race reported between Write access by thread (0,0,0) at kernel.cuh:{barrier - 1} "
            f"and Read access by thread (1,0,0) at kernel.cuh:{read}"
        )
        self.assert_stop(said[1], "1,0,0", "0,0,0", read, report)
        self.assertIn("= 0\n", said[2])
        self.assertIn("= 1\n", said[3])
        self.assertRegex(said[4], r"= \{[\d.]+, [\d.]+, [\d.]+, [\d.]+\}")
        self.assertIn("= {x = 1, y = 0, z = 0}", said[5])

    def test_an_answer_is_shown_in_the_learners_file_and_of_others_only_the_task(self):
        exercise = exercises.Exercise(self.chapter)
        solution = exercise.region(4).solution
        missing = "  __syncthreads();  // every warp has written its maximum"
        answer = tuple(line for line in solution if line != missing)
        self.assertEqual(len(answer), len(solution) - 1)
        copy = exercise.copy_with({4: answer})  # the other exercises are blank
        marks = exercise.regions
        alone = regions.alone(copy, marks, "", 4)
        with tempfile.TemporaryDirectory(prefix="debugging-") as name:
            own, built = Path(name) / "own", Path(name) / "built"
            for folder in (own, built):
                folder.mkdir()
            (own / "kernel.cuh").write_text(copy["kernel.cuh"], encoding="utf-8")
            texts = regions.for_debugger(alone, own)
            bench = trials.Workbench(BUILD, self.chapter, debug=True)
            program = bench.program(texts, built, ["--rows 1"], VARIANT)
            said = self.gdb(OPTIONS, "break warp_sum", "info breakpoints", program=program)
        lines = copy["kernel.cuh"].splitlines()
        read = 1 + next(n for n, line in enumerate(lines) if "sPartial[other])" in line)
        self.assertIn(f"{own}/kernel.cuh:{read}\n{read}\t", said[0])
        task = 1 + next(n for n, line in enumerate(lines) if "// EXERCISE 2:" in line)
        self.assertIn(f"{own}/kernel.cuh:{task}\n", said[2])

    def test_a_breakpoint_on_one_thread_and_next_stays_in_it(self):
        line = self.line("if (first_lane) sPartial[warp] = l;")
        said = self.gdb(
            OPTIONS,
            "delete",
            f"break kernel.cuh:{line} if threadIdx.x == 5 && blockIdx.x == 3",
            "continue",
            "info locals",
            "next",
            "next",
            "next",
            "print thread",
            "print blockIdx.x",
        )
        self.assertIn(f"kernel.cuh:{line}\n{line}\t", said[3])
        self.assertIn("[thread (5,0,0) of block (3,0,0)]", said[3])
        self.assertNotIn("optimized out", said[3] + said[4])
        self.assertIn("\nthread = 5\n", said[4])
        self.assertRegex(said[4], r"\nm = \d\.\d+\nl = \d+\.\d+\n")
        self.assertIn(f"{line + 1}\t  __syncthreads();", said[5])
        self.assertRegex(said[6], rf"(?m)^{line + 2}\t  l = 0.0f;")
        self.assertRegex(said[7], rf"(?m)^{line + 3}\t  for \(int other = 0")
        self.assertIn("= 5\n", said[8])
        self.assertIn("= 3\n", said[9])

    def test_a_backtrace_is_that_of_the_kernel(self):
        line = self.line("value += __shfl_xor_sync")
        said = self.gdb(OPTIONS, "delete", f"break kernel.cuh:{line}", "continue", "bt", "bt -no-filters")
        own = [text for text in said[4].splitlines() if text.startswith("#")]
        self.assertEqual(len(own), 2, said[4])
        self.assertRegex(own[0], r"^#0 .*fa::ch01::warp_sum \(value=[\d.]+\)")
        self.assertRegex(own[1], r"^#1 .*fa::ch01::row_per_block_softmax \(x=0x")
        hidden = re.search(r"\n\((\d+) frames of the simulator and of libraries", said[4])
        every = [text for text in said[5].splitlines() if text.startswith("#")]
        self.assertEqual(len(own) + int(hidden[1]), len(every))
        self.assertIn("gpusim::BlockRunner::", "".join(every))

    def run_program(self, options: str, **variables: str) -> str:
        done = subprocess.run(
            [self.program, *shlex.split(options)],
            env=os.environ | {"GPUSIM_SKIP_BARRIER": ""} | variables,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stdout

    def test_the_report_ends_with_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            options = f"{OPTIONS} --json '{folder}/a result.json' --out={folder}"
            out = self.run_program(options)
        self.assertEqual(out.count("gdb: "), 1)
        self.assertEqual(out.splitlines()[-1], f"gdb: ./learn debug 01 {OPTIONS}")

    def test_the_command_has_the_settings_and_is_not_repeated_in_gdb(self):
        skip = {"GPUSIM_SKIP_BARRIER": "kernel.cuh:180", "GPUSIM_DEVICE": "t4"}
        out = self.run_program(OPTIONS, **skip)
        settings = "GPUSIM_SKIP_BARRIER=kernel.cuh:180 GPUSIM_DEVICE=t4"
        last = f"gdb: {settings} ./learn debug 01 {OPTIONS}"
        self.assertEqual(out.splitlines()[-1], last)
        self.assertNotIn("gdb: ", self.run_program(OPTIONS, GPUSIM_DEBUG="1"))

    def test_the_same_defects_are_reported_in_a_debugger(self):
        def kinds(out: str) -> list[str]:
            return sorted(re.findall(rf"^{VARIANT}: (\w+)$", out, flags=re.MULTILINE))

        usual = kinds(self.run_program(OPTIONS))
        self.assertEqual(len(usual), 5)
        self.assertEqual(usual, kinds(self.run_program(OPTIONS, GPUSIM_DEBUG="1")))

    def test_the_page_quotes_the_kernel(self):
        page = (project.ROOT / "docs/pages/debugging.md").read_text(encoding="utf-8")
        lines = (self.chapter.path / "kernel.cuh").read_text(encoding="utf-8").splitlines()
        quoted = re.findall(r"(?m)^(\d{3})     (  .*)$", page)
        self.assertGreater(len(quoted), 5)
        for number, text in quoted:
            self.assertEqual(text, lines[int(number) - 1], number)

    def test_only_programs_for_debuggers_have_local_variables(self):
        def levels(target: str) -> tuple[str, str]:
            commands = trials.ninja_commands(BUILD, target)
            compile_ = next(c for c in commands if c.endswith("/chapter.cu"))
            return tuple(re.findall(rf" {option}", compile_)[-1] for option in ("-g\\d", "-O."))

        name = self.chapter.executable
        self.assertEqual(levels(name), (" -g1", " -Og"))
        self.assertEqual(levels(f"{name}_debug"), (" -g2", " -O0"))
        self.assertNotIn("_debug_kernels", "".join(trials.ninja_commands(BUILD, "all")))


class Hopper(unittest.TestCase):
    """A chapter with long functions, all of which are inlined."""

    def test_local_variables_have_values(self):
        if reason := cannot_debug():
            self.skipTest(reason)
        chapter = project.select(["09"])[0]
        text = (chapter.path / "consumer.cuh").read_text(encoding="utf-8")
        lines = text.splitlines()
        line = 1 + next(i for i, words in enumerate(lines) if words.startswith("      for (int panel = 0;"))
        options = "--variant wgmma --dtype bf16 --heads 1 --seq-q 50 --seq-k 45 --head-dim 128"
        with tempfile.TemporaryDirectory(prefix="debugging-") as folder:
            bench = trials.Workbench(BUILD, chapter, debug=True)
            program = bench.program({}, Path(folder), [options], "wgmma")
            words = debug.command_of(program, [f"consumer.cuh:{line + 1}"], f"{options} --no-check".split())
            at = words.index("--args")
            show = [
                word
                for command in ("info locals", "info args", "continue", "print lane", "bt")
                for word in ("-ex", "echo @@@\\n", "-ex", command)
            ]
            done = subprocess.run(
                ["gdb", "-batch", *words[1:at], *show, *words[at:]],
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
        _, its_locals, its_args, _, lane, trace = done.stdout.split("@@@\n")
        self.assertRegex(its_locals, r"panel = 0\nlane = 0\nfirst_query = 16\nsO = 0x")
        self.assertIn("tile = {head = 0, first_query = 0}", its_args)
        self.assertNotIn("optimized out", its_locals)
        self.assertIn("= 0\n", lane)  # also in the second round of the loop
        own = [text for text in trace.splitlines() if text.startswith("#")]
        self.assertEqual(len(own), 3, trace)  # one store() calls the other
        self.assertIn("fa::ch09::Consumer::store (pairs=", own[0])
        self.assertIn("fa::ch09::Consumer::store (tile=", own[1])
        self.assertIn("fa::ch09::wgmma_attention (a=", own[2])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    BUILD = Path(sys.argv.pop(1)).resolve()
    unittest.main(argv=sys.argv)
