"""Checks a learner's kernels, and finds the exercise that is wrong.

The faulty exercise is measured, not guessed: each answer is tested alone, in a copy of the learner's files
that has the solution of every other exercise.
"""

from __future__ import annotations

import contextlib
import functools
import re
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from . import diagnosis, examples, machine, maps, phases, project, regions, setup, trials
from .console import Console, LearnError
from .exercises import Exercise

RIGHT, WRONG, UNKNOWN = "right", "wrong", "not tried"
BLANK, GIVEN = UNTOUCHED = regions.BLANK, regions.GIVEN
EXAMPLES_DIFFER = "is right on all inputs tried, but not in this example"
SO_FAR = "right so far"  # another answer is wrong, and the rest of the tests has been left out


@dataclass(frozen=True)
class Stage:
    """How thoroughly an answer is tested."""

    quick: bool  # one variant, and inputs of one size that are about the exercise: compiles fewer kernels
    limits: bool  # whether it must do with what the solution does with


# An answer that fails is tested no further. Wrong numbers come before limits. The limits of the one variant,
# which is compiled and has run by then, come before the other variants. No answer is right before all of them
# have run on all inputs.
STAGES = (Stage(True, False), Stage(True, True), Stage(False, True))


@dataclass
class Verdict:
    """The outcome of a check."""

    passed: bool = False
    exercise: int | None = None  # the faulty one, or else the first that is untouched
    finding: diagnosis.Finding | None = None
    exercises: dict[int, str] = field(default_factory=dict)  # RIGHT .. SO_FAR
    compiler: list[str] = field(default_factory=list)  # its errors in the learner's files
    warnings: list[str] = field(default_factory=list)  # of the compiler, about the learner's lines
    inputs: list[str] = field(default_factory=list)  # on which one answer that is right has been tried
    printed: trials.Printed | None = None  # by the kernels
    remark: str | None = None
    notes: dict[int, str] = field(default_factory=dict)  # on right exercises
    attempts: list[trials.Attempt] = field(default_factory=list)  # with all answers

    @property
    def untouched(self) -> bool:
        """Whether the exercise to do next has no answer yet, and all answers are right."""
        return self.exercises.get(self.exercise) in UNTOUCHED

    @property
    def kind(self) -> str | None:
        return "compile" if self.compiler else self.finding.kind if self.finding else None

    def summary(self) -> dict:
        """The data that ./learn check --json prints and that is stored until the next check."""
        return {
            "passed": self.passed,
            "exercise": self.exercise,
            "exercises": {str(number): state for number, state in self.exercises.items()},
            "kind": self.kind,
            "finding": asdict(self.finding) if self.finding else None,
            "compiler": self.compiler,
            "remark": self.remark,
            "notes": {str(number): note for number, note in self.notes.items()},
        }


# --- the compiler ---------------------------------------------------------------------------------

MESSAGE = re.compile(
    r"^(?P<file>[^\s:(][^:(]*)(?::(?P<line>\d+)(?::\d+)?|\((?P<of_nvcc>\d+)\)): "
    r"(?:fatal )?(?P<kind>error|warning|note)\b"
)
CODE = re.compile(r"^\s+(\d+ )?\|")  # a line of the source, or the mark below it
SHOWN_ERRORS = SHOWN_WARNINGS = 3
PRINTED_LINES = 20  # of the kernels

Position = tuple[Path, int]  # lines count from 1


@dataclass
class Message:
    """An error or a warning of the compiler."""

    kind: str  # "error" or "warning"
    at: Position
    lines: list[str]  # the message and the code
    notes: list[Position] = field(default_factory=list)  # what else it is about


def compiler_messages(output: Iterable[str]) -> list[Message]:
    """The errors and the warnings of g++, clang++ or nvcc, without repetitions by other instantiations."""
    found: dict[tuple, Message] = {}
    message, in_note = None, False
    for line in output:
        if match := MESSAGE.match(line):
            at = Path(match["file"]).resolve(), int(match["line"] or match["of_nvcc"])
            in_note = match["kind"] == "note"
            if not in_note:
                text = line.replace(f"{project.ROOT}/", "")
                message = found.setdefault((at, text), Message(match["kind"], at, [text]))
            elif message:
                message.notes.append(at)
        elif not (message and CODE.match(line)):
            message = None
        elif not in_note and len(message.lines) < 3:
            message.lines.append(line)
    return list(found.values())


def compiler_errors(output: list[str], files: list[Path]) -> tuple[list[str], list[Position]]:
    """The first errors in these files, each with the compiler's explanation, and their positions.

    If all errors are elsewhere, the first of those: chapter.cu does not find what it needs in the files.
    """
    own = [file.resolve() for file in files]
    errors = [m for m in compiler_messages(output) if m.kind == "error"]
    inside = [error for error in errors if error.at[0] in own]
    if not inside:
        return errors[0].lines if errors else output[-5:], []
    text = [line for error in inside[:SHOWN_ERRORS] for line in error.lines]
    if len(inside) > SHOWN_ERRORS:
        text.append(f"and {len(inside) - SHOWN_ERRORS} more errors")
    return text, [error.at for error in inside]


def compiler_warnings(output: Iterable[str], own: set[Position]) -> list[str]:
    """The first warnings about the learner's lines. @param own  these lines"""
    warnings = [m for m in compiler_messages(output) if m.kind == "warning"]
    about = [m for m in warnings if own & {m.at, *m.notes}]
    return [line for warning in about[:SHOWN_WARNINGS] for line in warning.lines]


def make(console: Console, build: Path, target: str) -> tuple[int, list[str]]:
    """Builds a target. Returns Ninja's exit status, and what it and the compiler print.

    LearnError if its chapter cannot be built here.
    """
    if not (build / "bin" / target).exists():
        console.say(f"-- build: {target} and what it needs; later builds are short")

    def reader(phase: phases.Phase, line: str) -> None:
        if phases.NinjaReader.STATUS.match(line):
            phase.activity(line)

    command = ["cmake", "--build", str(build), "--target", target]
    env = machine.cuda_environment() | phases.NINJA_ENVIRONMENT
    status, phase = phases.execute(console, "build", command, reader, env=env, quiet=True)
    if status != 0 and any(f"unknown target '{target}'" in x for x in phase.output):
        left_out = setup.configure(console, build.name)
        if reason := setup.why_left_out(left_out, target):
            raise LearnError(reason, 3)
    return status, phase.output


def look(bench: trials.Workbench, exercise: Exercise) -> Verdict | None:
    """Lets the compiler read the learner's files, which takes a fraction of a build. Returns a verdict if it
    finds errors.
    """
    try:
        bench.look(exercise.own_copy(), exercise.inputs)
    except trials.CompileError as error:
        return _failure_in(exercise, error)
    return None


def _failure_in(exercise: Exercise, error: trials.CompileError) -> Verdict:
    """The verdict on the learner's files, which do not compile in a trial."""
    said = str(error)
    for name in exercise.names:
        said = said.replace(f"{exercise.chapter.path}/{name}", f"{exercise.folder}/{name}")
    return compile_failure(exercise, said.splitlines())


def can_look(build: Path) -> bool:
    """Whether a build has the commands that trials need: Ninja's, for the simulator."""
    return not build.name.startswith("cuda") and (build / "build.ninja").is_file()


def build_own(
    console: Console, build: Path, exercise: Exercise, looked: bool = False
) -> tuple[Verdict | None, list[str]]:
    """Builds the learner's program. Returns a verdict if that fails, and the warnings about the learner's
    lines.

    The compiler warns only when it runs, so its output is stored for later builds that have nothing to do.

    @param looked  whether look() has found nothing
    """
    if not looked and can_look(build):
        with contextlib.suppress(LearnError):  # without the chapter: make() says why
            if failed := look(trials.Workbench(build, exercise.chapter), exercise):
                return failed, []
    status, output = make(console, build, exercise.target)
    if status != 0:
        return compile_failure(exercise, output), []
    kept = build / "exercises" / f"{exercise.chapter.name}.compiler"
    if any(f"{exercise.target}_kernels.dir" in line for line in output):
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text("\n".join(output), encoding="utf-8")
    elif kept.exists():
        output = kept.read_text(encoding="utf-8").splitlines()
    return None, compiler_warnings(output, own_lines(exercise))


def own_lines(exercise: Exercise) -> set[Position]:
    """What the learner has written."""
    return {
        ((exercise.folder / name).resolve(), line)
        for name, text in exercise.own_copy().items()
        for line in regions.changed_lines(text, exercise.blank_copy[name])
    }


def require(console: Console, build: Path, target: str) -> None:
    """Builds a target without the learner's files: if that fails, the tree itself is broken."""
    status, output = make(console, build, target)
    if status != 0:
        console.say("\n".join(output))
        raise LearnError(f"building {target} failed: see the output above", 1)


# --- which exercise -------------------------------------------------------------------------------


def compile_failure(exercise: Exercise, output: list[str]) -> Verdict:
    """The verdict on files that do not compile. @param output  the compiler's"""
    text, errors = compiler_errors(output, exercise.files)
    verdict = Verdict(compiler=text)
    _blame_for_compiling(verdict, exercise, errors)
    return verdict


def _blame_for_compiling(verdict: Verdict, exercise: Exercise, errors: list[Position]) -> None:
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
        before = [number for number, place in where.items() if place.file == file.name and place.begin < line]
        verdict.exercise = max(before, default=None)


def _try_alone(
    bench: trials.Workbench,
    exercise: Exercise,
    copy: dict[str, str],
    keep: int | None,
    quick: int | None = None,
) -> list[trials.Attempt]:
    """Tries one answer, with solutions in place everywhere else. Results name the lines of the learner's
    copy.

    @param quick  an exercise: only its variant, and inputs of one size
    """
    folder = project.shown(exercise.folder)
    alone = regions.alone(copy, exercise.regions, folder, keep)
    inputs, variant = exercise.inputs, None
    if quick:
        inputs, variant = exercise.quick_trial_of(quick)
    free = exercise.free_of(keep)
    tried = bench.try_files(alone.texts, inputs, variant)
    attempts = [diagnosis.without_excess(attempt, free) for attempt in tried]
    for attempt in attempts:
        result = attempt.result or {}
        for defect in result.get("defects", []):
            defect["message"], defect["own"] = _told(defect["message"], alone, keep)
        if waits := result.get("early_waits"):
            result["early_waits"] = {_told(place, alone, keep)[0]: count for place, count in waits.items()}
    return attempts


LINE = r"\b[\w.-]+\.\w+:\d+"
# A line of the simulator's reports, with the lines from which its function is called.
PLACE = re.compile(rf"{LINE}(?: \(from {LINE}(?:, {LINE})*\))?")


def _told(message: str, alone: regions.Alone, keep: int | None) -> tuple[str, list[str]]:
    """A message with places in the learner's copy instead of those that were tried, and the lines of the
    answer in it.
    """
    own: list[str] = []

    def told(found: re.Match) -> str:
        text, line = _in_own_lines(found[0], alone, keep)
        own.extend([line] if line else [])
        return text

    return PLACE.sub(told, message), own


def _in_own_lines(place: str, alone: regions.Alone, keep: int | None) -> tuple[str, str | None]:
    """A place in the learner's copy instead of the one that was tried, and the line of the answer in it,
    which comes first:

    "tile.cuh:13 (from kernel.cuh:171, kernel.cuh:340)" -> "kernel.cuh:168 (calls tile.cuh:13; from
    kernel.cuh:337)"

    @param keep  the number of the answer
    """

    def renumbered(file: str, line: int, is_first: bool) -> str:
        if file not in alone.lines:
            return f"{file}:{line}"
        if own := alone.lines[file][line - 1]:
            return f"{file}:{own}"
        number = alone.exercises[file][line - 1]
        function = regions.function_at(alone.texts[file], line)
        where = f"{function}()" if function else file
        if not is_first:
            return f"exercise {number}'s solution in {where}"
        within = alone.exercises[file][:line].count(number)
        of = f" of {file}" if function else ""
        return f"line {within} of exercise {number}'s solution in {where}{of}"

    frames = [line.rsplit(":", 1) for line in re.findall(LINE, place)]
    answers = [
        at
        for at, (file, line) in enumerate(frames)
        if keep is not None and file in alone.lines and alone.exercises[file][int(line) - 1] == keep
    ]
    first = answers[0] if answers else 0
    texts = [renumbered(file, int(line), at == first) for at, (file, line) in enumerate(frames)]
    callers = ", ".join(texts[first + 1 :])
    around = [f"calls {', '.join(reversed(texts[:first]))}"] if first else []
    around += [f"from {callers}"] if callers else []
    text = texts[first] + (f" ({'; '.join(around)})" if around else "")
    return text, texts[first] if answers else None


Tell = Callable[[Verdict], None]


def judge(
    bench: trials.Workbench,
    exercise: Exercise,
    copy: dict[str, str],
    tell: Tell = lambda verdict: None,
    stages: tuple[Stage, ...] = STAGES,
) -> Verdict:
    """Finds the faulty exercise of a copy that fails, and what is wrong with it. Uses the simulator.

    @param tell  called with the first finding, while other answers are still tested
    """
    verdict = Verdict()
    try:
        folder = project.shown(exercise.folder)
        where = regions.places(copy, exercise.regions, folder)
    except regions.RegionError as error:
        verdict.remark = f"{error}: without them, the exercises cannot be tested one at a time"
        return verdict

    verdict.exercises = {
        region.number: region.untouched
        if regions.same_code(where[region.number].lines, region.stub)
        else UNKNOWN
        for region in exercise.regions
    }
    states = verdict.exercises
    answered = [n for n in states if states[n] == UNKNOWN]

    # Before a blank, which is wrong, is blamed, the answers are tested in full.
    for stage in stages:
        if not stage.quick and (outside := explain_outside(bench, exercise, copy, stage)):
            return outside
        alone = partial(explain_alone, bench, exercise, copy, stage=stage, is_last=stage == stages[-1])
        passed = RIGHT if stage == STAGES[-1] else SO_FAR
        with ThreadPoolExecutor(machine.cores()) as pool:
            outcomes = zip(answered, pool.map(alone, answered), strict=True)
            for number, (state, finding) in outcomes:
                states[number] = passed if state == RIGHT else state
                if finding and verdict.exercise is None:
                    # A mistake outside the exercises would make every one of them fail.
                    if stage.quick and (outside := explain_outside(bench, exercise, copy, stage, number)):
                        return outside
                    finding.details[:0] = maps.remarks(exercise, copy, number)
                    verdict.exercise, verdict.finding = number, finding
                    tell(verdict)
        if verdict.finding:
            return verdict
    verdict.exercise = next((n for n in states if states[n] in UNTOUCHED), None)
    return verdict


def explain_outside(
    bench: trials.Workbench, exercise: Exercise, copy: dict[str, str], stage: Stage, number: int | None = None
) -> Verdict | None:
    """The verdict on what is outside of the exercises, which are solved; None if that is right.

    @param number  the exercise whose quick trial is made
    """
    changed = _first_change_outside(copy, exercise.blank_copy)
    if not changed:
        return None
    finding, limits = None, limits_of(exercise, copy) if stage.limits else []
    try:
        quick = number if stage.quick else None
        attempts = _try_alone(bench, exercise, copy, None, quick)
        solution = bench.solution(tuple(exercise.inputs)) if limits else []
        finding = diagnosis.explain(attempts, limits, solution)
    except trials.CompileError:
        attempts = []
    if attempts and not finding:
        return None
    remark = f"the mistake is outside the exercises, where you have: {changed}"
    return Verdict(finding=finding, remark=remark)


def explain_alone(
    bench: trials.Workbench,
    exercise: Exercise,
    copy: dict[str, str],
    number: int,
    stage: Stage,
    is_last: bool = False,
) -> tuple[str, diagnosis.Finding | None]:
    """Whether one answer is RIGHT or WRONG, and how; UNKNOWN if it needs something that another exercise
    defines.

    @param is_last  of the stages: an answer that passes must have the chapter's values in all examples
    """
    remark = functools.partial(examples.remark, exercise, copy, number)
    try:
        quick = number if stage.quick else None
        attempts = _try_alone(bench, exercise, copy, number, quick)
    except trials.CompileError:
        return UNKNOWN, None
    except LearnError as error:  # an answer may ask for more memory than there is
        if told := remark():
            return WRONG, diagnosis.Finding("examples", "", "", str(error), [told])
        raise
    limits = limits_of(exercise, copy) if stage.limits else []
    solution = bench.solution(tuple(exercise.inputs)) if limits else []
    more = exercise.more_of(number)
    finding = diagnosis.explain(attempts, limits, solution, more)
    if (finding or is_last) and (told := remark()):
        finding = finding or diagnosis.Finding("examples", "", "", EXAMPLES_DIFFER)
        finding.details.insert(0, told)
    return WRONG if finding else RIGHT, finding


def explain_in_full(
    bench: trials.Workbench, exercise: Exercise, copy: dict[str, str], number: int
) -> tuple[str, diagnosis.Finding | None]:
    """The same in all stages, up to the first that the answer fails."""
    state, finding = UNKNOWN, None
    for stage in STAGES:
        state, finding = explain_alone(bench, exercise, copy, number, stage, stage == STAGES[-1])
        if state != RIGHT:
            break
    return state, finding


def limits_of(exercise: Exercise, copy: dict[str, str]) -> list[str]:
    """The limits that apply to a copy: kernels that are changed for an open exercise may exceed some."""
    if not _first_change_outside(copy, exercise.blank_copy):
        return exercise.limits
    free = {name for goal in exercise.opens for name in goal.may_exceed}
    return [name for name in exercise.limits if name not in free]


def _first_change_outside(copy: dict[str, str], blank: dict[str, str]) -> str | None:
    """The first line outside of the exercises that is not as `start` has written it, but for white space."""

    def code(text: str) -> list[str]:
        return [line for line in map(str.strip, regions.outside(text)) if line]

    for name, text in copy.items():
        own, fresh = code(text), code(blank[name])
        for mine, original in zip(own, fresh, strict=False):
            if mine != original:
                return mine
        if len(own) != len(fresh):
            return "a different number of lines"
    return None


# --- the whole check ------------------------------------------------------------------------------


def check(
    console: Console,
    build: Path,
    exercise: Exercise,
    simulator: Callable[[], Path | None],
    tell: Tell = lambda verdict: None,
) -> Verdict:
    """Builds and tests the learner's files.

    @param build      a configured build
    @param simulator  returns a configured build with Ninja and the simulator, which finds the faulty
                      exercise, or None if there cannot be one. Called only if a file is wrong
    @param tell       called with the first finding, as soon as it is made
    """
    copy = exercise.own_copy()
    looked = can_look(build) and simulator() is not None
    if looked and (first := _check_answers(console, build, exercise, copy, tell)):
        return first
    failed, warnings = build_own(console, build, exercise, looked)
    if failed:
        return failed
    program = build / "bin" / exercise.target
    console.update("   running")
    attempts = trials.run(program, exercise.inputs)
    console.clear()
    verdict = _verdict_on(console, build, exercise, copy, attempts, simulator, tell)
    verdict.attempts, verdict.warnings = attempts, warnings
    if verdict.passed and exercise.watches:
        require(console, build, exercise.chapter.executable)
        solution = build / "bin" / exercise.chapter.executable
        verdict.notes = notes_on(exercise, program, solution)
    verdict.printed = printed_by(program, verdict)
    return verdict


def _check_answers(
    console: Console, sim: Path, exercise: Exercise, copy: dict[str, str], tell: Tell
) -> Verdict | None:
    """Tests each answer by itself, without the whole program, which takes the compiler far longer and fails
    if there are blanks. None if there are no blanks and nothing is found, or if marks are missing.
    """
    require(console, sim, exercise.chapter.executable)
    bench = trials.Workbench(sim, exercise.chapter)
    if failed := look(bench, exercise):
        return failed
    try:
        blanks = exercise.blanks()
    except regions.RegionError:
        return None
    console.step("   testing each exercise by itself")
    stages = STAGES if blanks else tuple(s for s in STAGES if s.quick)
    verdict = judge(bench, exercise, copy, tell, stages)
    console.clear()
    if not verdict.finding and not verdict.remark:
        states = verdict.exercises
        for number in (n for n in states if states[n] == UNKNOWN):
            if failed := _compile_failure_of(bench, exercise, copy, number):
                return failed
        if not blanks:
            return None
    verdict.warnings, verdict.printed = _evidence(bench, exercise, copy, verdict)
    return verdict


def _compile_failure_of(
    bench: trials.Workbench, exercise: Exercise, copy: dict[str, str], number: int
) -> Verdict | None:
    """The verdict on the learner's files if the kernels that one exercise is tried with do not compile."""
    inputs, variant = exercise.quick_trial_of(number)
    with tempfile.TemporaryDirectory(prefix="learn-build-") as folder:
        try:
            bench.program(copy, Path(folder), inputs, variant)
        except trials.CompileError as error:
            return _failure_in(exercise, error)
    return None


def _evidence(
    bench: trials.Workbench, exercise: Exercise, copy: dict[str, str], verdict: Verdict
) -> tuple[list[str], trials.Printed | None]:
    """The compiler's warnings on the learner's lines, and what the kernels of the first answer that prints
    have printed: that of the finding on its input.
    """
    own, warnings = own_lines(exercise), []
    states = verdict.exercises
    tried = [n for n in states if states[n] not in (*UNTOUCHED, UNKNOWN)]
    if verdict.finding:
        tried.sort(key=lambda number: number != verdict.exercise)
    said = None
    for number in tried:
        alone = regions.alone(copy, exercise.regions, project.shown(exercise.folder), number)
        inputs, variant = exercise.quick_trial_of(number)
        output = bench.compiler_said(alone.texts, inputs, variant).splitlines()
        warnings += compiler_warnings(_in_own_files(output, alone, exercise), own)
        is_found = bool(verdict.finding) and number == verdict.exercise
        attempts = bench.try_files(alone.texts, inputs, variant)
        prints = any(attempt.prints for attempt in attempts)
        if prints and not said and (is_found or not verdict.finding):
            with tempfile.TemporaryDirectory(prefix="learn-build-") as folder:
                program = bench.program(alone.texts, Path(folder), inputs, variant)
                tested = replace(verdict, attempts=attempts)
                said = printed_by(program, tested)
    return warnings[: 3 * SHOWN_WARNINGS], said


def _in_own_files(output: Iterable[str], alone: regions.Alone, exercise: Exercise) -> list[str]:
    """What the compiler said of the files of a trial, with the places in the learner's files."""

    def told(found: re.Match) -> str:
        line = alone.lines[found["name"]][int(found["line"]) - 1]
        return f"{exercise.folder / found['name']}:{line}" if line else found[0]

    folder = re.escape(str(exercise.chapter.path))
    names = "|".join(map(re.escape, alone.texts))
    place = re.compile(rf"{folder}/(?P<name>{names}):(?P<line>\d+)")
    return [place.sub(told, line) for line in output]


def check_one(console: Console, build: Path, sim: Path, exercise: Exercise, number: int) -> Verdict:
    """Tests one exercise in a copy in which all others are solved.

    @param sim  a configured build with Ninja and the simulator
    """
    copy = exercise.own_copy()
    blanks = exercise.blanks()
    states = {r.number: r.untouched if r.number in blanks else UNKNOWN for r in exercise.regions}
    if number in blanks:
        return Verdict(exercise=number, exercises=states)
    require(console, sim, exercise.chapter.executable)
    bench = trials.Workbench(sim, exercise.chapter)
    if failed := look(bench, exercise):
        return failed
    console.step(f"   testing exercise {number} by itself")
    state, finding = explain_in_full(bench, exercise, copy, number)
    console.clear()
    verdict = Verdict(state == RIGHT, number, finding, states | {number: state})
    if verdict.passed:
        verdict.inputs = exercise.inputs
    if state == UNKNOWN:  # it does not compile with the solutions
        if failed := _compile_failure_of(bench, exercise, copy, number):
            return failed
        verdict.remark = "it needs something that the solutions do not define"
    elif finding:
        finding.details[:0] = maps.remarks(exercise, copy, number)
    return verdict


def notes_on(exercise: Exercise, program: Path, solution: Path) -> dict[int, str]:
    """What a program whose answers are right does in vain, by exercise. @param solution  the chapter's
    program
    """
    notes = {}
    for number, watch in exercise.watches.items():
        own, theirs = (trials.profile(each, watch.variant, watch.input) for each in (program, solution))
        if words := diagnosis.in_vain(watch.function, own, theirs):
            options = f"--variant {watch.variant} {watch.input}"
            notes[number] = f"{words}, with {options}. {watch.says}"
    return notes


def _verdict_on(
    console: Console,
    build: Path,
    exercise: Exercise,
    copy: dict[str, str],
    attempts: list[trials.Attempt],
    simulator: Callable[[], Path | None],
    tell: Tell,
) -> Verdict:
    judged = [diagnosis.without_excess(attempt, exercise.free_of_any) for attempt in attempts]
    own = diagnosis.explain(judged)
    if own is None and limits_of(exercise, copy):
        require(console, build, exercise.chapter.executable)
        solution = trials.run(build / "bin" / exercise.chapter.executable, exercise.inputs)
        own = diagnosis.explain(judged, limits_of(exercise, copy), solution)
    if own is None:
        states = dict.fromkeys((region.number for region in exercise.regions), RIGHT)
        return Verdict(passed=True, exercises=states)

    sim = simulator()
    verdict = _judge_on(console, sim, exercise, copy, tell) if sim else Verdict()
    if not (verdict.finding or verdict.untouched):
        verdict.finding = own
        if not verdict.remark and verdict.exercises:
            verdict.remark = (
                "each exercise is right by itself, but they do not work together"
                if sim == build
                else "the simulator finds nothing wrong: the fault shows only on this GPU"
            )
    return verdict


def printed_by(program: Path, verdict: Verdict) -> trials.Printed | None:
    """What the kernels print: those of the finding on its input, or else any on the first input where some
    do.
    """
    finding, prints = verdict.finding, [a for a in verdict.attempts if a.prints]
    cases = [(a.arguments, "all") for a in prints[:1]]
    if finding and any(a.arguments == finding.arguments for a in prints):
        variants = (finding.variant, "all")
        cases = [(finding.arguments, variant) for variant in variants] + cases
    limit = 1.0 if verdict.kind == "hang" else trials.TIME_LIMIT
    for arguments, variant in cases:
        if said := trials.printed(program, arguments, variant, PRINTED_LINES, limit):
            return said
    return None


def _judge_on(console: Console, sim: Path, exercise: Exercise, copy: dict[str, str], tell: Tell) -> Verdict:
    require(console, sim, exercise.chapter.executable)
    console.step("   testing each exercise by itself")
    verdict = judge(trials.Workbench(sim, exercise.chapter), exercise, copy, tell)
    console.clear()
    return verdict
