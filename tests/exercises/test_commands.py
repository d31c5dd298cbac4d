"""The commands that ./learn check prints for a wrong answer, as a learner pastes them: test_commands.py
BUILD_DIR CHAPTER...

`watch` must write its page, and gdb, started as `debug` starts it, must run the program to its end.
"""

from __future__ import annotations

import dataclasses
import io
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tools.learn import checking, cli, console, exercises, machine, project
from tools.learn.commands import check, debug

BUILD = Path()
CHAPTERS: list[project.Chapter] = []


class CommandsTest(unittest.TestCase):
    def printed(self, exercise: exercises.Exercise, verdict: checking.Verdict) -> dict[str, list[str]]:
        """The words of the commands, by what stands before them."""
        out = io.StringIO()
        check.show_failure(console.Console(out), exercise, verdict)
        found = re.findall(r"(?m)^(watch|gdb): +\./learn (.*)$", out.getvalue())
        return {name: shlex.split(words) for name, words in found}

    def test_they_run(self):
        for chapter in CHAPTERS:
            exercise = exercises.Exercise(chapter)
            wrong = next(m for m in exercise.mutants() if m.caught_by == "numbers")
            number = wrong.exercise
            with (
                self.subTest(chapter.number),
                tempfile.TemporaryDirectory(prefix="test-commands-") as name,
                mock.patch.object(exercises.Exercise, "folder", Path(name)),
            ):
                copy = exercise.copy_with({number: wrong.solution})
                for file, text in copy.items():
                    (Path(name) / file).write_text(text, encoding="utf-8")
                terminal = console.Console(io.StringIO())
                verdict = checking.check(terminal, BUILD, exercise, lambda: BUILD)
                self.assertEqual((verdict.exercise, verdict.kind), (number, "numbers"))
                self.watch(self.printed(exercise, verdict)["watch"], Path(name))
                # For wrong numbers, no command for gdb is printed.
                finding = dataclasses.replace(verdict.finding, kind="race")
                stops = dataclasses.replace(verdict, finding=finding)
                self.debug(self.printed(exercise, stops)["gdb"])

    def learn(self, *words: str) -> None:
        """Runs ./learn, which must succeed."""
        args, said = cli.parse([*words]), io.StringIO()
        self.assertFalse(args.main(console.Console(said), args), said.getvalue())

    def watch(self, words: list[str], folder: Path) -> None:
        page = folder / "page.html"
        self.learn(*words, "--no-install", "--no-open", "--out", str(page))
        self.assertIn("<html", page.read_text(encoding="utf-8"))

    def debug(self, words: list[str]) -> None:
        if not shutil.which("gdb"):
            self.skipTest("gdb is not installed")
        started: list[list[str]] = []
        with (
            mock.patch.object(debug.os, "execvp", lambda _, args: started.append(args)),
            mock.patch.object(machine, "require_toolchain"),
        ):
            self.learn(*words, "--no-install")
        done = subprocess.run(
            started[0], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120
        )
        # Its results are wrong: status 1.
        self.assertIn("exited with code 01]", done.stdout, done.stdout + done.stderr)


if __name__ == "__main__":
    BUILD = Path(sys.argv.pop(1)).resolve()
    CHAPTERS = project.select(sys.argv[1:])
    unittest.main(argv=sys.argv[:1])
