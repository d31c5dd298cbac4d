"""What the simulator counts beside what Nsight Compute measures, for lists of chapters and problems.

Used by softmax_results.py and attention_results.py.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import ncu_table

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
UNUSABLE_ARGUMENTS = 2  # exit status of a chapter

# The name in our files, and the metric.
METRICS = (
    {
        f"{kind}_{what}": ncu_table.GLOBAL.format(what, op)
        for kind, op in (("read", "ld"), ("write", "st"))
        for what in ("sectors", "requests")
    }
    | {
        "atomic_sectors": ncu_table.GLOBAL.format(
            "sectors", "red"
        ),  # atomics whose result nobody reads
        "shared_load_wavefronts": ncu_table.WAVEFRONTS.format("ld"),
        "shared_store_wavefronts": ncu_table.WAVEFRONTS.format("st"),
        "mma": "sm__inst_executed_pipe_tensor_op_hmma.sum",  # and moves of constants, which profile() takes out
        "hfma2": "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum",
        "dram_read_bytes": "dram__bytes_read.sum",
        "dram_write_bytes": "dram__bytes_write.sum",
    }
)


class Refused(Exception):
    """A variant does not run a problem. The text says why."""


def run_program(build: str, chapter: str, *options: str) -> dict:
    """The JSON of a run of chapter "NN_name". Ends the program if that is not built or fails."""
    program = ROOT / "build" / build / "bin" / f"ch{chapter}"
    if not program.exists():
        print(
            f"there is no {program}: build it with cmake --workflow --preset {build}",
            file=sys.stderr,
        )
        sys.exit(2)
    run = subprocess.run(
        [program, "--json", "-", *options], check=False, capture_output=True, text=True
    )
    if run.returncode == UNUSABLE_ARGUMENTS:
        raise Refused(run.stderr.strip())
    if run.returncode != 0:
        print(run.stdout, run.stderr, sep="\n", file=sys.stderr)
        sys.exit(run.returncode)
    return json.loads(run.stdout)


def variants_of(build: str, chapter: str) -> list[str]:
    """The names of a chapter's variants, in its order."""
    program = ROOT / "build" / build / "bin" / f"ch{chapter}"
    listed = subprocess.run(
        [program, "--list"], check=True, capture_output=True, text=True
    )
    return [line.split()[0] for line in listed.stdout.splitlines()[1:]]


def count(
    chapters: Iterable[str], problems: Iterable[dict], without: set[str] = frozenset()
) -> list[dict]:
    """A row for each variant and problem, from the simulator.

    A problem is options of the command line without their dashes: {"rows": 64, "cols": 100, "causal": True}. Variants
    that refuse a problem, and those in `without`, have no row.
    """
    rows = []
    for problem in problems:
        for chapter in chapters:
            for variant in variants_of("sim", chapter):
                if variant in without:
                    continue
                options = ["--variant", variant, "--no-check", *as_options(problem)]
                try:
                    result = run_program("sim", chapter, *options)["variants"][0]
                except Refused:
                    continue
                counted, shared = result["traffic"]["counted"], result["shared"]
                names = (
                    "read_sectors",
                    "write_sectors",
                    "atomic_sectors",
                    "read_requests",
                    "write_requests",
                )
                rows.append(
                    {
                        "chapter": chapter,
                        "variant": variant,
                        **problem,
                        **{name: counted[name] for name in names},
                        "shared_load_wavefronts": shared["load_wavefronts"],
                        "shared_store_wavefronts": shared["store_wavefronts"],
                        "mma": result["ops"]["mma"],
                    }
                )
    return rows


def as_options(problem: dict) -> list[str]:
    """{"seq_q": 5, "causal": True} as --seq-q 5 --causal."""
    options = []
    for name, value in problem.items():
        if value is False:
            continue
        options.append("--" + name.replace("_", "-"))
        if value is not True:
            options.append(str(value))
    return options


def profile(chapter: str, variants: list[str], problem: dict) -> list[dict]:
    """What Nsight Compute measures of each variant: the sum of its kernels."""
    program = ROOT / "build" / "cuda" / "bin" / f"ch{chapter}"
    with tempfile.NamedTemporaryFile(suffix=".csv") as log:
        ncu = ["ncu", "--clock-control", "none", "--csv", "--page", "raw"]
        ncu += ["--print-units", "base", "--log-file", log.name]
        ncu += ["--metrics", ",".join(METRICS.values())]
        options = ["--variant", ",".join(variants), "--no-check", *as_options(problem)]
        try:
            run = subprocess.run(
                [*ncu, program, *options], check=False, capture_output=True, text=True
            )
        except FileNotFoundError:
            print("ncu is not in PATH: it comes with the CUDA toolkit", file=sys.stderr)
            sys.exit(3)
        together = (
            run.returncode != UNUSABLE_ARGUMENTS
        )  # else they take different types
        if together and run.returncode != 0:
            print(run.stdout, run.stderr, sep="\n", file=sys.stderr)
            sys.exit(run.returncode)
        launches = (
            ncu_table.read_launches(Path(log.name).read_text()) if together else []
        )
    if len(variants) > 1 and (not together or len(launches) > len(variants)):
        return [profile(chapter, [variant], problem)[0] for variant in variants]
    if len(launches) < len(variants):
        print(f"{chapter}: {len(launches)} launches of {variants}", file=sys.stderr)
        sys.exit(1)
    if len(variants) == 1:
        return [_sum(launches)]
    return [_sum([launch]) for launch in launches]


def _sum(launches: list[ncu_table.Launch]) -> dict:
    """The counters of some launches, by our names. Those that Nsight Compute did not measure are missing."""
    values = {
        name: sum(int(launch.values[metric]) for launch in launches)
        for name, metric in METRICS.items()
        if all(metric in launch.values for launch in launches)
    }
    values["mma"] -= values.pop("hfma2")
    return values


def compare(counted: list[dict], keys: tuple[str, ...]) -> list[dict]:
    """Each counted row with what was measured: {..., "measured": {...}}. `keys` make up the problem."""
    groups: dict[tuple, list[dict]] = {}
    for row in counted:
        problem = tuple((key, row[key]) for key in keys if key in row)
        groups.setdefault((row["chapter"], problem), []).append(row)
    compared = []
    for (chapter, problem), rows in groups.items():
        measured = profile(chapter, [row["variant"] for row in rows], dict(problem))
        for row, seen in zip(rows, measured, strict=True):
            compared.append({**row, "measured": seen})
    return compared


def largest_difference(compared: list[dict], *names: str) -> float:
    """The largest relative difference of these counters."""
    worst = 0.0
    for row in compared:
        for name in names:
            if row[name] or row["measured"].get(name):
                worst = max(worst, abs(row["measured"][name] / max(row[name], 1) - 1))
    return worst


def write(name: str, data: dict) -> None:
    """Writes a file of docs/results, whole or not at all."""
    path = RESULTS / name
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(data, indent=1) + "\n")
    partial.replace(path)
    print(f"wrote {path.relative_to(ROOT)}")
