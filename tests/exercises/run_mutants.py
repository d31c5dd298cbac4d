"""Every blank and every known wrong answer is caught, and `check` names the right exercise.

    run_mutants.py BUILD_DIR CHAPTER...

For each chapter, on the simulator: the solutions pass, and so do other right answers in exercises.toml; each
blank fails; each wrong answer fails with the kind of finding and the words that its entry promises; the goal
of each open exercise is missed by the chapter's kernels and reached by the known answer, and wrong answers to
it are found; each bug is found, in a report that does not name its line; no prediction that is known to be
wrong is right. The copy is that of a learner at this point: exercises before the wrong one are solved, those
after it are still blank.

FA_WRONG_ANSWERS=K/N in the environment: only every N-th blank or wrong answer, from the K-th on.
"""

import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests import parts
from tools.learn import (
    bugs,
    checking,
    diagnosis,
    exercises,
    machine,
    opens,
    predictions,
    project,
    regions,
    trials,
)


@dataclass
class Case:
    """An answer that must fail. @param says  empty if any finding will do"""

    exercise: int
    name: str
    answer: tuple[str, ...]
    caught_by: str = ""
    says: str = ""


def cases_of(exercise: exercises.Exercise) -> list[Case]:
    blanks = [Case(region.number, "blank", region.stub) for region in exercise.regions]
    wrong = [Case(m.exercise, m.name, m.solution, m.caught_by, m.says) for m in exercise.mutants()]
    return blanks + wrong


def problem_of(bench: trials.Workbench, exercise: exercises.Exercise, case: Case) -> str:
    """What is wrong, or "" if nothing is."""
    before = {r.number: r.solution for r in exercise.regions if r.number < case.exercise}
    copy = exercise.copy_with(before | {case.exercise: case.answer})
    if case.caught_by == "compile":
        return compile_problem_of(bench, exercise, case, copy)
    if case.caught_by == "note":
        return note_problem_of(bench, exercise, case)
    verdict = checking.judge(bench, exercise, copy)
    finding = verdict.finding
    if verdict.untouched:  # which `check` does not explain
        _, finding = checking.explain_in_full(bench, exercise, copy, verdict.exercise)
    if not finding:
        return f"nothing was found: {verdict.remark or 'it passes'}"
    if verdict.exercise != case.exercise:
        return f"exercise {verdict.exercise} is named"
    if case.caught_by and finding.kind != case.caught_by:
        return f"caught by {finding.kind}, not by {case.caught_by}: {finding.headline}"
    text = words_of(finding)
    return "" if case.says in text else f"does not say '{case.says}':\n{text}"


def compile_problem_of(
    bench: trials.Workbench, exercise: exercises.Exercise, case: Case, copy: dict[str, str]
) -> str:
    """The same for an answer that the simulator's build refuses, on a line of the exercise."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        try:
            bench.program(copy, Path(folder), exercise.inputs)
        except trials.CompileError as error:
            output = str(error)
        else:
            return "it compiles"
    place = regions.places(copy, exercise.regions, "")[case.exercise]
    found = re.findall(rf"{re.escape(place.file)}:(\d+): (error: .*)", output)
    inside = [text for line, text in found if place.begin < int(line) <= place.end]
    said = any(case.says in text for text in inside)
    return "" if said else f"does not say '{case.says}' there:\n{output}"


def note_problem_of(bench: trials.Workbench, exercise: exercises.Exercise, case: Case) -> str:
    """The same for an answer that is right but works in vain, which `check` notes; the solution has no
    note.
    """
    solved = {region.number: region.solution for region in exercise.regions}
    copy = exercise.copy_with(solved | {case.exercise: case.answer})
    attempts = bench.try_files(copy, exercise.inputs)
    solution = bench.solution(tuple(exercise.inputs))
    if finding := diagnosis.explain(attempts, exercise.limits, solution):
        return f"caught by {finding.kind}, not by a note: {finding.headline}"
    chapters = bench.executable
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        program = bench.program(copy, Path(folder), exercise.inputs)
        notes = checking.notes_on(exercise, program, chapters)
    if own := checking.notes_on(exercise, chapters, chapters):
        return f"the solution has notes: {own}"
    if list(notes) != [case.exercise]:
        return f"notes on {list(notes)}"
    note = notes[case.exercise]
    return "" if case.says in note else f"does not say '{case.says}':\n{note}"


def lacks(exercise: exercises.Exercise) -> list[str]:
    """Exercises with fewer than two hints or two wrong answers."""
    mutants = [mutant.exercise for mutant in exercise.mutants()]
    return [
        f"exercise {region.number} has {count} {what}: must be two or more"
        for region in exercise.regions
        for what, count in (("hints", len(region.hints)), ("mutants", mutants.count(region.number)))
        if count < 2
    ]


def problem_of_goal(bench: trials.Workbench, exercise: exercises.Exercise, goal: opens.Open) -> str:
    """What is wrong with an open exercise: the chapter's kernels must miss the goal, the known answer must
    reach it.
    """

    def outcome(copy: dict[str, str]) -> opens.Outcome:
        return opens.judge(goal, bench.try_files(copy, [goal.input], goal.variant))

    solved = exercise.copy_with({r.number: r.solution for r in exercise.regions})
    if outcome(solved).reached:
        return "the chapter's own kernels reach the goal"
    answer = exercise.copy_with_edits(goal.answer)
    if finding := finding_in(bench, exercise, answer):
        return f"the answer fails: {finding.variant} with {finding.arguments}: {words_of(finding)}"
    reached = outcome(answer)
    return "" if reached.reached else "\n".join(reached.lines(goal))


def finding_in(
    bench: trials.Workbench, exercise: exercises.Exercise, copy: dict[str, str]
) -> diagnosis.Finding | None:
    """What `check` finds in a copy whose kernels have been changed for an open exercise."""
    attempts = bench.try_files(copy, exercise.inputs)
    limits = checking.limits_of(exercise, copy)
    return diagnosis.explain(attempts, limits, bench.solution(tuple(exercise.inputs)))


def words_of(finding: diagnosis.Finding) -> str:
    return "\n".join((finding.headline, *finding.details))


def problem_of_wrong_goal(bench: trials.Workbench, exercise: exercises.Exercise, wrong: opens.Wrong) -> str:
    """What is wrong with a wrong answer to an open exercise: it must not pass."""
    finding = finding_in(bench, exercise, exercise.copy_with_edits([wrong.edit]))
    if not finding:
        return "it passes"
    if finding.kind != wrong.caught_by:
        return f"caught by {finding.kind}, not by {wrong.caught_by}: {finding.headline}"
    return "" if wrong.says in words_of(finding) else f"does not say '{wrong.says}':\n{words_of(finding)}"


def problem_of_bug(bench: trials.Workbench, exercise: exercises.Exercise, bug: bugs.Bug) -> str:
    """What is wrong with a kernel that has a mistake."""
    own = {name: regions.without_marks(text) for name, text in exercise.sheet.texts.items()}
    if finding := bug.judge(bench, exercise, own):
        return f"the chapter's kernels fail: {words_of(finding)}"
    given = {file.name: text for file, text in bug.files(exercise).items()}
    finding = bug.judge(bench, exercise, given)
    if not finding:
        return "it passes"
    if finding.kind != bug.caught_by:
        return f"caught by {finding.kind}, not by {bug.caught_by}: {finding.headline}"
    changed = regions.changed_lines(given[bug.edit.file], own[bug.edit.file])
    named = [place for place in finding.lines if place.rsplit(":", 1)[0] == bug.edit.file]
    if any(int(place.rsplit(":", 1)[1]) in changed for place in named):
        return f"its line is named: {named}"
    return "" if bug.says in words_of(finding) else f"does not say '{bug.says}':\n{words_of(finding)}"


def problem_of_prediction(bench: trials.Workbench, prediction: predictions.Prediction) -> str:
    """What is wrong with a prediction: no number that forgets something may be right."""
    for number, outcome in zip(
        prediction.numbers, prediction.compare(bench.executable, [0] * len(prediction.numbers)), strict=True
    ):
        if outcome.counted <= 0:
            return f"{number.words}: the kernel has none"
        if number.terms and sum(size for _, size in number.terms) != outcome.counted:
            return f"{number.words}: the terms do not add up to {outcome.counted}"
        for text, _ in number.forgotten:
            if predictions.value(text) == outcome.counted:
                return f"{number.words}: {text} is right"
    return ""


def run(build: Path, chapter: project.Chapter) -> int:
    """Prints the results. Returns the number of problems."""
    started = time.monotonic()
    exercise = exercises.Exercise(chapter)
    bench = trials.Workbench(build, chapter)
    problems = lacks(exercise)
    solved = exercise.copy_with({r.number: r.solution for r in exercise.regions})
    solution = bench.solution(tuple(exercise.inputs))
    attempts = bench.try_files(solved, exercise.inputs)
    finding = diagnosis.explain(attempts, exercise.limits, solution)
    if finding:
        problems.append(f"the solution fails: {finding.variant}: {finding.headline}")

    for at, goal in enumerate(exercise.opens, 1):
        problem = problem_of_goal(bench, exercise, goal)
        print(f"{chapter.number} open exercise {at}: {problem or 'can be reached'}")
        problems += [problem] if problem else []
        for wrong in goal.wrong:
            problem = problem_of_wrong_goal(bench, exercise, wrong)
            how = problem or f"caught by {wrong.caught_by}"
            print(f"{chapter.number} open exercise {at}, {wrong.name}: {how}")
            problems += [problem] if problem else []

    for bug in exercise.sheet.bugs:
        problem = problem_of_bug(bench, exercise, bug)
        print(f"{chapter.number} {bug.name}: {problem or f'caught by {bug.caught_by}'}")
        problems += [problem] if problem else []
    for prediction in exercise.sheet.predictions:
        problem = problem_of_prediction(bench, prediction)
        print(f"{chapter.number} {prediction.name}: {problem or 'has wrong numbers'}")
        problems += [problem] if problem else []

    for right in exercise.sheet.rights():
        copy = exercise.copy_with({right.exercise: right.solution})
        state, finding = checking.explain_in_full(bench, exercise, copy, right.exercise)
        problem = "" if state == checking.RIGHT else f"is not accepted: {finding and words_of(finding)}"
        print(f"{chapter.number} exercise {right.exercise}, {right.name}: {problem or 'accepted'}")
        problems += [problem] if problem else []

    cases = parts.chosen(cases_of(exercise), "FA_WRONG_ANSWERS")
    with ThreadPoolExecutor(machine.cores()) as pool:
        outcomes = list(pool.map(lambda case: problem_of(bench, exercise, case), cases))
    named = 0
    for case, problem in zip(cases, outcomes, strict=True):
        named += not problem
        how = problem or (f"caught by {case.caught_by}" if case.caught_by else "caught")
        print(f"{chapter.number} exercise {case.exercise}, {case.name}: {how}")
        problems += [problem] if problem else []
    for problem in problems[: len(problems) - (len(cases) - named)]:
        print(problem)
    mutants = sum(bool(case.caught_by) for case in cases)
    print(
        f"{chapter.name}: {named} of {len(cases)} wrong answers lead to the exercise that they were planted "
        f"in "
        f"({len(cases) - mutants} blanks, {mutants} mutants; {time.monotonic() - started:.0f} s)"
    )
    return len(problems)


def main() -> int:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build = Path(sys.argv[1]).resolve()
    counts = [run(build, chapter) for chapter in project.select(sys.argv[2:])]
    return 1 if sum(counts) else 0


if __name__ == "__main__":
    sys.exit(main())
