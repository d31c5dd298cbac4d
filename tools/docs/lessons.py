"""Fills the marked blocks of the Markdown files, so that no quote, output or table differs from its source.

    python3 -m tools.docs.lessons [--check] [--build DIR] [FILE...]

Rewrites what is out of date; with --check, it only reports that. FILE: default every Markdown file.

A block is the text between two lines of this form:

    <!-- KIND: ARGUMENTS -->
    <!-- end -->

KIND and ARGUMENTS are one of

    code: FILE NAME [with comment] [from "TEXT"] [to "TEXT"]
        a function, struct or array of FILE (in the lesson's folder, or else a path from the root), with the
        task of an exercise instead of its solution; or only the lines from the first that contains one TEXT
        to the next that contains the other. FILE may also be Python
    program: FILE
        a whole source file, with the tasks of exercises instead of their solutions
    exercises: FILE
        the exercises in FILE, with the hints from the exercises.toml next to it inside a fold
    solution: FILE N [from "TEXT"] [to "TEXT"]
        the solution of exercise N, which is in FILE, or some of its lines; only inside a fold
    open: PROGRAM
        the chapter's open exercises, with the counts of its own kernels from the program's JSON
    tasks: all|bug|predict
        the chapter's bugs to find, and numbers to predict
    output: COMMAND
        COMMAND and its output. It runs in the root and begins with build/sim/bin/, or for a program with
        several ranks, with mpirun --quiet -n P build/sim/bin/
    counters: COMMAND
        requests and sectors of each variant, from the JSON of such a command
    blocks: COMMAND [and COMMAND..]
        the shared memory that a block of each variant needs, from the JSON of such commands, and how many
        blocks fit on a multiprocessor of a device, or what it lacks
    onchip: COMMAND [beside FILE PLAN HEAD_DIM]
        what each variant demands of shared memory and tensor cores, from the same JSON; with `beside`, also
        the measured speed of the variants without a mask, as with tflops below
    learn: run [NN..]
        the table of `./learn run`, for all or these chapters, on the bundled input, on the simulator
    race: CHAPTER[/FILE] N [VARIANT [OPTIONS]]
        the simulator's report when it skips the N-th barrier of FILE (default kernel.cuh), a __syncthreads()
        or a barrier_cluster_wait(), for all variants or for one, on the usual problem or another one
    planted: NAME [FIRST to LAST]
        the simulator's report on a planted mistake, or these lines of it, counted from 1. It comes from
        docs/results/mistakes_simulator.json, which tools/docs/planted.py writes
    drawing: NAME "TEXT"
        a drawing from tools/docs/drawings.py, fragments.py, plots.py, backward.py, hopper.py,
        hopper_backward.py, masks.py, large_heads.py, ring.py, decoding.py or journey.py, written to NAME.svg
        next to the lesson. TEXT describes it in words
    views: NN|all
        the prepared views of a chapter, or of all, from the chapters' watch.toml
    results: FILE speed [CHAPTER]
    results: FILE sectors CHAPTER ROWSxCOLS
        a table of GPU measurements: FILE in docs/results/, in the format that
        tools/profile/softmax_results.py writes. If there is no such file yet, the block says so
    results: FILE tflops|ms PLAN [CHAPTER] [sustained]
    results: FILE steps PLAN HEAD_DIM PEER [sustained]
    results: FILE gains PLAN[+PLAN..] CHAPTER NN/FIRST [VARIANT,VARIANT..]
    results: FILE overall CHAPTER VARIANT PEER
    results: FILE errors PLAN
    results: FILE choices
    results: FILE counters CHAPTER N
    results: FILE copies CHAPTER N
    results: FILE agreement
    results: FILE standing [sustained]
    results: FILE[+FILE..] chapters
    results: FILE passes NN/FORWARD NN/BACKWARD PEER [sustained]
        the same for files of tools/profile/attention_results.py: a plan of tools/bench/plans.py; the counts
        of the simulator and of Nsight Compute for a chapter's variants on the N-th of its problems (`copies`:
        of what the copy engine brings, from a file of tools/profile/hopper_results.py), or for all variants
        on all problems; geometric means of the speed relative to each peer, for the last variants or for one
        per chapter; each variant beside the one that it changes (`gains`; FIRST is what the first one
        changes, and the variants may be in another order than in the plan); or both passes together
    results: FILE scaling
        time and memory against the length, from tools/bench/scaling.py
    results: FILE layouts forward|backward
        head dimensions and layouts in chapters 07 and 08, from tools/bench/layouts.py
    results: FILE masks steps|blocks|masks|packed|dropout|scores forward|backward [HEAD_DIM SEQ]
        chapter 11 beside dense attention and FlexAttention, from tools/bench/masks.py
    results: FILE+FILE.. mask_variants
        the variants of chapter 11, each beside the one that it changes
    results: FILE large fp32|bf16|lengths|widths|backward|variants
        chapter 12 beside PyTorch's kernels and standard attention, from tools/bench/large.py; or each of its
        variants beside the one that it changes
    results: FILE ring variants|times|waits|links|changes|million
        chapter 13 on several GPUs beside PyTorch's context_parallel, from tools/bench/ring.py
    results: FILE decoding variants|shapes|steps|pages|ragged|fp8|splits|short
        chapter 14 beside other kernels and the speed of reading, from tools/bench/decoding.py
    results: FILE soak
        the coverage of the random problems of tests/soak/soak.py
    results: FILE sanitizer
    results: FILE profile
        the profile of chapter 09 that `./learn profile 09 --large --json FILE` writes
    results: FILE step_times|step_tokens|step_memory|longest_context
        a training step with different attention, from tools/bench/training_step.py
    results: FILE course
        the benchmark of tools/bench/course.py
    results: FILE losses
    results: FILE writing
    results: FILE sample RUN
        the runs of python/training/train.py, how fast their models write, and what a run's model wrote
    results: FILE models
        models of transformers with both kinds of attention, from tools/bench/models.py
    results: FILE random_calls
        the calls of python/tests/random_calls.py
    results: FILE hazards
        the findings of tests/soak/sanitize.py in the chapters, and in the kernels of hazards.cu

It also checks the relative links and images of the files, and that a lesson prints no line of a solution
outside of folds.

Blocks of a chapter that runs as several processes stay as they are where its program is not built.

Exit status: 1 a block is out of date, a link leads nowhere or a solution is given away, 2 a block cannot be
made.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shlex
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from ..learn import opens, project, ranks, regions, sheet, views
from ..learn.console import LearnError
from ..learn.counts import COUNTS
from ..report import results
from ..report import table as learn_table
from . import (
    backward,
    decoding,
    drawings,
    end_to_end,
    fragment_maps,
    fragments,
    hopper,
    hopper_backward,
    journey,
    large_heads,
    masks,
    measured,
    plots,
    ring,
    runs,
)

ROOT = Path(__file__).resolve().parents[2]
DRAWINGS = (
    drawings.DRAWINGS
    | fragments.DRAWINGS
    | plots.DRAWINGS
    | backward.DRAWINGS
    | end_to_end.DRAWINGS
    | hopper.DRAWINGS
    | hopper_backward.DRAWINGS
    | masks.DRAWINGS
    | large_heads.DRAWINGS
    | ring.DRAWINGS
    | decoding.DRAWINGS
    | journey.DRAWINGS
)
SIM = "build/sim"  # where the commands in the lessons look for the simulator's programs
WATCHING = "docs/pages/watching.md"  # the page with all prepared views
NOT_OURS = {"build", "exercises", "node_modules"}  # folders whose Markdown is not read


class BlockError(Exception):
    """A block cannot be made; the text says why."""


class LeftOut(BlockError):
    """A block cannot be made here, because its chapter needs what is not installed. It stays as it is."""


@dataclass(frozen=True)
class Tree:
    """The folders that blocks are made from."""

    root: Path
    build: Path  # replaces build/sim in every command


@dataclass(frozen=True)
class Made:
    """The contents of a block, and the files that it refers to."""

    text: str
    files: dict[Path, str] = field(default_factory=dict)


# --- quoting C++ ----------------------------------------------------------------------------------

NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'|^[ \t]*\#(?:\\\n|[^\n])*""",
    re.DOTALL | re.MULTILINE,
)
TYPE = re.compile(
    r"(?:template\s*<[^{]*>\s*)?(?:struct|class|union|enum(?:\s+class)?)\s+"
    r"(?:(?:__align__|alignas)\s*\([^)]*\)\s*)?(\w+)\b(?!\s*[,>])"  # not a parameter of a template
)
CALL_LIKE = re.compile(r"(\w+)\s*\(")
ATTRIBUTES = {"__launch_bounds__", "__align__", "alignas", "decltype"}
VARIABLE = re.compile(r"(\w+)\s*(?:\[[^\]]*\])?\s*(?:=|$)")


@dataclass(frozen=True)
class Item:
    """A function, type or variable at namespace level. Lines count from 0; `end` is the line after the
    last.
    """

    name: str
    comment: int  # the first line of the comment above it
    begin: int
    end: int


def _name_of(header: str) -> tuple[str, bool]:
    """The name that a declaration introduces, and whether it names a function."""
    if match := TYPE.match(header):
        return match[1], False
    if not header.rstrip().endswith("="):
        names = [n for n in CALL_LIKE.findall(header) if n not in ATTRIBUTES]
        if names:
            return names[0], True
    match = VARIABLE.search(header)
    return (match[1] if match else ""), False


def code_only(source: str) -> str:
    """The source with blanks instead of comments, strings and preprocessor lines."""
    return NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)


def items_of(source: str) -> list[Item]:
    """The definitions of a source file at namespace level, from top to bottom."""
    code = code_only(source)
    lines = source.splitlines()
    found = []
    start, depth, header = -1, 0, ""
    for at, char in enumerate(code):
        if start < 0:
            if char.isspace() or char in ";}":  # a } here closes a namespace
                continue
            start, depth, header = at, 0, ""
        if char == "{":
            header = header or code[start:at]
            if re.match(r"(inline\s+)?namespace\b", header):
                start = -1
                continue
            depth += 1
        elif char == "}":
            depth -= 1
        if depth > 0 or char not in ";}":
            continue
        name, is_function = _name_of(header or code[start:at])
        if char == ";" or is_function:
            begin = comment = source.count("\n", 0, start)
            while comment and lines[comment - 1].lstrip().startswith("//"):
                comment -= 1
            found.append(Item(name, comment, begin, source.count("\n", 0, at) + 1))
            start = -1
    return found


def python_items_of(source: str) -> list[Item]:
    """The functions and classes of a Python file, without their decorators."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [
        Item(node.name, node.lineno - 1, node.lineno - 1, node.end_lineno)
        for node in ast.parse(source).body
        if isinstance(node, kinds)
    ]


def _line_with(lines: list[str], text: str, first: int, where: str) -> int:
    for number in range(first, len(lines)):
        if text in lines[number]:
            return number
    raise BlockError(f'{where} has no line with "{text}"')


def _lines_between(lines: list[str], start: str | None, stop: str | None, where: str) -> str:
    """The lines from the first that contains `start` to the next that contains `stop`; None for all lines.

    If brackets are still open in the last line, the quote continues until they are closed.
    """
    first = _line_with(lines, start, 0, where) if start else 0
    last = _line_with(lines, stop, first, where) if stop else len(lines) - 1
    while last + 1 < len(lines) and _open_braces(lines[first : last + 1]) > 0:
        last += 1
    return textwrap.dedent("\n".join(lines[first : last + 1])).strip("\n")


def _open_braces(lines: list[str]) -> int:
    code = code_only("\n".join(lines))
    return code.count("{") - code.count("}")


def quote(
    source: str, items: list[Item], name: str, comment: bool, start: str | None, stop: str | None
) -> str:
    """The lines of one definition, with the tasks of exercises instead of their solutions.

    @param start, stop  texts in the first and in the last line to quote; see _lines_between()
    """
    found = [item for item in items if item.name == name]
    if len(found) != 1:
        count = len(found) or "no"
        raise BlockError(f"there are {count} definitions of {name}: must be one")
    item = found[0]
    lines = source.splitlines()[item.comment if comment else item.begin : item.end]
    return _lines_between(regions.without_solutions(lines), start, stop, name)


def fenced(text: str, language: str) -> str:
    return f"```{language}\n{text}\n```"


def find_source(tree: Tree, folder: Path, name: str) -> Path:
    for path in (folder / name, tree.root / name):
        if path.is_file():
            return path
    raise BlockError(f"there is no {name}, neither next to this file nor at the root")


def make_code(tree: Tree, folder: Path, arguments: str) -> Made:
    form = r'(\S+) (\w+)( with comment)?(?: from "([^"]*)")?(?: to "([^"]*)")?'
    match = re.fullmatch(form, arguments)
    if not match:
        raise BlockError('must be FILE NAME [with comment] [from "TEXT"] [to "TEXT"]')
    file, name, comment, start, stop = match.groups()
    source = find_source(tree, folder, file).read_text(encoding="utf-8")
    python = file.endswith(".py")
    items = python_items_of(source) if python else items_of(source)
    try:
        text = quote(source, items, name, bool(comment), start, stop)
        return Made(fenced(text, "python" if python else "cpp"))
    except BlockError as error:
        raise BlockError(f"{file}: {error}") from None


def make_program(tree: Tree, folder: Path, arguments: str) -> Made:
    lines = find_source(tree, folder, arguments).read_text(encoding="utf-8").splitlines()
    return Made(fenced("\n".join(regions.without_solutions(lines)), "cpp"))


def escaped(text: str) -> str:
    """The text, escaped so that nothing in it is Markdown except code between backticks."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(
        part if at % 2 else re.sub(r"([\\`*_<>\[\]])", r"\\\1", part) for at, part in enumerate(parts)
    )


def exercises_in(tree: Tree, path: Path) -> list[regions.Region]:
    """The exercises of one of a chapter's files."""
    chapter = sheet.Sheet(path.parent, str(path.parent.relative_to(tree.root)))
    try:
        exercises = [e for e in chapter.regions if e.file == path.name]
    except regions.RegionError as error:
        raise BlockError(str(error)) from None
    if not exercises:
        raise BlockError(f"{path.name} is not in `files` of {chapter.where}")
    return exercises


def make_exercises(tree: Tree, folder: Path, arguments: str) -> Made:
    path = find_source(tree, folder, arguments)
    items = items_of(path.read_text(encoding="utf-8"))
    parts = []
    for region in exercises_in(tree, path):
        at = region.begin
        inside = next((i.name for i in items if i.begin <= at < i.end), None)
        where = f"EXERCISE {region.number}"
        if not inside:
            raise BlockError(f"{arguments}:{at + 1}: {where} is in no function")
        parts.append(
            f"**Exercise {region.number}**, `{inside}`, about {region.minutes} minutes. "
            f"{escaped(region.task)}"
        )
        hints = (f"{n}. {escaped(h)}" for n, h in enumerate(region.hints, 1))
        listed = "\n".join(hints)
        fold = f"<details><summary>Hints</summary>\n\n{listed}\n\n</details>"
        parts.append(fold)
    return Made("\n\n".join(parts))


def make_solution(tree: Tree, folder: Path, arguments: str) -> Made:
    match = re.fullmatch(r'(\S+) (\d+)(?: from "([^"]*)")?(?: to "([^"]*)")?', arguments)
    if not match:
        raise BlockError('must be FILE N [from "TEXT"] [to "TEXT"]')
    file, number, start, stop = match.groups()
    path = find_source(tree, folder, file)
    for region in exercises_in(tree, path):
        if region.number == int(number):
            lines = [*region.solution]
            quoted = _lines_between(lines, start, stop, f"the solution of {number}")
            return Made(fenced(quoted, "cpp"))
    raise BlockError(f"{file} has no exercise {number}")


def _goal_text(number: str, goal: opens.Open, result: dict) -> str:
    """An open exercise, with the counts of the chapter's own kernel."""
    rows = "\n".join(
        f"| {COUNTS[name].words} | {COUNTS[name].of(result):,} | {most:,} |"
        for name, most in goal.at_most.items()
    )
    hints = "\n".join(f"{n}. {escaped(hint)}" for n, hint in enumerate(goal.hints, 1))
    return (
        f"**Open exercise**, about {goal.minutes} minutes. {escaped(goal.task)} "
        f"It has no blank: change the kernels of your copy as you like. Once all exercises are right, "
        f"`./learn check {number}` runs `{goal.variant}` with `{goal.input}` and compares:\n\n"
        f"| count | the chapter's kernel | goal, at most |\n| --- | ---: | ---: |\n{rows}\n\n"
        f"<details><summary>Hints</summary>\n\n{hints}\n\n</details>"
    )


def make_open(tree: Tree, folder: Path, arguments: str) -> Made:
    chapter = sheet.Sheet(folder, str(folder.relative_to(tree.root)))
    try:
        goals = chapter.opens
    except regions.RegionError as error:
        raise BlockError(str(error)) from None
    if not goals:
        raise BlockError(f"{chapter.where} has no open exercise")
    parts = []
    for goal in goals:
        options = ("--variant", goal.variant, *shlex.split(goal.input))
        (result,) = json_of(tree, arguments, *options)["variants"]
        parts.append(_goal_text(folder.name[:2], goal, result))
    return Made("\n\n".join(parts))


BUGS_GIVE_SOLUTIONS_AWAY = (
    "Solve the exercises first: the file of a bug has the right lines of all exercises. Find the bugs before "
    "you open the chapter's kernels, which show the right line."
)


def make_tasks(tree: Tree, folder: Path, arguments: str) -> Made:
    """The bugs and predictions of a chapter, without what gives them away."""
    chapter = sheet.Sheet(folder, str(folder.relative_to(tree.root)))
    number = folder.name[:2]
    try:
        bugs, predictions = chapter.bugs, chapter.predictions
    except regions.RegionError as error:
        raise BlockError(str(error)) from None
    bugs = bugs if arguments in ("all", "bug") else []
    predictions = predictions if arguments in ("all", "predict") else []
    if not (bugs or predictions):
        raise BlockError(f"{chapter.where} has none: must be all, bug or predict")
    parts = [BUGS_GIVE_SOLUTIONS_AWAY] * bool(bugs)
    for task, text in [
        *((prediction, prediction.question) for prediction in predictions),
        *((bug, bug.task) for bug in bugs),
    ]:
        command = f"`./learn start {number} {task.name}`, then `./learn check {number} {task.name}`"
        parts.append(f"**{task.name}**, about {task.minutes} minutes. {escaped(text)} {command}.")
    return Made("\n\n".join(parts))


# --- running programs -----------------------------------------------------------------------------


def run_of(tree: Tree, command: str, skip: str = "", device: str = "") -> runs.Run:
    """Runs a command of the simulator's build, once.

    @param skip    the barrier that the simulator skips
    @param device  whose limits the simulator has; "": the default one's
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BlockError(f"{command}: {error}") from None
    count: list[str] = []  # of ranks, as an option
    if words[:3] == ["mpirun", "--quiet", ranks.COUNT]:
        count, words = words[2:4], words[4:]
    if not words or not words[0].startswith(f"{SIM}/bin/"):
        raise BlockError(f"the command must begin with {SIM}/bin/")
    program = tree.build / words[0].removeprefix(f"{SIM}/")
    try:
        return runs.run(program, (*count, *words[1:]), tree.root, skip, device)
    except LearnError as error:
        raise BlockError(str(error)) from None
    except OSError as error:
        chapter = project.Chapter(tree.root / "chapters" / program.name[2:])
        kind = LeftOut if chapter.has_ranks else BlockError
        raise kind(
            f"{program} cannot be run ({error.strerror}): "
            f"cmake --build --preset sim --target {program.name} makes it"
        ) from None


def right_run_of(tree: Tree, command: str, device: str = "") -> runs.Run:
    done = run_of(tree, command, device=device)
    if done.status != 0:
        why = (done.err.strip() or "see its output").splitlines()[0]
        raise BlockError(f"{command}: exit status {done.status}: {why}")
    return done


def output_of(tree: Tree, command: str) -> str:
    """The output of a command of the simulator's build."""
    return right_run_of(tree, command).out


def json_of(tree: Tree, command: str, *options: str, device: str = "") -> dict:
    """The JSON of a chapter's program."""
    try:
        return json.loads(right_run_of(tree, shlex.join([*shlex.split(command), *options]), device).data)
    except ValueError:
        raise BlockError(f"{command} --json - prints no JSON") from None


def make_output(tree: Tree, folder: Path, arguments: str) -> Made:
    lines = [line.rstrip() for line in output_of(tree, arguments).splitlines()]
    return Made(fenced("\n".join([f"$ {arguments}", *lines]), "text"))


def make_counters(tree: Tree, folder: Path, arguments: str) -> Made:
    rows = []
    for variant in json_of(tree, arguments)["variants"]:
        predicted = variant["traffic"]["predicted"]
        counted = variant["traffic"].get("counted")
        if not counted:
            raise BlockError(f"{arguments} does not count: it must be the simulator's")
        sectors = counted["read_sectors"] + counted["write_sectors"]
        requests = counted["read_requests"] + counted["write_requests"]
        rows.append(
            [f"`{variant['name']}`"]
            + [f"{t['read_bytes'] + t['write_bytes']:,}" for t in (predicted, counted)]
            + [f"{requests:,}", f"{sectors:,}", f"{sectors / requests:.2f}"]
        )
    header = ["variant", "bytes predicted", "bytes counted"]
    header += ["requests", "sectors", "sectors per request"]
    return Made(f"`{arguments} --json -`\n\n" + measured.table(header, rows))


# Shared memory of a multiprocessor, and the share of each block's that the driver reserves: CUDA C++
# Programming Guide. The simulator's own device is an H100.
SHARED_BYTES = {"A100": 164 * 1024, "H100": 228 * 1024}
OTHER_DEVICE = "A100"
RESERVED_BYTES = 1024


def make_blocks(tree: Tree, folder: Path, arguments: str) -> Made:
    rows, commands = [], arguments.split(" and ")
    for command in commands:
        lacking = _what_lacks(tree, command, OTHER_DEVICE)
        for variant in json_of(tree, command)["variants"]:
            name, shared = variant["name"], variant.get("shared", {}).get("bytes_per_block")
            if not shared:
                raise BlockError(f"{command} does not count: it must be the simulator's")
            fit = {device: str(total // (shared + RESERVED_BYTES)) for device, total in SHARED_BYTES.items()}
            if name in lacking:
                fit[OTHER_DEVICE] = lacking[name]
            rows.append([f"`{name}`", f"{shared:,}", *fit.values()])
    header = ["variant", "bytes of shared memory"]
    header += [f"blocks that fit, {device}" for device in SHARED_BYTES]
    shown = "\n".join(f"`{command} --json -`" for command in commands)
    return Made(f"{shown}\n\n" + measured.table(header, rows))


def _what_lacks(tree: Tree, command: str, device: str) -> dict[str, str]:
    """What a device lacks, by variant."""
    variants = json_of(tree, command, device=device.lower())["variants"]
    skipped = {v["name"]: v["skipped"]["reason"] for v in variants if "skipped" in v}
    return {name: f"none: {reason.split(', this device')[0]}" for name, reason in skipped.items()}


def make_onchip(tree: Tree, folder: Path, arguments: str) -> Made:
    arguments, _, beside = arguments.partition(" beside ")
    speeds: dict[str, float] = {}
    if beside:
        file, plan, head_dim = beside.split()
        path = tree.root / "docs" / "results" / file
        data = json.loads(path.read_text(encoding="utf-8"))
        speeds = measured.speed_of_variants(data, plan, int(head_dim))
    rows = []
    variants = json_of(tree, arguments)["variants"]
    with_wgmma = any(variant.get("ops", {}).get("wgmma") for variant in variants)
    for variant in variants:
        shared = variant.get("shared")
        if not shared:
            raise BlockError(f"{arguments} does not count: it must be the simulator's")
        taken, fewest = (
            [shared[f"{access}_wavefronts{which}"] for access in ("load", "store")]
            for which in ("", "_ideal")
        )
        cells = [shared["bytes_per_block"], taken[0], fewest[0], taken[1], fewest[1]]
        cells += [sum(taken) - sum(fewest), variant["ops"]["mma"]]
        if with_wgmma:
            cells.append(variant["ops"]["wgmma"])
        row = [f"`{variant['name']}`", *(f"{cell:,}" for cell in cells)]
        if speeds:
            row.append(f"{speeds[variant['name']]:.1f}")
        rows.append(row)
    header = ["variant", "shared bytes of a block"]
    header += ["load wavefronts", "fewest", "store wavefronts", "fewest"]
    header += ["bank conflicts", "tensor instructions"]
    if with_wgmma:
        header[-1:] = ["mma", "wgmma"]
    if speeds:
        header.append(f"TFLOP/s, {data['device']}")
    return Made(f"`{arguments} --json -`\n\n" + measured.table(header, rows))


def make_learn(tree: Tree, folder: Path, arguments: str) -> Made:
    command, *numbers = arguments.split()
    if command != "run":
        raise BlockError("must be learn: run [NN..]")
    try:
        chosen = project.select(numbers)
    except LearnError as error:
        raise BlockError(str(error)) from None
    runs = []
    for chapter in chosen:
        inputs = [str(w) for option in chapter.inputs().items() for w in option]
        for dtype in chapter.dtypes():
            command = f"{SIM}/bin/{chapter.executable} --variant all"
            command += f" --dtype {dtype}" if dtype else ""
            runs.append(json_of(tree, command, *inputs))
    text = learn_table.render(results.read(runs), lambda text, style: text)
    lines = [f"$ ./learn {arguments}", "...", *text.splitlines(), learn_table.HOW_TO_READ]
    return Made(fenced("\n".join(line.rstrip() for line in lines), "text"))


BARRIER = re.compile(r"(__syncthreads|barrier_cluster_wait)\(\);")


def line_of_barrier(tree: Tree, file: str, number: int) -> int:
    """The line (from 1) of the N-th barrier of a file of a chapter."""
    kernel = tree.root / "chapters" / file
    if not kernel.is_file():
        raise BlockError(f"there is no chapters/{file}")
    lines = kernel.read_text(encoding="utf-8").splitlines()
    barriers = [n for n, line in enumerate(lines, 1) if BARRIER.search(line.split("//")[0])]
    if not 1 <= number <= len(barriers):
        count = f"{file} has {len(barriers)} barriers"
        raise BlockError(f"{count}: there is no barrier {number}")
    return barriers[number - 1]


def make_race(tree: Tree, folder: Path, arguments: str) -> Made:
    match = re.fullmatch(r"(\w+)(?:/([\w.]+))? (\d+)(?: (\w+)((?: --[\w-]+ \w+)*))?", arguments)
    if not match:
        raise BlockError("must be CHAPTER N [VARIANT [OPTIONS]], or CHAPTER/FILE N [VARIANT [OPTIONS]]")
    chapter, number = match[1], int(match[3])
    variant = (match[4] or "all") + (match[5] or "")
    file = f"{chapter}/{match[2] or 'kernel.cuh'}"
    line = line_of_barrier(tree, file, number)
    command = f"{SIM}/bin/ch{chapter} --variant {variant}"
    done = run_of(tree, command, f"{file}:{line}")
    report = [line for line in done.out.splitlines() if line.startswith("=====")]
    if done.status != 1 or not report:
        raise BlockError(f"{chapter} without barrier {number} reports nothing")
    return Made(fenced("\n".join(report), "text"))


def make_planted(tree: Tree, folder: Path, arguments: str) -> Made:
    match = re.fullmatch(r"(\w+)(?: (\d+) to (\d+))?", arguments)
    if not match:
        raise BlockError("must be NAME [FIRST to LAST]")
    name, first, last = match.groups()
    file = tree.root / "docs" / "results" / "mistakes_simulator.json"
    kept = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if name not in kept:
        raise BlockError(f"{file.name} has no {name}: python3 -m tools.docs.planted")
    report = kept[name]["report"]
    lines = report[int(first) - 1 : int(last)] if first else report
    if not lines or (last and int(last) > len(report)):
        raise BlockError(f"the report of {name} has {len(report)} lines")
    return Made(fenced("\n".join(lines), "text"))


# --- drawings and measurements --------------------------------------------------------------------


def make_drawing(tree: Tree, folder: Path, arguments: str) -> Made:
    match = re.fullmatch(r'(\w+) "([^"\]]+)"', arguments)
    if not match:
        raise BlockError('must be NAME "TEXT"')
    name, text = match.groups()
    if name not in DRAWINGS:
        known = ", ".join(DRAWINGS)
        raise BlockError(f"tools/docs/drawings.py does not draw {name}: must be one of {known}")
    try:
        drawing = DRAWINGS[name]()
    except fragment_maps.NotBuilt as error:
        raise BlockError(str(error)) from None
    return Made(f"![{text}]({name}.svg)", {folder / f"{name}.svg": drawing})


# What may follow the name of a file.
RESULTS = {
    r"speed(?: (\w+))?": measured.speed,
    r"sectors (\w+) (\d+)x(\d+)": lambda data, chapter, rows, cols: measured.sectors(
        data, chapter, int(rows), int(cols)
    ),
    r"(tflops|ms) (\w+)(?: (?!sustained)(\w+))?( sustained)?": (
        lambda data, unit, plan, chapter, sustained: measured.tflops(
            measured.sustained(data) if sustained else data, plan, chapter, unit
        )
    ),
    r"steps (\w+) (\d+) (.+?)( sustained)?": (
        lambda data, plan, head_dim, peer, sustained: measured.steps(
            measured.sustained(data) if sustained else data, plan, int(head_dim), peer
        )
    ),
    r"gains ([\w+]+) (\w+) (\d\d/\w+)(?: ([\w,]+))?": measured.gains,
    r"overall (\w+) (\w+) (.+)": measured.overall,
    r"errors (\w+)": measured.errors,
    r"choices": measured.choices,
    r"scaling": measured.scaling,
    r"agreement": measured.agreement,
    r"standing": measured.standing,
    r"standing sustained": lambda data: measured.standing(measured.sustained(data)),
    r"chapters": measured.chapters,
    r"soak": measured.soak,
    r"layouts (forward|backward)": measured.layouts,
    r"masks (steps|blocks|masks|packed|dropout|scores) (forward|backward)(?: (\d+) (\d+))?": measured.masks,
    r"mask_variants": measured.mask_variants,
    r"large variants": measured.large_variants,
    r"large (\w+)": measured.large,
    r"ring variants": measured.ring_variants,
    r"ring times": measured.ring_times,
    r"ring waits": measured.ring_waits,
    r"ring links": measured.ring_links,
    r"ring changes": measured.ring_changes,
    r"ring million": measured.ring_million,
    r"decoding variants": measured.decoding_variants,
    r"decoding (shapes|steps|pages|ragged|fp8|splits|short|little)": measured.decoding,
    r"sanitizer": measured.sanitizer,
    r"hazards": measured.hazards,
    r"profile": measured.profile,
    r"passes (\d\d/\w+) (\d\d/\w+) (.+?)( sustained)?": (
        lambda data, forward, backward, peer, sustained: measured.passes(
            measured.sustained(data) if sustained else data, (forward, backward), peer
        )
    ),
    r"counters (\w+) (\d+)": lambda data, chapter, number: measured.counters(data, chapter, int(number)),
    r"copies (\w+) (\d+)": lambda data, chapter, number: measured.copies(data, chapter, int(number)),
    **end_to_end.VIEWS,
}
NOT_MEASURED = "*This has not been measured yet: the results will be in `docs/results/{}`.*"
UNMENTIONED = ("longest_context",)  # blocks that are empty until there are results


def make_results(tree: Tree, folder: Path, arguments: str) -> Made:
    file, _, view = arguments.partition(" ")
    for pattern, show in RESULTS.items():
        if match := re.fullmatch(pattern, view):
            break
    else:
        raise BlockError(
            "must be FILE and one of speed, sectors, tflops, ms, steps, gains, overall, errors, choices, "
            "counters, copies, "
            "scaling,"
            " agreement, standing, chapters, passes, soak, layouts, masks, large, ring, decoding, sanitizer, "
            "hazards, "
            "profile, step_times,"
            " step_tokens, step_memory, longest_context, course, losses, sample, models and random_calls: "
            "see the top of tools/docs/lessons.py"
        )
    folder = tree.root / "docs" / "results"
    try:
        data = [json.loads((folder / name).read_text(encoding="utf-8")) for name in file.split("+")]
        return Made(show(*data, *match.groups()))
    except FileNotFoundError as error:
        if view in UNMENTIONED:
            return Made("")
        return Made(NOT_MEASURED.format(Path(error.filename).name))
    except (ValueError, KeyError, TypeError) as error:
        raise BlockError(f"docs/results/{file} has a different format: {error!r}") from None
    except measured.NoSuchMeasurement as error:
        raise BlockError(f"docs/results/{file}: {error}") from None


def _view_text(view: views.View, page: str, anchor: str = "") -> str:
    """An entry of a list. @param page  where all views are listed   @param anchor  of this entry"""
    link = f"[{escaped(view.title)}]({page}#view-{view.name})"
    command = view.command.replace(" ", "\0")  # one word for textwrap
    return textwrap.fill(
        f"- {anchor}{link}: {escaped(view.see)} `{command}`",
        120,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    ).replace("\0", " ")


def _views_of_all(chapters: list[project.Chapter]) -> str:
    """The list of all views, with a heading for each chapter."""
    parts = []
    for chapter in chapters:
        listed = [_view_text(view, "", f'<a id="view-{view.name}"></a>') for view in views.of(chapter).views]
        heading = f"### {chapter.number} {chapter.title}"
        parts += ["\n".join([heading, "", *listed])] if listed else []
    return "\n\n".join(parts)


def make_views(tree: Tree, folder: Path, arguments: str) -> Made:
    lessons = sorted(tree.root.glob("chapters/[0-9][0-9]_*/README.md"))
    chapters = [project.Chapter(lesson.parent) for lesson in lessons]
    try:
        if arguments == "all":
            return Made(_views_of_all(chapters))
        chapter = next((c for c in chapters if c.number == arguments), None)
        of_chapter = views.of(chapter) if chapter else views.Sheet()
    except LearnError as error:
        raise BlockError(str(error)) from None
    if not of_chapter.views:
        raise BlockError(f"there is no chapter {arguments} with a {views.NAME}")
    page = os.path.relpath(tree.root / WATCHING, folder)
    usual = "--rows 5" if int(arguments) < project.FIRST_ATTENTION_CHAPTER else "--causal"
    text = (
        f"**Watch it run.** Each of these pages shows a recorded block of the chapter's kernels, solutions "
        f"included, "
        f"and opens at the moment in question ([how to read them]({page})). `./learn watch {arguments} "
        f"{of_chapter.another or usual}` "
        f"records another input, `./learn watch {arguments} --exercise` your own kernels."
    )
    listed = [_view_text(view, page) for view in of_chapter.views]
    return Made("\n".join([*textwrap.wrap(text, 120), "", *listed]))


MAKERS = {
    "code": make_code,
    "program": make_program,
    "exercises": make_exercises,
    "solution": make_solution,
    "open": make_open,
    "tasks": make_tasks,
    "output": make_output,
    "counters": make_counters,
    "blocks": make_blocks,
    "onchip": make_onchip,
    "learn": make_learn,
    "race": make_race,
    "planted": make_planted,
    "drawing": make_drawing,
    "results": make_results,
    "views": make_views,
}


# --- Markdown files -------------------------------------------------------------------------------

OPEN = re.compile(r"<!-- (\w+): (.+) -->")
CLOSE = "<!-- end -->"


@dataclass(frozen=True)
class Block:
    """A marked block. Lines count from 0; lines[begin:end] is the text between the marks."""

    kind: str
    arguments: str
    begin: int
    end: int


def lines_of_code(lines: list[str]) -> set[int]:
    """Which lines of a Markdown file are fenced code, fences included."""
    code, fence = set(), ""
    for number, line in enumerate(lines):
        match = re.match(r"\s*(```+|~~~+)", line)
        if fence or match:
            code.add(number)
        if match and not fence:
            fence = match[1]
        elif fence and line.strip().startswith(fence):
            fence = ""
    return code


def blocks_of(lines: list[str]) -> list[Block]:
    """The blocks of a Markdown file, except in fenced code.

    @throws BlockError  with the line as its second argument
    """
    found, code, at = [], lines_of_code(lines), 0
    while at < len(lines):
        match = OPEN.fullmatch(lines[at].strip())
        if match and at not in code:
            kind, arguments = match.groups()
            if kind not in MAKERS:
                known = ", ".join(MAKERS)
                raise BlockError(f"there is no block {kind}: must be one of {known}", at)
            end = at + 1
            while end < len(lines) and lines[end].strip() != CLOSE:
                if OPEN.fullmatch(lines[end].strip()):
                    end = len(lines)
                end += 1
            if end >= len(lines):
                raise BlockError(f"the block {kind} has no {CLOSE}", at)
            found.append(Block(kind, arguments, at + 1, end))
            at = end
        at += 1
    return found


MEASURED_ERROR = re.compile(r"\d(?:\.\d)?e-?\d+(?= ?/)")


def same(old: str, new: str) -> bool:
    """Whether texts are equal apart from spaces and rounding errors ("4.4e-7/3.2e-6"), which depend on the
    libc's expf.
    """

    def essence(text: str) -> list[str]:
        return MEASURED_ERROR.sub("error", text).split()

    return essence(old) == essence(new) if MEASURED_ERROR.search(new) else old == new


LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|(?:src|href)=\"([^\"]+)\"")


def broken_links(path: Path, lines: list[str]) -> list[tuple[int, str]]:
    """Relative links and images that lead nowhere: line (from 0) and target."""
    broken, code = [], lines_of_code(lines)
    for number, line in enumerate(lines):
        if number in code:
            continue
        for match in LINK.finditer(re.sub(r"`[^`]*`", "", line)):
            target = (match[1] or match[2]).split("#")[0]
            elsewhere = re.match(r"[a-z][a-z0-9+.-]*:", target)
            if target and not elsewhere and not (path.parent / target).exists():
                broken.append((number, target))
    return broken


def given_away(path: Path, lines: list[str]) -> list[tuple[int, str]]:
    """Where the open part of a lesson prints a solution of its chapter: line (from 0) and what it prints.

    A line counts if it has 12 characters or more, without white space and comments, and occurs nowhere else
    in the files with exercises. A barrier alone, such as __syncwarp(), does not count.
    """
    if not (path.parent / sheet.NAME).is_file():
        return []
    chapter = sheet.Sheet(path.parent, path.parent.name)

    def bare(line: str) -> str:
        return re.sub(r"\s+", "", line.split("//")[0])

    elsewhere = "\n".join(bare(line) for text in chapter.texts.values() for line in regions.outside(text))
    secrets = {
        code: f"the solution of exercise {region.number}"
        for region in chapter.regions
        for line in region.solution
        if len(code := bare(line)) >= 12
        and code not in elsewhere
        and not re.fullmatch(r"__sync\w+\(\);", code)
    }
    found, depth = [], 0
    for number, line in enumerate(lines):
        depth += line.count("<details>")
        text = re.sub(r"\s+", "", line)
        if depth == 0:
            found += [(number, what) for code, what in secrets.items() if code in text]
        depth -= line.count("</details>")
    return found


@dataclass
class Findings:
    """The findings: lines that begin with file and line number."""

    outdated: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    given_away: list[str] = field(default_factory=list)


def process(tree: Tree, path: Path, check: bool, pool: ThreadPoolExecutor) -> Findings:
    """Brings a Markdown file up to date, or reports what is out of date."""
    shown = path.relative_to(tree.root) if path.is_relative_to(tree.root) else path
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    findings = Findings()
    try:
        blocks = blocks_of(lines)
    except BlockError as error:
        message, at = error.args
        findings.errors.append(f"{shown}:{at + 1}: {message}")
        blocks = []

    making = [pool.submit(MAKERS[b.kind], tree, path.parent, b.arguments) for b in blocks]
    for block, future in reversed(list(zip(blocks, making, strict=True))):
        where = f"{shown}:{block.begin}: {block.kind}: {block.arguments}"
        try:
            made = future.result()
        except LeftOut as error:
            print(f"{where}: not checked: {error}")
            continue
        except BlockError as error:
            findings.errors.insert(0, f"{where}: {error}")
            continue
        old = "\n".join(lines[block.begin : block.end])
        stale = not same(old, made.text)
        for file, content in made.files.items():
            if not file.is_file() or file.read_text(encoding="utf-8") != content:
                stale = True
                if not check:
                    file.write_text(content, encoding="utf-8")
        if stale:
            findings.outdated.insert(0, f"{where}: out of date")
            lines[block.begin : block.end] = made.text.splitlines()
    new = "\n".join(lines) + "\n"
    if not check and new != text:
        path.write_text(new, encoding="utf-8")
    for number, target in broken_links(path, lines):
        findings.links.append(f"{shown}:{number + 1}: there is no {target}")
    if not findings.errors:
        for number, what in given_away(path, lines):
            where = f"{shown}:{number + 1}"
            findings.given_away.append(f"{where}: prints {what} outside of a fold")
    return findings


def markdown_files(root: Path) -> list[Path]:
    """Every Markdown file of the tree, except in folders of other origin."""
    return [
        path
        for path in sorted(root.rglob("*.md"))
        if not any(
            part in NOT_OURS or part.startswith((".", "venv")) for part in path.relative_to(root).parts[:-1]
        )
    ]


def main(arguments: list[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(
        description="Fills the marked blocks of the Markdown files, and checks their links.",
        epilog="tools/docs/lessons.py begins with the list of the kinds of blocks.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if out of date")
    parser.add_argument("--build", type=Path, metavar="DIR", help=f"default {SIM}")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    args = parser.parse_args(arguments)
    tree = Tree(root, (args.build or root / SIM).resolve())
    fragment_maps.build = tree.build
    files = [path.resolve() for path in args.files] or markdown_files(root)
    for path in files:
        if not path.is_file():
            print(f"lessons: there is no file {path}", file=sys.stderr)
            return 2

    with ThreadPoolExecutor() as pool:
        findings = [process(tree, path, args.check, pool) for path in files]
    errors = [line for f in findings for line in f.errors]
    wrong = [line for f in findings for line in f.links + f.given_away]
    outdated = [line for f in findings for line in f.outdated]
    for line in errors + wrong:
        print(line, file=sys.stderr)
    for line in outdated:
        print(line if args.check else line.replace("out of date", "rewritten"))
    if args.check and outdated:
        print("python3 -m tools.docs.lessons brings them up to date")
    if errors:
        return 2
    return 1 if wrong or (args.check and outdated) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
