"""Every barrier is needed, and the simulator knows: without it, the chapter fails with a race.

    test_barriers.py BUILD_DIR CHAPTER...

For each __syncthreads() in the chapter's kernels and in the headers of common/device that they include, builds
the chapter without that one barrier and runs all its variants: it must exit with status 1, and report a race
between two source lines, of which at least one is in the file that lost the barrier.
"""

import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common"))

from learn import project, trials

BARRIER = re.compile(r"__syncthreads\(\);")
RACE = re.compile(r"Race reported between .* at (\S+):(\d+) and .* at (\S+):(\d+)")


def included(kernel: Path) -> list[Path]:
    """The kernel file and the headers of common/device that it reaches."""
    files, queue = [], [kernel]
    while queue:
        path = queue.pop()
        if path in files or not path.exists():
            continue
        files.append(path)
        for name in re.findall(r'#include "(device/[^"]+)"', path.read_text()):
            queue.append(ROOT / "common" / name)
    return files


def barriers(chapter: str) -> list[tuple[Path, int]]:
    """File and line number of each barrier."""
    return [
        (path, number)
        for path in included(ROOT / "chapters" / chapter / "kernel.cuh")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if BARRIER.search(line.split("//")[0])
    ]


def check(build: Path, chapter: str, file: Path, number: int) -> str:
    """Builds and runs without one barrier. Returns what is wrong, or ""."""
    place = f"{file.name}:{number}"
    lines = file.read_text().splitlines()
    lines[number - 1] = BARRIER.sub("", lines[number - 1])
    kernel = ROOT / "chapters" / chapter / "kernel.cuh"
    include = "kernel.cuh" if file == kernel else str(file.relative_to(ROOT / "common"))
    bench = trials.Workbench(build, project.select([chapter])[0])
    with tempfile.TemporaryDirectory() as name:
        program = bench.program({include: "\n".join(lines) + "\n"}, Path(name))

        # 70001 columns: longer than what fits on the chip.
        for shape in (
            ["--rows", "5", "--cols", "1000"],
            ["--rows", "2", "--cols", "70001"],
        ):
            run = subprocess.run(
                [program, "--variant", "all", *shape],
                check=False,
                capture_output=True,
                text=True,
            )
            races = RACE.findall(run.stdout + run.stderr)
            if run.returncode == 1 and any(
                file.name in (race[0], race[2]) for race in races
            ):
                print(
                    f"{chapter}: without the barrier at {place}: {len(races)} races, "
                    f"{races[0][0]}:{races[0][1]} and {races[0][2]}:{races[0][3]}"
                )
                return ""
        return f"{chapter}: the barrier at {place} is not missed (exit status {run.returncode})"


def main() -> int:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build = Path(sys.argv[1]).resolve()
    jobs = [
        (build, chapter, *where)
        for chapter in sys.argv[2:]
        for where in barriers(chapter)
    ]
    if not jobs:
        sys.exit("no barrier found: what is there to test?")
    with ThreadPoolExecutor(cpu_count()) as pool:
        problems = [p for p in pool.map(lambda job: check(*job), jobs) if p]
    print(*problems, f"{len(jobs)} barriers, {len(problems)} not missed", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
