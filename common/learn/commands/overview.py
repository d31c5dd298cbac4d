"""./learn: the map."""

from __future__ import annotations

import argparse
import textwrap

from .. import machine, project
from ..console import Console

LONGEST_TITLE = 50


def describe_tests(state: project.TestState) -> tuple[str, str]:
    """The tests of a chapter in a few words, and the style of these."""
    if state.failed:
        return f"tests: {state.failed} of {state.failed + state.passed} failed", "red"
    if state.passed:
        return f"tests: {state.passed} passed", "green"
    return "tests: not in the last run", "dim"


def next_steps(
    preset: str, states: dict[project.Chapter, project.TestState]
) -> dict[str, str]:
    """The two commands to try next, the more useful one first, and what they do."""
    failing = sorted(chapter.number for chapter in states if states[chapter].failed)
    run_all = {"./learn run": "run every chapter on a real input; build/report.html"}
    test_all = {"./learn test": "build everything, run every test"}
    if failing:
        effect = "run their tests again; what fails says why"
        return {f"./learn test {' '.join(failing)}": effect} | run_all
    if any(project.built(chapter, preset) for chapter in project.chapters()):
        return test_all | run_all
    return run_all | test_all


def main(console: Console, args: argparse.Namespace) -> int:
    """Prints the map: every chapter, what is built, what its last tests said, what next."""
    preset, why = machine.choose_preset(None)
    states = project.test_states(preset)
    titles = {
        chapter: textwrap.shorten(chapter.title, LONGEST_TITLE, placeholder=" ..")
        for chapter in project.select([])
    }
    widest = max(map(len, titles.values()))

    console.say("From Softmax to FlashAttention", "bold")
    console.say(f"   preset {preset}: {why}", "dim")
    console.say()
    for chapter, title in titles.items():
        built = project.built(chapter, preset)
        line = f"   {chapter.number}  {title:{widest}}  {'' if built else 'not '}built"
        if built:
            state = states.get(chapter, project.TestState())
            text, style = describe_tests(state)
            line += f"  {console.paint(text, style)}"
        console.say(line)
    console.say()
    console.say("Next:")
    for command, effect in next_steps(preset, states).items():
        console.say(f"   {command:22}{effect}")
    return 0
