"""Plants every mistake of chapter 09 in every variant where it makes sense, and keeps what the simulator reports.

    python3 -m tools.docs.mistakes [--build DIR] [--jobs N] [MISTAKE...]

Writes docs/results/hopper_mistakes.json and prints it as a table. The mistakes are those of tools/docs/hopper_mistakes.py.
All of them are compiled into one program, each behind a test of the environment variable PLANTED, so that the chapter is
compiled only a few times: mistakes in the same piece of text, but not in exactly the same one, need programs of their own.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..learn import project
from ..learn.trials import CompileError, Workbench, run_contained
from .hopper_mistakes import ALL as VARIANTS
from .hopper_mistakes import INPUTS, MISTAKES, REGIONS, REPORTS, Plant

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results" / "hopper_mistakes.json"
TIME_LIMIT = 120.0

# PLANTED chooses a plant. The hooks of the simulator do not see this function.
HEADER = """
#pragma once
#include <cuda_runtime.h>
#include <cstdlib>
namespace planted {
inline const int chosen = std::getenv("PLANTED") ? std::atoi(std::getenv("PLANTED")) : 0;
__host__ __device__ __attribute__((no_sanitize("thread"), noinline)) inline bool is(int plant) { return plant == chosen; }
}  // namespace planted
"""
# So that blocks take several query tiles.
FEW_BLOCKS = (
    "  return count;\n}\n\n// --- how the variants",
    "  return 2;\n}\n\n// --- how the variants",
)


@dataclass(frozen=True)
class Placed:
    """A plant at its place in a file."""

    number: int
    file: str
    begin: int
    end: int
    after: str

    @property
    def span(self) -> tuple[str, int, int]:
        return self.file, self.begin, self.end


def places(number: int, plant: Plant, texts: dict[str, str]) -> list[Placed]:
    """Finds the texts of a plant, each of which must be exactly once in its region."""
    pairs = [(plant.before, plant.after)] + ([plant.also] if plant.also else [])
    return [place(number, plant.region, *pair, texts) for pair in pairs]


def place(
    number: int, region: str, before: str, after: str, texts: dict[str, str]
) -> Placed:
    file, start = REGIONS[region]
    text = texts[file]
    begin, end = 0, len(text)
    if start:
        if text.count(start) != 1:
            raise SystemExit(f"mistakes: {file} must have once: {start}")
        begin = text.index(start)
        stop = re.compile(r"^(}|};)$", re.MULTILINE).search(text, begin)
        end = stop.end() if stop else end
    count = text.count(before, begin, end)
    if count != 1:
        raise SystemExit(
            f"mistakes: {region} must have once, not {count} times: {before}"
        )
    at = text.index(before, begin, end)
    return Placed(number, file, at, at + len(before), after)


def overlap(one: Placed, other: Placed) -> bool:
    """Whether two plants replace parts of each other's text. The same text is no overlap."""
    return (
        one.file == other.file
        and one.span != other.span
        and one.begin < other.end
        and other.begin < one.end
    )


def batches_of(plants: list[list[Placed]]) -> list[list[Placed]]:
    """Divides plants so that no two of a batch overlap."""
    batches: list[list[Placed]] = []
    for plant in plants:
        for batch in batches:
            if not any(overlap(o, p) for o in batch for p in plant):
                batch += plant
                break
        else:
            batches.append(list(plant))
    return batches


def chosen_text(before: str, plants: list[Placed]) -> str:
    """The text that is `before`, or one of the mistakes."""
    if ";" in before:
        tests = "".join(
            f"if (planted::is({plant.number})) {{ {plant.after} }} else "
            for plant in plants
        )
        return f"{tests}{{ {before} }}\n"
    tests = "".join(
        f"planted::is({plant.number}) ? ({plant.after}) : " for plant in plants
    )
    return f"({tests}({before}))"


def planted_files(batch: list[Placed], texts: dict[str, str]) -> dict[str, str]:
    files = {}
    for file in {plant.file for plant in batch}:
        spans: dict[tuple[int, int], list[Placed]] = {}
        for plant in batch:
            if plant.file == file:
                spans.setdefault((plant.begin, plant.end), []).append(plant)
        text = texts[file]
        for (begin, end), plants in sorted(spans.items(), reverse=True):
            text = text[:begin] + chosen_text(text[begin:end], plants) + text[end:]
        files[file] = '#include "planted.hpp"\n#line 1\n' + text
    if "chapter.cu" not in files:
        files["chapter.cu"] = texts["chapter.cu"]
    before, after = FEW_BLOCKS
    if files["chapter.cu"].count(before) != 1:
        raise SystemExit("mistakes: chapter.cu has another multiprocessors()")
    files["chapter.cu"] = files["chapter.cu"].replace(before, after)
    return files | {"planted.hpp": HEADER}


def outcome(
    program: Path,
    number: int,
    variant: str,
    arguments: str,
    wanted: tuple[str, ...] = (),
) -> dict:
    """What a run with a plant says: the kind and the text of its first report, of one of the wanted kinds if there is any."""
    with tempfile.TemporaryDirectory(prefix="mistake-") as name:
        folder = Path(name)
        words = ["--variant", variant, "--json", "result.json", *shlex.split(arguments)]
        env = {"PLANTED": str(number), "GPUSIM_THREADS": "1"}
        status = run_contained(folder, program, words, TIME_LIMIT, env)
        if status is None:
            return {"kind": "hang", "line": ""}
        try:
            report = json.loads((folder / "result.json").read_text())
        except (OSError, ValueError):
            said = (folder / "errors").read_text(errors="replace").strip()
            line = said.splitlines()[-1] if said else f"status {status}"
            return {"kind": "refused" if status > 0 else "crash", "line": line}
    (result,) = report["variants"]
    if defects := result.get("defects", []):
        first = next((d for d in defects if d["kind"] in wanted), defects[0])
        return {"kind": first["kind"], "line": first["message"]}
    if "failure" in result:
        return {"kind": "refused", "line": result["failure"]}
    if not result["check"]["passed"]:
        return {"kind": "numbers", "line": ""}
    return {
        "kind": "over_waited" if result["ops"]["over_waited"] else "",
        "line": "",
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "sim")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("names", nargs="*", metavar="MISTAKE")
    args = parser.parse_args(arguments)
    (chapter,) = project.select(["09"])
    bench = Workbench(args.build.resolve(), chapter)
    texts = {
        path.name: path.read_text(encoding="utf-8")
        for path in (*chapter.path.glob("*.cuh"), chapter.path / "chapter.cu")
    }
    mistakes = [m for m in MISTAKES if not args.names or m.name in args.names]
    cases = []  # (mistake, plant, number)
    placed = []
    for mistake in mistakes:
        for plant in mistake.plants:
            number = len(cases) + 1
            cases.append((mistake, plant))
            placed.append(places(number, plant, texts))
    batches = batches_of(placed)
    print(f"{len(mistakes)} mistakes in {len(cases)} places, {len(batches)} programs")
    every_input = sorted({i for inputs in INPUTS.values() for i in inputs})
    results = []
    with (
        tempfile.TemporaryDirectory(prefix="mistakes-") as name,
        concurrent.futures.ThreadPoolExecutor(args.jobs) as pool,
    ):

        def build(index: int) -> Path:
            folder = Path(name) / str(index)
            folder.mkdir()
            files = planted_files(batches[index], texts)
            try:
                return bench.program(files, folder, every_input)
            except CompileError as error:
                raise SystemExit(f"mistakes: {str(error)[:4000]}") from None

        programs = list(pool.map(build, range(len(batches))))
        program_of = {
            plant.number: programs[index]
            for index, batch in enumerate(batches)
            for plant in batch
        }
        runs = [
            (number, variant, line)
            for number, (mistake, plant) in enumerate(cases, 1)
            for variant in plant.variants
            for line in INPUTS[mistake.inputs]
        ]
        # Without a mistake, nothing is reported.
        for program in programs:
            for variant in sorted({v for _, v, _ in runs}):
                for line in every_input:
                    clean = outcome(program, 0, variant, line)
                    if clean["kind"]:
                        raise SystemExit(
                            f"mistakes: {variant} {line} without one: {clean}"
                        )

        def try_it(run: tuple[int, str, str]) -> dict:
            number, variant, line = run
            wanted = REPORTS.get(cases[number - 1][0].rule, ())
            return outcome(program_of[number], number, variant, line, wanted)

        for (number, variant, line), found in zip(
            runs, pool.map(try_it, runs), strict=True
        ):
            mistake, plant = cases[number - 1]
            results.append(
                {
                    "rule": mistake.rule,
                    "mistake": mistake.name,
                    "variant": variant,
                    "place": plant.region,
                    "expected": "numbers"
                    if mistake.only_numbers
                    else plant.harmless or "report",
                    "input": line,
                    **found,
                }
            )
    rows = rows_of(results)
    if not args.names:
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(table(rows))
    missed = [r for r in rows if not is_as_expected(r)]
    for row in missed:
        print(f"not as expected: {row}")
    return 1 if missed else 0


def rows_of(results: list[dict]) -> list[dict]:
    """One row for each mistake, variant and place: the kinds of finding by input, and the first report."""
    rows: dict[tuple[str, str, str], dict] = {}
    for r in results:
        key = r["mistake"], r["variant"], r["place"]
        row = rows.setdefault(
            key,
            {
                "rule": r["rule"],
                **dict(zip(("mistake", "variant", "place"), key, strict=True)),
                "expected": r["expected"],
                "kinds": [],
                "report": [],
            },
        )
        row["kinds"].append(r["kind"] or "nothing")
        row["report"] = row["report"] or r["line"].splitlines()[:2]
    return list(rows.values())


def table(rows: list[dict]) -> str:
    """For each mistake and variant, the findings that it is caught by: a report on any input counts more than wrong numbers."""
    order = [v for v in VARIANTS if any(r["variant"] == v for r in rows)]
    lines = [
        "| mistake | " + " | ".join(order) + " |",
        "|---|" + "---|" * len(order),
    ]
    for name in dict.fromkeys(r["mistake"] for r in rows):
        cells = []
        for variant in order:
            here = [r for r in rows if (r["mistake"], r["variant"]) == (name, variant)]
            cells.append(", ".join(dict.fromkeys(map(found_in, here))))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def found_in(row: dict) -> str:
    found = strongest(row["kinds"])
    is_harmless = row["expected"] not in ("report", "numbers")
    return "harmless" if found == "nothing" and is_harmless else found


def is_as_expected(row: dict) -> bool:
    found = strongest(row["kinds"])
    if row["expected"] == "numbers":
        return found == "numbers"
    if row["expected"] == "report":
        wanted = REPORTS.get(row["rule"], ())
        return found in wanted if wanted else found not in ("nothing", "numbers")
    return found == "nothing"


def strongest(kinds: list[str]) -> str:
    """The finding that says most."""
    return next(
        (k for k in kinds if k not in ("nothing", "numbers")),
        "numbers" if "numbers" in kinds else "nothing",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
