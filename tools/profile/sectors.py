"""Compares the simulator's counts with Nsight Compute's, for lists of chapters and problems.

Used by softmax_results.py, attention_results.py and hopper_results.py.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from .. import results
from . import ncu

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"

# The metrics that are compared with the simulator's counts, and the traffic of the DRAM.
NAMES = [
    "read_sectors",
    "read_requests",
    "write_sectors",
    "write_requests",
    "atomic_sectors",
    "atom_sectors",
    "shared_load_wavefronts",
    "shared_store_wavefronts",
    "ldmatrix_wavefronts",
    "cp_async_wavefronts",
    "shared_wavefronts",
    "shared_wavefronts_ideal",
    "mma",
    "hfma2",
    "dram_read_bytes",
    "dram_write_bytes",
]
# Variants that call cuBLAS: the simulator counts the fewest bytes that a product of matrices can move.
OF_CUBLAS = {"three_kernels", "standard"}


def run_program(build: str, chapter: str, *options: str) -> dict:
    """Runs chapter "NN_name" and returns its JSON, even if a result is wrong. Exits if there is none."""
    program = ROOT / "build" / build / "bin" / f"ch{chapter}"
    if not program.exists():
        print(f"there is no {program}: build it with cmake --workflow --preset {build}", file=sys.stderr)
        sys.exit(2)
    run = subprocess.run([program, "--json", "-", *options], check=False, capture_output=True, text=True)
    if run.returncode == ncu.UNUSABLE_ARGUMENTS:
        raise ncu.Refused(run.stderr.strip())
    if not run.stdout:
        print(run.stderr.strip() or f"{program} failed", file=sys.stderr)
        sys.exit(run.returncode or 1)
    return json.loads(run.stdout)


def variants_of(build: str, chapter: str) -> list[str]:
    """The names of a chapter's variants, in its order."""
    program = ROOT / "build" / build / "bin" / f"ch{chapter}"
    listed = subprocess.run([program, "--list"], check=True, capture_output=True, text=True)
    return [line.split()[0] for line in listed.stdout.splitlines()[1:]]


def count(chapters: Iterable[str], problems: Iterable[dict], without: set[str] = frozenset()) -> list[dict]:
    """A row for each variant and problem, from the simulator.

    A problem maps options of the command line, without dashes, to values: {"rows": 64, "causal": True}.
    Variants that refuse a problem, and those in `without`, have no row.
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
                except ncu.Refused:
                    continue
                if result.get("failure") or result["defects"]:
                    sys.exit(f"{chapter}/{variant} fails on {problem}")
                rows.append({"chapter": chapter, "variant": variant, **problem} | simulated(result))
    return rows


def simulated(variant: dict) -> dict:
    """The simulator's counters in the JSON of a variant, by our names."""
    counted, shared = variant["traffic"]["counted"], variant["shared"]
    names = ("read_sectors", "write_sectors", "atomic_sectors", "read_requests", "write_requests")
    conflicts = sum(
        shared[f"{kind}_wavefronts"] - shared[f"{kind}_wavefronts_ideal"] for kind in ("load", "store")
    )
    return {name: counted[name] for name in names} | {
        "bank_conflicts": conflicts,
        "shared_load_wavefronts": shared["load_wavefronts"],
        "shared_store_wavefronts": shared["store_wavefronts"],
        "mma": variant["ops"]["mma"],
        "landed_sectors": variant["ops"].get("bulk_load_bytes", 0) // ncu.SECTOR_BYTES,
        "wgmma": 4 * variant["ops"].get("wgmma", 0),  # of warps, as ncu counts them
    }


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


def profile(chapter: str, variants: list[str], problem: dict, names: Sequence[str] = NAMES) -> list[dict]:
    """Nsight Compute's measurements of each variant, summed over its kernels."""
    program = ROOT / "build" / "cuda" / "bin" / f"ch{chapter}"
    options = ["--variant", ",".join(variants), "--no-check", *as_options(problem)]
    try:
        launches = ncu.run(program, options, names)
    except ncu.NcuError as error:
        print(error, file=sys.stderr)
        sys.exit(3)
    except ncu.Failed as error:
        print(error, file=sys.stderr)
        sys.exit(error.status)
    except ncu.Refused as error:
        if len(variants) == 1:
            sys.exit(f"{chapter}: {error}")
        launches = []  # they take different types
    if len(variants) > 1 and (not launches or len(launches) > len(variants)):
        return [profile(chapter, [variant], problem, names)[0] for variant in variants]
    if len(launches) < len(variants):
        print(f"{chapter}: {len(launches)} launches of {variants}", file=sys.stderr)
        sys.exit(1)
    if len(variants) == 1:
        return [ncu.combine(launches, names)]
    return [ncu.combine([launch], names) for launch in launches]


def compare(counted: list[dict], keys: tuple[str, ...], names: Sequence[str] = NAMES) -> list[dict]:
    """Each counted row with its measurements: {..., "measured": {...}}. `keys` identify the problem."""
    groups: dict[tuple, list[dict]] = {}
    for row in counted:
        problem = tuple((key, row[key]) for key in keys if key in row)
        groups.setdefault((row["chapter"], problem), []).append(row)
    compared = []
    for (chapter, problem), rows in groups.items():
        variants = [row["variant"] for row in rows]
        measured = profile(chapter, variants, dict(problem), names)
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
    """Writes a file of docs/results."""
    path = RESULTS / name
    results.write(path, data)
    print(f"wrote {path.relative_to(ROOT)}")
