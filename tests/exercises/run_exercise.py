"""Reports whether the learner's kernels of a chapter are right, wrong, or not started.

    run_exercise.py BUILD_DIR CHAPTER ON|OFF

ON: this build can find out which exercise is wrong. Exit status 77: not started, which ctest reports as
skipped.
"""

import sys
from pathlib import Path

from tools.learn import console, exercises, project
from tools.learn.commands import check

SKIPPED = 77


def main() -> int:
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    build = Path(sys.argv[1]).resolve()
    exercise = exercises.Exercise(project.select([sys.argv[2]])[0])
    if not exercise.exists or not exercise.started:
        print(f"chapter {exercise.number}: {exercise.state(build).words}")
        return SKIPPED
    simulator = build if sys.argv[3] == "ON" else None
    verdict = check.report(console.Console(), build, exercise, lambda: simulator)
    return 0 if verdict.passed else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except console.LearnError as error:
        sys.exit(f"{error}")
