"""Chapter 12 on a GPU, beside PyTorch's kernels and standard attention on cuBLAS (chapter 03), on the same
tensors.

    python3 -m tools.bench.large [--groups fp32,bf16,lengths,widths,narrow,backward] [--rounds R]
    [--variants V,V] [--json FILE]

    fp32    batch 32, 8 heads, 256 and 1024 queries and keys, d = 256 and 1024
    bf16    [2,4,8192,512] and [1,4,8192,1024], full and causal
    lengths [*,4,N,d] in bf16, d = 512 and 1024, N from 128 to 4096: batch * N = 16384
    widths  192 / 128 and 576 / 512 beside equal widths, between which their speed is interpolated
    narrow  192 / 128, beside chapter 09: [2,8,8192] and [1,16,4096], full and causal
    backward    [2,4,8192,512] in bf16, full and causal

`final` is timed in fp32 and backward, the other variants in the rest: there `final` runs the kernel of
`cluster`. --variants names others.

In each round, every kernel runs once, in another order. Before that, the results are compared with float64 on
two heads. Prints TFLOP/s, 2 * batch * heads * seq_q * seq_k * (head_dim + head_dim_v) operations, half of
that if causal, 2.5 times that for a backward pass, from the median; and how much faster chapter 12 is than
each of the others. One run takes about two minutes.

Needs PyTorch, a GPU, and: cmake --build --preset cuda --target ch03_one_pass_attention_library
ch09_hopper_library ch12_large_heads_library
Exit status: 1 a result is wrong, 2 the arguments are unusable, 3 no GPU, no PyTorch or nothing built.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from . import machine
from .attention import DTYPES, ERROR_LIMIT, PEERS, time_in_turns, versions

import torch  # isort: skip: attention.py says what to do if it is missing
from torch.nn.attention import sdpa_kernel

from ..options import Arguments, at_least
from .chapter_library import ChapterLibrary

OURS = "12_large_heads"
STANDARD = ("03_one_pass_attention", "three_kernels")
HOPPER = ("09_hopper", "final")  # for widths up to 256
ERROR_LIMIT_LSE = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 4e-2}
MOST_SLOW = 20.0  # a kernel that takes this many times as long as chapter 12's is timed in one round only


@dataclass(frozen=True)
class Case:
    """A problem to time."""

    dtype: str
    batch: int
    heads: int
    seq_q: int
    seq_k: int
    head_dim: int
    head_dim_v: int
    causal: bool = False
    backward: bool = False

    def __str__(self) -> str:
        widths = f"{self.head_dim}"
        if self.head_dim_v != self.head_dim:
            widths += f"/{self.head_dim_v}"
        which = "causal" if self.causal else "full"
        which += " backward" * self.backward
        lengths = f"{self.seq_q}"
        if self.seq_k != self.seq_q:
            lengths += f"/{self.seq_k}"
        return f"{self.dtype} [{self.batch},{self.heads},{lengths},{widths}] {which}"

    @property
    def flops(self) -> float:
        pairs = self.batch * self.heads * self.seq_q * self.seq_k / (1 + self.causal)
        of_pass = 2.5 if self.backward else 1.0
        return 2.0 * pairs * (self.head_dim + self.head_dim_v) * of_pass


def square(dtype: str, batch: int, heads: int, seq: int, *widths: int, **mask) -> Case:
    """As many keys as queries. @param widths  of Q and K, and of V if that is another"""
    return Case(dtype, batch, heads, seq, seq, widths[0], widths[-1], **mask)


MASKS = ({}, {"causal": True})
GROUPS = {
    "fp32": [Case("fp32", 32, 8, n, m, d, d) for d in (256, 1024) for n in (256, 1024) for m in (256, 1024)],
    "bf16": [
        square("bf16", *size, **mask) for size in ((2, 4, 8192, 512), (1, 4, 8192, 1024)) for mask in MASKS
    ],
    "lengths": [
        square("bf16", 16384 // n, 4, n, d) for d in (512, 1024) for n in (128, 256, 512, 1024, 2048, 4096)
    ],
    "widths": [
        square("bf16", 2, heads, 8192, *widths)
        for heads, *widths in ((8, 128), (8, 192, 128), (8, 192), (4, 512), (4, 576, 512), (4, 576))
    ],
    "narrow": [
        square("bf16", *size, 192, 128, **mask) for size in ((2, 8, 8192), (1, 16, 4096)) for mask in MASKS
    ],
    "backward": [square("bf16", 2, 4, 8192, 512, backward=True, **mask) for mask in MASKS],
}


def exact(case: Case, q, k, v, do=None) -> tuple[torch.Tensor, ...]:
    """O and LSE of one head in float64, a few queries at a time; with dO, its gradients."""
    k, v = k.double(), v.double()
    scale = case.head_dim**-0.5
    o, lse, dq, dk, dv = [], [], [], torch.zeros_like(k), torch.zeros_like(v)
    for first in range(0, case.seq_q, 2048):
        rows = slice(first, first + 2048)
        s = q[rows].double() @ k.T * scale
        if case.causal:
            query = torch.arange(first, first + s.shape[0], device=s.device)
            key = torch.arange(case.seq_k, device=s.device)
            s.masked_fill_(key > query[:, None], -torch.inf)
        lse.append(torch.logsumexp(s, -1))
        p = torch.softmax(s, -1)
        o.append(p @ v)
        if do is None:
            continue
        d_o = do[rows].double()
        ds = p * (d_o @ v.T - (d_o * o[-1]).sum(-1, keepdim=True))
        dq.append(ds @ k * scale)
        dk += ds.T @ q[rows].double() * scale
        dv += p.T @ d_o
    return (torch.cat(o), torch.cat(lse)) if do is None else (torch.cat(dq), dk, dv)


class Check:
    """The right results of the first and the last head."""

    def __init__(self, case: Case, tensors: list[torch.Tensor]):
        self.case = case
        self.heads = ((0, 0), (case.batch - 1, case.heads - 1))
        self.right = [exact(case, *(x[at] for x in tensors)) for at in self.heads]

    def error(self, results: tuple[torch.Tensor, ...]) -> float:
        """The largest relative L2 error of O, or of the gradients; NaN counts as infinity."""
        errors = [0.0]
        for at, right in zip(self.heads, self.right, strict=True):
            for computed, expected in zip(results, right, strict=False):
                difference = (computed[at].double() - expected).norm()
                relative = float(difference / expected.norm())
                errors.append(math.inf if math.isnan(relative) else relative)
        return max(errors)

    def error_of_lse(self, lse: torch.Tensor) -> float:
        errors = [0.0]
        for at, (_, right) in zip(self.heads, self.right, strict=True):
            largest = float((lse[at].double() - right).abs().max())
            errors.append(math.inf if math.isnan(largest) else largest)
        return max(errors)


def peer_of(case: Case, backend, tensors: list[torch.Tensor]):
    """A function that runs a backend of PyTorch and returns O or the gradients."""
    qkv, do = tensors[:3], tensors[3:]

    def forward(q, k, v):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=case.causal)

    if not do:
        return lambda _: (forward(*qkv),)
    leaves = [x.detach().requires_grad_() for x in qkv]
    o = forward(*leaves)
    return lambda _: torch.autograd.grad(o, leaves, do, retain_graph=True)


def variants_for(case: Case, variants: list[str]) -> list[str]:
    """Those to time, each kernel once: `final` has its own in fp32 and backward, and otherwise that of
    `cluster`.
    """
    only_final = case.dtype == "fp32" or case.backward
    return [name for name in variants if (name == "final") == only_final]


def contenders(case: Case, tensors: list[torch.Tensor], variants: list[str] | None):
    """Name, a function that launches and returns O or the gradients, and LSE if it has one."""
    stream = torch.cuda.current_stream()
    if variants is None:
        variants = variants_for(case, ChapterLibrary(OURS).variants())
    wanted = [(OURS, name) for name in variants]
    equal, narrow = case.head_dim == case.head_dim_v, case.head_dim <= 192 and case.head_dim_v <= 128
    if equal and not case.backward:
        wanted.append(STANDARD)
    if (narrow or (equal and case.head_dim <= 256)) and case.dtype != "fp32" and not case.backward:
        wanted.append(HOPPER)
    for chapter, name in wanted:
        try:
            bound = ChapterLibrary(chapter).bind(name, *tensors[:3], case.causal, *tensors[3:])
        except (RuntimeError, FileNotFoundError) as refusal:
            print(f"  {chapter}/{name} does not run: {refusal}", file=sys.stderr)
            continue

        def launch(_, bound=bound):
            bound.launch(stream)
            return (bound.dq, bound.dk, bound.dv) if case.backward else (bound.o,)

        yield f"{chapter[:2]} {name}", launch, None if case.backward else bound.lse
    for name, backend in PEERS.items():
        try:
            peer = peer_of(case, backend, tensors)
            peer(0)
            torch.cuda.synchronize()
        except RuntimeError:
            continue  # PyTorch has no such kernel for these widths, or too little memory
        yield name, peer, None


def run(case: Case, rounds: int, variants: list[str] | None) -> list[dict]:
    """The rows of a case."""
    sizes = [(case.seq_q, case.head_dim), (case.seq_k, case.head_dim)]
    sizes += [(case.seq_k, case.head_dim_v)]
    sizes += [(case.seq_q, case.head_dim_v)] * case.backward
    tensors = [
        torch.randn(case.batch, case.heads, *size, dtype=DTYPES[case.dtype], device="cuda") for size in sizes
    ]
    check = Check(case, tensors)
    entries = list(contenders(case, tensors, variants))
    errors = [
        (check.error(launch(0)), check.error_of_lse(lse) if lse is not None else 0.0)
        for _, launch, lse in entries
    ]
    once = [t[0] for t in time_in_turns([launch for _, launch, _ in entries], 1)]
    fast = [n for n, ms in enumerate(once) if ms < MOST_SLOW * min(once)]
    times = {n: [ms] for n, ms in enumerate(once)}
    more = time_in_turns([entries[n][1] for n in fast], rounds)
    times |= dict(zip(fast, more, strict=True))
    rows = []
    for n, (name, _, _) in enumerate(entries):
        ms = statistics.median(times[n])
        o_error, lse_error = errors[n]
        dtype = DTYPES[case.dtype]
        rows.append(
            {
                **asdict(case),
                "kernel": name,
                "median_ms": ms,
                "rounds": len(times[n]),
                "tflops": case.flops / ms / 1e9,
                "rel_l2": o_error,
                "lse_max_abs": lse_error,
                "right": o_error <= ERROR_LIMIT[dtype] * (1 + case.backward)
                and lse_error <= ERROR_LIMIT_LSE[dtype],
            }
        )
    return rows


def show(case: Case, rows: list[dict]) -> None:
    """A line for a case: TFLOP/s, and how much faster our fastest kernel is."""
    ours = [row for row in rows if row["kernel"].startswith(OURS[:2])]
    best = min((row["median_ms"] for row in ours), default=None)
    cells = []
    for row in rows:
        ratio = f" ({row['median_ms'] / best:.2f}x)" if best and row not in ours else ""
        wrong = "" if row["right"] else f" WRONG {row['rel_l2']:.1e}/{row['lse_max_abs']:.1e}"
        cells.append(f"{row['kernel']} {row['median_ms']:.3f} ms {row['tflops']:.1f}{ratio}{wrong}")
    print(f"{case!s:32} {' | '.join(cells)}", flush=True)


def show_interpolation(rows: list[dict]) -> None:
    """The speed of unequal widths relative to that between equal ones, at the same operations for each
    pair.
    """
    speed: dict[tuple[int, int], float] = {}
    for row in rows:
        widths = (row["head_dim"], row["head_dim_v"])
        if row["kernel"].startswith(OURS[:2]) and not row["causal"]:
            speed[widths] = max(speed.get(widths, 0.0), row["tflops"])
    for (d, d_v), tflops in speed.items():
        if d == d_v or (d, d) not in speed or (d_v, d_v) not in speed:
            continue
        between = (speed[d, d] + speed[d_v, d_v]) / 2
        print(f"{d}/{d_v}: {tflops / between:.2f} of the speed between {d_v} and {d}")


def main() -> int:
    parser = Arguments(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", default=",".join(GROUPS))
    parser.add_argument("--rounds", type=at_least(1), default=7)
    parser.add_argument("--variants")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    groups = options.groups.split(",")
    if unknown := [name for name in groups if name not in GROUPS]:
        print(f"bench: --groups has {unknown[0]}: {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("bench: PyTorch finds no GPU", file=sys.stderr)
        return 3
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    device = torch.cuda.get_device_name()
    result = {"device": device, "machine": machine.gpu(), "versions": versions()}
    result["timings"] = []
    print(device, flush=True)
    variants = options.variants.split(",") if options.variants else None
    for group in groups:
        rows_of_group = []
        for case in GROUPS[group]:
            rows = run(case, options.rounds, variants)
            show(case, rows)
            rows_of_group += [{"group": group, **row} for row in rows]
            torch.cuda.empty_cache()
            result["timings"] += rows_of_group[-len(rows) :]
            machine.write_results(options.json, result)
        if group == "widths":
            show_interpolation(rows_of_group)
    return 0 if all(row["right"] for row in result["timings"]) else 1


if __name__ == "__main__":
    sys.exit(main())
