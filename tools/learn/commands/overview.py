"""./learn without a command: the map of the chapters."""

from __future__ import annotations

import argparse
import textwrap

from .. import machine, project
from ..console import Console
from ..exercises import HOW_TO_RESTORE, Exercise, State, edited_chapters
from .run import write_json

LONGEST_TITLE = 40


def describe_tests(state: project.TestState) -> tuple[str, str]:
    """The state of a chapter's tests in a few words, and the style to print them in."""
    if state.failed:
        return f"tests: {state.failed} of {state.failed + state.passed} failed", "red"
    if state.passed:
        return f"tests: {state.passed} passed", "green"
    return "tests: not run", "dim"


def exercise_step(states: dict[Exercise, State]) -> dict[str, str]:
    """The next command for the exercises, and what it does: a chapter that was started, or else the next
    one.
    """
    for exercise, state in states.items():
        number = exercise.number
        if not exercise.exists or not exercise.started or state.words == "passed":
            continue
        if state.exercise:
            hint = f"./learn hint {number} {state.exercise}"
            return {hint: "a hint", f"./learn check {number}": "is it right now?"}
        return {f"./learn check {number}": "is your kernel right? if not, where is it wrong?"}
    for exercise in states:
        if exercise.exists and not exercise.started:
            effect = "write the kernels yourself: a copy with blanks"
            return {f"./learn start {exercise.number}": effect}
    return {}


def next_steps(
    preset: str, tests: dict[project.Chapter, project.TestState], exercises: dict[Exercise, State]
) -> dict[str, str]:
    """The commands to try next, most useful first, and what they do."""
    failing = sorted(chapter.number for chapter in tests if tests[chapter].failed)
    run_all = {"./learn run": "run every chapter on a real input; build/report.html"}
    test_all = {"./learn test": "build everything and test it"}
    step = exercise_step(exercises)
    if any(exercise.started for exercise in exercises):
        return step | run_all
    if failing:
        effect = "run their tests again; a test that fails says why"
        return {f"./learn test {' '.join(failing)}": effect} | run_all
    if any(project.built(chapter, preset) for chapter in project.chapters()):
        return step | test_all | run_all
    return run_all | test_all | step


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json",
        dest="map_json",
        metavar="FILE",
        help="without a command: file for the map ('-': standard output)",
    )


def as_data(
    preset: str, tests: dict[project.Chapter, project.TestState], states: dict[Exercise, State]
) -> dict:
    """The map as data, for other tools."""

    def of(exercise: Exercise, state: State) -> dict:
        chapter = exercise.chapter
        test = tests.get(chapter, project.TestState())
        return {
            "number": chapter.number,
            "name": chapter.name,
            "title": chapter.title,
            "built": project.built(chapter, preset),
            "tests": {"passed": test.passed, "failed": test.failed},
            "exercises": {"count": len(exercise.regions), "state": state.words, "failing": state.exercise},
        }

    return {
        "preset": preset,
        "chapters": [of(exercise, state) for exercise, state in states.items()],
        "next": list(next_steps(preset, tests, states)),
    }


def main(console: Console, args: argparse.Namespace) -> int:
    """Prints the map: for every chapter its exercises, whether it is built, its last tests; then what to do
    next.
    """
    preset, why = machine.choose_preset(None)
    tests = project.test_states(preset)
    build = project.build_folder(preset)
    every = [Exercise(chapter) for chapter in project.select([])]
    states = {exercise: exercise.state(build) for exercise in every}
    if args.json:
        write_json(args.json, as_data(preset, tests, states))
    titles = {
        exercise: textwrap.shorten(exercise.chapter.title, LONGEST_TITLE, placeholder=" ..")
        for exercise in every
    }
    widest = max(map(len, titles.values()))
    words = {e: state.words if e.exists else "" for e, state in states.items()}
    width = max(map(len, words.values()))

    console.say("From Softmax to FlashAttention", "bold")
    where = "the GPU" if preset.startswith("cuda") else "the simulator"
    console.say(f"   runs on {where}, preset {preset}: {why}", "dim")
    console.say()
    for exercise, title in titles.items():
        chapter, state = exercise.chapter, states[exercise]
        progress = console.paint(f"{words[exercise]:{width}}", state.style)
        built = project.built(chapter, preset)
        line = f"   {chapter.number}  {title:{widest}}  {progress}  {'' if built else 'not '}built"
        if built:
            text, style = describe_tests(tests.get(chapter, project.TestState()))
            line += f"  {console.paint(text, style)}"
        console.say(line)
    for path in edited_chapters():
        console.say()
        console.wrap(f"{path} differs from git. {HOW_TO_RESTORE.format(path=path)}", style="yellow")
    console.say()
    console.say("Next:")
    for command, effect in next_steps(preset, tests, states).items():
        console.say(f"   {command:22}{effect}")
    return 0
