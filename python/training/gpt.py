"""A small GPT over bytes, whose attention is one of three functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import fa_tutorial
import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

BYTES = 256
Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Sizes:
    """Of a model."""

    layers: int
    heads: int
    head_dim: int
    context: int

    @property
    def width(self) -> int:
        return self.heads * self.head_dim


def unfused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention with the N x N matrices in memory."""
    s = q @ k.mT / math.sqrt(q.shape[-1])
    hidden = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1)
    return torch.softmax(s.masked_fill(hidden, -torch.inf), -1).to(v.dtype) @ v


def ours(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The tutorial's kernels, which read Q, K and V where the model's linear layer has left them."""
    return fa_tutorial.scaled_dot_product_attention(q, k, v, is_causal=True)


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """PyTorch's attention."""
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def of_backend(backend: SDPBackend) -> Attention:
    """PyTorch's attention by one of its kernels."""

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(backend):
            return sdpa(q, k, v)

    return run


ATTENTION = {
    "unfused": unfused,
    "ours": ours,
    "sdpa": sdpa,
    "efficient": of_backend(SDPBackend.EFFICIENT_ATTENTION),  # GPUs only
}


class Block(nn.Module):
    """Attention, then two linear layers; each adds to its input."""

    def __init__(self, sizes: Sizes, attention: Attention):
        super().__init__()
        width = sizes.width
        self.sizes, self.attention = sizes, attention
        self.before_attention, self.before_mlp = (nn.LayerNorm(width), nn.LayerNorm(width))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """@param x  [batch, length, width]"""
        of_heads = (3, self.sizes.heads, self.sizes.head_dim)
        qkv = self.qkv(self.before_attention(x)).unflatten(-1, of_heads)
        o = self.attention(*qkv.permute(2, 0, 3, 1, 4))
        x = x + self.out(o.transpose(1, 2).flatten(2))
        return x + self.mlp(self.before_mlp(x))


class Gpt(nn.Module):
    """Predicts the next byte."""

    def __init__(self, sizes: Sizes, attention: Attention):
        super().__init__()
        self.sizes = sizes
        self.bytes = nn.Embedding(BYTES, sizes.width)
        self.positions = nn.Embedding(sizes.context, sizes.width)
        self.blocks = nn.Sequential(*(Block(sizes, attention) for _ in range(sizes.layers)))
        self.norm = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, BYTES, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                # What each layer adds to x must not grow with the number of layers.
                adds = name.endswith(("out.weight", "mlp.2.weight"))
                shrink = math.sqrt(2 * sizes.layers) if adds else 1.0
                nn.init.normal_(parameter, std=0.02 / shrink)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """The logits of each next byte. @param text  [batch, length], at most `context` long"""
        places = torch.arange(text.shape[1], device=text.device)
        x = self.bytes(text) + self.positions(places)
        return self.head(self.norm(self.blocks(x)))

    def loss(self, text: torch.Tensor) -> torch.Tensor:
        """The mean cross-entropy of the next byte, in nats. @param text  [batch, length + 1]"""
        logits = self(text[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())

    @torch.no_grad()
    def write(self, beginning: bytes, count: int, seed: int) -> bytes:
        """The beginning and `count` bytes more, sampled at temperature 0.8."""
        device = self.head.weight.device
        text = torch.tensor([list(beginning)], device=device)
        random = torch.Generator(device).manual_seed(seed)
        for _ in range(count):
            logits = self(text[:, -self.sizes.context :])[:, -1]
            likely = torch.softmax(logits.float() / 0.8, -1)
            following = torch.multinomial(likely, 1, generator=random)
            text = torch.cat((text, following), 1)
        return bytes(text[0].tolist())
