"""Times a training step of a GPT of GPT-2's small size with different attention, at several context lengths.

    python3 -m tools.bench.training_step [--contexts N,N,...] [--tokens N] [--rounds R] [--json FILE]
    python3 -m tools.bench.training_step --longest [--memory GIB] [--stride N] [--bound N] [--json FILE]

12 layers, 12 heads of dimension 64, width 768, a vocabulary of 256 bytes: 85 million parameters and the
positions. Weights are in fp32; autocast makes products and attention bf16. A step is: forward, backward,
AdamW. There are `--tokens` tokens in a step, whatever the context. The same model runs all kinds of attention
in turns, several steps at a time, and the time is the host's, from one synchronization to the next: what a
training would see.

With --longest, nothing is timed. Instead, with one sequence in a step, the longest context is searched whose
step fits into the GPU's free memory, or into --memory GiB of it: by bisection, in multiples of --stride.

Needs PyTorch, a GPU, and: cmake --build --preset cuda --target chapter_libraries
Exit status: 1 the losses of two kinds of attention differ, 2 the arguments are unusable, 3 no GPU or nothing
built.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ..options import Arguments, at_least
from . import longest, machine
from .attention import OutOfMemory, enough_memory, torch, versions
from .course import OURS, PEERS
from .package import fa_tutorial, gpt, native

BASE = "flash (FA2)"
STEPS = 5  # between two synchronizations
AGREE = 0.02  # nats: the loss of the first step


class Kind:
    """A kind of attention in the model."""

    def __init__(self, name: str):
        self.name = name
        if name in OURS:
            self.attention = gpt.ours
        elif name in PEERS:
            self.attention = gpt.of_backend(PEERS[name])
        else:
            self.attention = gpt.unfused

    def chosen(self) -> contextlib.AbstractContextManager:
        """The kernels of our chapters, as long as the `with` block runs."""
        return fa_tutorial.use(*OURS.get(self.name, ()))


class Trained:
    """A model and what a step of its training needs."""

    def __init__(self, sizes: gpt.Sizes, batch: int, device: str = "cuda"):
        torch.manual_seed(0)
        self.device = device
        self.model = gpt.Gpt(sizes, gpt.unfused).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4, fused=True)
        text = torch.randint(gpt.BYTES, (batch, sizes.context + 1))
        self.text = text.to(device)

    def loss(self) -> torch.Tensor:
        with torch.autocast(self.device, dtype=torch.bfloat16):
            return self.model.loss(self.text)

    def steps(self, kind: Kind, count: int) -> None:
        """Enqueues steps."""
        for block in self.model.blocks:
            block.attention = kind.attention
        with kind.chosen():
            for _ in range(count):
                self.optimizer.zero_grad()
                self.loss().backward()
                self.optimizer.step()

    def first_loss(self, kind: Kind) -> float:
        for block in self.model.blocks:
            block.attention = kind.attention
        with kind.chosen(), torch.no_grad():
            return self.loss().item()


def empty() -> None:
    """Gives memory back that a model which no longer exists had."""
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()


def peak_of_step(trained: Trained, kind: Kind, what: str) -> int:
    """The peak of the memory in a step. @throws OutOfMemory"""
    with enough_memory(what):
        trained.steps(kind, 1)
        trained.optimizer.zero_grad()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        trained.steps(kind, 1)
        torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def in_turns(runs: list[Callable[[], None]], rounds: int) -> list[list[float]]:
    """Milliseconds of each run in each round. A different one starts each round."""
    times: list[list[float]] = [[] for _ in runs]
    for number in range(rounds):
        first = number % len(runs)
        for entry in (*range(first, len(runs)), *range(first)):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            runs[entry]()
            torch.cuda.synchronize()
            times[entry].append(1e3 * (time.perf_counter() - begin))
    return times


def measure(kinds: list[Kind], sizes: gpt.Sizes, batch: int, rounds: int) -> list[dict]:
    """A row for each kind of attention."""
    trained = Trained(sizes, batch)
    rows, running = [], []
    for kind in kinds:
        row = {"attention": kind.name, "context": sizes.context, "batch": batch}
        rows.append(row)
        with contextlib.suppress(OutOfMemory), enough_memory(kind.name):
            row["loss"] = trained.first_loss(kind)  # before any step
        empty()
    for row, kind in zip(rows, kinds, strict=True):
        with contextlib.suppress(OutOfMemory):
            row["bytes"] = peak_of_step(trained, kind, f"{kind.name} {sizes}")
        row["fits"] = "bytes" in row
        if row["fits"]:
            running.append((row, kind))
        else:  # the exception, whose frames hold tensors, no longer exists
            trained.optimizer.zero_grad()
            empty()
    runs = [lambda kind=kind: trained.steps(kind, STEPS) for _, kind in running]
    for (row, _), times in zip(running, in_turns(runs, rounds), strict=True):
        each = [ms / STEPS for ms in times]
        median = statistics.median(each)
        row |= {"median_ms": median, "min_ms": min(each), "max_ms": max(each)}
        row["tokens_per_second"] = 1e3 * batch * sizes.context / median
    return rows


def fits(kind: Kind, context: int) -> bool:
    """Whether a step with one sequence of this length fits into the memory."""
    empty()
    try:
        with enough_memory(kind.name):
            trained = Trained(gpt.Sizes(12, 12, 64, context), 1)
            text, trained.text = trained.text, trained.text[:, :65]
            trained.steps(kind, 1)  # allocates what AdamW keeps
            trained.text = text
            trained.steps(kind, 1)
            torch.cuda.synchronize()
    except OutOfMemory:
        return False
    return True


def search(kinds: list[Kind], memory: float, stride: int, bound: int) -> dict:
    """The longest context of each kind of attention. @param memory  GiB for PyTorch's allocator; 0: what is
    free
    """
    empty()
    free, total = torch.cuda.mem_get_info()
    allowed = min(free, memory * 2**30) if memory > 0 else free
    torch.cuda.set_per_process_memory_fraction(allowed / total)
    result = {"memory_gib": allowed / 2**30, "stride": stride, "bound": bound}
    result["longest"] = {}
    for kind in kinds:

        def try_one(context: int, kind: Kind = kind) -> bool:
            found = fits(kind, context)
            told = "fits" if found else "does not fit"
            print(f"  {kind.name:12} {context:9,} {told}", flush=True)
            return found

        found = longest.find(try_one, stride, bound)
        result["longest"][kind.name] = dataclasses.asdict(found)
        print(f"{kind.name}: the longest is {found.fits:,}", flush=True)
    torch.cuda.set_per_process_memory_fraction(1.0)
    return result


def show(rows: list[dict]) -> None:
    base = next((r for r in rows if r["attention"] == BASE and r["fits"]), None)
    for row in rows:
        told = "does not fit"
        if row["fits"]:
            told = f"{row['median_ms']:8.2f} ms {row['tokens_per_second']:10,.0f} tokens/s {row['bytes'] / 2**30:6.2f} GiB"  # noqa: E501
            if base:
                told += f"  {base['median_ms'] / row['median_ms']:.3f} of {BASE}"
        print(f"{row['context']:6} {row['attention']:12} {told}", flush=True)


def unusable(kinds: list[Kind]) -> dict[str, str]:
    """Why kinds of attention do not run here, by name."""
    reasons = {}
    q = torch.zeros(1, 1, 64, 64, device="cuda", dtype=torch.bfloat16)
    for kind in kinds:
        leaf = q.clone().requires_grad_()
        try:
            with kind.chosen():
                kind.attention(leaf, leaf, leaf).sum().backward()
        except (RuntimeError, ValueError) as reason:
            reasons[kind.name] = str(reason).splitlines()[0]
    return reasons


def main() -> int:
    parser = Arguments(description=__doc__.split("\n\n")[0])
    parser.add_argument("--contexts", default="1024,2048,4096,8192", metavar="N,N")
    parser.add_argument("--tokens", type=at_least(1), default=32768, metavar="N")
    parser.add_argument("--rounds", type=at_least(1), default=3, metavar="R")
    told = "search the longest context that fits, and time nothing"
    parser.add_argument("--longest", action="store_true", help=told)
    told = "no more than this (default: all that is free)"
    parser.add_argument("--memory", type=float, default=0.0, metavar="GIB", help=told)
    told = "try multiples of this (default 4096)"
    parser.add_argument("--stride", type=at_least(1), default=4096, metavar="N", help=told)
    told = "try none above this (default 1048576)"
    parser.add_argument("--bound", type=at_least(1), default=1 << 20, metavar="N", help=told)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    try:
        contexts = [int(word) for word in options.contexts.split(",")]
    except ValueError:
        parser.error(f"--contexts {options.contexts}: must be numbers with commas")
    if min(contexts) < 1 or max(contexts) > options.tokens or options.rounds < 1:
        parser.error("--contexts must be from 1 to --tokens, --rounds 1 or more")
    if options.stride < 1 or options.bound < options.stride or options.memory < 0:
        parser.error("--stride must be from 1 to --bound, --memory 0 or more")
    if not torch.cuda.is_available():
        print("training_step: PyTorch finds no GPU", file=sys.stderr)
        return 3
    before = machine.gpu()
    kinds = [Kind(name) for name in ("unfused", *OURS, *PEERS)]
    try:
        reasons = unusable(kinds)
    except FileNotFoundError as obstacle:
        print(f"training_step: {obstacle}", file=sys.stderr)
        return 3
    for name, reason in reasons.items():
        print(f"  {name} does not run: {reason}", file=sys.stderr)
    kinds = [kind for kind in kinds if kind.name not in reasons]
    result = {"device": before.get("name"), "machine": before | versions()}
    result |= {"operators_in_cpp": native.is_loaded()}
    if options.longest:
        found = search(kinds, options.memory, options.stride, options.bound)
        machine.write_results(options.json, result | found)
        return 0
    rows = []
    for context in contexts:
        sizes = gpt.Sizes(12, 12, 64, context)
        found = measure(kinds, sizes, options.tokens // context, options.rounds)
        show(found)
        rows += found
        empty()
    result |= {"tokens": options.tokens, "rounds": options.rounds, "steps": rows}
    machine.write_results(options.json, result)
    right = True
    for context in contexts:
        losses = [r["loss"] for r in rows if r["context"] == context and r["fits"]]
        if not max(losses) - min(losses) <= AGREE:
            print(f"the losses differ at {context}: {losses}", file=sys.stderr)
            right = False
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
