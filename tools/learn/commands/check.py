"""./learn check: whether the learner's kernels are right, and if not, where and how they are wrong."""

from __future__ import annotations

import argparse
import json
import shlex
import textwrap
from collections.abc import Callable
from pathlib import Path

from ...report.results import human
from .. import bugs, checking, diagnosis, exercises, opens, predictions, project, setup, tasks, trials
from ..console import Console, LearnError
from ..counts import COUNTS
from .run import refuse_json, write_json, write_whole
from .start import add_chapter, exercise_or_task

HELP = "build and test your file: which exercise is wrong, and how"
SIM = "sim"  # the preset whose simulator finds the faulty exercise
RANKS = 4  # GPUs that the inputs of a chapter with several processes need


def add_options(parser: argparse.ArgumentParser) -> None:
    add_chapter(parser)
    parser.add_argument(
        "exercise",
        nargs="?",
        type=exercise_or_task,
        metavar="K",
        help="only this exercise, on the simulator, with all others solved; or bugK, predictK; default: all",
    )
    setup.add_preset(parser)
    setup.add_no_install(parser)
    parser.add_argument("--json", metavar="FILE", help="file for the result ('-': standard output)")


def configured(console: Console, preset: str) -> Path:
    """A build folder that CMake has configured."""
    build = project.build_folder(preset)
    if not (build / "build.ninja").exists():
        setup.configure(console, preset)
    return build


# --- the output -----------------------------------------------------------------------------------

COUNTERS = [COUNTS[name] for name in ("bytes", "sectors", "requests", "conflicts", "barriers", "shuffles")]


def counters(own: list[trials.Attempt], solution: list[trials.Attempt], width: int) -> list[str]:
    """The learner's counters next to the solution's, on the last input. None on a GPU, which counts nothing.

    @param width  the most columns of a line: a wider table continues below its first part
    """
    if not own or "counted" not in own[-1].result["traffic"]:
        return []
    arguments = own[-1].arguments
    theirs = {a.variant: a.result for a in solution if a.arguments == arguments}
    table = [("", [count.words for count in COUNTERS])]
    for attempt in own:
        if attempt.arguments != arguments or attempt.variant not in theirs:
            continue
        pairs = [(count.of(attempt.result), count.of(theirs[attempt.variant])) for count in COUNTERS]
        table.append((attempt.variant, [f"{human(mine)} / {human(his)}" for mine, his in pairs]))
    title = f"yours / the solution's, with {arguments}:"
    lines = textwrap.wrap(title, width, subsequent_indent="   ", break_on_hyphens=False)
    first = max(len(name) for name, _ in table)
    widths = [max(len(cells[at]) for _, cells in table) for at in range(len(COUNTERS))]
    for part in _parts(widths, width - 3 - first):
        for name, cells in table:
            row = "".join(f"  {cells[at]:>{widths[at]}}" for at in part)
            lines.append(f"   {name:{first}}{row}")
    return lines


def _parts(widths: list[int], room: int) -> list[list[int]]:
    """Columns, by number, in groups that fit next to each other, with two blanks before each."""
    parts: list[list[int]] = [[]]
    used = 0
    for at, width in enumerate(widths):
        if parts[-1] and used + 2 + width > room:
            parts.append([])
            used = 0
        parts[-1].append(at)
        used += 2 + width
    return parts


def quote(exercise: exercises.Exercise, places: list[str]) -> list[str]:
    """Lines ("kernel.cuh:48") of the learner's files, with their numbers, and the file's name if there are
    several.
    """
    copy = exercise.own_copy()
    quoted = []
    for place in places:
        name, number = place.rsplit(":", 1)
        text = copy.get(name, "").splitlines()
        if 0 < int(number) <= len(text):
            where = place if len(copy) > 1 else f"{number:>5}"
            quoted.append(f"{where} | {text[int(number) - 1]}")
    return quoted


def cut(line: str, width: int) -> str:
    """A line of code, cut to the width."""
    return line if len(line) <= width else f"{line[: width - 3]} .."


def show_compiler(console: Console, lines: list[str]) -> None:
    """Prints messages of the compiler in full, and the code below them as it is."""
    for line in lines:
        if checking.CODE.match(line):
            console.say(f"   {line}")
        else:
            console.wrap(line, "   ")


def show_warnings(console: Console, warnings: list[str]) -> None:
    """Prints the compiler's warnings about the learner's lines."""
    if warnings:
        console.say("the compiler warns:", "yellow")
        show_compiler(console, warnings)


def show_evidence(console: Console, exercise: exercises.Exercise, verdict: checking.Verdict) -> None:
    """Prints the compiler's warnings about the learner's lines, and what the kernels printed."""
    show_warnings(console, verdict.warnings)
    if said := verdict.printed:
        console.wrap(said.options, "your kernels printed, with ", style="bold")
        for line in said.lines:
            console.say(cut(f"   {line}", console.width))
        if more := said.count - len(said.lines):
            console.say(f"   and {lines_in_words(more)}; to see more:", "dim")
            console.say(f"   ./learn try {exercise.number} {said.options}")
        if verdict.kind in ("traffic", "sectors"):
            console.say("   (what the arguments of printf() read counts as well)")


def lines_in_words(more: int) -> str:
    return f"{more} more line{'s' if more > 1 else ''}"


def is_alone(verdict: checking.Verdict) -> bool:
    """Whether the finding is about one answer, which was tested with the solutions of all other exercises."""
    return verdict.exercises.get(verdict.exercise) == checking.WRONG


def of_kernel(verdict: checking.Verdict) -> str | None:
    """The options of `debug` and `watch` for the kernels that have the finding; None if they cannot be had.

    A program with blanks may never get to what is wrong outside of them.
    """
    if is_alone(verdict):
        return f"--answer {verdict.exercise}"
    return None if set(checking.UNTOUCHED) & set(verdict.exercises.values()) else "--exercise"


def watch_command(exercise: exercises.Exercise, verdict: checking.Verdict) -> str | None:
    """The command that shows the first wrong location; None if there is nothing to watch."""
    finding, which = verdict.finding, of_kernel(verdict)
    if not (finding and which) or finding.kind in ("hang", "crash", "did_not_run", "examples"):
        return None
    words = f"./learn watch {exercise.number} {which} --variant {finding.variant}"
    if finding.at and not exercise.chapter.has_ranks:  # of which each has a slice
        words += f" --at '{finding.at}'"
    elif finding.block:
        words += f" --block {finding.block}"
    if finding.arguments in exercise.inputs:
        return f"{words} --input {exercise.inputs.index(finding.arguments) + 1}"
    return f"{words} {shlex.join(trials.without_variant(finding.arguments))}"


def in_ranges(numbers: list[int]) -> str:
    """1, 2, 3, 5, 7 and 8 -> "1 to 3, 5, 7 to 8"."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(f"{a} to {b}" if a < b else f"{a}" for a, b in ranges)


def states_in_words(console: Console, exercises: dict[int, str]) -> str:
    """What is known of each exercise, and last those of which nothing is."""
    style = {checking.RIGHT: "green", checking.WRONG: "red"}
    known = [
        console.paint(f"{number} {state}", style.get(state, "dim"))
        for number, state in exercises.items()
        if state != checking.UNKNOWN
    ]
    others = [n for n, state in exercises.items() if state == checking.UNKNOWN]
    rest = f"{checking.UNKNOWN}: {in_ranges(others)}" if others else ""
    return "; ".join(filter(None, (", ".join(known), console.paint(rest, "dim"))))


def show_failure(
    console: Console, exercise: exercises.Exercise, verdict: checking.Verdict, told: bool = False
) -> None:
    """Prints the fault and its evidence, then which exercises are right, then the task and the next command.

    A blank has no fault: its stub is not the learner's.

    @param told  whether show_finding() has been called
    """
    if not told:
        show_finding(console, exercise, verdict)
    show_evidence(console, exercise, verdict)
    if verdict.finding or verdict.compiler or verdict.warnings or verdict.printed:
        console.say()
    if verdict.exercises:
        console.say(f"exercises: {states_in_words(console, verdict.exercises)}")
    show_step(console, exercise, verdict)
    if command := watch_command(exercise, verdict):
        console.say(f"watch: {command}")


def show_finding(console: Console, exercise: exercises.Exercise, verdict: checking.Verdict) -> None:
    """Prints the fault."""
    finding = verdict.finding
    if verdict.compiler:
        own = exercise.files if len(exercise.files) == 1 else [exercise.folder]
        console.say(f"{project.shown(own[0])} does not compile:", "bold")
        show_compiler(console, verdict.compiler)
    if finding:
        whose = finding.variant or f"exercise {verdict.exercise}"
        console.wrap(finding.headline, f"{whose}: ", style="bold")
        for detail in finding.details:
            console.wrap(detail, "   ")
        for line in quote(exercise, finding.lines):
            console.say(cut(f"   {line}", console.width), "yellow")
        if finding.arguments:
            console.say(f"   with {shlex.join(trials.without_variant(finding.arguments))}", "dim")
        stops = finding.kind == "crash" or finding.kind in diagnosis.DEFECTS
        if stops and (which := of_kernel(verdict)):
            options = trials.words_of(finding.arguments, finding.variant)
            words = f"./learn debug {exercise.number} {which} {shlex.join(options)}"
            console.say(f"gdb:   {words}")
    if verdict.remark:
        console.wrap(verdict.remark, "   ")


def show_step(console: Console, exercise: exercises.Exercise, verdict: checking.Verdict) -> None:
    """Prints the task of the exercise that is wrong or untouched, and the next command."""
    number = verdict.exercise
    if number is None:
        console.say(f"next:  what differs from the chapter's files: ./learn diff {exercise.number}")
        return
    region, what, do = exercise.region(number), "is wrong", ""
    if verdict.untouched:
        what = f"is not solved yet: it is {region.still}" if region.is_bug else f"is {region.still}"
        do = "find the mistake; a hint: " if region.is_bug else "fill it in; a hint: "
    elif verdict.compiler:
        what = "does not compile"
    console.say(f"exercise {number} {what}", "red")
    console.wrap(region.task, "task:  ")
    console.say(f"next:  {do}./learn hint {exercise.number} {number}")


def show_pass(
    console: Console, exercise: exercises.Exercise, verdict: checking.Verdict, lines: list[str]
) -> None:
    variants = len({attempt.variant for attempt in verdict.attempts})
    console.say(
        f"Well done: all {len(exercise.regions)} exercises of chapter {exercise.number} are right, in "
        f"{variants} variants on {len(exercise.inputs)} inputs",
        "green",
    )
    for number, note in verdict.notes.items():
        console.wrap(note, f"exercise {number}: ", style="yellow")
    console.say("\n".join(lines))
    show_evidence(console, exercise, verdict)


def show_next(console: Console, exercise: exercises.Exercise) -> None:
    """Names the next chapter."""
    later = [c for c in project.chapters() if c.number > exercise.number]
    following = next((c for c in later if exercises.Exercise(c).exists), None)
    if following:
        console.say(f"next:  read chapters/{following.name}, then ./learn start {following.number}")
    else:
        console.say("next:  ./learn shows the map; this was the last chapter with exercises")
    others = [task.name for kind in ("bug", "predict") for task in tasks.of_chapter(exercise, kind)]
    if others:
        console.say(f"also:  ./learn start {exercise.number} {', '.join(others)}")


def show_goals(console: Console, exercise: exercises.Exercise, program: Path) -> list[dict]:
    """Runs the open exercises, and prints whether their goals are reached. Returns the data for --json."""
    data = []
    for goal in exercise.opens:
        tried = trials.run(program, [goal.input], variant=goal.variant)
        attempts = [diagnosis.without_excess(attempt, exercise.free_of_any) for attempt in tried]
        outcome = opens.judge(goal, attempts)
        if not outcome:
            console.wrap(f"./learn check {exercise.number} --preset {SIM} judges it", "open exercise:  ")
            continue
        data.append({"task": goal.task, "reached": outcome.reached, "counts": outcome.counts})
        if outcome.reached:
            console.wrap(f"reached. {goal.task}", "open exercise:  ", style="green")
            continue
        console.wrap(f"not reached yet. {goal.task}", "open exercise:  ")
        for line in outcome.lines(goal):
            console.wrap(f"{line}, with {goal.input}", "   ")
    return data


def report(
    console: Console, build: Path, exercise: exercises.Exercise, simulator: Callable[[], Path | None]
) -> checking.Verdict:
    """Checks the exercises, stores the result, and shows it."""
    told = []

    def tell(verdict: checking.Verdict) -> None:
        show_finding(console, exercise, verdict)
        told.append(verdict.finding)

    verdict = checking.check(console, build, exercise, simulator, tell)
    summary = verdict.summary() | {"chapter": exercise.chapter.name, "files": exercise.hashes()}
    kept = exercise.result_file(build)
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_whole(kept, json.dumps(summary, indent=1) + "\n")
    if verdict.passed:
        checking.require(console, build, exercise.chapter.executable)
        last = exercise.inputs[-1:]
        solution = trials.run(build / "bin" / exercise.chapter.executable, last)
        lines = counters(verdict.attempts, solution, console.width)
        show_pass(console, exercise, verdict, lines)
        program = build / "bin" / exercise.target
        summary["open"] = show_goals(console, exercise, program)
        show_next(console, exercise)
        write_whole(kept, json.dumps(summary, indent=1) + "\n")
    else:
        show_failure(console, exercise, verdict, told == [verdict.finding])
    for path in exercises.edited_chapters():
        text = f"{path} differs from git. {exercises.HOW_TO_RESTORE.format(path=path)}"
        console.wrap(text, "note:  ", style="yellow")
    return verdict


def report_one(
    console: Console,
    build: Path,
    exercise: exercises.Exercise,
    simulator: Callable[[], Path | None],
    number: int,
) -> checking.Verdict:
    """Checks one exercise, with the solutions of all others, and shows the result, which is not stored."""
    sim = simulator()
    if not sim:
        raise LearnError(f"./learn check {exercise.number} checks all of them", 3)
    verdict = checking.check_one(console, build, sim, exercise, number)
    if not verdict.passed:
        show_failure(console, exercise, verdict)
        return verdict
    console.say(f"exercise {number} of chapter {exercise.number} is right", "green")
    console.say("   with the solutions of the others, on these inputs:")
    for arguments in verdict.inputs:
        console.wrap(arguments, "   ", style="dim")
    blanks = exercise.blanks()
    if blanks:
        following = next((n for n in blanks if n > number), blanks[0])
        console.wrap(exercise.region(following).task, f"exercise {following}: ")
        console.say(f"next:  exercise {following}; a hint: ./learn hint {exercise.number} {following}")
    else:
        console.say(f"next:  all exercises: ./learn check {exercise.number}")
    return verdict


# --- bugs and predictions -------------------------------------------------------------------------


def check_task(console: Console, exercise: exercises.Exercise, args: argparse.Namespace) -> int:
    """Checks a bug exercise or a prediction, on the simulator."""
    task = args.exercise.of(exercise)
    own = task.own(exercise)  # LearnError if it is not started, or no number
    refuse_json(args.json)
    setup.prepare(console, argparse.Namespace(**vars(args) | {"preset": SIM}), chapters=[exercise.chapter])
    build = configured(console, SIM)
    checking.require(console, build, exercise.chapter.executable)
    is_right = (check_bug if args.exercise.kind == "bug" else check_prediction)(
        console, build, exercise, task, own
    )
    if args.json:
        write_json(args.json, {"chapter": exercise.chapter.name, "task": task.name, "passed": is_right})
    return 0 if is_right else 1


def check_bug(
    console: Console, build: Path, exercise: exercises.Exercise, bug: bugs.Bug, copy: dict[str, str]
) -> bool:
    bench = trials.Workbench(build, exercise.chapter)
    console.step(f"   testing {bug.name}")
    try:
        finding = bug.judge(bench, exercise, copy)
    except trials.CompileError as error:
        console.clear()
        said = str(error)
        for name in exercise.names:
            said = said.replace(f"{exercise.chapter.path}/{name}", f"{bug.folder(exercise)}/{name}")
        lines, _ = checking.compiler_errors(said.splitlines(), [])
        console.say(f"{project.shown(bug.folder(exercise))} does not compile:", "bold")
        show_compiler(console, lines)
        return False
    console.clear()
    if not finding:
        console.say(
            f"{bug.name} of chapter {exercise.number} is found, on {len(exercise.inputs)} inputs", "green"
        )
        console.wrap(bug.why, "   ")
        return True
    console.wrap(finding.headline, f"{finding.variant}: ", style="bold")
    for detail in finding.details:
        console.wrap(detail, "   ")
    for place in finding.lines:
        name, number = place.rsplit(":", 1)
        text = copy.get(name, "").splitlines()
        if 0 < int(number) <= len(text):
            console.say(cut(f"   {place} | {text[int(number) - 1]}", console.width), "yellow")
    console.say(f"   with {shlex.join(trials.without_variant(finding.arguments))}", "dim")
    console.wrap(bug.task, "task:  ")
    console.say(
        f"next:  {project.shown(bug.folder(exercise))}; a hint: ./learn hint {exercise.number} {bug.name}"
    )
    return False


def check_prediction(
    console: Console,
    build: Path,
    exercise: exercises.Exercise,
    prediction: predictions.Prediction,
    numbers: list[float],
) -> bool:
    outcomes = prediction.compare(build / "bin" / exercise.chapter.executable, numbers)
    for outcome in outcomes:
        state, style = ("right", "green") if outcome.is_right else ("not right", "red")
        console.say(f"{outcome.number.words}: {outcome.predicted:,.10g} is {state}", style)
        console.wrap(outcome.remark, "   ")
    return all(outcome.is_right for outcome in outcomes)


def main(console: Console, args: argparse.Namespace) -> int:
    exercise = exercises.select_one(args.chapter)
    if isinstance(args.exercise, tasks.Named):
        return check_task(console, exercise, args)
    exercise.own_copy()  # LearnError if the chapter is not started
    if args.exercise is not None:
        exercise.region(args.exercise)  # LearnError if there is none
    refuse_json(args.json)
    preset = setup.prepare(console, args, chapters=[exercise.chapter], ranks=RANKS)
    build = configured(console, preset)

    def simulator() -> Path | None:
        if not preset.startswith("cuda"):
            return build
        if args.exercise is None:
            console.say("wrong on the GPU: looking for the reason with the simulator", "dim")
        try:
            return configured(console, SIM)
        except LearnError as error:  # report what the GPU shows
            console.say(f"there is no simulator here: {error}", "yellow")
            return None

    if args.exercise is not None:
        verdict = report_one(console, build, exercise, simulator, args.exercise)
        if args.json:
            write_json(args.json, verdict.summary())
        return 0 if verdict.passed else 1
    verdict = report(console, build, exercise, simulator)
    if args.json:
        text = exercise.result_file(build).read_text(encoding="utf-8")
        write_json(args.json, json.loads(text))
    return 0 if verdict.passed else 1
