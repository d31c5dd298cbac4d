"""Checks a learner's kernels, and finds the exercise that is wrong.

The faulty exercise is measured, not guessed: each answer is tested alone, in a copy of the learner's files that
has the solution of every other exercise.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from . import diagnosis, machine, phases, project, regions, trials
from .console import Console, LearnError
from .exercises import Exercise

RIGHT, WRONG, BLANK, UNKNOWN = "right", "wrong", "blank", "not tried"


@dataclass
class Verdict:
    """The outcome of a check."""

    passed: bool = False
    exercise: int | None = None  # the faulty one
    finding: diagnosis.Finding | None = None
    exercises: dict[int, str] = field(default_factory=dict)  # RIGHT .. UNKNOWN
    compiler: list[str] = field(
        default_factory=list
    )  # its errors in the learner's files
    remark: str | None = None
    attempts: list[trials.Attempt] = field(default_factory=list)  # with all answers

    @property
    def kind(self) -> str | None:
        return (
            "compile" if self.compiler else self.finding.kind if self.finding else None
        )

    def summary(self) -> dict:
        """The data that ./learn check --json prints and that is stored until the next check."""
        return {
            "passed": self.passed,
            "exercise": self.exercise,
            "exercises": {
                str(number): state for number, state in self.exercises.items()
            },
            "kind": self.kind,
            "finding": asdict(self.finding) if self.finding else None,
            "compiler": self.compiler,
            "remark": self.remark,
        }


# --- the compiler ---------------------------------------------------------------------------------

ERROR = re.compile(
    r"^(?P<file>[^\s:(][^:(]*)(?::(\d+)(?::\d+)?|\((\d+)\)): (?:fatal )?error:? "
)
SHOWN_ERRORS = 3


def compiler_errors(
    output: list[str], files: list[Path]
) -> tuple[list[str], list[tuple[Path, int]]]:
    """The first errors in these files, each with the compiler's explanation, and their positions.

    If all errors are elsewhere, the first of those: chapter.cu does not find what it needs in the files.
    """
    own = {file.resolve(): file for file in files}
    inside: list[tuple[Path, int, list[str]]] = []
    elsewhere: list[str] = []
    block: list[str] | None = None
    for line in output:
        found = ERROR.match(line)
        if found:
            block = [line.replace(f"{project.ROOT}/", "")]
            if file := own.get(Path(found["file"]).resolve()):
                inside.append((file, int(found[2] or found[3]), block))
            elif not elsewhere:
                elsewhere = block
        elif block is not None and re.match(r"^\s+(\d+ )?\|", line) and len(block) < 3:
            block.append(line)
        else:
            block = None
    if not inside:
        return elsewhere or output[-5:], []
    text = [line for _, _, lines in inside[:SHOWN_ERRORS] for line in lines]
    if len(inside) > SHOWN_ERRORS:
        text.append(f"and {len(inside) - SHOWN_ERRORS} more errors")
    return text, [(file, line) for file, line, _ in inside]


def make(console: Console, build: Path, target: str) -> list[str] | None:
    """Builds a target. Returns the output if the build fails."""

    def reader(phase: phases.Phase, line: str) -> None:
        if line.startswith("["):
            console.update(f"   building, {phase.elapsed}  {line}")

    command = ["cmake", "--build", str(build), "--target", target]
    env = machine.cuda_environment() | phases.NINJA_ENVIRONMENT
    status, phase = phases.execute(
        console, "build", command, reader, env=env, quiet=True
    )
    return phase.output if status != 0 else None


def require(console: Console, build: Path, target: str) -> None:
    """Builds a target without the learner's files: if that fails, the tree itself is broken."""
    output = make(console, build, target)
    if output is not None:
        console.say("\n".join(output))
        raise LearnError(f"building {target} failed: see the output above", 1)


# --- which exercise -------------------------------------------------------------------------------


def _blame_for_compiling(
    verdict: Verdict, exercise: Exercise, errors: list[tuple[Path, int]]
) -> None:
    """Blames the exercise with unmatched brackets, or else the last one that begins before the first error.

    The compiler reports a missing semicolon on the line after it. Lines count from 1.
    """
    try:
        where = exercise.own_places()
    except regions.RegionError as error:
        verdict.remark = str(error)
        return
    for number, place in where.items():
        if regions.unbalanced(place.lines):
            verdict.exercise = number
            verdict.remark = f"the brackets of exercise {number} do not match"
            return
    for file, line in errors[:1]:
        before = [
            number
            for number, place in where.items()
            if place.file == file.name and place.begin < line
        ]
        verdict.exercise = max(before, default=None)


def _try_alone(
    bench: trials.Workbench,
    exercise: Exercise,
    copy: dict[str, str],
    keep: int | None,
    quick: bool = False,
) -> list[trials.Attempt]:
    """Tries one answer, with solutions in place everywhere else. Results name the lines of the learner's copy.

    @param quick  only one variant, and inputs of one size: this compiles a fraction of the kernels
    """
    folder = project.shown(exercise.folder)
    alone = regions.alone(copy, exercise.regions, folder, keep)
    inputs, variant = exercise.inputs_of(keep), None
    if quick:
        inputs, variant = trials.most_alike(inputs), exercise.variant_of(keep)
    attempts = bench.try_files(alone.texts, inputs, variant)
    for attempt in attempts:
        for defect in (attempt.result or {}).get("defects", []):
            defect["message"] = PLACE.sub(
                lambda found: _in_own_lines(found[0], alone, keep), defect["message"]
            )
    return attempts


LINE = r"\b[\w.-]+\.\w+:\d+"
# A line of the simulator's reports, with the lines from which its function is called.
PLACE = re.compile(rf"{LINE}(?: \(from {LINE}(?:, {LINE})*\))?")


def _in_own_lines(place: str, alone: regions.Alone, keep: int | None) -> str:
    """A place in the learner's copy instead of the one that was tried. A line of the answer comes first:

    "tile.cuh:13 (from kernel.cuh:171, kernel.cuh:340)" -> "kernel.cuh:168 (calls tile.cuh:13; from kernel.cuh:337)"

    @param keep  the number of the answer
    """

    def renumbered(file: str, line: int) -> str:
        if file not in alone.lines:
            return f"{file}:{line}"
        if own := alone.lines[file][line - 1]:
            return f"{file}:{own}"
        number = alone.exercises[file][line - 1]
        within = alone.exercises[file][:line].count(number)
        function = regions.function_at(alone.texts[file], line)
        where = f"{function}() of {file}" if function else file
        return f"line {within} of exercise {number}'s solution in {where}"

    frames = [line.rsplit(":", 1) for line in re.findall(LINE, place)]
    texts = [renumbered(file, int(line)) for file, line in frames]
    answers = (
        at
        for at, (file, line) in enumerate(frames)
        if keep is not None
        and file in alone.lines
        and alone.exercises[file][int(line) - 1] == keep
    )
    first = next(answers, 0)
    callers = ", ".join(texts[first + 1 :])
    around = [f"calls {', '.join(reversed(texts[:first]))}"] if first else []
    around += [f"from {callers}"] if callers else []
    return texts[first] + (f" ({'; '.join(around)})" if around else "")


def judge(bench: trials.Workbench, exercise: Exercise, copy: dict[str, str]) -> Verdict:
    """Finds the faulty exercise of a copy that fails, and what is wrong with it. Uses the simulator."""
    verdict = Verdict()
    limits = exercise.limits
    solution = bench.solution(tuple(exercise.inputs)) if limits else []
    try:
        folder = project.shown(exercise.folder)
        where = regions.places(copy, exercise.regions, folder)
    except regions.RegionError as error:
        verdict.remark = (
            f"{error}: without them, the exercises cannot be tested one at a time"
        )
        return verdict

    # A mistake outside the exercises would make every one of them fail.
    changed = _first_change_outside(copy, exercise.blank_copy)
    if changed:
        try:
            attempts = _try_alone(bench, exercise, copy, None)
        except trials.CompileError:
            attempts = []
        verdict.finding = diagnosis.explain(attempts, limits, solution)
        if not attempts or verdict.finding:
            verdict.remark = (
                f"the mistake is outside the exercises, where you have: {changed}"
            )
            return verdict

    verdict.exercises = {
        region.number: BLANK
        if regions.same_code(where[region.number].lines, region.stub)
        else UNKNOWN
        for region in exercise.regions
    }
    states = verdict.exercises
    first_blank = next((n for n in states if states[n] == BLANK), None)
    tried = [n for n in states if states[n] == UNKNOWN or n == first_blank]

    def try_alone(number: int, quick: bool) -> list[trials.Attempt] | None:
        try:
            return _try_alone(bench, exercise, copy, number, quick)
        except trials.CompileError:
            return None  # it needs something that another exercise defines

    # A quick pass first. Answers that pass it are tested again in full before a blank, which is wrong, is blamed.
    for quick in (True, False):
        numbers = [n for n in tried if states[n] != BLANK or not quick]
        quickly = [quick or states[n] == BLANK for n in numbers]
        with ThreadPoolExecutor(machine.cores()) as pool:
            attempts_at = pool.map(try_alone, numbers, quickly)
            outcomes = dict(zip(numbers, attempts_at, strict=True))
        for number, attempts in outcomes.items():
            if attempts is None:
                continue
            finding = diagnosis.explain(attempts, limits, solution)
            if states[number] != BLANK:
                states[number] = WRONG if finding else RIGHT
            if finding and verdict.exercise is None:
                verdict.exercise, verdict.finding = number, finding
        if verdict.finding:
            break
    return verdict


def _first_change_outside(copy: dict[str, str], blank: dict[str, str]) -> str | None:
    for name, text in copy.items():
        own, fresh = regions.outside(text), regions.outside(blank[name])
        for mine, original in zip(own, fresh, strict=False):
            if mine != original:
                return mine.strip() or "an empty line"
        if len(own) != len(fresh):
            return "a different number of lines"
    return None


# --- the whole check ------------------------------------------------------------------------------


def check(
    console: Console,
    build: Path,
    exercise: Exercise,
    simulator: Callable[[], Path | None],
) -> Verdict:
    """Builds and tests the learner's files.

    @param build      a configured build
    @param simulator  returns a configured build with Ninja and the simulator, which finds the faulty exercise, or
                      None if there cannot be one. Called only if a file is wrong
    """
    copy = exercise.own_copy()
    output = make(console, build, exercise.target)
    if output is not None:
        text, errors = compiler_errors(output, exercise.files)
        verdict = Verdict(compiler=text)
        _blame_for_compiling(verdict, exercise, errors)
        return verdict
    console.update("   running")
    attempts = trials.run(build / "bin" / exercise.target, exercise.inputs)
    console.clear()
    own = diagnosis.explain(attempts)
    if own is None and exercise.limits:
        require(console, build, exercise.chapter.executable)
        solution = trials.run(
            build / "bin" / exercise.chapter.executable, exercise.inputs
        )
        own = diagnosis.explain(attempts, exercise.limits, solution)
    if own is None:
        states = dict.fromkeys((region.number for region in exercise.regions), RIGHT)
        return Verdict(passed=True, exercises=states, attempts=attempts)

    sim = simulator()
    verdict = _judge_on(console, sim, exercise, copy) if sim else Verdict()
    if not verdict.finding:
        verdict.finding = own
        if not verdict.remark and verdict.exercises:
            verdict.remark = (
                "each exercise is right by itself, but they do not work together"
                if sim == build
                else "the simulator finds nothing wrong: the fault shows only on this GPU"
            )
    verdict.attempts = attempts
    return verdict


def _judge_on(
    console: Console, sim: Path, exercise: Exercise, copy: dict[str, str]
) -> Verdict:
    require(console, sim, exercise.chapter.executable)
    console.update("   testing each exercise by itself")
    verdict = judge(trials.Workbench(sim, exercise.chapter), exercise, copy)
    console.clear()
    return verdict
