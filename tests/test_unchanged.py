"""tests/unchanged.py skips a test that passed as long as nothing has changed, and only then."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tests import unchanged
from tests.docs import browse_pages


class Unchanged(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.write("tree/a.txt", "a")
        self.write("tree/below/b.txt", "b")
        self.write("program", "one")
        self.write("runs", "")
        self.write("status", "0")
        patch = mock.patch.object(unchanged, "ROOT", self.root / "tree")
        patch.start()
        self.addCleanup(patch.stop)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_test(self, *arguments: str, makes: str = "") -> bool:
        """Runs a test that records each run in a file and makes the given files. Returns whether it ran."""
        before = len((self.root / "runs").read_text())
        script = (
            "import sys, pathlib; root = pathlib.Path(sys.argv[1]);"
            "(root / 'runs').open('a').write('x');"
            "(root / 'made').write_text('made');"
            "sys.exit(int((root / 'status').read_text()))"
        )
        options = [f"--makes={self.root / makes}"] if makes else []
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.status = unchanged.main(
                [str(self.root / "stamp"), "--on", ".", *options]
                + ["--on", str(self.root / "program"), "--"]
                + [sys.executable, "-c", script, str(self.root), *arguments]
            )
        ran = len((self.root / "runs").read_text()) > before
        self.assertEqual(ran, "unchanged since it passed" not in said.getvalue())
        return ran

    def assert_runs_once(self, *arguments: str, **options: str) -> None:
        self.assertTrue(self.run_test(*arguments, **options))
        self.assertFalse(self.run_test(*arguments, **options))

    def test_it_runs_once(self):
        self.assert_runs_once()
        self.assertEqual(self.status, 0)

    def test_any_change_of_the_tree_or_the_program_counts(self):
        self.assert_runs_once()
        for change in (
            lambda: self.write("tree/a.txt", "other"),
            lambda: self.write("tree/below/c.txt", ""),
            lambda: (self.root / "tree/below/c.txt").rename(self.root / "tree/d.txt"),
            lambda: (self.root / "tree/d.txt").unlink(),
            lambda: self.write("tree/.ci/run", "true"),
            lambda: self.write("program", "two"),
            lambda: (self.root / "program").unlink(),
        ):
            change()
            self.assert_runs_once()

    def test_what_git_ignores_does_not_count(self):
        self.assert_runs_once()
        for name in ("build/x", "exercises/x", ".git/x", "below/__pycache__/x"):
            self.write(f"tree/{name}", "x")
            self.assertFalse(self.run_test(), name)

    def test_the_command_and_the_environment_count(self):
        self.assert_runs_once()
        self.assert_runs_once("--other")
        for name in ("FA_WERROR", "GPUSIM_THREADS", "PATH"):
            with mock.patch.dict(os.environ, {name: "/usr/bin:/bin"}):
                self.assert_runs_once("--other")
            self.assert_runs_once("--other")

    def test_a_package_counts(self):
        packages = self.root / "packages"
        with mock.patch.object(unchanged, "PACKAGES", packages):
            self.assert_runs_once()
            packages.write_text("Package: doxygen")
            unchanged.installed.cache_clear()
            self.assert_runs_once()

    def test_a_failure_and_a_skipped_test_are_not_remembered(self):
        for status in (1, 77):
            self.write("status", str(status))
            for _ in range(2):
                self.assertTrue(self.run_test())
                self.assertEqual(self.status, status)
        self.write("status", "0")
        self.assert_runs_once()

    def test_a_failure_is_no_reason_to_trust_what_passed_before(self):
        self.assert_runs_once()
        self.write("status", "1")
        self.write("tree/a.txt", "other")
        self.assertTrue(self.run_test())
        self.write("tree/a.txt", "a")
        self.assertTrue(self.run_test())

    def test_what_it_makes_must_be_there_as_it_was_made(self):
        self.assert_runs_once(makes="made")
        self.write("made", "edited")
        self.assert_runs_once(makes="made")
        (self.root / "made").unlink()
        self.assert_runs_once(makes="made")

    def test_a_file_that_is_edited_meanwhile(self):
        script = f"open({str(self.root / 'tree/a.txt')!r}, 'a').write('x')"
        arguments = [
            str(self.root / "stamp"),
            "--on",
            ".",
            "--",
            sys.executable,
            "-c",
            script,
        ]
        self.assertEqual(unchanged.main(arguments), 0)
        self.assertFalse((self.root / "stamp").exists())

    def test_again(self):
        self.assert_runs_once()
        with mock.patch.dict(os.environ, {"FA_TEST_AGAIN": "1"}):
            self.assertTrue(self.run_test())
            self.assertTrue(self.run_test())
        self.assertFalse(self.run_test())


class Cases(unittest.TestCase):
    """case.sh, with a program whose exit status is in a file."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.program = self.root / "program"
        self.program.write_text(
            f"#!/bin/sh\necho $1 >> {self.root}/runs\ncat {self.root}/says\nexit $(cat {self.root}/ends)\n"
        )
        self.program.chmod(0o755)
        (self.root / "runs").write_text("")
        self.ends(0)
        self.write_state()

    def ends(self, status: int, says: str = "fine") -> None:
        (self.root / "ends").write_text(f"{status}\n")
        (self.root / "says").write_text(f"{says}\n")

    def write_state(self) -> None:
        os.utime(self.program, ns=(0, 0))
        arguments = [str(self.root / "kept/state"), "--on", str(self.program)]
        self.assertEqual(unchanged.main([*arguments, "--state"]), 0)

    def run_case(self, option: str = "--gtest_filter=A/B.C/0", **variables: str):
        """Whether it ran, the exit status, the output."""
        before = (self.root / "runs").read_text()
        script = Path(unchanged.__file__).with_name("case.sh")
        done = subprocess.run(
            ["/bin/sh", script, self.root / "kept", self.program, option],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        ran = (self.root / "runs").read_text() != before
        return ran, done.returncode, done.stdout

    def test_a_case_runs_once(self):
        self.assertEqual(self.run_case(), (True, 0, "fine\n"))
        self.assertEqual(self.run_case(), (False, 0, "unchanged since it passed\n"))
        self.assertTrue(self.run_case("--gtest_filter=A/B.C/1")[0])
        self.assertTrue(self.run_case("--gtest_filter=A/B.C/0", FA_TEST_AGAIN="1")[0])
        self.assertFalse(self.run_case()[0])

    def test_another_program_and_another_environment(self):
        self.run_case()
        with self.program.open("a") as file:
            file.write("\n")
        self.assertTrue(self.run_case()[0])  # newer than its state
        self.write_state()
        self.assertTrue(self.run_case()[0])
        self.assertFalse(self.run_case()[0])
        with mock.patch.dict(os.environ, FA_WERROR="x"):
            self.write_state()
        self.assertTrue(self.run_case()[0])

    def test_a_failure_and_a_skipped_case_run_again(self):
        self.run_case()
        self.ends(1, "wrong")
        for _ in range(2):
            self.assertEqual(self.run_case(FA_TEST_AGAIN="1"), (True, 1, "wrong\n"))
        self.assertEqual(self.run_case(), (True, 1, "wrong\n"))
        self.ends(0, "[  SKIPPED ] A")
        for _ in range(2):
            self.assertEqual(self.run_case(), (True, 0, "[  SKIPPED ] A\n"))
        self.ends(0)
        self.assertTrue(self.run_case()[0])
        self.assertFalse(self.run_case()[0])

    def test_without_a_state_it_runs(self):
        (self.root / "kept/state").unlink()
        for _ in range(2):
            self.assertTrue(self.run_case()[0])

    def test_the_list_of_the_cases(self):
        for _ in range(2):
            self.assertTrue(self.run_case("--gtest_list_tests")[0])


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.site = Path(folder.name).resolve() / "html"
        self.site.mkdir()
        self.page = self.site / "a.html"
        self.page.write_text('<img src="a.png"><a href="b.html">')
        for name in ("a.png", "b.html", "b.png", "style.css", "search/menu.js"):
            (self.site / name).parent.mkdir(exist_ok=True)
            (self.site / name).write_text(name)
        self.memory = browse_pages.Memory(self.site.parent / "passed")

    def knows(self) -> bool:
        browse_pages._looks.cache_clear()
        return self.memory.knows(self.page)

    def test_a_page_and_what_it_shows(self):
        self.assertFalse(self.knows())
        for name in ("a.html", "a.png", "style.css", "search/menu.js"):
            with (self.site / name).open("a") as file:
                file.write(" ")
            self.assertFalse(self.knows(), name)
            self.memory.keep([self.page])
            self.assertTrue(self.knows(), name)
        for name in ("b.html", "b.png"):  # other pages, and what they show
            (self.site / name).write_text("other")
            self.assertTrue(self.knows(), name)

    def test_no_folder_is_no_memory(self):
        memory = browse_pages.Memory(None)
        memory.keep([self.page])
        self.assertFalse(memory.knows(self.page))


if __name__ == "__main__":
    unittest.main()
