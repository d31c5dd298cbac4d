"""Head dimensions between the compiled ones, and tensors as models have them: chapters 07 and 08 beside
FlashAttention-2.

    python3 -m tools.bench.layouts --json docs/results/layouts_h100.json

For each head dimension: the time of the forward pass (07/final) and of the backward pass (08/mma_pipelined)
on [batch, heads, seq, head_dim] and on [batch, seq, heads, head_dim], and that of PyTorch's flash backend on
the latter. All are timed in turns, in the same process. Needs build/cuda/lib (cmake --build --preset cuda
--target chapter_libraries).

--before FOLDER: also the libraries in that folder, built from sources before the kernels took strides, on
dense tensors.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
from pathlib import Path

from ..options import Arguments, needs_pytorch

needs_pytorch()
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from fa_tutorial import chapter_library

from . import machine

HEAD_DIMS = (64, 72, 80, 96, 112, 128, 160, 192, 256)
ROUNDS, LAUNCHES = 9, 4
SEQ, TOKENS, MODEL = 4096, 16384, 2048  # heads: as many as make up MODEL columns


def as_bshd(x: torch.Tensor) -> torch.Tensor:
    """The same numbers, [batch, seq, heads, head_dim] in memory."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


class Kernel:
    """A variant with its tensors, which it keeps."""

    def __init__(self, library, variant: str, inputs: dict, causal: bool):
        q, k, v = inputs["q"], inputs["k"], inputs["v"]
        if "do" in inputs:
            self.outputs = {"dq": torch.full_like(q, float("nan"))}
            self.outputs |= {"dk": torch.full_like(k, float("nan"))}
            self.outputs |= {"dv": torch.full_like(v, float("nan"))}
        else:
            lse = torch.empty(q.shape[:3], device=q.device)
            self.outputs = {"o": torch.full_like(q, float("nan")), "lse": lse}
        self.tensors = inputs | self.outputs
        given = chapter_library.describe(self.tensors, causal, q.shape[-1] ** -0.5)
        self.bound = chapter_library.BoundVariant(library, variant, given)

    def __call__(self) -> None:
        self.bound.launch(torch.cuda.current_stream().cuda_stream)


def library(path: Path):
    """A chapter's library, also one with an older interface: its struct is the beginning of this one."""
    loaded = ctypes.CDLL(str(path))
    chapter = chapter_library.ChapterLibrary.__new__(chapter_library.ChapterLibrary)
    loaded.fa_interface = lambda: chapter_library.INTERFACE
    chapter._library = loaded
    chapter._declare(path, "build it again")
    return loaded


def milliseconds(calls: dict) -> dict[str, float]:
    """The median of the rounds; in each, all take turns."""
    times = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            call()
            start.record()
            for _ in range(LAUNCHES):
                call()
            end.record()
            torch.cuda.synchronize()
            times[name].append(start.elapsed_time(end) / LAUNCHES)
    return {name: statistics.median(of) for name, of in times.items()}


def worst_error(results: dict, expected: dict) -> float:
    """The largest relative L2 error."""
    return max(float((results[n].float() - x.float()).norm() / x.float().norm()) for n, x in expected.items())


def measure(head_dim: int, causal: bool, backward: bool, libraries: dict) -> dict:
    batch, heads = TOKENS // SEQ, MODEL // head_dim
    torch.manual_seed(head_dim)
    names = ("q", "k", "v", "do") if backward else ("q", "k", "v")
    dense = {n: torch.randn(batch, heads, SEQ, head_dim, device="cuda", dtype=torch.bfloat16) for n in names}
    bshd = {n: as_bshd(x) for n, x in dense.items()}
    peer = {n: x.detach().requires_grad_(backward) for n, x in bshd.items()}
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        o = scaled_dot_product_attention(peer["q"], peer["k"], peer["v"], is_causal=causal)
        inputs = [peer[n] for n in ("q", "k", "v")]

        def forward():
            scaled_dot_product_attention(*inputs, is_causal=causal)

        def gradients():
            return torch.autograd.grad(o, inputs, bshd["do"], retain_graph=True)

        expected = {"o": o.detach()}
        if backward:
            expected = dict(zip(("dq", "dk", "dv"), gradients(), strict=True))
        variant = "mma_pipelined" if backward else "final"
        calls = {"flash": gradients if backward else forward}
        for name, (of_library, inputs_of) in {
            "bhsd": ("now", dense),
            "bshd": ("now", bshd),
            "before": ("before", dense),
        }.items():
            found = libraries.get((of_library, backward))
            if found and not (of_library == "before" and head_dim not in (64, 128)):
                calls[name] = Kernel(found, variant, inputs_of, causal)
        times = milliseconds(calls)
    errors = {
        name: worst_error(call.outputs, expected) for name, call in calls.items() if isinstance(call, Kernel)
    }
    if not all(error < 0.02 for error in errors.values()):
        sys.exit(f"head_dim {head_dim}: errors {errors}")
    pairs = SEQ * (SEQ + 1) // 2 if causal else SEQ * SEQ
    flops = batch * heads * pairs * head_dim * (10 if backward else 4)
    return {
        "pass": "backward" if backward else "forward",
        "head_dim": head_dim,
        "heads": heads,
        "causal": causal,
        "milliseconds": {n: round(t, 4) for n, t in times.items()},
        "tflops": {n: round(flops / t / 1e9, 1) for n, t in times.items()},
    }


def main() -> None:
    parser = Arguments(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--before", type=Path)
    options = parser.parse_args()
    folder = Path(__file__).resolve().parents[2] / "build" / "cuda" / "lib"
    libraries = {}
    for name, of in (("now", folder), ("before", options.before)):
        for chapter in ("07_multi_stage", "08_backward") if of else ():
            backward = chapter.startswith("08")
            libraries[name, backward] = library(of / f"libch{chapter}.so")
    cases = []
    for backward in (False, True):
        for causal in (False, True):
            for head_dim in HEAD_DIMS:
                case = measure(head_dim, causal, backward, libraries)
                cases.append(case)
                tflops = case["tflops"]
                print(case["pass"], head_dim, "causal" * causal, tflops, flush=True)
    result = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "seq": SEQ,
        "batch": TOKENS // SEQ,
        "cases": cases,
    }
    machine.write_results(options.json, result)


if __name__ == "__main__":
    main()
