"""Chapter 11 on a GPU: time against the share of blocks that exist, beside dense attention and PyTorch's
FlexAttention.

    python3 -m tools.bench.masks [--groups steps,blocks,masks,packed,dropout,scores] [--head-dims 64,128]
    [--rounds R] [--json FILE]

    steps    the variants that lead to "compressed"
    blocks   random blocks of 128 x 128, of which 1/32 to all exist; N = 4096 and 16384
    masks    no mask, causal, a window, documents: also what a mask costs that hides nothing
    packed   the same sequences, 50 to 4000 tokens long, packed into one and padded to the longest; "dense"
             computes the
             padding too, the others are told the lengths
    dropout  without and with

Each for head_dim 64 and 128, forward and backward, bf16. "dense" is chapter 07's final or chapter 08's
mma_pipelined, without the mask unless it is causal; "dense (09, 10)" is chapter 09's final or chapter 10's.
It and "hopper", which is built on those, need a GPU of compute capability 9.0, and are left out on others. On
9.0, FlexAttention uses wgmma; "FlexAttention (mma)" is the same without, and is left out on others too.
"dense" and chapter 11 are timed by their own programs (--bench), FlexAttention, compiled, by this one. In
both, each launch finds nothing of its tensors in the L2 cache. The kernels take turns; a time is the median
over the rounds of the medians of each. A round of everything takes about a quarter of an hour. FILE is
written anew after each problem, and what it has already is not measured
again: a run that was stopped goes on.

Needs build/cuda with ch07_multi_stage, ch08_backward, ch09_hopper, ch10_hopper_backward and ch11_masks, and
PyTorch 2.5 or newer.
Exit status: 2 the arguments are unusable, 3 no GPU, no PyTorch or nothing built.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path

from .. import masks
from ..options import Arguments, at_least, needs_pytorch
from . import machine

ROOT = machine.ROOT
PROGRAMS = ROOT / "build" / "cuda" / "bin"
HEAD_DIMS = (64, 128)
MODEL = 2048  # heads * head_dim
TOKENS = 16384  # batch * seq
BLOCK = 128
FRACTIONS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)
WINDOW = 1024
SHORTEST, LONGEST = 50, 4000
SEQUENCES = 16  # packed or padded
DROPOUT = 0.1
SCORES = ("--softcap=50", "--alibi")  # of the variant `scores`
LAUNCHES = 10
HOPPER = "hopper"  # runs on compute capability 9.0 alone
FLEX = "FlexAttention"
FLEX_MMA = "FlexAttention (mma)"  # the same, compiled without wgmma
DENSE_HOPPER = "dense (09, 10)"
DENSE = {
    ("dense", False): ("07_multi_stage", "final"),
    ("dense", True): ("08_backward", "mma_pipelined"),
    (DENSE_HOPPER, False): ("09_hopper", "final"),
    (DENSE_HOPPER, True): ("10_hopper_backward", "final"),
}
OURS = [name for name, _ in DENSE]


@dataclass(frozen=True)
class Case:
    """A problem with a mask, and what runs on it."""

    group: str
    name: str  # of the mask
    batch: int
    seq: int
    head_dim: int
    backward: bool
    tokens: int  # of sequences, without padding
    causal: bool = False
    window: int | None = None
    documents: tuple[int, ...] | None = None  # the length of each
    key_lengths: tuple[int, ...] | None = None
    blocks: tuple[tuple[int, ...], ...] | None = None
    dropout: float = 0
    variants: tuple[str, ...] = ("compressed",)
    beside: tuple[str, ...] = ("dense", FLEX)

    @property
    def heads(self) -> int:
        return MODEL // self.head_dim

    def __str__(self) -> str:
        which = "backward" if self.backward else "forward"
        return f"{self.group} {self.name} [{self.batch},{self.heads},{self.seq},{self.head_dim}] {which}"

    def size_options(self) -> list[str]:
        sizes = {"batch": self.batch, "heads": self.heads, "seq-q": self.seq}
        sizes["head-dim"] = self.head_dim
        words = [f"--{name}={size}" for name, size in sizes.items()]
        return [*words, "--dtype=bf16"]

    def mask_options(self, folder: Path) -> list[str]:
        """Options of ch11_masks. Writes the files that they name."""
        words = ["--causal"] * self.causal + ["--backward"] * self.backward
        if self.window is not None:
            words.append(f"--window={self.window}")
        if self.documents is not None:
            numbers = masks.documents(self.seq, list(self.documents))
            words.append(f"--documents={folder / 'documents.npy'}")
            masks.write_npy(folder / "documents.npy", "i4", (self.seq,), numbers)
        if self.key_lengths is not None:
            words.append(f"--key-lengths={folder / 'lengths.npy'}")
            masks.write_npy(folder / "lengths.npy", "i4", (self.batch,), self.key_lengths)
        if self.blocks is not None:
            words += [f"--block-mask={folder / 'blocks.npy'}", f"--block-size={BLOCK}"]
            shape = (1, len(self.blocks), len(self.blocks[0]))
            values = [block for row in self.blocks for block in row]
            masks.write_npy(folder / "blocks.npy", "u1", shape, values)
        return words


def cases(groups: list[str], head_dims: Iterable[int] = HEAD_DIMS) -> list[Case]:
    found = []
    for head_dim in head_dims:
        for backward in (False, True):
            where = {"head_dim": head_dim, "backward": backward}
            for group in groups:
                found += GROUPS[group](where)
    return found


def without_hopper(case: Case) -> Case:
    variants = tuple(variant for variant in case.variants if variant != HOPPER)
    beside = tuple(name for name in case.beside if name not in (DENSE_HOPPER, FLEX_MMA))
    return replace(case, variants=variants, beside=beside)


def _steps(where: dict) -> list[Case]:
    seq = 4096
    size = {"batch": TOKENS // seq, "seq": seq, "tokens": TOKENS, "causal": True}
    steps = ("masked_everywhere", "skip_empty", "three_kinds", "compressed")
    where = {"variants": steps, "beside": (), **where}
    return [Case("steps", "causal", **size, **where), Case("steps", "window", window=WINDOW, **size, **where)]


def _blocks(where: dict) -> list[Case]:
    found = []
    deterministic = ("deterministic",) if where["backward"] else ()
    for seq in (4096, 16384):
        count = seq // BLOCK
        for fraction in FRACTIONS:
            dice = random.Random(1)
            pattern = masks.random_blocks(count, count, fraction, dice)
            case = Case(
                "blocks",
                f"{fraction:g}",
                TOKENS // seq,
                seq,
                tokens=TOKENS,
                blocks=tuple(map(tuple, pattern)),
                variants=("compressed", *deterministic, HOPPER, "block_sparse"),
                beside=("dense", FLEX, FLEX_MMA),
                **where,
            )
            found.append(case)
    return found


def _masks(where: dict) -> list[Case]:
    seq = 4096
    size = {"batch": TOKENS // seq, "seq": seq, "tokens": TOKENS}
    lengths = tuple(masks.draw_lengths(seq // SHORTEST, SHORTEST, seq // 2, 1))
    dense = ("dense", DENSE_HOPPER, FLEX, FLEX_MMA)
    flash = (*dense, "flash (FA2)")
    masked = ("dense", FLEX, FLEX_MMA)
    where = {"variants": ("compressed", HOPPER), **where}
    window = {"causal": True, "window": WINDOW}
    documents = {"causal": True, "documents": lengths}
    return [
        Case("masks", "none", beside=dense, **size, **where),
        Case("masks", "causal", causal=True, beside=flash, **size, **where),
        Case("masks", "window", beside=masked, **window, **size, **where),
        Case("masks", "documents", beside=masked, **documents, **size, **where),
    ]


def _packed(where: dict) -> list[Case]:
    lengths = tuple(masks.draw_lengths(SEQUENCES, SHORTEST, LONGEST, 1))
    tokens, longest = sum(lengths), max(lengths)
    of = {"tokens": tokens, "causal": True, "variants": ("compressed", HOPPER), **where}
    padded = {"key_lengths": lengths, "beside": ("dense", FLEX)}
    return [
        Case("packed", "packed", 1, tokens, documents=lengths, beside=(FLEX,), **of),
        Case("packed", "padded", SEQUENCES, longest, **padded, **of),
    ]


def _dropout(where: dict) -> list[Case]:
    seq = 4096
    size = {"batch": TOKENS // seq, "seq": seq, "tokens": TOKENS}
    both = {"variants": ("compressed", "dropout"), "beside": ()}
    return [Case("dropout", f"{DROPOUT:g}", dropout=DROPOUT, **both, **size, **where)]


def _scores(where: dict) -> list[Case]:
    seq = 4096
    size = {"batch": TOKENS // seq, "seq": seq, "tokens": TOKENS}
    both = {"variants": ("compressed", "scores"), "beside": ()}
    return [Case("scores", "softcap, ALiBi", **both, **size, **where)]


GROUPS = {
    "steps": _steps,
    "blocks": _blocks,
    "masks": _masks,
    "packed": _packed,
    "dropout": _dropout,
    "scores": _scores,
}

# --- ours: programs -------------------------------------------------------------------------------


def time_of_program(chapter: str, variant: str, words: list[str]) -> float:
    """Milliseconds. @throws RuntimeError  with what the program said"""
    command = [PROGRAMS / f"ch{chapter}", "--variant", variant, *words]
    command += ["--no-check", "--bench", "--repeat", str(LAUNCHES), "--json", "-"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{variant}: {(done.stderr or done.stdout).strip()}")
    (result,) = json.loads(done.stdout)["variants"]
    return result["time_ms"]["median"]


def calls_of_programs(case: Case, folder: Path) -> dict:
    """For each of our kernels, a function that returns its time."""
    calls = {}
    words = case.size_options() + ["--causal"] * case.causal
    for name in OURS:
        if name in case.beside:
            chapter, variant = DENSE[name, case.backward]
            calls[name] = partial(time_of_program, chapter, variant, words)
    masked = case.size_options() + case.mask_options(folder)
    for variant in case.variants:
        own = {"dropout": (f"--dropout={case.dropout:g}",), "scores": SCORES}.get(variant, ())
        calls[variant] = partial(time_of_program, "11_masks", variant, [*masked, *own])
    return calls


# --- PyTorch --------------------------------------------------------------------------------------


def flex_mask(case: Case):
    """The block mask for FlexAttention."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask

    documents = lengths = blocks = None
    if case.documents is not None:
        numbers = masks.documents(case.seq, list(case.documents))
        documents = torch.tensor(numbers, device="cuda")
    if case.key_lengths is not None:
        lengths = torch.tensor(case.key_lengths, device="cuda")
    if case.blocks is not None:
        blocks = torch.tensor(case.blocks, device="cuda", dtype=torch.bool)
    rules = []
    if case.causal:
        rules.append(lambda batch, query, key: key <= query)
    if case.window is not None:
        rules.append(lambda batch, query, key: (key - query).abs() < case.window)
    if documents is not None:
        rules.append(lambda batch, query, key: documents[query] == documents[key])
    if lengths is not None:
        rules.append(lambda batch, query, key: key < lengths[batch])
    if blocks is not None:
        rules.append(lambda batch, query, key: blocks[query // BLOCK, key // BLOCK])
    if not rules:
        return None

    def sees(batch, head, query, key):
        seen = rules[0](batch, query, key)
        for rule in rules[1:]:
            seen = seen & rule(batch, query, key)
        return seen

    batch = None if lengths is None else case.batch
    return create_block_mask(sees, batch, None, case.seq, case.seq, device="cuda")


def calls_of_torch(case: Case) -> dict:
    """The same for PyTorch's kernels."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.flex_attention import flex_attention
    from torch.nn.functional import scaled_dot_product_attention

    names = [name for name in case.beside if name not in (*OURS, FLEX_MMA)]
    if not names:
        return {}
    torch.manual_seed(1)
    shape = (case.batch, case.heads, case.seq, case.head_dim)
    q, k, v, d_o = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    for tensor in (q, k, v):
        tensor.requires_grad_(case.backward)
    cache = torch.empty(2**28, dtype=torch.uint8, device="cuda")

    def milliseconds(launch) -> float:
        times = []
        for _ in range(LAUNCHES + 1):
            cache.zero_()  # nothing else stays in L2
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            launch()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        return statistics.median(times[1:])

    def timed(forward):
        if not case.backward:
            return lambda: milliseconds(forward)
        o = forward()
        return lambda: milliseconds(lambda: torch.autograd.grad(o, (q, k, v), d_o, retain_graph=True))

    calls = {}
    if FLEX in names:
        compiled, mask = torch.compile(flex_attention, dynamic=False), flex_mask(case)
        calls[FLEX] = timed(lambda: compiled(q, k, v, block_mask=mask))
    if "flash (FA2)" in names:

        def flash():
            with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                return scaled_dot_product_attention(q, k, v, is_causal=case.causal)

        calls["flash (FA2)"] = timed(flash)
    return calls


class WithoutWgmma:
    """A process in which Triton multiplies with mma instead of wgmma. It times FlexAttention."""

    def __init__(self, folder: Path):
        self.process = ProcessPoolExecutor(1, get_context("spawn"), self._prepare, (folder,))

    @staticmethod
    def _prepare(folder: Path) -> None:
        """Runs before Triton is imported. In shared caches it would find kernels with wgmma."""
        os.environ["DISABLE_MMA_V3"] = "1"
        os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")

    def time(self, case: Case) -> float:
        return self.process.submit(_time_of_flex, case).result()


@lru_cache(1)
def _call_of_flex(case: Case):
    import torch

    torch._dynamo.config.cache_size_limit = 256  # a compilation for each case
    return calls_of_torch(replace(case, beside=(FLEX,)))[FLEX]


def _time_of_flex(case: Case) -> float:
    return _call_of_flex(case)()


# --- the command ----------------------------------------------------------------------------------


def row_of(case: Case) -> dict:
    """What names a problem in the results."""
    return {
        "group": case.group,
        "mask": case.name,
        "pass": "backward" if case.backward else "forward",
        "batch": case.batch,
        "heads": case.heads,
        "seq": case.seq,
        "head_dim": case.head_dim,
        "tokens": case.tokens,
    }


def measure(case: Case, folder: Path, rounds: int, mma: WithoutWgmma) -> dict:
    calls = calls_of_programs(case, folder) | calls_of_torch(case)
    if FLEX_MMA in case.beside:
        calls[FLEX_MMA] = partial(mma.time, case)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(call())
    return row_of(case) | {"ms": {name: statistics.median(of) for name, of in times.items()}}


def measured_before(file: Path | None, now: dict) -> list[dict]:
    """The rows of a file that a run on the same GPU with as many rounds has written. @throws ValueError  it
    is of another
    """
    if file is None or not file.exists():
        return []
    before = json.loads(file.read_text())
    for key in ("device", "torch", "rounds"):
        if before[key] != now[key]:
            told = f"{file} has {key} {before[key]}, this run {now[key]}"
            raise ValueError(f"--json: {told}; name another file")
    return before["rows"]


def main() -> int:
    parser = Arguments(
        prog="masks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", default=",".join(GROUPS), metavar="NAME,..")
    told = ",".join(map(str, HEAD_DIMS))
    parser.add_argument("--head-dims", default=told, metavar="D,..")
    parser.add_argument("--rounds", type=at_least(1), default=3, metavar="R")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    groups = options.groups.split(",")
    if unknown := [name for name in groups if name not in GROUPS]:
        known = ", ".join(GROUPS)
        print(f"masks: --groups {unknown[0]}: must be of {known}", file=sys.stderr)
        return 2
    head_dims = options.head_dims.split(",")
    if unknown := [d for d in head_dims if d not in map(str, HEAD_DIMS)]:
        known = ", ".join(map(str, HEAD_DIMS))
        print(f"masks: --head-dims {unknown[0]}: must be of {known}", file=sys.stderr)
        return 2
    chosen = cases(groups, list(map(int, head_dims)))
    beside = {name for case in chosen for name in case.beside}
    passes = {case.backward for case in chosen}
    dense = {
        chapter for (name, backward), (chapter, _) in DENSE.items() if name in beside and backward in passes
    }
    chapters = sorted(dense | {"11_masks"})
    if missing := [c for c in chapters if not (PROGRAMS / f"ch{c}").exists()]:
        build = f"cmake --build --preset cuda --target ch{missing[0]}"
        print(f"masks: ch{missing[0]} is not built: {build}", file=sys.stderr)
        return 3
    needs_pytorch()
    import torch

    if not torch.cuda.is_available():
        print("masks: PyTorch finds no GPU", file=sys.stderr)
        return 3
    torch._dynamo.config.cache_size_limit = 256  # a compilation for each case
    result = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "rounds": options.rounds,
        "gpu": {"before": machine.gpu()},
        "rows": [],
    }
    try:
        result["rows"] = measured_before(options.json, result)
    except ValueError as error:
        print(f"masks: {error}", file=sys.stderr)
        return 2
    of_hopper = torch.cuda.get_device_capability() == (9, 0)
    with tempfile.TemporaryDirectory() as folder:
        mma = WithoutWgmma(Path(folder))
        for case in chosen:
            if any(row_of(case).items() <= row.items() for row in result["rows"]):
                continue
            if not of_hopper:
                case = without_hopper(case)
            row = measure(case, Path(folder), options.rounds, mma)
            result["rows"].append(row)
            times = ", ".join(f"{n} {ms:.3f}" for n, ms in row["ms"].items())
            print(f"{case}: {times} ms", flush=True)
            result["gpu"]["after"] = machine.gpu()
            machine.write_results(options.json, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
