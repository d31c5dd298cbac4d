"""Attention and its gradients in float64, by the formulas, and how close the kernels must come to them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

# The largest error, relative to what the terms of the sums amount to without their signs.
LIMITS = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.2e-2}


@dataclass
class Reference:
    """Results in float64; sizes: the norms of the same sums over absolute values."""

    dtype: torch.dtype  # of the inputs
    results: dict[str, torch.Tensor]
    sizes: dict[str, float]


def attention(q, k, v, do, causal: bool, scale: float) -> Reference:
    """o, lse, dq, dk and dv of any strides and any dtype."""
    dtype = q.dtype
    q, k, v, do = (x.detach().double() for x in (q, k, v, do))
    group = q.shape[1] // k.shape[1]
    every_k, every_v = (x.repeat_interleave(group, 1) for x in (k, v))
    s = q @ every_k.mT * scale
    if causal:
        rows, cols = s.shape[-2:]
        hidden = torch.ones(rows, cols, dtype=torch.bool).triu(cols - rows + 1)
        s = s.masked_fill(hidden, -torch.inf)
    lse = s.logsumexp(-1)
    p = torch.exp(s - lse[..., None]).nan_to_num(0.0)  # rows that see no key

    def products(do, v, q, k, sign: float) -> dict[str, torch.Tensor]:
        delta = (do * (p @ v)).sum(-1, keepdim=True)
        ds = p * (do @ v.mT - sign * delta) * scale

        def of_group(x):
            return x.unflatten(1, (-1, group)).sum(2)

        return {
            "o": p @ v,
            "dq": ds @ k,
            "dk": of_group(ds.mT @ q),
            "dv": of_group(p.mT @ do),
        }

    results = products(do, every_v, q, every_k, 1.0)
    without_signs = (x.abs() for x in (do, every_v, q, every_k))
    sizes = products(*without_signs, -1.0)
    norms = {name: float(x.norm()) for name, x in sizes.items()}
    return Reference(dtype, results | {"lse": lse}, norms)


def complaint(reference: Reference, name: str, computed: torch.Tensor) -> str:
    """What is wrong with a result; empty if it is close enough."""
    expected, limit = reference.results[name], LIMITS[reference.dtype]
    computed = computed.detach()
    if computed.shape != expected.shape:
        return (
            f"{name} has the shape {list(computed.shape)}, not {list(expected.shape)}"
        )
    if name == "lse":
        close = torch.allclose(computed.double(), expected, rtol=limit, atol=limit)
        return "" if close else "lse is wrong"
    error = float((computed.double() - expected).norm())
    most = limit * reference.sizes[name]
    return "" if error <= most else f"{name}: error {error:.2e}, limit {most:.2e}"
