"""./learn start, check, hint, reset and the rest as a learner uses them, in a temporary copy of the tree.

    test_end_to_end.py BUILD_DIR

The copy has the chapters, ./learn and cmake/Chapters.cmake; the libraries of common/ come from BUILD_DIR.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from tools.learn import project, regions, sheet, trials

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 100
CHAPTER = project.select(["01"])[0]
BUILD = Path()  # set by main

CMAKE_LISTS = """\
cmake_minimum_required(VERSION 3.25)
project(end_to_end LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O0 -g1")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(FA_BACKEND sim)
foreach(name fa_warnings fa_main fa_harness fa_harness_softmax fa_baselines gpusim)
  add_library(${name} INTERFACE)
endforeach()
target_include_directories(fa_harness INTERFACE ${PROJECT_SOURCE_DIR}/common)
target_include_directories(gpusim SYSTEM INTERFACE ${PROJECT_SOURCE_DIR}/common/gpusim/shim)
target_link_libraries(fa_harness INTERFACE gpusim)
target_link_libraries(fa_harness_softmax INTERFACE fa_harness)
target_link_libraries(fa_main INTERFACE @LIBRARIES@)
add_custom_target(gpusim_check_kernels)
set_property(GLOBAL PROPERTY GPUSIM_CHECK_KERNELS @CHECK@ --names)
include(common/gpusim/gpusim_kernels.cmake)
include(cmake/PrecompiledHeaders.cmake)
include(cmake/Chapters.cmake)
add_subdirectory(chapters)
"""


def libraries() -> list[str]:
    """The libraries that the chapter's program is linked with, from the real build."""
    link = shlex.split(trials.ninja_commands(BUILD, CHAPTER.executable)[-1])
    paths = [word for word in link if re.search(r"\.(a|so)[.\d]*$", word)]
    return [str(BUILD / path) for path in paths] + ["pthread"]


class Clone:
    """The copy."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="test-exercises-")
        self.root = Path(self._folder.name).resolve()
        ignored = shutil.ignore_patterns("__pycache__")
        for name in ("common", "tools", f"chapters/{CHAPTER.name}", "cmake"):
            shutil.copytree(ROOT / name, self.root / name, ignore=ignored)
        for name in ("learn", "CMakePresets.json", "chapters/CMakeLists.txt"):
            shutil.copy(ROOT / name, self.root / name)
        limit = self.root / "tools/learn/trials.py"  # shorter, because a hang takes all of it
        limit.write_text(re.sub(r"(?m)^TIME_LIMIT = .*", "TIME_LIMIT = 2.0", limit.read_text()))
        text = CMAKE_LISTS.replace("@LIBRARIES@", "\n  ".join(libraries()))
        check = BUILD / "common/gpusim/gpusim_check_kernels"
        text = text.replace("@CHECK@", str(check))
        (self.root / "CMakeLists.txt").write_text(text)
        self.file = self.root / "exercises" / CHAPTER.name / "kernel.cuh"
        self.source = self.root / "chapters" / CHAPTER.name / "kernel.cuh"

    @property
    def regions(self) -> list[regions.Region]:
        return sheet.Sheet(self.source.parent, CHAPTER.name).regions

    def close(self) -> None:
        self._folder.cleanup()

    def learn(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, self.root / "learn", *words],
            env={**os.environ, "FA_PRESET": "sim", "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def check(self) -> subprocess.CompletedProcess:
        return self.learn("check", "01", "--no-install")

    def answer(self, number: int, *lines: str) -> None:
        """Writes lines between the marks of an exercise, or the solution if none are given."""
        region = self.regions[number - 1]
        file = self.file.with_name(region.file)
        text = file.read_text()
        place = regions.places({file.name: text}, [region], "own")[number]
        code = text.splitlines()
        code[place.begin : place.end] = lines or region.solution
        file.write_text("\n".join(code) + "\n")

    def split(self) -> None:
        """Moves the chapter's kernels up to exercise 2 into one.cuh, which kernel.cuh includes."""
        text = self.source.read_text()
        namespace = re.search(r"^namespace .* \{$", text, re.MULTILINE)[0]
        end = text.index("\n}\n", text.index("// END 2")) + len("\n}\n")
        self.source.with_name("one.cuh").write_text(f"{text[:end]}}}\n")
        self.source.write_text(f'#pragma once\n#include "one.cuh"\n{namespace}\n{text[end:]}')
        listed = self.source.with_name(sheet.NAME)
        files = 'files = ["one.cuh", "kernel.cuh"]'
        exercises, *_ = listed.read_text().split("[[bug]]")  # a bug is in the file of the real chapter
        listed.write_text(f"{files}\n{exercises}")


class InAClone(unittest.TestCase):
    """One tree for all tests of a class, which run in the order of their names."""

    @classmethod
    def setUpClass(cls):
        cls.clone = Clone()
        cls.addClassCleanup(cls.clone.close)

    def says(self, done: subprocess.CompletedProcess, status: int, *words: str) -> None:
        everything = done.stdout + done.stderr
        self.assertEqual(done.returncode, status, everything)
        for word in words:
            self.assertIn(word, everything)
        for line in done.stdout.splitlines():
            self.assertLessEqual(len(line), WIDTH, line)


class EndToEndTest(InAClone):
    def test_1_nothing_is_started(self):
        for command in ("check", "hint", "diff", "reset"):
            done = self.clone.learn(command, "01")
            self.says(done, 2, "chapter 01 is not started: ./learn start 01")
            self.assertEqual(done.stderr.count("\n"), 1)
        self.says(self.clone.learn(), 0, "not started", "./learn start 01")

    def test_2_start_writes_blanks_and_overwrites_nothing(self):
        self.says(self.clone.learn("start", "01"), 0, "4 exercises", "./learn check 01")
        blank = self.clone.file.read_text()
        for region in self.clone.regions:
            for line in region.stub:
                self.assertIn(f"{line}\n", blank)
            for hidden in (*region.hints, "\n".join(region.solution)):
                self.assertNotIn(hidden, blank)
        self.says(self.clone.learn("start", "01"), 2, "exists", "./learn reset 01")
        self.says(self.clone.learn(), 0, "started, not checked", "./learn check 01")

    def test_3_blanks_compile_fail_and_name_exercise_1(self):
        done = self.clone.check()
        self.says(done, 1, "exercise 1 is still blank", "./learn hint 01 1")
        self.assertNotIn("warn", done.stdout)
        self.assertNotIn("row_per_thread", done.stdout)  # no finding
        self.says(self.clone.learn(), 0, "exercise 1 is blank")

    def test_4_hints_come_one_at_a_time(self):
        hints = self.clone.regions[0].hints
        for given in range(1, len(hints) + 1):
            text = self.clone.learn("hint", "01").stdout
            shown = [f"hint {n}: " in text for n in range(1, len(hints) + 1)]
            self.assertEqual(sum(shown), given, text)
        self.says(self.clone.learn("hint", "01", "1"), 0, "./learn solution 01 1")
        self.says(self.clone.learn("hint", "01", "9"), 2, "no exercise 9")
        for command in ("hint", "solution"):
            done = self.clone.learn(command, "01", "x")
            self.says(done, 2, "'x' must be the number of an exercise")

    def test_5_mistakes_are_told_apart(self):
        answers = {
            ("  const float m = 1.0f",): ("does not compile", "kernel.cuh:", "error"),
            ("  return; const float m = 0.0f;",): ("were never written",),
            ("  throw 1; const float m = 0.0f;",): (
                "does not compile",
                "a kernel cannot throw or catch exceptions",
            ),
            ("  float m = 0; for (;;) m += 1;",): ("did not end, and was stopped",),
            ('  printf("here\\n"); __builtin_trap();', "  const float m = 0.0f;"): (
                "has executed an invalid instruction",
                " --variant row_per_thread\n   here\n",
            ),
            ("  float m;",): ("y is wrong", "the compiler warns:", "uninitialized"),
        }
        for lines, words in answers.items():
            with self.subTest(lines):
                self.clone.answer(1, *lines)
                self.says(self.clone.check(), 1, *words, "exercise 1 ")

    def test_5_what_kernels_print_is_shown_in_the_order_of_blocks_and_threads(self):
        printing = 'printf("%d.%d\\n", blockIdx.x, threadIdx.x);'
        self.clone.answer(1, f"  {printing}", "  const float m = FLT_MAX;")
        first = "with --rows 5 --cols 32 --seed 2 --variant row_per_thread"
        lines = "".join(f"   0.{thread}\n" for thread in range(5))
        words = f"your kernels printed, {first}\n{lines}\n"
        self.says(self.clone.check(), 1, words, "exercise 1 is wrong")
        options = ["--rows", "300", "--variant", "row_per_thread", "--no-install"]
        done = self.clone.learn("try", "01", *options)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("\nand 100 more lines\n\n01_safe_softmax: Safe", done.stdout)
        lines = [f"{at // 128}.{at % 128}" for at in range(200)]
        said = done.stdout.splitlines()  # first of all, that it builds
        at = next(n for n, line in enumerate(said) if line.startswith("note:"))
        note, *printed = said[at : at + 201]
        self.assertEqual(note, "note:  exercises 2, 3 and 4 are still blank: what needs them is wrong")
        self.assertEqual(printed, lines)
        self.assertIn("row_per_thread: y[0, 0] is", done.stdout)
        self.clone.answer(1, f"  {printing}", *self.clone.regions[0].solution)
        options = ["--rows", "3", "--variant", "row_per_thread"]
        done = self.clone.learn("try", "01", *options, "--json", "-", "--no-install")
        self.assertEqual(json.loads(done.stdout)["problem"]["rows"], 3)
        self.assertIn("\n0.0\n0.1\n0.2\n\n01_", done.stderr)
        self.assertEqual(done.returncode, 0)
        done = self.clone.learn("try", "01", "--rows", "x", "--no-install")
        self.assertEqual(done.stderr, "learn: --rows 'x': must be a whole number\n")
        self.says(done, 2)

    def test_6_the_next_exercise_is_named_and_an_edit_is_noticed(self):
        self.clone.answer(1)
        self.says(self.clone.learn(), 0, "changed since the last check")
        self.clone.answer(2, "  value += __shfl_xor_sync(kAllLanes, value, 16);")
        self.says(self.clone.check(), 1, "1 right so far, 2 wrong", "exercise 2 is wrong")

    def watch(self, checked: subprocess.CompletedProcess) -> str:
        """What the last line of a check, a command, prints. Its page must be there."""
        *_, last = checked.stdout.splitlines()
        self.assertTrue(last.startswith("watch: ./learn watch 01 --answer "), last)
        words = shlex.split(last)[2:]
        done = self.clone.learn(*words, "--no-install", "--no-open")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        page = re.search(r"^page:  (\S+) \(", done.stdout, re.MULTILINE)[1]
        self.assertIn("kernel.cuh", (self.clone.root / page).read_text())
        return done.stdout

    def test_6_watching_the_first_wrong_element(self):
        said = self.watch(self.clone.check())
        self.assertIn("page:  build/watch/01_row_per_warp_answer_2.html (", said)
        self.assertIn("row_per_warp_softmax: block 0,0,0 of ", said)
        self.assertIn("note:  row_per_warp: y is wrong\n", said)
        done = self.clone.learn(
            *("watch", "01", "--exercise", "--rows", "3", "--block", "2,0,0"), *("--no-install", "--no-open")
        )
        said = "page:  build/watch/01_row_per_block_exercise.html ("
        blank = "exercises 3 and 4 are still blank"
        self.says(done, 0, said, blank, "row_per_block_softmax: block 2,0,0 of 3 x 1 x 1")

    def test_6_watching_the_block_with_a_race(self):
        solution = self.clone.regions[3].solution
        barrier = next(at for at, line in enumerate(solution) if "__sync" in line)
        racing = (*solution[:barrier], *solution[barrier + 1 :])
        self.clone.answer(4, *racing)
        said = self.watch(self.clone.learn("check", "01", "4", "--no-install"))
        self.assertIn("page:  build/watch/01_row_per_block_answer_4.html (", said)
        self.assertIn("note:  row_per_block: has a race\n", said)
        self.clone.answer(4, *self.clone.regions[3].stub)

    def test_7_all_right_in_other_words(self):
        for number in (2, 3, 4):
            self.clone.answer(number)
        self.clone.answer(
            1,
            "  float m = -FLT_MAX;",
            "  for (int col = cols - 1; col >= 0; --col) m = x[col] > m ? x[col] : m;",
        )
        done = self.clone.learn("check", "01", "--no-install", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(json.loads(done.stdout)["passed"])
        self.assertIn("Well done: all 4 exercises", done.stderr)
        self.assertRegex(done.stderr, r"row_per_warp .*\d / \d")
        self.says(self.clone.learn(), 0, "passed")
        self.says(self.clone.learn("hint", "01"), 0, "all exercises", "are right")
        chapters = json.loads(self.clone.learn("--json", "-").stdout)["chapters"]
        self.assertEqual(chapters[0]["exercises"]["state"], "passed")

    def test_8_diff_and_solution(self):
        done = self.clone.learn("diff", "01")
        self.says(done, 0, "-  for (int col = cols - 1", "+  for (int col = 0")
        self.assertEqual(done.stdout.count("the same"), 3)
        self.says(self.clone.learn("solution", "01", "2"), 0, "__shfl_xor_sync")

    def test_9_reset_keeps_what_was_written(self):
        own = self.clone.file.read_text()
        self.says(self.clone.learn("reset", "01"), 0, "is kept as", "kernel.cuh.1")
        self.assertEqual(self.clone.file.with_name("kernel.cuh.1").read_text(), own)
        self.assertNotEqual(self.clone.file.read_text(), own)
        self.says(self.clone.learn("start", "01", "--force"), 0, "kernel.cuh.2")

    def test_9_a_mistake_outside_of_the_exercises_and_lost_marks(self):
        for number in (1, 2, 3, 4):
            self.clone.answer(number)
        right = self.clone.file.read_text()
        self.clone.file.write_text(right.replace("fmaxf(value", "fminf(value"))
        self.says(self.clone.check(), 1, "outside the exercises", "fminf")
        self.clone.file.write_text(right.replace("  // END 1\n", "").replace("fmaxf(m", "fminf(m"))
        self.says(self.clone.check(), 1, "out of place")

    def test_9_the_chapters_own_file_is_not_for_editing(self):
        git = ["git", "-C", str(self.clone.root), "-c", "user.name=x", "-c", "user.email=x"]
        for words in (["init", "-q"], ["add", "chapters"], ["commit", "-qm", "x"]):
            subprocess.run([*git, *words], check=True, capture_output=True)
        self.assertNotIn("differs from git", self.clone.learn().stdout)
        with self.clone.source.open("a") as file:
            file.write("// mine\n")
        path = f"chapters/{CHAPTER.name}/kernel.cuh"
        self.says(self.clone.learn(), 0, f"{path} differs from git", "exercises/")


class TwoFilesTest(InAClone):
    """A chapter with exercises 1 and 2 in one.cuh, 3 and 4 in kernel.cuh."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.clone.split()

    def test_1_start_writes_both(self):
        done = self.clone.learn("start", "01")
        self.says(done, 0, "one.cuh: 2 exercises", "kernel.cuh: 2 exercises")
        self.says(self.clone.learn("start", "01"), 2, "one.cuh exists")

    def test_2_an_error_is_that_of_its_file(self):
        self.clone.answer(2, "  value += 1")
        own = f"exercises/{CHAPTER.name}"
        words = f"{own} does not compile", f"{own}/one.cuh:", "exercise 2 does not"
        self.says(self.clone.check(), 1, *words)

    def test_3_each_exercise_is_tried_with_the_solutions_of_both_files(self):
        self.clone.answer(2)
        reads = "  for (int col = 0; col <= cols; ++col) m = fmaxf(m, x[col]);"
        self.clone.answer(1, "  float m = -FLT_MAX;", reads)
        states = "exercises: 1 wrong, 2 right so far, 3 blank, 4 blank"
        done = self.clone.check()
        self.says(done, 1, states, "exercise 1 is wrong", "outside of an array")
        own = self.clone.file.with_name("one.cuh").read_text().splitlines()
        place = f"one.cuh:{own.index(reads) + 1}"
        self.says(done, 1, f" read of size 4 bytes at {place} by", f"{place} | {reads}")

    def test_4_all_right(self):
        for number in (1, 3, 4):
            self.clone.answer(number)
        done = self.clone.check()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Well done: all 4 exercises", done.stdout)
        self.says(self.clone.learn(), 0, "passed")
        self.clone.answer(4, "  // mine")
        self.says(self.clone.learn(), 0, "changed since the last check")


if __name__ == "__main__":
    BUILD = Path(sys.argv.pop(1)).resolve()
    unittest.main()
