"""./learn test: builds everything and runs ctest."""

from __future__ import annotations

import argparse

from .. import phases, project, setup
from ..console import Console, LearnError

HELP = "build everything and run the tests (of all chapters, or of those named)"


def add_options(parser: argparse.ArgumentParser) -> None:
    setup.add_chapters(parser)
    setup.add_preset(parser)
    setup.add_no_install(parser)


def main(console: Console, args: argparse.Namespace) -> int:
    """Sets up, builds everything, and runs all tests or those of the named chapters."""
    chapters = project.select(args.chapters)
    preset = setup.prepare(console, args, chapters=chapters)
    setup.build(console, preset, [])

    command = ["ctest", "--preset", preset]
    if args.chapters:
        labels = "|".join(project.test_label(chapter) for chapter in chapters)
        command += ["-L", f"^({labels})$"]
    reader = phases.CtestReader()
    status, phase = phases.execute(console, "test", command, reader)
    if reader.failed:
        for name in reader.failed:
            console.say(f"   {console.paint('failed', 'red')}  {name}")
        total = len(reader.failed) + reader.passed
        raise LearnError(f"{len(reader.failed)} of {total} tests failed", 1)
    if any("No tests were found" in line for line in phase.output):
        of = f" of chapter {' '.join(args.chapters)}" if args.chapters else ""
        raise LearnError(f"there are no tests{of}", 1)
    if status != 0:
        console.say("\n".join(phase.output[-15:]))
        raise LearnError(
            f"ctest ended with status {status}: see its last lines above", 1
        )
    skipped = f", {len(reader.skipped)} skipped" if reader.skipped else ""
    console.say(f"{reader.passed} tests passed{skipped}", "green")
    if unchanged := project.unchanged_tests(preset):
        console.say(
            f"{unchanged} of them had passed on the same files and did not run: FA_TEST_AGAIN=1 ./learn test runs them",
            "dim",
        )
    return 0
