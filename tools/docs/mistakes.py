"""Plants every mistake of a chapter in every variant where it makes sense, and keeps what the simulator reports.

    python3 -m tools.docs.mistakes [--chapter 09|10] [--build DIR] [--jobs N] [MISTAKE...]

Writes docs/results/hopper_mistakes.json or hopper_backward_mistakes.json and prints it as a table. The mistakes are those of
hopper_mistakes.py and hopper_backward_mistakes.py in this folder. All of them are compiled into one program, each behind a
test of the environment variable PLANTED, so that the chapter is compiled only a few times: mistakes in the same piece of
text, but not in exactly the same one, need programs of their own.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..learn import project
from ..learn.trials import CompileError, Workbench, run_contained
from . import hopper_backward_mistakes, hopper_mistakes
from .hopper_mistakes import REPORTS, Mistake, Plant

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
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


@dataclass(frozen=True)
class Subject:
    """A chapter and what is planted in it."""

    number: str
    results: Path
    mistakes: tuple[Mistake, ...]
    regions: dict[str, tuple[str, str]]
    variants: tuple[str, ...]
    inputs_of: Callable[[str, str], tuple[str, ...]]  # by kind of input and variant
    also_from: tuple[str, ...] = ()  # chapters whose headers it includes
    changes: tuple[tuple[str, str], ...] = ()  # of chapter.cu, with every mistake

    @property
    def inputs(self) -> list[str]:
        """Those of all mistakes."""
        lines = (
            self.inputs_of(mistake.inputs, variant)
            for mistake in self.mistakes
            for plant in mistake.plants
            for variant in plant.variants
        )
        return sorted(set(itertools.chain(*lines)))

    def texts(self) -> dict[str, str]:
        """The files in which mistakes are planted, and those that they include, by the name that an #include has."""
        (chapter,) = project.select([self.number])
        files = [(path.name, path) for path in chapter.path.glob("*.cuh")]
        files.append(("chapter.cu", chapter.path / "chapter.cu"))
        for number in self.also_from:
            (other,) = project.select([number])
            for path in other.path.glob("*.cuh"):
                files.append((f"{other.path.name}/{path.name}", path))
        return {name: path.read_text(encoding="utf-8") for name, path in files}


HOPPER = Subject(
    number="09",
    results=RESULTS / "hopper_mistakes.json",
    mistakes=hopper_mistakes.MISTAKES,
    regions=hopper_mistakes.REGIONS,
    variants=hopper_mistakes.ALL,
    inputs_of=lambda kind, variant: hopper_mistakes.INPUTS[kind],
    changes=(  # so that blocks take several query tiles
        (
            "  return count;\n}\n\n// --- how the variants",
            "  return 2;\n}\n\n// --- how the variants",
        ),
    ),
)
HOPPER_BACKWARD = Subject(
    number="10",
    results=RESULTS / "hopper_backward_mistakes.json",
    mistakes=hopper_backward_mistakes.MISTAKES,
    regions=hopper_backward_mistakes.REGIONS,
    variants=hopper_backward_mistakes.ALL,
    inputs_of=hopper_backward_mistakes.inputs_of,
    also_from=("09",),
    changes=(  # so that blocks take several key tiles
        (
            "  return count;\n}\n\n/// A block per multiprocessor.",
            "  return 2;\n}\n\n/// A block per multiprocessor.",
        ),
    ),
)
SUBJECTS = {subject.number: subject for subject in (HOPPER, HOPPER_BACKWARD)}


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


def places(
    number: int, plant: Plant, subject: Subject, texts: dict[str, str]
) -> list[Placed]:
    """Finds the texts of a plant, each of which must be exactly once in its region."""
    pairs = [(plant.before, plant.after)] + ([plant.also] if plant.also else [])
    region = subject.regions[plant.region]
    return [place(number, region, *pair, texts) for pair in pairs]


def place(
    number: int,
    region: tuple[str, str],
    before: str,
    after: str,
    texts: dict[str, str],
) -> Placed:
    file, start = region
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
            f"mistakes: {file} must have once, not {count} times, after {start!r}: {before}"
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


def planted_files(
    batch: list[Placed], subject: Subject, texts: dict[str, str]
) -> dict[str, str]:
    files = {name: text for name, text in texts.items() if "/" in name}
    for file in {plant.file for plant in batch}:
        spans: dict[tuple[int, int], list[Placed]] = {}
        for plant in batch:
            if plant.file == file:
                spans.setdefault((plant.begin, plant.end), []).append(plant)
        text = texts[file]
        for (begin, end), plants in sorted(spans.items(), reverse=True):
            text = text[:begin] + chosen_text(text[begin:end], plants) + text[end:]
        files[file] = '#include "planted.hpp"\n#line 1\n' + text
    chapter = files.get("chapter.cu", texts["chapter.cu"])
    for before, after in subject.changes:
        if chapter.count(before) != 1:
            raise SystemExit(f"mistakes: chapter.cu must have once: {before}")
        chapter = chapter.replace(before, after)
    return files | {"chapter.cu": chapter, "planted.hpp": HEADER}


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
        "kind": "over_waited" if result["ops"]["over_waited"] else "nothing",
        "line": "",
    }


def expected_of(mistake: Mistake, plant: Plant) -> str:
    """ "report", "numbers", or why nothing is to be reported."""
    return plant.harmless or ("numbers" if mistake.only_numbers else "report")


@dataclass(frozen=True)
class Case:
    """A plant in a variant."""

    number: int
    mistake: Mistake
    plant: Plant
    variant: str

    def row(self, program: Path, subject: Subject) -> dict:
        """What its runs say: the kinds of finding by input, and the first report."""
        wanted = REPORTS.get(self.mistake.rule, ())
        inputs = subject.inputs_of(self.mistake.inputs, self.variant)
        found = [
            outcome(program, self.number, self.variant, line, wanted) for line in inputs
        ]
        reports = sorted(
            (f for f in found if f["line"]), key=lambda f: f["kind"] not in wanted
        )
        return {
            "rule": self.mistake.rule,
            "mistake": self.mistake.name,
            "plant": self.mistake.plants.index(self.plant),
            "place": self.plant.region,
            "variant": self.variant,
            "expected": expected_of(self.mistake, self.plant),
            "kinds": [f["kind"] for f in found],
            "report": reports[0]["line"].splitlines()[:2] if reports else [],
        }


def build(
    bench: Workbench, files: dict[str, str], inputs: list[str], folder: Path
) -> Path:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    try:
        return bench.program(files, folder, inputs)
    except CompileError as error:
        raise SystemExit(f"mistakes: {str(error)[:4000]}") from None


def check_without(program: Path, subject: Subject, variants: set[str]) -> None:
    """Without a mistake, nothing is reported."""
    for variant in sorted(variants):
        for line in subject.inputs_of("all", variant):
            found = outcome(program, 0, variant, line)
            if found["kind"] != "nothing":
                raise SystemExit(f"mistakes: {variant} {line} without one: {found}")


def rows_of_mistakes(
    bench: Workbench, subject: Subject, mistakes: list[Mistake], jobs: int
) -> list[dict]:
    """Compiles and runs all of them."""
    texts = subject.texts()
    pairs = [(mistake, plant) for mistake in mistakes for plant in mistake.plants]
    batches = batches_of(
        [places(n, plant, subject, texts) for n, (_, plant) in enumerate(pairs, 1)]
    )
    print(f"{len(mistakes)} mistakes in {len(pairs)} places, {len(batches)} programs")
    cases = [
        Case(number, mistake, plant, variant)
        for number, (mistake, plant) in enumerate(pairs, 1)
        for variant in plant.variants
    ]
    with (
        tempfile.TemporaryDirectory(prefix="mistakes-") as name,
        concurrent.futures.ThreadPoolExecutor(jobs) as pool,
    ):
        programs = list(
            pool.map(
                lambda n: build(
                    bench,
                    planted_files(batches[n], subject, texts),
                    subject.inputs,
                    Path(name) / str(n),
                ),
                range(len(batches)),
            )
        )
        program_of = {
            plant.number: program
            for program, batch in zip(programs, batches, strict=True)
            for plant in batch
        }
        for program in programs:
            check_without(program, subject, {case.variant for case in cases})
        return list(
            pool.map(lambda case: case.row(program_of[case.number], subject), cases)
        )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapter", choices=sorted(SUBJECTS), default="09")
    parser.add_argument("--build", type=Path, default=RESULTS.parents[1] / "build/sim")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("names", nargs="*", metavar="MISTAKE")
    args = parser.parse_args(arguments)
    subject = SUBJECTS[args.chapter]
    (chapter,) = project.select([subject.number])
    bench = Workbench(args.build.resolve(), chapter)
    order = [mistake.name for mistake in subject.mistakes]
    if unknown := set(args.names) - set(order):
        raise SystemExit(f"mistakes: no such mistake: {', '.join(sorted(unknown))}")
    chosen = [m for m in subject.mistakes if not args.names or m.name in args.names]
    rows = rows_of_mistakes(bench, subject, chosen, args.jobs)
    kept = []
    if args.names and subject.results.is_file():
        kept = json.loads(subject.results.read_text())
    kept = [row for row in kept if row["mistake"] not in args.names] + rows
    kept.sort(key=lambda row: order.index(row["mistake"]))
    lines = ",\n".join(json.dumps(row) for row in kept)
    subject.results.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(table(rows, subject.variants))
    missed = [row for row in rows if not is_as_expected(row)]
    for row in missed:
        print(f"not as expected: {row}")
    return 1 if missed else 0


def table(rows: list[dict], variants: tuple[str, ...]) -> str:
    """For each mistake and variant, the findings that it is caught by: a report on any input counts more than wrong numbers."""
    order = [v for v in variants if any(r["variant"] == v for r in rows)]
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
    if row["expected"] == "report":
        return found not in ("nothing", "numbers")
    return found == ("numbers" if row["expected"] == "numbers" else "nothing")


def strongest(kinds: list[str]) -> str:
    """The finding that says most."""
    return next(
        (k for k in kinds if k not in ("nothing", "numbers")),
        "numbers" if "numbers" in kinds else "nothing",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
