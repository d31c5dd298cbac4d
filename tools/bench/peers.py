"""The kernels of others, which attention.py times beside ours. They are used for measurements alone.

FlashAttention-3's forward pass and FlashAttention-4, which compiles its kernels at the first call, run on
compute capability 9.0:

    pip install fa3-fwd
    pip install --pre "flash-attn-4[cu13]"
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from .plans import Point

BACKENDS = {
    "flash (FA2)": SDPBackend.FLASH_ATTENTION,
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
    "unfused": SDPBackend.MATH,
}
# Modules with flash_attn_func(), and the package of each.
FLASH_ATTENTION = {
    "FlashAttention-3": ("fa3_fwd_interface", "fa3-fwd"),
    "FlashAttention-4": ("flash_attn.cute", '"flash-attn-4[cu13]"'),
}


class Missing(Exception):
    """A peer is not installed; the text says how to get it."""


def _sdpa(name: str, point: Point) -> Callable:
    def forward(q, k, v):
        with sdpa_kernel(BACKENDS[name]):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=point.causal, enable_gqa=bool(point.kv_heads)
            )

    return forward


def _flash_attention(name: str, point: Point) -> Callable:
    """@throws Missing  unless its package is installed"""
    module, package = FLASH_ATTENTION[name]
    try:
        attention = importlib.import_module(module).flash_attn_func
    except ImportError as error:
        raise Missing(f"{error}: pip install --pre {package}") from error

    def forward(q, k, v):  # its tensors are [batch, seq, heads, head_dim]
        o = attention(*(x.transpose(1, 2) for x in (q, k, v)), causal=point.causal)
        return (o[0] if isinstance(o, tuple) else o).transpose(1, 2)

    return forward


def _triton(point: Point, sets: list) -> Callable:
    """The kernels of chapters 07 and 08 in Triton: python/fa_tutorial/triton_attention.py.

    @throws RuntimeError  if they do not run
    """
    try:
        from fa_tutorial import triton_attention
        from triton.runtime.errors import OutOfResources
    except ImportError as error:
        raise Missing(f"{error}: pip install triton") from error

    def forward(n):
        return triton_attention.forward(*sets[n][:3], point.causal)

    count = len(sets)
    try:
        forward(0)
        if not point.backward:
            return lambda n: forward(n % count)[:1]
        saved = [(do, *qkv, *forward(number)) for number, (*qkv, do) in enumerate(sets)]
        triton_attention.backward(*saved[0], point.causal)
    except OutOfResources as error:  # the tiles are for GPUs of data centers
        raise RuntimeError(str(error)) from error
    return lambda n: triton_attention.backward(*saved[n % count], point.causal)


def bind_peer(name: str, point: Point, sets: list[list[torch.Tensor]]) -> Callable[[int], tuple]:
    """A function that runs a peer on set number n and returns O or the gradients.

    @param sets  of Q, K and V, and of dO for a backward pass, each [batch, heads, seq, head_dim]
    @throws Missing  if it is not installed
    @throws RuntimeError  if it has no kernel for the point
    """
    if name == "Triton":
        return _triton(point, sets)
    if name == "FlashAttention-3" and point.backward:
        raise RuntimeError("its package has the forward pass alone")
    forward = _flash_attention(name, point) if name in FLASH_ATTENTION else _sdpa(name, point)
    if not point.backward:
        return lambda n: (forward(*sets[n % len(sets)]),)
    graphs = []
    for *qkv, do in sets:
        leaves = [x.detach().requires_grad_() for x in qkv]
        graphs.append((forward(*leaves), leaves, do))

    def gradients(n):
        o, leaves, do = graphs[n % len(graphs)]
        return torch.autograd.grad(o, leaves, do, retain_graph=True)

    return gradients
