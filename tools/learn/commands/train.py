"""./learn train: trains a small GPT with unfused attention, the tutorial's kernels and PyTorch's."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from .. import environments, machine, packages, phases, project, pytorch, setup
from ..console import Console, LearnError
from .run import refuse_json

HELP = "train a small GPT with unfused attention, our kernels and PyTorch's; on a CPU, a tiny one on the simulator"  # noqa: E501
RESULTS = project.ROOT / "build" / "train"
RUNS = ("unfused", "ours", "sdpa", "efficient")  # and each of them "-again"; the last on a GPU
# What the tiny model runs on the simulator: in fp32, and with the same bits in every run. It writes in bf16.
SIMULATED = ("05", "07", "08", "14")

# How a model writes: the keys of "written_per_second".
WAYS = {"no_cache": "without a cache", "cache": "with a cache", "graph": "with a cache in a CUDA graph"}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--steps", type=int, metavar="N", help="20, or 1000 on a GPU")
    parser.add_argument(
        "--runs", metavar="NAME,...", help=f"{', '.join(RUNS)} (the last on a GPU only); default: all"
    )
    parser.add_argument(
        "--again", action="store_true", help="start over; without it, a training that was stopped goes on"
    )
    parser.add_argument(
        "--deterministic", action="store_true", help="on a GPU: only kernels that always give the same bits"
    )
    parser.add_argument("--json", metavar="FILE", help="file for the results")
    setup.add_preset(parser)
    setup.add_no_install(parser)


class Reader:
    """Reads the events of training.train."""

    def __init__(self):
        self.results: list[dict] = []
        self.drawn = ""
        self.said: list[str] = []  # lines that are no events

    def __call__(self, phase: phases.Phase, line: str) -> None:
        try:
            event = json.loads(line)
            known = {"run", "results"} & event.keys()
        except (ValueError, AttributeError):
            known = set()
        if not known:
            self.said.append(line)
        elif "results" in event:
            self.results, self.drawn = event["results"], event["drawn"]
        else:
            self._progress(phase, event)

    def _progress(self, phase: phases.Phase, event: dict) -> None:
        run, step, of = event["run"], event["step"], event["of"]
        if "loss" not in event:
            begun = f"goes on after step {step}" if step else "begins"
            phase.show(f"   {run} {'is trained already' if step == of else begun}")
        else:
            done, total = event["number"] * of + step, event["runs"] * of
            phase.progress(done, total, f"{run}, loss {event['loss']:.3f}")


def show(console: Console, results: list[dict]) -> None:
    """A line for each run, and what each model writes."""
    base = next((r["losses"] for r in results if r["run"] == "sdpa"), None)
    for result in results:
        losses = result["losses"]
        line = f"   {result['run']:11} loss {losses[0]:.3f} -> {losses[-1]:.3f}"
        if base and losses is not base:
            pairs = zip(losses, base, strict=True)
            line += f"   at most {max(abs(a - b) for a, b in pairs):.1e} from sdpa's"
        if "tokens_per_second" in result:
            line += f"   {result['tokens_per_second']:,.0f} tokens/s"
            line += f"   {result['peak_bytes'] / 2**30:.2f} GiB"
        console.say(line)
    for result in results:
        if rates := result.get("written_per_second"):
            shown = ", ".join(f"{rates[way]:,.0f} {WAYS[way]}" for way in WAYS if way in rates)
            console.say(f"   {result['run']:11} writes, in tokens/s: {shown}")
    for result in results:
        shown = (c if c.isprintable() or c == "\n" else "\ufffd" for c in result["sample"])
        console.say(f"\n{result['run']} writes:\n{''.join(shown)}", "dim")


def main(console: Console, args: argparse.Namespace) -> int:
    """Sets up, builds the kernels, and trains."""
    if args.steps is not None and args.steps < 1:
        raise LearnError(f"--steps {args.steps}: must be 1 or more", 2)
    refuse_json(args.json)
    names = args.runs.split(",") if args.runs else []
    if not {name.removesuffix("-again") for name in names} <= {*RUNS}:
        known = ", ".join(RUNS)
        raise LearnError(f"--runs {args.runs}: must be one or more of {known}", 2)
    preset, why = machine.choose_preset(args.preset)
    if preset not in ("sim", "cuda"):
        raise LearnError(f"--preset {preset}: must be sim or cuda", 2)
    device = "cuda" if preset == "cuda" else "cpu"
    if device == "cpu" and any(name.startswith("efficient") for name in names):
        raise LearnError("--runs efficient: is for GPUs, and this runs on a CPU", 2)
    if device == "cpu":
        console.say(f"on the simulator ({why}): a tiny model, for a few steps")
    args.preset = preset
    wanted = packages.GPU_PACKAGES if device == "cuda" else packages.PACKAGES
    setup.prepare(console, args, wanted)
    python = pytorch.require_python(console, not args.no_install)
    programs = [c.executable for c in project.chapters() if c.number in SIMULATED]
    targets = ["chapter_libraries"] if device == "cuda" else programs
    setup.build(console, preset, targets)
    build = project.build_folder(preset).parent
    if device == "cuda":
        pytorch.build_native(console, python, build)

    out = RESULTS / device
    command = [python, "-m", "training.train", "--device", device, "--out", str(out)]
    command += ["--steps", str(args.steps)] if args.steps else []
    command += ["--runs", args.runs] if args.runs else []
    command += ["--again"] if args.again else []
    command += ["--deterministic"] if args.deterministic else []
    command += ["--json", str(Path(args.json).absolute())] if args.json else []
    reader = Reader()
    status, _ = phases.execute(
        console,
        "train",
        command,
        reader,
        shown=environments.as_typed(command),
        cwd=pytorch.FOLDER,
        env=pytorch.environment(build),
    )
    if status == 2 and reader.said:
        raise LearnError(reader.said[-1].removeprefix("train: "), 2)
    if status != 0 or not reader.results:
        console.say("\n".join(reader.said[-15:]))
        raise LearnError(f"the training ended with status {status}: see above", 1)
    show(console, reader.results)
    console.say("\n" + environments.as_typed([reader.drawn])[0])
    return 0
