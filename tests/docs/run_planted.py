"""Plants each mistake of tools/docs/planted.toml: the simulator must report it, as the lessons quote it.

    python3 -m tests.docs.run_planted BUILD

BUILD: a folder where Ninja has built the chapters for the simulator. Those that it lacks, for want of MPI,
are left out. A few seconds for each mistake.

FA_PLANTED=K/N in the environment: only every N-th mistake, from the K-th on.
"""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests import parts
from tools.docs import planted
from tools.learn.trials import CompileError


def problem(name: str, build: Path, kept: dict) -> str | None:
    """What is wrong with a mistake's report."""
    try:
        row = planted.kept(planted.MISTAKES[name], build)
    except SystemExit as error:
        return str(error)
    except (CompileError, subprocess.TimeoutExpired) as error:
        return f"{name}: {error}"
    if name in kept and row != kept[name]:
        return f"{name} is quoted, and the report has changed: python3 -m tools.docs.planted {name}"
    return None


def main() -> int:
    build = Path(sys.argv[1]).resolve()
    kept = json.loads(planted.RESULTS.read_text(encoding="utf-8"))
    built = [
        name
        for name, mistake in planted.MISTAKES.items()
        if (build / "bin" / mistake.chapter.executable).is_file()
    ]
    names = parts.chosen(built, "FA_PLANTED")
    with ThreadPoolExecutor(2) as pool:
        problems = [*filter(None, pool.map(lambda n: problem(n, build, kept), names))]
    print("\n".join([*problems, f"{len(names)} mistakes, {len(problems)} problems"]))
    return 1 if problems or not names else 0


if __name__ == "__main__":
    sys.exit(main())
