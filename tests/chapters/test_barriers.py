"""Every barrier is needed, and the simulator shows it: without the barrier, the chapter fails with a race.

    test_barriers.py BUILD_DIR CHAPTER...

For each __syncthreads() in the chapter's kernels and in the functions of common/device that they call, runs
the chapter's program while the simulator skips that one barrier (GPUSIM_SKIP_BARRIER): it must exit with
status 1 and report a race between two source lines, at least one of them in the file of the barrier or in a
header that it includes. Likewise for each wait of a cluster's barrier, without which another block may have
ended or not yet initialised its mbarrier, or threads arrive twice.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.docs.lessons import items_of
from tools.learn import machine

ROOT = Path(__file__).resolve().parents[2]
# Shapes for each problem. For every barrier, at least one of them must fail without it.
SHAPES = {
    "Softmax": (
        "--rows 5 --cols 1000",
        "--rows 2 --cols 70001",  # of several blocks
        "--rows 2 --cols 95001",  # longer than fits on one multiprocessor
    ),
    "AttentionForward": (
        "--heads 1 --seq-q 70 --seq-k 100 --head-dim 32",
        "--heads 1 --seq-q 20 --seq-k 800 --head-dim 32",  # more keys than shared memory holds
    ),
    "AttentionBackward": (
        (
            "--variant mma_fused,mma_pipelined,mma_deterministic --dtype bf16 --heads 1 --seq-q 200 --seq-k "
            "150 "
            "--head-dim 32"
        ),
        "--variant fp32_two_kernels,fp32_fused --heads 1 --seq-q 130 --seq-k 130 --head-dim 32",
        "--variant mma_deterministic --dtype bf16 --heads 1 --seq-q 200 --seq-k 3 --head-dim 32 --causal",  # a block without keys  # noqa: E501
    ),
}
# Shapes of chapters whose barriers need more than those of their problem; all variants, if a shape names
# none.
MORE_SHAPES = {
    "07_multi_stage": (
        "--variant final --heads 1 --seq-q 200 --seq-k 3 --head-dim 128 --causal",  # a block without keys
    ),
    "08_backward": (
        "--variant mma_fused,mma_deterministic --dtype bf16 --heads 1 --seq-q 130 --seq-k 40 --head-dim 128",  # warps share keys  # noqa: E501
    ),
}
PROBLEM = re.compile(r"Chapter<(\w+)>")
BARRIER = re.compile(r"(__syncthreads|barrier_cluster_wait)\(\);")
OF_CLUSTER = re.compile(
    r"(address is .* which may have ended|no thread has initialised .*: no barrier of the cluster comes "
    r"before"
    r"|arrives at the cluster's barrier a second time)"
)
RACE = re.compile(r"Race reported between .*? at (\S+):(\d+)(?: \(from [^)]+\))? and .*? at (\S+):(\d+)")


def included(kernel: Path) -> list[Path]:
    """The kernel file, and the headers of common/device and of its own folder that it includes, directly or
    not.
    """
    files, queue = [], [kernel]
    while queue:
        path = queue.pop()
        if path in files or not path.exists():
            continue
        files.append(path)
        text = path.read_text()
        for name in re.findall(r'#include "(device/[^"]+)"', text):
            queue.append(ROOT / "common" / name)
        for name in re.findall(r'#include "([^/"]+)"', text):
            queue.append(path.parent / name)
    return files


def barriers(chapter: str) -> list[tuple[Path, int]]:
    """File and line number of each barrier, except those in functions of headers that the kernels do not
    call.
    """
    folder = ROOT / "chapters" / chapter
    kernels = sorted(folder.glob("*.cuh"))
    calls = {word for kernel in kernels for word in re.findall(r"\w+", kernel.read_text())}
    found = []
    for path in dict.fromkeys(path for kernel in kernels for path in included(kernel)):
        source = path.read_text()
        lines = source.splitlines()
        for item in items_of(source):
            if path.parent == folder or item.name in calls:
                found += [
                    (path, number + 1)
                    for number in range(item.begin, item.end)
                    if BARRIER.search(lines[number].split("//")[0])
                ]
    return found


def shapes(chapter: str) -> tuple[str, ...]:
    """The options of the runs, at least one of which must fail without each barrier of a chapter."""
    description = (ROOT / "chapters" / chapter / "chapter.cu").read_text()
    return SHAPES[PROBLEM.search(description)[1]] + MORE_SHAPES.get(chapter, ())


def every_variant(shape: str) -> tuple[str, ...]:
    return () if "--variant" in shape else ("--variant", "all")


def check(build: Path, chapter: str, file: Path, number: int) -> str:
    """Runs without one barrier. Returns what is wrong, or "" if nothing is."""
    place = f"{file.name}:{number}"
    program = build / "bin" / f"ch{chapter}"
    # With its folder, because the chapter may also have a file of that name.
    environment = os.environ | {"GPUSIM_SKIP_BARRIER": f"{file.parent.name}/{place}"}
    near = {path.name for path in included(file)}
    for shape in shapes(chapter):
        run = subprocess.run(
            [program, *every_variant(shape), *shape.split()],
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )
        races = RACE.findall(run.stdout + run.stderr)
        if run.returncode == 1 and any({race[0], race[2]} & near for race in races):
            print(
                f"{chapter}: without the barrier at {place}: {len(races)} races, "
                f"{races[0][0]}:{races[0][1]} and {races[0][2]}:{races[0][3]}"
            )
            return ""
        if run.returncode == 1 and (said := OF_CLUSTER.search(run.stdout + run.stderr)):
            print(f"{chapter}: without the barrier at {place}: {said[0]}")
            return ""
    return f"{chapter}: the barrier at {place} is not missed (exit status {run.returncode})"


def unbroken(build: Path, chapter: str) -> list[str]:
    """The shapes on which the chapter fails even with all its barriers."""
    runs = {
        shape: subprocess.run(
            [build / "bin" / f"ch{chapter}", *every_variant(shape), *shape.split()],
            check=False,
            capture_output=True,
        )
        for shape in shapes(chapter)
    }
    return [
        f"{chapter} {shape}: fails with all its barriers"
        for shape, run in runs.items()
        if run.returncode != 0
    ]


def main() -> int:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build = Path(sys.argv[1]).resolve()
    jobs = [(build, chapter, *where) for chapter in sys.argv[2:] for where in barriers(chapter)]
    if not jobs:
        sys.exit("no barrier found: what is there to test?")
    with ThreadPoolExecutor(machine.cores()) as pool:
        problems = [p for p in pool.map(lambda job: check(*job), jobs) if p]
    for chapter in sys.argv[2:]:
        problems += unbroken(build, chapter)
    print(*problems, f"{len(jobs)} barriers, {len(problems)} not missed", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
