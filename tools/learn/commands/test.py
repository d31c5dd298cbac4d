"""./learn test: builds everything and runs ctest without what takes long, or with --pytorch the tests of the
operators for PyTorch.
"""

from __future__ import annotations

import argparse
import sys

from .. import environments, machine, packages, phases, project, pytorch, setup
from ..console import Console, LearnError

HELP = "build everything and run the tests (of all chapters, or of those named)"


def add_options(parser: argparse.ArgumentParser) -> None:
    setup.add_chapters(parser)
    setup.add_preset(parser)
    setup.add_no_install(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        help="also run the tests that take long: known wrong answers to the exercises, random problems, other devices",  # noqa: E501
    )
    parser.add_argument(
        "--pytorch",
        action="store_true",
        help="test the operators for PyTorch instead, on the simulator, or with --preset cuda on the GPU; installs PyTorch in"  # noqa: E501
        " build/ if no Python has it",
    )


class UnittestReader:
    """Reads the lines of python -m unittest --verbose."""

    def __init__(self):
        self.failed: list[str] = []
        self.passed = 0

    def __call__(self, phase: phases.Phase, line: str) -> None:
        if line.startswith(("FAIL: ", "ERROR: ")):
            self.failed.append(line.split(": ", 1)[1])
        elif line.endswith(" ... ok"):
            self.passed += 1
        phase.activity(line)


def test_pytorch(console: Console, args: argparse.Namespace) -> int:
    """Builds what the operators run on the CPU or on the GPU, and runs the tests of python/."""
    if args.chapters:
        raise LearnError("--pytorch tests all chapters together: name none", 2)
    preset = args.preset or "sim"
    if preset not in ("sim", "cuda"):
        raise LearnError(f"--preset {preset}: --pytorch needs sim or cuda", 2)
    on_gpu = preset == "cuda"
    if on_gpu and not machine.gpus():
        raise LearnError("--preset cuda: nvidia-smi finds no GPU", 3)
    args.preset = preset
    setup.prepare(console, args, packages.GPU_PACKAGES if on_gpu else packages.PACKAGES)
    python = pytorch.require_python(console, not args.no_install)
    targets = ["chapter_libraries"] if on_gpu else pytorch.programs()
    setup.build(console, preset, targets)
    build = project.build_folder(preset).parent
    if on_gpu:
        pytorch.build_native(console, python, build)
    tests = ["tests.test_cuda"] if on_gpu else ["discover", "-t", ".", "tests"]
    command = [python, "-m", "unittest", *tests, "--verbose"]
    reader = UnittestReader()
    status, phase = phases.execute(
        console,
        "test",
        command,
        reader,
        shown=environments.as_typed(command),
        cwd=pytorch.FOLDER,
        env=pytorch.environment(build),
    )
    if status != 0:
        console.say("\n".join(phase.output[-40:]))
        what = f"{len(reader.failed)} of {len(reader.failed) + reader.passed} tests"
        raise LearnError(f"{what} of the operators for PyTorch failed: see above", 1)
    console.say(f"{reader.passed} tests passed", "green")
    return 0


def main(console: Console, args: argparse.Namespace) -> int:
    """Sets up, builds everything, and runs all tests or those of the named chapters."""
    if args.pytorch:
        return test_pytorch(console, args)
    chapters = project.select(args.chapters)
    preset = setup.prepare(console, args, chapters=chapters)
    setup.build(console, preset, [])

    command = [sys.executable, "-m", "tests.levels", "all" if args.all else "quick", "--preset", preset]
    if args.chapters:
        command += [f"--area={project.test_label(chapter)}" for chapter in chapters]
    reader = phases.CtestReader()
    status, phase = phases.execute(console, "test", command, reader, shown=environments.as_typed(command))
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
        raise LearnError(f"ctest ended with status {status}: see its last lines above", 1)
    skipped = f", {len(reader.skipped)} skipped" if reader.skipped else ""
    if reader.unchanged:
        console.say(reader.unchanged, "dim")
    if reader.passed or not reader.unchanged:
        console.say(f"{reader.passed} tests passed{skipped}", "green")
    if not args.all:
        words = " ".join(["./learn test", *args.chapters, "--all"])
        console.say(f"Tests that take long were left out: {words}", "dim")
    if not args.chapters:
        console.say("The operators for PyTorch have tests of their own: ./learn test --pytorch", "dim")
    return 0
