"""How long ./learn check takes to its first finding, after one edit: test_time.py BUILD_DIR CHAPTER...

A learner's folder of each chapter has one answer, a wrong one or one that does not compile, and blanks. CPU
time is counted, because tests run at the same time: on two idle cores, half of it is the longest that the
finding can take.
"""

from __future__ import annotations

import io
import resource
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from tools.learn import checking, console, exercises, project

BUILD = Path()
CHAPTERS: list[project.Chapter] = []
FIRST_CHAPTERS, LIMIT_OF_THEM, LIMIT = 5, 10.0, 20.0  # seconds on two cores


def cpu_seconds() -> float:
    """Of this process and of those that it has waited for."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, whose))


class TimeTest(unittest.TestCase):
    def check(self, chapter: project.Chapter, *answer: str) -> tuple[checking.Verdict, float]:
        """The verdict on a copy with this answer to exercise 1, and the seconds up to the first finding, or
        to the end.
        """
        exercise = exercises.Exercise(chapter)
        told: list[float] = []
        with (
            tempfile.TemporaryDirectory(prefix="test-time-") as name,
            mock.patch.object(exercises.Exercise, "folder", Path(name)),
        ):
            copy = exercise.copy_with({1: answer})
            for file, text in copy.items():
                (Path(name) / file).write_text(text, encoding="utf-8")
            before = cpu_seconds()
            verdict = checking.check(
                console.Console(io.StringIO()),
                BUILD,
                exercise,
                lambda: BUILD,
                lambda _: told.append(cpu_seconds()),
            )
            end = cpu_seconds()
        return verdict, ((told or [end])[0] - before) / 2

    def test_the_first_finding(self):
        for chapter in CHAPTERS:
            exercise = exercises.Exercise(chapter)
            limit = LIMIT_OF_THEM if int(chapter.number) <= FIRST_CHAPTERS else LIMIT
            new = f"  // {time.time()}"  # so that it has not been tried before
            wrong = next(
                m for m in exercise.mutants() if m.exercise == 1 and m.caught_by not in ("compile", "note")
            )
            for kind, answer in (
                (wrong.caught_by, (*wrong.solution, new)),
                ("compile", (new, "  no_such_name;", *exercise.regions[0].solution)),
            ):
                with self.subTest(chapter.number, kind=kind):
                    verdict, seconds = self.check(chapter, *answer)
                    print(f"{chapter.number} {kind}: {seconds:.1f} s", flush=True)
                    self.assertEqual((verdict.exercise, verdict.kind), (1, kind))
                    self.assertLess(seconds, limit)


if __name__ == "__main__":
    BUILD = Path(sys.argv.pop(1)).resolve()
    CHAPTERS = project.select(sys.argv[1:])
    unittest.main(argv=sys.argv[:1])
