"""Random calls of the operators, compared with float64.

    python -m tests.random_calls [--calls N] [--device cpu|cuda] [--longest N] [--seed S] [--json FILE]

Element types, lengths, head dimensions, grouped heads, masks, scales, views of larger tensors, and gradients
with any strides, such as those of a sum. O, LSE and all gradients are compared; a second call must give the
same O.

Exit status: 1 a result is wrong, 2 the arguments are unusable.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from fa_tutorial import scaled_dot_product_attention as attention

from . import reference

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
HEAD_DIMS = (8, 32, 40, 64, 72, 80, 96, 112, 128)
MORE_HEAD_DIMS = (*HEAD_DIMS, 160, 192, 200, 256)  # on a GPU; the simulator is slow
VIEWS = ("own", "part", "copied", "expanded", "heads inside", "packed")
STRIDED = ("heads inside", "packed")  # for those kernels that take them
GRADIENTS = ("dense", "of a sum", "transposed", "odd address", "part")


@dataclass(frozen=True)
class Call:
    """What is called. Views: of q, k and v."""

    dtype: torch.dtype
    batch: int
    heads: int
    kv_heads: int
    seq_q: int
    seq_k: int
    head_dim: int
    causal: bool
    scale: float | None
    views: tuple[str, str, str]
    gradient: str


def any_call(choose: random.Random, longest: int, device: str) -> Call:
    kv_heads, dtype = choose.choice((1, 2)), choose.choice(DTYPES)
    return Call(
        dtype=dtype,
        batch=choose.choice((1, 2)),
        heads=kv_heads * choose.choice((1, 1, 2, 3)),
        kv_heads=kv_heads,
        seq_q=choose.randint(1, longest),
        seq_k=choose.randint(1, longest),
        head_dim=choose.choice(MORE_HEAD_DIMS if device == "cuda" else HEAD_DIMS),
        causal=choose.random() < 0.5,
        scale=choose.choice((None, 0.05, 1.0)),
        views=tuple(choose.choice(VIEWS) for _ in "qkv"),
        gradient=choose.choice(GRADIENTS),
    )


def viewed(x: torch.Tensor, kind: str) -> torch.Tensor:
    """The tensor, a part of a larger one, one that was transposed and copied, one head of one batch for all,
    or a view of one in the order [batch, seq, heads, head_dim], alone or beside two others; a leaf of
    autograd."""
    if kind == "part":
        whole = torch.randn(x.shape[0] + 2, *x.shape[1:], device=x.device).to(x.dtype)
        whole[1:-1] = x
        x = whole[1:-1]
    elif kind == "copied":
        x = x.transpose(1, 2).contiguous().transpose(1, 2).contiguous()
    elif kind == "expanded":
        x = x[:1, :1].expand(x.shape)
    elif kind == "heads inside":
        x = x.transpose(1, 2).contiguous().transpose(1, 2)
    elif kind == "packed":
        x = torch.stack(3 * [x.transpose(1, 2)], 2)[:, :, 1].transpose(1, 2)
    return x.requires_grad_()


def gradient_of(do: torch.Tensor, kind: str) -> torch.Tensor:
    """The gradient with strides that PyTorch makes."""
    if kind == "of a sum":
        return do.new_ones(()).expand(do.shape)
    if kind == "transposed":
        return do.transpose(1, 2).contiguous().transpose(1, 2)
    if kind == "odd address":
        return do.new_empty(do.numel() + 1)[1:].view(do.shape).copy_(do)
    if kind == "part":
        return torch.cat((do, do), -1)[..., : do.shape[-1]]
    return do


def shares(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, causal: bool, scale: float | None
) -> dict[str, float]:
    """The error of each result divided by the largest allowed. @throws AssertionError  if a dtype or a second
    O differs
    """
    options = {"is_causal": causal, "scale": scale, "enable_gqa": True}
    o = attention(q, k, v, **options)
    gradients = torch.autograd.grad(o, (q, k, v), do)
    with torch.no_grad():
        again, lse = attention(q, k, v, return_lse=True, **options)
    assert torch.equal(o, again), "two calls give different O"
    exact = reference.attention(q, k, v, do, causal, scale or q.shape[-1] ** -0.5)
    found = dict(zip(("dq", "dk", "dv"), gradients, strict=True)) | {"o": o}
    for name, x in found.items():
        expected = (exact.results[name].shape, q.dtype)
        assert (x.shape, x.dtype) == expected, f"{name} is {list(x.shape)}, {x.dtype}"
    for x, given in ((o, q), (gradients[0], q), (gradients[1], k), (gradients[2], v)):
        assert x.stride() == torch.empty_like(given).stride(), "another layout"
    found["lse"] = lse
    return {name: reference.share_of_limit(exact, name, x) for name, x in found.items()}


def run(call: Call, device: str) -> tuple[bool, dict[str, float]]:
    """Whether the kernels took the strides, and the results of shares() for a call, whose tensors are drawn.
    What a kernel cannot read must be refused, and runs as a copy."""
    query = (call.batch, call.heads, call.seq_q, call.head_dim)
    key = (call.batch, call.kv_heads, call.seq_k, call.head_dim)
    q, k, v, do = (torch.randn(shape, device=device).to(call.dtype) for shape in (query, key, key, query))
    views = [viewed(x, kind) for x, kind in zip((q, k, v), call.views, strict=True)]
    rest = (gradient_of(do, call.gradient), call.causal, call.scale)
    try:
        return True, shares(*views, *rest)
    except ValueError as refusal:
        strided = set(call.views) & set(STRIDED)
        assert strided and "has the strides" in str(refusal), refusal
    copies = (x.detach().contiguous().requires_grad_() for x in views)
    return False, shares(*copies, *rest)


def run_all(calls: int, device: str, longest: int, seed: int) -> dict:
    """Runs calls that differ with the seed. Returns how many of each kind there were, and the wrong ones."""
    choose = random.Random(seed)
    torch.manual_seed(seed)
    count: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    largest: dict[str, float] = collections.defaultdict(float)
    wrong = []
    for number in range(calls):
        call = any_call(choose, longest, device)
        dtype = str(call.dtype).removeprefix("torch.")
        taken, found = run(call, device)
        for name, share in found.items():
            key = f"{name} {dtype}"
            largest[key] = max(largest[key], share)
            if not share <= 1.0:
                told = asdict(call) | {"dtype": dtype}
                wrong.append({"call": number, "result": name, "share": share} | told)
        count["dtype"][dtype] += 1
        count["gradient"][call.gradient] += 1
        count["view"].update(call.views)
        if set(call.views) & set(STRIDED):
            count["strides"]["taken" if taken else "refused"] += 1
        count["mask"]["causal" if call.causal else "none"] += 1
        count["heads"]["grouped" if call.heads > call.kv_heads else "equal"] += 1
        count["head_dim"][str(call.head_dim)] += 1
    return {"calls": calls, "count": count, "largest": largest, "wrong": wrong}


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--longest", type=int, default=80, help="queries or keys")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(words)
    if min(options.calls, options.longest) < 1:
        parser.error("--calls and --longest must be 1 or more")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch finds no GPU")
    result = run_all(options.calls, options.device, options.longest, options.seed)
    on_gpu = options.device == "cuda"
    device = torch.cuda.get_device_name() if on_gpu else "CPU, in the simulator"
    result = {"device": device, "torch": torch.__version__} | result
    result |= {"longest": options.longest, "seed": options.seed}
    worst = max(result["largest"].values())
    print(
        f"{options.calls} calls on {device}: {len(result['wrong'])} results wrong,"
        f" the largest error is {worst:.2f} of its limit"
    )
    for call in result["wrong"][:10]:
        print(call)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
