"""Times chapter 13 on the GPUs of this host, and PyTorch's context_parallel in the same run.

    python3 -m tools.bench.ring [--gpus R] [--tokens N ..] [--repeat N] [--no-check] [--no-peers]
                                [--no-variants] [--sweep [ROUNDS]] [--million] [--json FILE]

`of ideal` is the time of one GPU with the whole problem, divided by R, over the time of the slowest rank. The
two take turns, for each variant anew: all GPUs compute the whole problem, and the slowest counts. PyTorch's
share is of the ideal time of `overlapped`. For the last row, one GPU runs by itself, and then `overlapped` is
timed once more, as before. --tokens: of each GPU; of all numbers but the first, PyTorch is not timed.
--sweep: what each change of `overlapped` brings, so many times; with --no-variants, only this. --million: the
forward pass of a million tokens, with sampled rows checked. FILE is written anew after each run, so that a
bench that is stopped keeps what it has measured. If a run of the sweep fails, FILE says so, and the others go
on.

Needs several GPUs, Open MPI and NCCL, and: cmake --build --preset cuda --target ch13_ring
Exit status: 1 a result is wrong or a run fails, 2 the arguments are unusable, 3 nothing built or too few
GPUs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from ..learn import ranks as launcher
from ..options import Arguments, at_least
from . import machine

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/cuda/bin/ch13_ring"
HEADS, HEAD_DIM = 16, 128
CHANGES = ("head_start", "steps", "parts", "registered", "homeward")  # from zigzag to overlapped
NO_DEVICE = 3  # exit status of the program, and of this one: there are too few GPUs
SECONDS = 100  # for a run of the program; three times that for a million tokens


class Failed(Exception):
    """A run of the program that has no result, in one line."""

    def __init__(self, why: str, status: int = 1):
        super().__init__(why)
        self.status = status


def mpirun(ranks: int) -> list[str]:
    return [*launcher.mpirun(ranks), "--bind-to", "none"]


def run(ranks: int, options: list[str], seconds: int = SECONDS) -> dict:
    """The JSON of a run, without the formulas. @throws Failed"""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [*mpirun(ranks), str(PROGRAM), *options, "--json", file.name]
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired as late:
            raise Failed(f"{' '.join(command)}: has not ended after {seconds} s") from late
        if done.returncode not in (0, 1) or not Path(file.name).stat().st_size:
            said = done.stderr.strip().splitlines()
            why = said[-1] if said else f"exit status {done.returncode}"
            raise Failed(f"{' '.join(command)}: {why}", NO_DEVICE if done.returncode == NO_DEVICE else 1)
        result = json.loads(Path(file.name).read_text())
    for variant in result["variants"]:
        variant.pop("traffic", None)  # formulas, which are not kept
    return result


def problem(ranks: int, tokens: int, causal: bool, backward: bool) -> list[str]:
    options = f"--seq-q {ranks * tokens} --heads {HEADS} --head-dim {HEAD_DIM} --dtype bf16".split()
    return options + ["--causal"] * causal + ["--backward"] * backward


def check(ranks: int) -> bool:
    """Whether all variants are right, and no error is more than twice that of one GPU."""
    fine = True
    for options in (
        "--seq-q 1000 --heads 8 --head-dim 128 --dtype bf16 --causal",
        "--seq-q 999 --heads 8 --head-dim 128 --dtype bf16 --causal --backward",
        "--seq-q 751 --heads 8 --kv-heads 4 --batch 2 --head-dim 64 --dtype fp16 --backward",
    ):
        runs = [run(count, [*options.split(), "--variant", "all"]) for count in (1, ranks)]
        alone, several = ({v["name"]: v["check"] for v in r["variants"]} for r in runs)
        for name, checked in several.items():
            worst = 0.0
            for tensor, errors in checked["tensors"].items():
                worst = max(worst, errors["rel_l2"] / alone["ring"]["tensors"][tensor]["rel_l2"])
            passed = checked["passed"] and worst <= 2
            fine = fine and passed
            print(
                f"  {name:<12} {'ok' if passed else 'WRONG':<6} errors {worst:.2f} x those of one GPU   "
                f"{options}"
            )
    return fine


def row(name: str, ms: float, ideal: float, tflops: float | None = None) -> None:
    speed = f"{tflops:9.1f}" if tflops else " " * 9
    print(f"  {name:<34} {ms:9.3f} {ideal / ms:9.3f} {speed}", flush=True)


def peers(ranks: int, tokens: int, causal: bool, repeat: int) -> dict:
    command = [*mpirun(ranks), sys.executable, "-m", "tools.bench.context_parallel"]
    command += [
        "--tokens",
        str(tokens),
        "--heads",
        str(HEADS),
        "--head-dim",
        str(HEAD_DIM),
        "--repeat",
        str(repeat),
    ]
    done = subprocess.run(
        command + ["--causal"] * causal, check=False, capture_output=True, text=True, timeout=240, cwd=ROOT
    )
    said = [line for line in done.stderr.splitlines() if "Warning" not in line]
    if done.returncode != 0:
        print("  PyTorch's context_parallel did not run:", (said or [""])[-1])
        return {}
    for line in said:
        print(f"  PyTorch: {line}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def sweep(args: argparse.Namespace, bench: list[str], kept: dict) -> bool:
    """Variations of `overlapped` under a causal mask. @return whether all of them ran"""
    fine = True

    def measure(name: str, backward: bool, words: list[str]) -> None:
        nonlocal fine
        options = problem(args.gpus, args.tokens[0], True, backward) + ["--variant", "overlapped", *words]
        try:
            result = run(args.gpus, options + bench)
        except Failed as failed:
            print(f"  {name:<34} failed: {failed}", flush=True)
            kept["runs"].append({"options": options, "error": str(failed)})
            fine = False
        else:
            kept["device"] = result["device"]
            variant = result["variants"][0]
            row(name, variant["time_ms"]["median"], variant["ideal_ms"])
            kept["runs"].append({"options": options, "variant": variant})
        machine.write_results(args.json, kept)

    for count in range(1, args.sweep + 1):
        print(
            f"\noverlapped, causal: all changes, then all but one; round {count} of {args.sweep}", flush=True
        )
        for backward, without in itertools.product((False, True), ("", *CHANGES)):
            name = f"{'both passes' if backward else 'forward'}, {without or 'all changes'}"
            measure(name, backward, ["--without", without] if without else [])
    return fine


def main() -> int:
    parser = Arguments(
        prog="tools.bench.ring", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", type=at_least(2), default=2)
    parser.add_argument("--tokens", type=at_least(1), nargs="+", default=[16384], help="of each GPU")
    parser.add_argument("--repeat", type=at_least(1), default=10)
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--no-variants", action="store_true")
    parser.add_argument("--sweep", type=at_least(1), nargs="?", const=1, default=0, metavar="ROUNDS")
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    try:
        return measure_all(args)
    except Failed as failed:
        print(f"ring: {failed}", file=sys.stderr)
        return failed.status


def measure_all(args: argparse.Namespace) -> int:
    """The exit status, after everything that was asked for."""
    if not PROGRAM.exists():
        print(
            f"ring: {PROGRAM} is not there: cmake --build --preset cuda --target ch13_ring", file=sys.stderr
        )
        return NO_DEVICE

    main_tokens = args.tokens[0]
    kept: dict = {"gpus": args.gpus, "tokens": main_tokens, "runs": []}
    fine = True
    if not args.no_check:
        print("results")
        fine = check(args.gpus)
    bench = ["--no-check", "--bench", "--repeat", str(args.repeat)]
    for tokens, causal in itertools.product([] if args.no_variants else args.tokens, (True, False)):
        timed_peers = {}
        if tokens == main_tokens and not args.no_peers:
            timed_peers = peers(args.gpus, tokens, causal, args.repeat)
        for backward in (False, True):
            options = problem(args.gpus, tokens, causal, backward)
            result = run(args.gpus, [*options, "--variant", "all", *bench])
            kept["runs"].append({"options": options, "result": result})
            passes = "forward + backward" if backward else "forward"
            print(
                f"\n{'causal' if causal else 'full'}, {passes}, {args.gpus} x {tokens} tokens, "
                f"{result['device']}"
            )
            print(f"  {'':<34} {'ms':>9} {'of ideal':>9} {'TFLOP/s':>9}")
            for variant in result["variants"]:
                ms, ideal = variant["time_ms"]["median"], variant["ideal_ms"]
                row(variant["name"], ms, ideal, variant["tflops"])
                if variant["name"] == "overlapped":
                    beside = ideal
            for name, times in timed_peers.items():
                row(f"PyTorch, {name}", times["both" if backward else "forward"], beside)
            alone, again = (
                run(count, [*options, "--variant", name, *bench])["variants"][0]
                for count, name in ((1, "ring"), (args.gpus, "overlapped"))
            )
            by_itself = alone["time_ms"]["median"] / args.gpus
            row("overlapped, one GPU by itself", again["time_ms"]["median"], by_itself)
            kept["runs"][-1] |= {
                "peers": timed_peers,
                "by_itself": {"ideal_ms": by_itself, "ms": again["time_ms"]["median"]},
            }
            machine.write_results(args.json, kept)
    if args.sweep:
        fine = sweep(args, bench, kept) and fine
    if args.million:
        options = f"--seq-q {1 << 20} --heads 8 --head-dim 128 --dtype bf16 --causal".split()
        options += ["--variant", "overlapped", "--sample", "8", "--bench", "--repeat", "3"]
        result = run(args.gpus, options, 3 * SECONDS)
        kept["million"] = {"options": options, "result": result}
        variant = result["variants"][0]
        print("\na million tokens:", json.dumps(variant["check"]))
        row("overlapped", variant["time_ms"]["median"], variant["ideal_ms"])
        fine = fine and variant["check"]["passed"]
    machine.write_results(args.json, kept)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
