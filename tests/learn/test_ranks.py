"""Programs that run as several processes: what starts them, and what a learner is told if nothing can."""

from __future__ import annotations

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tools.learn import checking, ranks, setup
from tools.learn.console import LearnError


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.alone, self.several = (Path(folder.name) / name for name in ("alone", "several"))
        self.alone.write_bytes(b"\x7fELF libc.so.6")
        self.several.write_bytes(b"\x7fELF libmpi.so.40 libc.so.6")
        self.found = mock.patch("shutil.which", return_value="/usr/bin/mpirun")
        self.found.start()
        self.addCleanup(mock.patch.stopall)

    def of(self, program: Path, *options: str) -> list[str]:
        """The command without what depends on the user."""
        words = ranks.command(program, options)
        return [word for word in words if word != "--allow-run-as-root"]

    def test_other_programs_are_started_as_they_are(self):
        self.assertEqual(self.of(self.alone, "--x", "3"), [str(self.alone), "--x", "3"])

    def test_two_ranks_unless_the_options_say_how_many(self):
        begin = ["mpirun", "--quiet", "--oversubscribe", "-n"]
        program = str(self.several)
        self.assertEqual(self.of(self.several, "--x"), [*begin, "2", program, "--x"])
        self.assertEqual(self.of(self.several, "--x", "-n", "5", "--y"), [*begin, "5", program, "--x", "--y"])

    def test_one_rank_in_a_debugger(self):
        def of(rank: int, *options: str) -> list[str]:
            wrapped = ranks.Wrapped(["gdb", "--args"], rank)
            words = ranks.command(self.several, options, "ch", wrapped)
            return [word for word in words if word != "--allow-run-as-root"]

        def begin(rank: int) -> list[str]:
            return ["mpirun", "--stdin", f"{rank}", "--quiet", "--oversubscribe"]

        gdb, plain = ["-n", "1", "gdb", "--args", "ch", "--x"], ["ch", "--x"]
        self.assertEqual(of(0, "--x"), [*begin(0), *gdb, ":", "-n", "1", *plain])
        self.assertEqual(
            of(1, "-n", "4", "--x"), [*begin(1), "-n", "1", *plain, ":", *gdb, ":", "-n", "2", *plain]
        )
        self.assertEqual(of(0, "-n", "1", "--x"), [*begin(0), *gdb])
        words = ranks.command(self.alone, ["--x"], "ch", ranks.Wrapped(["gdb"], 0))
        self.assertEqual(words, ["gdb", "ch", "--x"])

    def test_a_rank_that_is_not_there(self):
        ranks.refuse(["-n", "3"], 2, True)
        ranks.refuse([], 1, True)
        for options, rank, several, last in (
            (["-n", "3"], 3, True, "0 to 2"),
            ([], -1, True, "0 to 1"),
            ([], 1, False, "0"),
        ):
            with self.assertRaisesRegex(LearnError, f"^--rank {rank}: must be {last}$"):
                ranks.refuse(options, rank, several)

    def test_root_needs_permission(self):
        for user in (0, 1000):
            with mock.patch.object(os, "geteuid", return_value=user):
                words = ranks.command(self.several, [])
            self.assertEqual("--allow-run-as-root" in words, user == 0)

    def test_a_list_needs_no_ranks(self):
        self.assertEqual(self.of(self.several, "--list"), [str(self.several), "--list"])

    def test_a_number_that_makes_no_sense(self):
        for count in ("0", "-1", "x", ""):
            with self.assertRaisesRegex(LearnError, f"^-n {count}: must be the number"):
                self.of(self.several, "-n", count)

    def test_without_mpirun(self):
        with (
            mock.patch("shutil.which", return_value=None),
            self.assertRaisesRegex(LearnError, "no mpirun: install openmpi-bin$"),
        ):
            self.of(self.several)


class LeftOut(unittest.TestCase):
    """A chapter that CMake leaves out."""

    LINE = "13_ring is left out: there is no MPI. Install libopenmpi-dev"

    def build(self, *targets: str) -> tuple[list[str], list[str]]:
        """The targets that are there, and what is said."""
        said: list[str] = []
        console = mock.Mock(say=said.append)
        phase = mock.Mock(output=["-- Configuring", f"-- {self.LINE}", "-- Done"])
        with mock.patch("tools.learn.phases.execute", return_value=(0, phase)) as made:
            there = setup.build(console, "sim", list(targets))
        words = made.call_args.args[2]
        self.assertEqual(words[words.index("sim") + 1 :], ["--target", *there] if there else [])
        return there, said

    def test_the_others_are_built(self):
        there, said = self.build("ch01_safe_softmax", "ch13_ring")
        self.assertEqual((there, said), (["ch01_safe_softmax"], [self.LINE]))

    def test_nothing_is_said_of_what_nobody_asked_for(self):
        self.assertEqual(self.build("ch01_safe_softmax"), (["ch01_safe_softmax"], []))

    def test_everything(self):
        self.assertEqual(self.build(), ([], [self.LINE]))

    def test_nothing_else(self):
        with self.assertRaisesRegex(LearnError, "^nothing is left to build"):
            self.build("ch13_ring")


class LeftOutExercise(unittest.TestCase):
    """`./learn check` for such a chapter."""

    def test_says_why_instead_of_what_ninja_says(self):
        ninja = mock.Mock(output=["ninja: error: unknown target 'ch13_ring_exercise'"])
        cmake = mock.Mock(output=[f"-- {LeftOut.LINE}"])
        with (
            mock.patch("tools.learn.phases.execute", side_effect=[(1, ninja), (0, cmake)]),
            self.assertRaisesRegex(LearnError, f"^{LeftOut.LINE}$") as raised,
        ):
            checking.make(mock.Mock(), Path("build/sim"), "ch13_ring_exercise")
        self.assertEqual(raised.exception.status, 3)

    def test_other_errors_stay_what_they_are(self):
        ninja = mock.Mock(output=["ninja: error: unknown target 'ch01_exercise'"])
        cmake = mock.Mock(output=[f"-- {LeftOut.LINE}"])
        with mock.patch("tools.learn.phases.execute", side_effect=[(1, ninja), (0, cmake)]):
            status, output = checking.make(mock.Mock(), Path("build/sim"), "ch01_exercise")
        self.assertEqual((status, output), (1, ninja.output))


class TooFewGpus(unittest.TestCase):
    def why(self, gpus: int, *have_ranks: bool) -> str | None:
        chapters = [mock.Mock(number=f"{n}", has_ranks=has) for n, has in enumerate(have_ranks, 13)]
        with mock.patch("tools.learn.machine.gpus", return_value=["GPU"] * gpus):
            return setup.why_too_few_gpus(chapters, 2)

    def test_a_chapter_with_ranks_needs_several(self):
        said = "13: needs 2 GPUs, this machine has 1: runs on the simulator"
        self.assertEqual(self.why(1, True), said)
        self.assertIsNone(self.why(2, True))

    def test_others_do_not(self):
        self.assertIsNone(self.why(1, False))
        self.assertIsNone(self.why(1, True, False))
        self.assertIsNone(self.why(1))


if __name__ == "__main__":
    unittest.main()
