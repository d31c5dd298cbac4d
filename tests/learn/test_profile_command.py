"""Tests of ./learn profile, with a stand-in for the chapter's profile.sh: python3 test_profile_command.py."""

from __future__ import annotations

import os
import subprocess
import unittest

from . import fakes

SCRIPT = """#!/bin/bash
echo "the profile of $*"
echo "profile.sh $FA_BUILD $FA_SIM_BUILD" >> "$ROOT/calls.txt"
exit "${STATUS:-0}"
"""
STAND_IN = """#!/bin/sh
case "$(basename "$0") $*" in
  *--version*) echo "release 13.0" ;;
  *--query-gpu*) echo "NVIDIA H100 80GB HBM3, 81559 MiB" ;;
esac
"""


class ProfileTest(unittest.TestCase):
    """With a separate tree for every test."""

    def setUp(self):
        self.tree = fakes.Tree()
        self.addCleanup(self.tree.close)
        self.add("chapters/01_safe_softmax/profile.sh", SCRIPT)
        self.add("bin/bash", '#!/bin/sh\nexec /bin/bash "$@"\n')
        self.add("bin/basename", '#!/bin/sh\nexec /usr/bin/basename "$@"\n')

    def add(self, name: str, text: str) -> None:
        (self.tree.root / name).write_text(text)
        (self.tree.root / name).chmod(0o755)

    def add_gpu(self, *programs: str) -> None:
        for name in programs or ("nvcc", "nvidia-smi", "ncu"):
            self.add(f"bin/{name}", STAND_IN)

    def learn(self, *words: str, **variables: str) -> subprocess.CompletedProcess:
        fixed = {"ROOT": str(self.tree.root), "CUDA_HOME": "/nowhere"}
        return self.tree.learn("profile", *words, **(fixed | variables))

    def builds(self) -> list[str]:
        calls = [call for call in self.tree.calls("cmake") if "--build" in call]
        return [call.split("--preset ")[1] for call in calls]

    def words(self, done: subprocess.CompletedProcess) -> str:
        """The arguments of profile.sh."""
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout.splitlines()[-1].removeprefix("the profile of ")

    def assert_one_line(self, done: subprocess.CompletedProcess, status: int, *words: str):
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("learn: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_without_a_gpu_it_builds_the_simulator_and_says_why(self):
        words = self.words(self.learn("1", "--rows", "37", "--causal"))
        self.assertEqual(words, "--simulator-only preset sim: there is no nvcc --rows 37 --causal")
        self.assertEqual(self.builds(), ["sim --target ch01_safe_softmax"])
        root = self.tree.root
        [call] = self.tree.calls("profile.sh")
        self.assertEqual(call, f"profile.sh {root}/build/sim {root}/build/sim")

    def test_with_a_gpu_it_builds_both(self):
        self.add_gpu()
        self.assertEqual(self.words(self.learn("01", "--scale", "-1")), "--scale -1")
        target = "--target ch01_safe_softmax"
        self.assertEqual(self.builds(), [f"sim {target}", f"cuda {target}"])
        root = self.tree.root
        [call] = self.tree.calls("profile.sh")
        self.assertEqual(call, f"profile.sh {root}/build/cuda {root}/build/sim")

    def test_without_the_simulator_only_what_is_measured_is_built(self):
        self.add_gpu()
        self.assertEqual(self.words(self.learn("1", "--large")), "--large")
        self.words(self.learn("1", "--no-simulator"))
        self.assertEqual(set(self.builds()), {"cuda --target ch01_safe_softmax"})

    def test_without_ncu_the_gpu_is_of_no_use(self):
        self.add_gpu("nvcc", "nvidia-smi")
        self.assertIn("ncu is not in PATH", self.words(self.learn("1")))
        self.assertEqual(self.builds(), ["sim --target ch01_safe_softmax"])
        self.assert_one_line(
            self.learn("1", "--large"),
            3,
            "--large skips the simulator, and nothing can be measured: ncu is not in PATH",
        )

    def test_our_options_may_stand_before_and_behind_the_chapter(self):
        self.add_gpu()
        for words in (["--preset", "sim", "--no-install", "1"], ["1", "--preset", "sim", "--no-install"]):
            done = self.learn(*words)
            self.assertEqual(self.words(done), "--simulator-only preset sim: chosen by --preset")
        self.assertEqual(self.tree.calls("dpkg-query"), [])

    def test_data_alone_on_standard_output(self):
        done = self.learn("1", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(
            done.stdout, "the profile of --json - --simulator-only preset sim: there is no nvcc\n"
        )
        self.assertIn("-- build", done.stderr)

    def test_the_learners_own_kernels(self):
        self.assert_one_line(self.learn("1", "--exercise"), 2, "no exercises")
        root = self.tree.root
        text = "  // EXERCISE 1: Add.\n  return 1;\n  // END 1\n"
        sheet = "inputs = ['']\n[[exercise]]\nnumber = 1\nminutes = 5\nhints = ['+']\nstub = 'return 0;'\n"
        (root / "chapters/01_safe_softmax/kernel.cuh").write_text(text)
        (root / "chapters/01_safe_softmax/exercises.toml").write_text(sheet)
        self.assert_one_line(self.learn("1", "--exercise"), 2, "./learn start 01")
        (root / "exercises/01_safe_softmax").mkdir(parents=True)
        (root / "exercises/01_safe_softmax/kernel.cuh").write_text(text)
        self.assertIn("--exercise", self.words(self.learn("1", "--exercise")))
        self.assertEqual(self.builds(), ["sim --target ch01_safe_softmax_exercise"])

    def test_its_exit_status_is_that_of_the_script(self):
        self.assertEqual(self.learn("1", STATUS="2").returncode, 2)

    def test_what_cannot_be_profiled_is_one_line(self):
        self.assert_one_line(self.learn("7"), 2, "there is no chapter 7")
        self.assert_one_line(self.learn(), 2, "required: NN (")
        self.assert_one_line(self.learn("1", "--json"), 2, "--json")
        self.assert_one_line(self.learn("1", "--json", "no/such/file"), 2, "--json no")
        self.assert_one_line(self.learn("1", "--preset", "x"), 2, "is not a preset")
        self.assert_one_line(self.learn("2"), 2, "02_online_softmax/profile.sh")
        self.assertEqual(self.builds(), [])

    def test_help(self):
        for words in (["--help"], ["1", "--help"]):
            done = self.learn(*words)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout.startswith("usage: ./learn profile "))
        self.assertEqual(self.builds(), [])


if __name__ == "__main__":
    os.environ.pop("FA_PRESET", None)
    unittest.main()
