"""Every test belongs to a level, the parts of .ci/all are disjoint and complete, a shallow clone works, and a
test that passed runs again only if something changed.

    python3 -m tests.test_levels BUILD_FOLDER
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tests import levels, unchanged

BUILD = Path(sys.argv.pop(1)) if len(sys.argv) > 1 else levels.ROOT / "build" / "sim"


def every_test() -> list[levels.Test]:
    shown = subprocess.run(["ctest", "--show-only=json-v1"], cwd=BUILD, capture_output=True, check=True)
    return levels.tests_of(json.loads(shown.stdout))


def a_test(name: str, label: str, cost: float = 1.0, number: int = 1) -> levels.Test:
    values = {"LABELS": label.split(";"), "COST": cost}
    test = {"name": name, "command": [f"/b/{name}"]}
    test["properties"] = [{"name": k, "value": v} for k, v in values.items()]
    (found,) = levels.tests_of({"tests": [test]})
    return found


class EveryTest(unittest.TestCase):
    """The tests of this build."""

    @classmethod
    def setUpClass(cls):
        cls.every = every_test()

    def test_all_have_an_area(self):
        self.assertEqual(levels.problems(self.every), [])

    def test_each_slow_test_is_reached_by_some_change(self):
        paths = ["CMakeLists.txt"]
        with mock.patch.object(levels, "MOST_SECONDS", 1e9):
            taken, left = levels.concerned(self.every, paths)
        self.assertEqual(left, [])
        self.assertEqual({t.name for t in taken}, {t.name for t in self.every if t.slow})

    def test_shards_are_disjoint_and_complete(self):
        for parts in (1, 2, 3, 7):
            shards = [levels.shard(self.every, k + 1, parts) for k in range(parts)]
            names = sorted(t.name for shard in shards for t in shard)
            self.assertEqual(names, sorted(t.name for t in self.every))
            costs = [sum(t.cost for t in shard) for shard in shards]
            self.assertLess(max(costs), 1.2 * min(costs) + 200)
            with_site = [k for k, s in enumerate(shards) if any(t.fixtures for t in s)]
            self.assertEqual(len(with_site), 1)


class Choice(unittest.TestCase):
    def test_a_test_without_an_area_is_an_error(self):
        tests = [a_test("a", "gpusim"), a_test("b", "nonsense;slow"), a_test("c", "")]
        self.assertEqual([p.split(":")[0] for p in levels.problems(tests[:2])], ["b"])
        self.assertIn("nonsense", levels.problems(tests)[0])

    def test_what_a_file_concerns(self):
        for path, expected in (
            ("chapters/13_ring/plan.hpp", {"chapter13", "devices", "docs"}),
            ("chapters/13_ring/README.md", {"docs"}),
            ("README.md", {"docs"}),
            ("tests/gpusim/warps_test.cu", {"gpusim"}),
            ("tests/chapters/ch09_test.cpp", {"chapter09"}),
            ("tools/learn/cli.py", {"learn", "repository"}),
            ("common/device/math.cuh", levels.AREAS),
            ("something/new", levels.AREAS),
        ):
            self.assertEqual(levels.areas_of(path), expected, path)
        of_07 = levels.areas_of("chapters/07_multi_stage/block.cuh")
        self.assertTrue({"chapter07", "chapter11"} <= of_07)
        self.assertNotIn("chapter05", of_07)

    def test_the_time_is_limited_and_what_is_left_is_named(self):
        tests = [
            a_test("soak.a", "gpusim;slow", 1000),
            a_test("test_b.SLOW_C", "gpusim.slow", 1000),
            a_test("z", "gpusim;slow", 400),
            a_test("quick", "gpusim", 1),
        ]
        with mock.patch.object(levels, "MOST_SECONDS", 1500):
            taken, left = levels.concerned(tests, ["tests/gpusim/x.cu", ""])
        self.assertEqual([t.name for t in taken], ["test_b.SLOW_C", "z"])
        self.assertEqual([t.name for t in left], ["soak.a"])

    def refused(self, *words: str, **variables: str) -> str:
        with (
            mock.patch.dict(os.environ, variables),
            contextlib.redirect_stderr(io.StringIO()) as said,
            self.assertRaises(SystemExit) as ended,
        ):
            levels.main(list(words))
        self.assertEqual(ended.exception.code, 2)
        self.assertEqual(said.getvalue().count("\n"), 1)
        return said.getvalue()

    def test_bad_input(self):
        for shard in ("5/4", "0/3", "1", "a/b"):
            self.assertIn(f"'{shard}'", self.refused("all", "--shard", shard))
        self.assertIn("'nowhere'", self.refused("changed", FA_CI_BASE="nowhere"))
        self.assertIn("nothing", self.refused("quick", "--preset", "nothing"))

    def test_scripts_refuse_bad_input(self):
        for script, variable, value in (("all", "CI_SHARD", "5/4"), ("run", "FA_CI_BASE", "nowhere")):
            done = subprocess.run(
                ["bash", levels.ROOT / ".ci" / script],
                env={**os.environ, variable: value},
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(f"{variable} is '{value}'", done.stderr)


class Base(unittest.TestCase):
    """In a repository of its own, with commits at 0, 1 and 8 o'clock."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name) / "tree"
        self.root.mkdir()
        patch = mock.patch.object(levels, "ROOT", self.root)
        patch.start()
        self.addCleanup(patch.stop)
        self.git("init", "-q")
        self.commits = [self.commit(hour) for hour in (0, 1, 8)]

    def git(self, *words: str, **variables: str) -> str:
        names = ("user.name=a", "user.email=a@b")
        options = [x for name in names for x in ("-c", name)]
        return subprocess.run(
            ["git", *options, *words],
            cwd=self.root,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    def commit(self, hour: int) -> str:
        (self.root / f"at_{hour}").touch()
        self.git("add", ".")
        when = f"2026-01-02T0{hour}:00:00 +0000"
        self.git("commit", "-qm", "x", GIT_COMMITTER_DATE=when)
        return self.git("rev-parse", "HEAD")

    def test_the_newest_commit_that_is_six_hours_older(self):
        base = levels.base_of_changes(None)
        self.assertEqual(base, self.commits[1])
        (self.root / "new").touch()
        changed = [path for path in levels.changed_paths(base) if path]
        self.assertEqual(sorted(changed), ["at_8", "new"])

    def test_a_base_that_is_given(self):
        self.assertEqual(levels.base_of_changes("HEAD~2"), self.commits[0])

    def test_a_shallow_clone_and_no_repository(self):
        clone = self.root.parent / "clone"
        self.git("clone", "-q", "--depth", "1", self.root.as_uri(), str(clone))
        for root in (clone, self.root.parent):
            with mock.patch.object(levels, "ROOT", root):
                self.assertEqual(levels.base_of_changes(None), "")


class Memory(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = Path(folder.name)
        list(unchanged.environment())  # it calls programs once
        self.program = self.build / "test_a"
        self.program.write_text("1")
        (self.build / "CMakeCache.txt").write_text("FA_COUNTS_ARE_PROMISED:INTERNAL=ON")
        self.tests = [
            levels.Test(number, name, (str(self.program), name), frozenset({area}), False, 1, frozenset())
            for number, (name, area) in enumerate(
                {"right": "gpusim", "wrong": "gpusim", "exercise.a": "exercise"}.items(), 1
            )
        ]
        self.results = {"right": "Passed", "wrong": "***Failed", "exercise.a": "Passed"}

    def run_tests(self) -> list[str]:
        """The tests that ctest ran."""
        ran = []

        def start(command, **_):
            chosen = Path(command[4]).read_text().split(",")[3:]
            lines = []
            for number in chosen:
                name = self.tests[int(number) - 1].name
                ran.append(name)
                lines.append(f"1/3 Test #{number}: {name} ....   {self.results[name]}    0.03 sec\n")
            process = mock.MagicMock(stdout=lines, returncode=0)
            process.__enter__.return_value = process
            return process

        with (
            mock.patch.object(levels.subprocess, "Popen", start),
            contextlib.redirect_stdout(io.StringIO()) as said,
        ):
            levels.run("sim", self.build, self.tests, [])
        before = len(self.tests) - len(ran)
        if before:
            self.assertIn(f"{before} of 3 tests had passed", said.getvalue())
        return ran

    def test_only_what_passed_is_remembered(self):
        self.assertEqual(self.run_tests(), ["right", "wrong", "exercise.a"])
        self.assertEqual(self.run_tests(), ["wrong", "exercise.a"])

    def test_another_program_and_environment_and_command(self):
        self.run_tests()
        self.program.write_text("2")
        self.assertIn("right", self.run_tests())
        self.assertNotIn("right", self.run_tests())
        with mock.patch.dict(os.environ, GPUSIM_DEVICE="t4"):
            self.assertIn("right", self.run_tests())
        self.assertIn("right", self.run_tests())
        with mock.patch.dict(os.environ, FA_TEST_AGAIN="1"):
            self.assertIn("right", self.run_tests())

    def test_a_failure_is_no_reason_to_trust_what_passed_before(self):
        self.run_tests()
        self.program.write_text("2")
        self.results["right"] = "***Failed"
        self.run_tests()
        self.program.write_text("1")
        self.assertIn("right", self.run_tests())

    def test_builds_whose_counts_are_not_promised_remember_nothing(self):
        (self.build / "CMakeCache.txt").write_text("")
        for _ in range(2):
            self.assertEqual(len(self.run_tests()), 3)


if __name__ == "__main__":
    unittest.main()
