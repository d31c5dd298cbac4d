"""Attention and its gradients in float64, by the formulas, and how close the kernels must come to them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

# The largest error, relative to what the terms of the sums amount to without their signs.
LIMITS = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.2e-2}
# The largest P that becomes 0: in fp16 by rounding; the others have the normal numbers of fp32.
LARGEST_LOST = {torch.float16: 2.0**-25, torch.bfloat16: 2.0**-126, torch.float32: 2.0**-126}


@dataclass
class Reference:
    """Results in float64; sizes: the norms of the same sums over absolute values."""

    dtype: torch.dtype  # of the inputs
    results: dict[str, torch.Tensor]
    sizes: dict[str, float]


@dataclass
class Extras:
    """What chapter 11 adds. Tensors are of any shape that broadcasts to [batch, heads, seq_q, seq_k]."""

    visible: torch.Tensor | None = None  # False for a key that a mask hides
    softcap: float = 0.0
    bias: torch.Tensor | None = None  # added to the scores
    kept: torch.Tensor | None = None  # what dropout multiplies P by: 0 or 1 / (1 - p)
    sinks: torch.Tensor | None = None  # [heads]: one more logit of each row, without a value


def attention(q, k, v, do, causal: bool, scale: float, extras: Extras | None = None) -> Reference:
    """o, lse, dq, dk and dv of any strides and any dtype."""
    dtype, extras = q.dtype, extras or Extras()
    q, k, v, do = (x.detach().double() for x in (q, k, v, do))
    group = q.shape[1] // k.shape[1]
    every_k, every_v = (x.repeat_interleave(group, 1) for x in (k, v))
    s, derivative = q @ every_k.mT * scale, 1.0
    if extras.softcap:
        tanh = torch.tanh(s / extras.softcap)
        s, derivative = extras.softcap * tanh, 1 - tanh**2
    if extras.bias is not None:
        s = s + extras.bias
    if causal:
        rows, cols = s.shape[-2:]
        every = torch.ones(rows, cols, dtype=torch.bool, device=s.device)
        hidden = every.triu(cols - rows + 1)
        s = s.masked_fill(hidden, -torch.inf)
    if extras.visible is not None:
        s = s.masked_fill(~extras.visible, -torch.inf)
    lse = s.logsumexp(-1)
    if extras.sinks is not None:
        sinks = extras.sinks.detach().double()[:, None]
        lse = torch.logaddexp(lse, sinks)
    p = torch.exp(s - lse[..., None]).nan_to_num(0.0)  # rows that see no key
    z = 1.0 if extras.kept is None else extras.kept

    def products(do, v, q, k, p, sign: float) -> dict[str, torch.Tensor]:
        delta = (do * (p * z @ v)).sum(-1, keepdim=True)
        ds = p * (do @ v.mT * z - sign * delta) * derivative * scale

        def of_group(x):
            return x.unflatten(1, (-1, group)).sum(2)

        of_v = of_group((p * z).mT @ do)
        found = {"o": p * z @ v, "dq": ds @ k, "dk": of_group(ds.mT @ q), "dv": of_v}
        if extras.sinks is not None:
            found["dsinks"] = -(torch.exp(sinks - lse) * delta[..., 0]).sum((0, 2))
        return found

    results = products(do, every_v, q, every_k, p, 1.0)
    without_signs = (x.abs() for x in (do, every_v, q, every_k))
    lost = LARGEST_LOST[dtype] / LIMITS[dtype]  # that of far keys beside a sink
    sizes = products(*without_signs, torch.where(p > 0, p + lost, 0.0), -1.0)
    norms = {name: float(x.norm()) for name, x in sizes.items()}
    return Reference(dtype, results | {"lse": lse}, norms)


def share_of_limit(reference: Reference, name: str, computed: torch.Tensor) -> float:
    """The error of a result divided by the largest allowed. Above 1 or NaN: it is wrong."""
    expected, limit = reference.results[name], LIMITS[reference.dtype]
    found = computed.detach().double()
    if name == "lse":  # element by element; -inf must be -inf
        error = torch.where(found == expected, 0.0, (found - expected).abs())
        shares = error / (limit + limit * expected.abs())
        return float(shares.max()) if shares.numel() else 0.0
    error, most = float((found - expected).norm()), limit * reference.sizes[name]
    if most == 0.0:  # all results are 0
        return 0.0 if error == 0.0 else math.inf
    return error / most


def complaint(reference: Reference, name: str, computed: torch.Tensor) -> str:
    """What is wrong with a result; empty if it is close enough."""
    expected = reference.results[name]
    if computed.shape != expected.shape:
        return f"{name} has the shape {list(computed.shape)}, not {list(expected.shape)}"
    share = share_of_limit(reference, name, computed)
    return "" if share <= 1.0 else f"{name}: the error is {share:.2f} of the limit"
