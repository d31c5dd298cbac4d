"""Times forward and backward of [1, 16, 16384, 64], causal, bf16, as the test of a public course does.

    python3 -m tools.bench.course [--rep MS] [--warmup MS] [--seq N] [--json FILE]

The course's test draws q, k and v as one tensor of three, compiles the function with torch.compile, and
passes a function that computes o, o.sum() and its gradients to triton.testing.do_bench, whose mean is the
result. The gradient of o is therefore one number with strides of 0, and each call adds its gradients to those
of the call before: both are in the time. Default for --rep and --warmup: the course's.

Needs PyTorch with Triton, a GPU, and: cmake --build --preset cuda --target chapter_libraries
Exit status: 1 a result is wrong, 3 no GPU, no PyTorch or nothing built.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

from ..options import Arguments, at_least
from . import machine
from .attention import ERROR_LIMIT, SDPBackend, error, torch, versions
from .package import fa_tutorial
from .plans import Point

OURS = {"07 + 08": ("07/final", "08/mma_pipelined"), "09 + 10": ("09/final", "10/final")}
PEERS = {"flash (FA2)": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}
HEADS, HEAD_DIM = 16, 64
# What the course's list of results showed on 2026-11-22: kernels in Triton, which is a rule there, on an
# H100.
PUBLIC_MS = [5.36, 6.78]


def functions(name: str) -> tuple[Callable, contextlib.AbstractContextManager]:
    """The function that is compiled, of q, k and v [heads, seq, head_dim], and what must be chosen while it
    runs.
    """
    if name in OURS:
        attention = fa_tutorial.scaled_dot_product_attention
        chosen = fa_tutorial.use(*OURS[name])
    else:
        attention = torch.nn.functional.scaled_dot_product_attention
        chosen = torch.nn.attention.sdpa_kernel(PEERS[name])

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return attention(q[None], k[None], v[None], is_causal=True)[0]

    return run, chosen


def kernels_of(call: Callable) -> list[str]:
    """The names of the two kernels that take the longest, so that the file shows what ran."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        call()
        torch.cuda.synchronize()
    events = sorted(recorded.key_averages(), key=lambda e: -e.self_device_time_total)
    return [event.key for event in events[:2]]


def measure(name: str, seq: int, rep: int, warmup: int) -> dict:
    """A row: the mean of do_bench, and the errors of O and of the gradients on two heads."""
    from triton.testing import do_bench

    torch.compiler.reset()
    # Its key does not know which of PyTorch's kernels is chosen.
    torch._inductor.config.force_disable_caches = True
    torch.manual_seed(0)
    whole = torch.randn(3, HEADS, seq, HEAD_DIM, device="cuda", dtype=torch.bfloat16)
    whole.requires_grad_()
    q, k, v = whole
    run, chosen = functions(name)
    with chosen:
        attention = torch.compile(run, fullgraph=True)

        def forward_backward() -> torch.Tensor:
            o = attention(q, k, v)
            o.sum().backward()
            return o

        o = forward_backward().detach()
        point = Point("bf16", 1, HEADS, seq, HEAD_DIM, True)
        given = [x[None].detach() for x in (q, k, v)]
        wrong = error(point, (o[None],), given)
        backward = Point("bf16", 1, HEADS, seq, HEAD_DIM, True, True)
        gradients = tuple(x[None] for x in whole.grad)
        given.append(torch.ones_like(given[0]))
        wrong_gradients = error(backward, gradients, given)
        kernels = kernels_of(forward_backward)
        mean = do_bench(forward_backward, rep=rep, warmup=warmup)
    most = ERROR_LIMIT[torch.bfloat16]
    right = wrong <= most and wrong_gradients <= 2 * most
    row = {"attention": name, "mean_ms": mean, "rel_l2": wrong, "right": right}
    return row | {"rel_l2_gradients": wrong_gradients, "kernels": kernels}


def main() -> int:
    parser = Arguments(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rep", type=at_least(1), default=10000, metavar="MS")
    parser.add_argument("--warmup", type=at_least(0), default=1000, metavar="MS")
    parser.add_argument("--seq", type=at_least(1), default=16384, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("course: PyTorch finds no GPU", file=sys.stderr)
        return 3
    before = machine.gpu()
    rows: list[dict] = []
    result = {"device": before.get("name"), "machine": before | versions()}
    result |= {"heads": HEADS, "seq": options.seq, "head_dim": HEAD_DIM}
    result |= {"rep": options.rep, "warmup": options.warmup, "rows": rows}
    result |= {"public_ms": PUBLIC_MS}
    for name in (*OURS, *PEERS):
        try:
            row = measure(name, options.seq, options.rep, options.warmup)
        except FileNotFoundError as obstacle:
            print(f"course: {obstacle}", file=sys.stderr)
            return 3
        except (RuntimeError, ValueError) as refusal:
            print(f"  {name} does not run: {refusal}", file=sys.stderr)
            continue
        rows.append(row)
        told = "" if row["right"] else "  WRONG"
        told += f"  errors {row['rel_l2']:.1e}, {row['rel_l2_gradients']:.1e}"
        print(f"{name:12} {row['mean_ms']:.3f} ms{told}", flush=True)
        machine.write_results(options.json, result)
    return 0 if all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
