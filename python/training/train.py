"""Trains a small GPT over the sources of Python's standard library with three kinds of attention: ./learn
train.

    python -m training.train [--device cpu|cuda] [--steps N] [--runs NAME,...] [--out FOLDER] [--again]
                             [--deterministic] [--keep-every N] [--json FILE]

Every run begins with the same weights and sees the same text. Its checkpoint is in FOLDER/NAME: a run that
was killed goes on from there. On the CPU, and on a GPU with --deterministic, it ends with the same weights as
one that was not. Prints a line of JSON for each event. --json also writes the results, with the machine, to
FILE.

Exit status: 2 the arguments or a checkpoint are unusable.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import math
import os
import platform
import statistics
import sys
import sysconfig
import time
from pathlib import Path

import torch

from . import gpt


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is trained, and how."""

    sizes: gpt.Sizes
    batch: int
    steps: int
    rate: float
    megabytes: int  # of text
    autocast: bool  # to bf16
    keep_every: int  # steps between checkpoints
    sample: int  # bytes of text at the end
    runs: tuple[str, ...]
    deterministic: bool  # only kernels that always give the same bits


# On the CPU, our kernels run in the simulator: a step of this model takes seconds.
TINY = Plan(
    gpt.Sizes(layers=2, heads=1, head_dim=64, context=64),
    batch=2,
    steps=20,
    rate=3e-3,
    megabytes=1,
    autocast=False,
    keep_every=5,
    sample=32,
    runs=("unfused", "ours", "sdpa"),
    deterministic=True,
)
# 11 million parameters. PyTorch's attention is trained twice, because its sums have no fixed order, and once
# more with another of PyTorch's kernels, which rounds elsewhere: that is how far apart PyTorch's own runs
# are.
SMALL = Plan(
    gpt.Sizes(layers=6, heads=6, head_dim=64, context=1024),
    batch=16,
    steps=1000,
    rate=1e-3,
    megabytes=16,
    autocast=True,
    keep_every=100,
    sample=200,
    runs=("unfused", "ours", "sdpa", "sdpa-again", "efficient"),
    deterministic=False,
)
PLANS = {"cpu": TINY, "cuda": SMALL}
SEED = 0
WARMUP = 0.1  # share of the steps in which the learning rate grows
BEGINNING = b"def "
WARMUP_TOKENS = 8  # before the speed of writing is measured


class Unusable(Exception):
    """One sentence for the user."""


def say(**event: object) -> None:
    print(json.dumps(event), flush=True)


def text_of_standard_library(megabytes: int) -> torch.Tensor:
    """The beginning of all sources in a row, as bytes."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    apart = {"site-packages", "dist-packages", "test", "tests"}
    content = bytearray()
    for path in sorted(folder.rglob("*.py")):
        if apart.isdisjoint(path.relative_to(folder).parts):
            content += path.read_bytes() + b"\n"
        if len(content) >= megabytes << 20:
            break
    if len(content) < 1 << 16:
        raise Unusable(f"{folder} holds no sources: install Python's standard library")
    return torch.frombuffer(content, dtype=torch.uint8)[: megabytes << 20]


def batch_of(text: torch.Tensor, plan: Plan, step: int) -> torch.Tensor:
    """The text of a step, which depends on nothing but its number: [batch, context + 1]."""
    length = plan.sizes.context + 1
    random = torch.Generator().manual_seed(1_000_003 * SEED + step)
    starts = torch.randint(len(text) - length, (plan.batch,), generator=random)
    return torch.stack([text[start : start + length] for start in starts]).long()


def rate_of(plan: Plan, step: int) -> float:
    """A short increase, then half a cosine down to a tenth."""
    warmup = max(1, round(WARMUP * plan.steps))
    if step < warmup:
        return plan.rate * (step + 1) / warmup
    done = (step - warmup) / max(1, plan.steps - warmup)
    return plan.rate * (0.55 + 0.45 * math.cos(math.pi * done))


class Run:
    """The training of one model, which continues from its checkpoint."""

    def __init__(self, name: str, plan: Plan, device: str, folder: Path):
        self.name, self.plan, self.device = name, plan, device
        self.file = folder / name / "checkpoint.pt"
        torch.manual_seed(SEED)
        attention = gpt.ATTENTION[name.removesuffix("-again")]
        self.model = gpt.Gpt(plan.sizes, attention).to(device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=plan.rate, betas=(0.9, 0.95), weight_decay=0.1, fused=device == "cuda"
        )
        self.losses: list[float] = []
        self.times: list[float] = []  # seconds of each step
        if self.file.exists():
            self._load()

    def _what(self) -> dict:
        """What a checkpoint must have been made with."""
        plan = dataclasses.asdict(self.plan)
        kept = ("sizes", "batch", "steps", "rate", "megabytes", "autocast")
        kept += ("deterministic",)
        return {name: plan[name] for name in kept} | {"device": self.device}

    def _load(self) -> None:
        again = "give --again to start over"
        try:
            saved = torch.load(self.file, map_location=self.device, weights_only=True)
            what = saved["what"]
        except Exception as error:
            raise Unusable(f"{self.file} is not a checkpoint: {again}") from error
        if what != self._what():
            raise Unusable(f"{self.file} belongs to a training with other sizes or steps: {again}")
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.losses, self.times = saved["losses"], saved["times"]

    def save(self) -> None:
        """Replaces the checkpoint. It is complete at any time."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        partial = self.file.with_suffix(".partial")
        torch.save(
            {
                "what": self._what(),
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "losses": self.losses,
                "times": self.times,
            },
            partial,
        )
        partial.replace(self.file)

    def autocast(self, bits: int = 0) -> contextlib.AbstractContextManager:
        """To bf16, if the plan says so. @param bits  16: in any case, because decoding has no fp32"""
        enabled = self.plan.autocast or bits == 16
        return torch.autocast(self.device, dtype=torch.bfloat16, enabled=enabled)

    def step(self, text: torch.Tensor) -> float:
        """One update of the weights. Returns the loss before it."""
        number = len(self.losses)
        for group in self.optimizer.param_groups:
            group["lr"] = rate_of(self.plan, number)
        with self.autocast():
            loss = self.model.loss(batch_of(text, self.plan, number).to(self.device))
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()

    def train(self, text: torch.Tensor, number: int) -> dict:
        """Trains to the end and returns what there is to tell. @param number  of this run, from 0"""
        place = {"run": self.name, "of": self.plan.steps}
        place |= {"number": number, "runs": len(self.plan.runs)}
        say(**place, step=len(self.losses))
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        while len(self.losses) < self.plan.steps:
            begin = time.perf_counter()
            self.losses.append(self.step(text))
            self.times.append(time.perf_counter() - begin)
            done = len(self.losses)
            if done % self.plan.keep_every == 0 or done == self.plan.steps:
                self.save()
            say(**place, step=done, loss=self.losses[-1])
        with self.autocast(16):
            sample = self.model.write(BEGINNING, self.plan.sample, SEED)
        result = {
            "run": self.name,
            "losses": self.losses,
            "seconds": sum(self.times),
            "sample": sample.decode("utf-8", errors="replace"),
        }
        if self.device == "cuda":
            tokens = self.plan.batch * self.plan.sizes.context
            result["tokens_per_second"] = tokens / statistics.median(self.times)
            result["peak_bytes"] = torch.cuda.max_memory_allocated()
            result["written_per_second"] = self.written_per_second()
        return result

    def written_per_second(self) -> dict[str, float]:
        """Tokens, without a cache of keys and values and with one, in a text that fills the context."""
        count = self.plan.sizes.context - len(BEGINNING)
        ways = {"no_cache": {"cached": False}, "cache": {}}
        if self.model.blocks[0].attention is gpt.ours:
            ways["graph"] = {"recorded": True}
        rates = {}
        with self.autocast():
            for name, way in ways.items():
                self.model.write(BEGINNING, WARMUP_TOKENS, **way)
                torch.cuda.synchronize()
                begin = time.perf_counter()
                self.model.write(BEGINNING, count, **way)  # ends with a read of the text
                rates[name] = count / (time.perf_counter() - begin)
        return rates


def draw(results: list[dict], file: Path) -> str:
    """Saves the curves of the losses. Returns a line that says what became of them."""
    try:
        import matplotlib
    except ImportError:
        return "no picture of the losses: matplotlib is not installed"
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for result, style in zip(results, itertools.cycle(("-", "--", ":", "-.")), strict=False):
        steps = range(1, len(result["losses"]) + 1)
        axes.plot(steps, result["losses"], style, label=result["run"])
    axes.set(xlabel="step", ylabel="loss (nats per byte)")
    axes.legend()
    figure.savefig(file, dpi=150)
    pyplot.close(figure)
    return f"losses: {file}"


def about(device: str, plan: Plan) -> dict:
    """The machine, the versions and the plan, as results in docs/results/ name them."""
    on_gpu = device == "cuda"
    return {
        "device": torch.cuda.get_device_name() if on_gpu else platform.machine(),
        "machine": {"torch": torch.__version__, "python": platform.python_version()},
        "plan": dataclasses.asdict(plan),
    }


def write(file: Path, content: object) -> None:
    """Replaces a file, which is complete at any time."""
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    partial.replace(file)


def parse(words: list[str] | None) -> tuple[argparse.Namespace, Plan]:
    """The options and the plan. @throws Unusable"""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", choices=PLANS, default="cpu")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--runs", help=f"{', '.join(gpt.ATTENTION)}, with commas between them")
    parser.add_argument("--out", type=Path, default=Path("build/train"))
    parser.add_argument("--again", action="store_true", help="forget the checkpoints")
    same = "only kernels that always give the same bits, as on the CPU"
    parser.add_argument("--deterministic", action="store_true", help=same)
    parser.add_argument("--keep-every", type=int, help="steps between checkpoints")
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args(words)
    plan = PLANS[options.device]
    if options.steps is not None:
        if options.steps < 1:
            raise Unusable(f"--steps {options.steps}: must be 1 or more")
        plan = dataclasses.replace(plan, steps=options.steps)
    if options.keep_every is not None:
        if options.keep_every < 1:
            raise Unusable(f"--keep-every {options.keep_every}: must be 1 or more")
        plan = dataclasses.replace(plan, keep_every=options.keep_every)
    if options.deterministic:
        plan = dataclasses.replace(plan, deterministic=True)
    if options.runs:
        runs = tuple(options.runs.split(","))
        for name in runs:
            if name.removesuffix("-again") not in gpt.ATTENTION:
                known = ", ".join(gpt.ATTENTION)
                raise Unusable(f"--runs {name}: must be one or more of {known}")
        if options.device == "cpu" and any(r.startswith("efficient") for r in runs):
            raise Unusable("--runs efficient: is for GPUs, and this runs on a CPU")
        plan = dataclasses.replace(plan, runs=runs)
    if options.device == "cuda" and not torch.cuda.is_available():
        raise Unusable("--device cuda: PyTorch finds no GPU")
    return options, plan


def train(options: argparse.Namespace, plan: Plan) -> None:
    """Trains all models of a plan and writes results.json and losses.png."""
    if plan.deterministic:  # a run can be repeated
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS wants it
        torch.use_deterministic_algorithms(True)
    if options.device == "cpu":
        torch.set_num_threads(1)  # the matrices are too small to gain from more
    folder = options.out
    folder.mkdir(parents=True, exist_ok=True)
    text = text_of_standard_library(plan.megabytes)
    results = []
    for number, name in enumerate(plan.runs):
        if options.again:
            (folder / name / "checkpoint.pt").unlink(missing_ok=True)
        results.append(Run(name, plan, options.device, folder).train(text, number))
        write(folder / "results.json", results)
        if options.json:
            write(options.json, about(options.device, plan) | {"runs": results})
    say(drawn=draw(results, folder / "losses.png"), results=results)


def main(words: list[str] | None = None) -> int:
    try:
        train(*parse(words))
    except (Unusable, OSError) as problem:
        print(f"train: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
