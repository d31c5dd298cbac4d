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


class Cache:
    """The keys and values of the tokens so far, which tokens to come attend to."""

    def __init__(self, context: int):
        self.context, self.length = context, 0
        self.layers: list[tuple[torch.Tensor, ...]] = []  # K and V, [batch, heads, context, head_dim]
        # The keys that the next token sees, [batch]: on the device, so that a CUDA graph reads it there.
        self.lengths: torch.Tensor | None = None

    def place(self) -> torch.Tensor:
        """That of the next token, [1]."""
        return self.lengths[:1].long() - 1

    def attend(
        self, layer: int, attention: Attention, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        """Adds the keys and values of the first tokens, or of the next one, and returns O of these."""
        if self.length == 0:
            shape = (*k.shape[:2], self.context, k.shape[3])
            self.layers.append((k.new_zeros(shape), v.new_zeros(shape)))
            for cache, x in zip(self.layers[layer], (k, v), strict=True):
                cache[:, :, : x.shape[2]] = x
            return attention(q, k, v)
        k, v = (
            cache.index_copy_(2, self.place(), x) for cache, x in zip(self.layers[layer], (k, v), strict=True)
        )
        if attention is ours:
            return fa_tutorial.decode(q, k, v, self.lengths)
        k, v = (cache[:, :, : self.length + 1] for cache in (k, v))
        return functional.scaled_dot_product_attention(q, k, v)

    def advance(self, text: torch.Tensor) -> None:
        """@param text  [batch, length], which has passed all layers"""
        if self.length == 0:
            self.lengths = torch.ones(text.shape[0], dtype=torch.int32, device=text.device)
        self.lengths += text.shape[1]
        self.length += text.shape[1]


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

    def forward(self, x: torch.Tensor, cache: Cache | None = None, layer: int = 0) -> torch.Tensor:
        """@param x  [batch, length, width]"""
        of_heads = (3, self.sizes.heads, self.sizes.head_dim)
        qkv = self.qkv(self.before_attention(x)).unflatten(-1, of_heads).permute(2, 0, 3, 1, 4)
        o = cache.attend(layer, self.attention, *qkv) if cache else self.attention(*qkv)
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

    def forward(self, text: torch.Tensor, cache: Cache | None = None) -> torch.Tensor:
        """The logits of each next byte.

        @param text  [batch, length], at most `context` long; those that the cache does not have
        """
        follows = cache and cache.length > 0
        places = cache.place() if follows else torch.arange(text.shape[1], device=text.device)
        x = self.bytes(text) + self.positions(places)
        for layer, block in enumerate(self.blocks):
            x = block(x, cache, layer)
        if cache:
            cache.advance(text)
        return self.head(self.norm(x))

    def loss(self, text: torch.Tensor) -> torch.Tensor:
        """The mean cross-entropy of the next byte, in nats. @param text  [batch, length + 1]"""
        logits = self(text[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())

    @torch.no_grad()
    def write(
        self,
        beginning: bytes,
        count: int,
        seed: int = 0,
        temperature: float = 0.8,
        cached: bool = True,
        recorded: bool = False,
    ) -> bytes:
        """The beginning and `count` bytes more. A text that is longer than the context loses its first byte
        with each new one, which moves all others: then a cache is of no use.

        @param temperature  of the samples; 0: the likeliest byte each time
        @param cached  whether keys and values are kept; the text is the same
        @param recorded  whether all steps but the first ones are a CUDA graph, which only `ours` can be:
            it reads the number of keys on the GPU
        """
        device = self.head.weight.device
        context = self.sizes.context
        text = torch.tensor([list(beginning)], device=device)
        random = torch.Generator(device).manual_seed(seed)
        cache = graph = None
        for _ in range(count):
            if cache and cache.length < context:
                if recorded and cache.length > len(beginning):  # kernels have run before
                    graph = graph or Graph(self, cache)
                logits = (graph or self)(text[:, -1:], cache)
            else:
                cache = Cache(context) if cached else None
                logits = self(text[:, -context:], cache)
            logits = logits[:, -1].float()
            if temperature > 0:
                likely = torch.softmax(logits / temperature, -1)
                following = torch.multinomial(likely, 1, generator=random)
            else:
                following = logits.argmax(-1, keepdim=True)
            text = torch.cat((text, following), 1)
        return bytes(text[0].tolist())


class Graph:
    """The step of a model for a new token as a CUDA graph: the host launches all its kernels at once."""

    def __init__(self, model: Gpt, cache: Cache):
        length = cache.length
        self.text = cache.lengths[:, None].long()  # a token for each sequence
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logits = model(self.text, cache)
        cache.length = length  # nothing has run yet

    def __call__(self, text: torch.Tensor, cache: Cache) -> torch.Tensor:
        self.text.copy_(text)
        self.graph.replay()
        cache.length += 1
        return self.logits
