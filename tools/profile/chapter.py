"""The profile of a chapter: bytes as predicted, as counted by the simulator, and as measured by Nsight
Compute.

chapters/NN_name/profile.sh passes the chapter, its usual options and the columns that its lesson discusses;
the words after `--` come from the reader. See USAGE.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import results
from ..learn import ranks
from . import ncu, sectors
from .columns import STALLED, WIDTH, table
from .variant import Variant

USAGE = """\
usage: profile.sh [--exercise] [--large] [--no-simulator] [--json FILE|-] [option of the chapter ...]

Runs every variant of the chapter under Nsight Compute and in the simulator, with the same options:
{usual}
Options of the chapter replace these.

  --exercise      profile your own kernels, from exercises/
  --large         use a problem that fills a GPU, and skip the simulator: {large}
  --no-simulator  skip the simulator, for problems that would take it minutes
  --json FILE|-   write everything counted and measured to a file; -: to standard output, instead of the table

Without a GPU or Nsight Compute, it shows what the simulator counts.
FA_PROGRAM names another program to profile; FA_BUILD and FA_SIM_BUILD replace build/cuda and build/sim.
Exit status: 1 the program failed, 2 the arguments are unusable or something is not built, 3 nothing could be measured.
"""  # noqa: E501
# With these, the program would not launch each variant exactly once, or would write where this tool writes.
NOT_HERE = {
    "--bench": "it times the chapter's program, which has to run without Nsight Compute",
    "--repeat": "it times the chapter's program, which has to run without Nsight Compute",
    "--list": "run the chapter's program itself to list its variants",
    "--out": "run the chapter's program itself to write its outputs",
}
FILES = {"--q", "--k", "--v", "--do", "--x"}
TOLD_AFTER_S = 5  # seconds of simulation before a line says how to skip it
WARM_UP = 20  # launches before a variant is measured


class Stop(Exception):
    """Ends the command with one line on stderr."""

    def __init__(self, message: str, status: int):
        super().__init__(message)
        self.status = status


# --- options --------------------------------------------------------------------------------------


def by_name(words: Sequence[str]) -> dict[str, list[str]]:
    """Options of a chapter: ["--heads", "2", "--causal"] as {"--heads": ["2"], "--causal": []}."""
    options: dict[str, list[str]] = {}
    name = None
    for word in words:
        if word == "--":
            continue
        if word.startswith("--") or word == ranks.COUNT:
            name, *value = word.split("=", 1)
            options[name] = value
        elif name is None:
            raise Stop(f"{word} is not an option: options begin with --", 2)
        else:
            options[name].append(word)
    return options


def merged(usual: Sequence[str], own: Sequence[str]) -> dict[str, list[str]]:
    """The usual options, overridden by the reader's. Input files determine their own shape."""
    given = by_name(own)
    for name, reason in NOT_HERE.items():
        if name in given:
            raise Stop(f"{name} cannot be used in a profile: {reason}", 2)
    given.pop("--no-check", None)
    before = by_name(usual)
    if FILES & given.keys():
        before = {name: before[name] for name in before if name == "--variant"}
    return before | given


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The arguments from profile.sh and from the reader."""
    at = words.index("--")
    parser = argparse.ArgumentParser()
    parser.add_argument("chapter")
    parser.add_argument("--usual", required=True)
    parser.add_argument("--large", required=True)
    parser.add_argument("--show", required=True)
    chapter = parser.parse_args(words[:at])

    own = Arguments(add_help=False, allow_abbrev=False)
    own.add_argument("-h", "--help", action="store_true")
    own.add_argument("--exercise", action="store_true")
    own.add_argument("--large", action="store_true")
    own.add_argument("--no-simulator", action="store_true")
    own.add_argument("--simulator-only", metavar="REASON")  # from ./learn profile
    own.add_argument("--json", metavar="FILE")
    args, chapter.rest = own.parse_known_args(words[at + 1 :])
    chapter.usual_text, chapter.large_text = chapter.usual, chapter.large
    chapter.usual = (chapter.large if args.large else chapter.usual).split()
    chapter.large = args.large
    for name in ("help", "exercise", "simulator_only", "json"):
        setattr(chapter, name, getattr(args, name))
    chapter.simulator = not (args.no_simulator or args.large)
    return chapter


class Arguments(argparse.ArgumentParser):
    """argparse with one-line errors."""

    def error(self, message: str):
        raise Stop(message, 2)


# --- counting and measuring -----------------------------------------------------------------------


@dataclass
class Programs:
    """The paths of the two builds of the chapter, or of the learner's copy. Either may be missing."""

    gpu: Path
    simulator: Path

    def variants(self) -> list[str]:
        """The names of the variants, from whichever program can run."""
        for program in (self.simulator, self.gpu):
            if os.access(program, os.X_OK):
                listed = subprocess.run([program, "--list"], check=False, capture_output=True, text=True)
                if listed.returncode == 0:
                    lines = listed.stdout.splitlines()[1:]
                    return [line.split()[0] for line in lines]
        return []


def programs_of(chapter: str, exercise: bool) -> Programs:
    """The programs of "05_name"; FA_PROGRAM, FA_BUILD and FA_SIM_BUILD name others."""
    name = f"ch{chapter}_exercise" if exercise else f"ch{chapter}"
    gpu = Path(os.environ.get("FA_BUILD") or sectors.ROOT / "build/cuda") / "bin" / name
    if os.environ.get("FA_PROGRAM"):
        gpu = Path(os.environ["FA_PROGRAM"])
    folder = Path(os.environ.get("FA_SIM_BUILD") or sectors.ROOT / "build/sim")
    return Programs(gpu, folder / "bin" / gpu.name)


def shown(path: Path) -> str:
    root = sectors.ROOT
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def first_line(text: str) -> str:
    """The error message of a program, without its own "error:"."""
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error: ")]
    return (errors or lines or ["no reason given"])[0].removeprefix("error: ")


def run_simulator(
    program: Path, variant: Variant, options: list[str], told: list, without: str
) -> dict | None:
    """Counts a variant and returns the program's JSON. None if the variant refuses the problem.

    @param without  how to skip the simulator, if something else measures
    """
    words = ["--variant", variant.name, *options, "--no-check", "--json", "-"]
    with subprocess.Popen(
        ranks.command(program, words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            out, err = process.communicate(timeout=None if told else TOLD_AFTER_S)
        except subprocess.TimeoutExpired:
            told.append(True)
            say(f"the simulator is running{without}")
            out, err = process.communicate()
    if process.returncode == ncu.UNUSABLE_ARGUMENTS:
        variant.refused = first_line(err)
        return None
    try:
        result = json.loads(out)
        [counted] = result["variants"]
    except (ValueError, KeyError):
        variant.failed = first_line(f"{err}\n{out}")
        return None
    if counted.get("failure"):
        variant.failed = counted["failure"]
        return None
    variant.defects = len(counted.get("defects", []))
    fill_in_prediction(variant, counted)
    variant.simulator = sectors.simulated(counted)
    return result


def warm_up(program: Path, words: list[str]) -> None:
    """Launches a variant unmeasured, so that the clocks rise. Errors are left for ncu.run() to report."""
    with contextlib.suppress(OSError):
        subprocess.run([program, *words], check=False, capture_output=True)


def run_ncu(program: Path, variant: Variant, options: list[str]) -> dict | None:
    """Measures a variant and returns the program's JSON. @throws ncu.NcuError"""
    with tempfile.TemporaryDirectory(prefix="profile-") as folder:
        file = Path(folder) / "result.json"
        words = ["--variant", variant.name, *options, "--no-check"]
        warm_up(program, [*words, "--bench", "--repeat", str(WARM_UP)])
        words += ["--json", str(file)]
        try:
            variant.kernels = ncu.run(program, words)
        except ncu.Refused as error:
            variant.refused = first_line(str(error))
            return None
        except ncu.Failed as error:
            variant.failed = first_line(str(error))
            return None
        variant.measured = ncu.combine(variant.kernels)
        try:
            result = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
    fill_in_prediction(variant, result["variants"][0])
    return result


def fill_in_prediction(variant: Variant, result: dict) -> None:
    predicted = result["traffic"]["predicted"]
    variant.predicted_bytes = predicted["read_bytes"] + predicted["write_bytes"]


def gpus() -> list[str]:
    """The GPUs that nvidia-smi lists."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], check=False, capture_output=True, text=True)
    except OSError:
        return []
    return [line for line in done.stdout.splitlines() if line.startswith("GPU")]


def why_no_gpu(programs: Programs) -> str | None:
    """The reason why nothing can be measured here. Stop if only the program is missing."""
    if not gpus():
        return "nvidia-smi finds no GPU"
    if ncu.find() is None:
        return "ncu is not in PATH; it comes with the CUDA toolkit"
    if not os.access(programs.gpu, os.X_OK):
        raise Stop(f"there is no {shown(programs.gpu)}: ./learn profile builds it", 2)
    return None


def notes(variants: list[Variant], exercise: str | None) -> list[str]:
    """What the table has no room for."""
    lines = []
    for variant in variants:
        if variant.refused:
            lines.append(f"{variant.name} is left out: {variant.refused}")
        if variant.failed:
            lines.append(f"{variant.name} failed: {variant.failed}")
        if variant.defects:
            after = f": ./learn check {exercise}" if exercise else ""
            lines.append(f"{variant.name}: the simulator finds defects{after}")
        if variant.name in sectors.OF_CUBLAS and variant.simulator:
            lines.append(
                f"{variant.name} calls cuBLAS: the simulator counts the fewest bytes that a product can move"
            )
    return lines


# --- the command ----------------------------------------------------------------------------------


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def select(names: list[str], asked: str) -> list[Variant]:
    """The variants that --variant names. Stop if one does not exist."""
    wanted = names if asked == "all" else asked.split(",")
    for name in wanted:
        if name not in names:
            known = ", ".join(names)
            raise Stop(f"--variant '{name}': must be all, or one or more of {known}", 2)
    return [Variant(name) for name in wanted]


def refuse_json(name: str | None) -> None:
    """Stop if the file cannot be written, before anything runs."""
    if name and name != "-":
        target = Path(name)
        folder = target.absolute().parent
        if target.is_dir() or not os.access(folder, os.W_OK):
            raise Stop(f"--json {name}: must be a file in a folder that exists", 2)


def profile(args: argparse.Namespace) -> int:
    """Counts, measures, and prints."""
    options = merged(args.usual, args.rest)
    refuse_json(args.json)
    programs = programs_of(args.chapter, args.exercise)
    has_simulator = os.access(programs.simulator, os.X_OK)
    no_gpu = args.simulator_only or why_no_gpu(programs)
    simulate = args.simulator and has_simulator
    command = f"./learn profile {args.chapter[:2]}"
    if no_gpu and not has_simulator:
        raise Stop(f"{no_gpu}, and there is no {shown(programs.simulator)}: {command} builds it", 2)
    if no_gpu and not args.simulator:
        raise Stop(f"the simulator is skipped, and nothing can be measured: {no_gpu}", 3)

    asked = options.pop("--variant", ["all"])
    if len(asked) != 1:
        raise Stop("--variant must be followed by all, or by names between commas", 2)
    variants = select(programs.variants(), asked[0])
    words = [word for name, values in options.items() for word in (name, *values)]
    result: dict = {}
    not_measured = None  # the reason from ncu
    told: list = []
    without = "" if no_gpu else "; --no-simulator skips it"
    for variant in variants:
        if simulate:
            say_progress(f"simulator: {variant.name}")
            result = run_simulator(programs.simulator, variant, words, told, without) or result
        if not no_gpu and not variant.refused:
            say_progress(f"ncu: {variant.name}")
            try:
                result = run_ncu(programs.gpu, variant, words) or result
            except ncu.NcuError as error:
                if any(other.measured for other in variants):
                    variant.failed = str(error)
                    continue
                if not simulate:
                    raise Stop(str(error), 3) from error
                no_gpu = not_measured = str(error)
    say_progress("")
    if all(variant.refused for variant in variants):
        raise Stop(variants[0].refused, 2)

    if not_measured:
        last = not_measured
    elif ranks.has(programs.simulator):
        last = no_gpu
    elif no_gpu:
        last = f"{no_gpu}: on a GPU, ncu adds L1, L2 and DRAM"
    elif not args.simulator:
        last = f"without the simulator; run {command} with a small problem for its counts"
    elif not simulate:
        last = f"there is no {shown(programs.simulator)}: {command} builds it"
    else:
        last = None
    data = {
        "chapter": args.chapter,
        "exercise": args.exercise,
        "device": None if no_gpu else result.get("device"),
        "problem": result.get("problem"),
        "options": words,
        "variants": [variant.as_data() for variant in variants],
        "note": last,
    }
    if args.json == "-":
        print(json.dumps(data, indent=1))
    else:
        where = "the simulator" if no_gpu else result.get("device", "a GPU")
        print(f"{programs.gpu.name} {' '.join(words)}\non {where}\n")
        groups = [*args.show.split(","), "time"]
        print(table(variants, groups, gpu=not no_gpu))
        remarks = notes(variants, args.chapter[:2] if args.exercise else None)
        if not no_gpu and "stalls" in groups:
            remarks.append(STALLED)
        remarks += [last] if last else []
        lines = [textwrap.fill(x, WIDTH, subsequent_indent="   ") for x in remarks]
        print("\n".join(["", *lines]) if lines else "", flush=True)
        if args.json:
            results.write(Path(args.json), data)
    return int(any(variant.failed for variant in variants))


def say_progress(line: str) -> None:
    """Prints a line that the next one replaces. Only on a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{line[: WIDTH - 1]}\x1b[K")
        sys.stderr.flush()


def main(words: Sequence[str]) -> int:
    try:
        args = parse(words)
        if args.help:
            usual, large = args.usual_text, args.large_text
            print(USAGE.format(usual=f"  {usual}", large=large), end="")
            return 0
        return profile(args)
    except Stop as error:
        print(f"profile: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print("profile: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
