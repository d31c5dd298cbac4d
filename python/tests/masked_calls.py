"""Random calls of fa_tutorial.attention() with masks, functions of scores and dropout, for comparison with
float64."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import fa_tutorial
import torch

from . import reference

DTYPES = (torch.float16, torch.bfloat16)
HEAD_DIMS = (16, 40, 64, 80, 128)
ONES = 64  # keys and columns of V where dropout is found out


@dataclass
class Call:
    """Tensors and arguments of attention(), and the same as the reference takes them."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    do: torch.Tensor
    arguments: dict = field(default_factory=dict)
    extras: reference.Extras = field(default_factory=reference.Extras)

    @property
    def scale(self) -> float:
        return self.arguments.get("scale", self.q.shape[-1] ** -0.5)

    def hide(self, visible: torch.Tensor) -> None:
        """Adds a mask: [.., seq_q, seq_k]."""
        before = self.extras.visible
        self.extras.visible = visible if before is None else before & visible

    def expected(self) -> reference.Reference:
        causal = self.arguments.get("is_causal", False)
        return reference.attention(self.q, self.k, self.v, self.do, causal, self.scale, self.extras)


def tensors(dtype, batch, heads, kv_heads, seq_q, seq_k, head_dim, device, head_dim_v=None) -> Call:
    """A call without masks."""
    query, key = (batch, heads, seq_q, head_dim), (batch, kv_heads, seq_k, head_dim)
    width = (head_dim_v or head_dim,)
    shapes = (query, key, (*key[:3], *width), (*query[:3], *width))
    drawn = [torch.randn(shape, device=device).to(dtype) for shape in shapes]
    return Call(*(x.requires_grad_() for x in drawn[:3]), drawn[3])


def stands(call: Call) -> torch.Tensor:
    """[seq_q, 1]: the key at which each query stands."""
    seq_q, seq_k = call.q.shape[2], call.k.shape[2]
    return torch.arange(seq_q, device=call.q.device)[:, None] + seq_k - seq_q


def keys(call: Call) -> torch.Tensor:
    return torch.arange(call.k.shape[2], device=call.q.device)


def add_window(call: Call, window: int) -> None:
    call.arguments["window"] = window
    call.hide((keys(call) - stands(call)).abs() < window)


def add_lengths(call: Call, lengths: list[int]) -> None:
    given = torch.tensor(lengths, device=call.q.device)
    call.arguments["key_lengths"] = given
    call.hide(keys(call) < given[:, None, None, None])


def add_documents(call: Call, of_queries: torch.Tensor, of_keys: torch.Tensor | None = None) -> None:
    of_queries = of_queries.to(call.q.device)
    of_keys = None if of_keys is None else of_keys.to(call.q.device)
    call.arguments["documents"] = of_queries if of_keys is None else (of_queries, of_keys)
    call.hide(of_queries[:, None] == (of_queries if of_keys is None else of_keys))


def add_blocks(call: Call, blocks: torch.Tensor, size: int) -> None:
    blocks = blocks.to(call.q.device)
    call.arguments["block_mask"] = blocks
    seq_q, seq_k = call.q.shape[2], call.k.shape[2]
    wide = blocks.repeat_interleave(size, -2).repeat_interleave(size, -1)
    call.hide(wide[:, :seq_q, :seq_k].bool())


def add_slopes(call: Call, slopes: torch.Tensor) -> None:
    slopes = slopes.to(call.q.device)
    call.arguments["alibi_slopes"] = slopes
    call.extras.bias = -slopes.double()[:, None, None] * (keys(call) - stands(call)).abs()


def add_sinks(call: Call) -> None:
    sinks = torch.randn(call.q.shape[1], device=call.q.device).requires_grad_()
    call.arguments["sinks"] = call.extras.sinks = sinks


def kept(call: Call, dropout_p: float, seed: int) -> torch.Tensor:
    """What dropout keeps after manual_seed(seed): O is P where V is the identity. 64 keys at most."""
    batch, heads, seq_q, _ = call.q.shape
    ones = torch.eye(ONES, device=call.q.device, dtype=call.q.dtype).expand(batch, heads, ONES, ONES)
    none = torch.zeros_like(ones)
    torch.manual_seed(seed)
    o = fa_tutorial.attention(none[:, :, :1].expand(-1, -1, seq_q, -1), none, ones, dropout_p=dropout_p)
    share = 256 / round(256 * (1 - dropout_p))
    return (o[..., : call.k.shape[2]] != 0).double() * share


def random_documents(choose: random.Random, length: int) -> torch.Tensor:
    steps = torch.tensor([choose.random() < 0.05 for _ in range(length)])
    return steps.cumsum(0)


def random_call(choose: random.Random, longest: int, device: str) -> Call:
    """Any masks; then softcap and slopes, or nothing."""
    kv_heads, group, batch = choose.choice((1, 2)), choose.choice((1, 2, 3)), choose.choice((1, 2))
    seq_q, seq_k = choose.randint(1, longest), choose.randint(1, longest)
    if choose.random() < 0.3:
        seq_k = seq_q
    sizes = (batch, kv_heads * group, kv_heads, seq_q, seq_k, choose.choice(HEAD_DIMS))
    call = tensors(choose.choice(DTYPES), *sizes, device)
    if choose.random() < 0.5:
        call.arguments["is_causal"] = True
    if choose.random() < 0.3:
        call.arguments["scale"] = 0.3
    if choose.random() < 0.4:
        add_window(call, choose.randint(1, longest))
    if choose.random() < 0.3:
        add_lengths(call, [choose.randint(0, seq_k) for _ in range(batch)])
    if choose.random() < 0.4:
        of_keys = None if seq_q == seq_k else random_documents(choose, seq_k)
        add_documents(call, random_documents(choose, seq_q), of_keys)
    if choose.random() < 0.3:
        size, heads = choose.choice((64, 128)), choose.choice((1, kv_heads * group))
        shape = (heads, -(-seq_q // size), -(-seq_k // size))
        add_blocks(call, torch.rand(shape) < 0.6, size)
    if choose.random() < 0.3:
        call.arguments["softcap"] = call.extras.softcap = choose.choice((0.5, 3.0, 20.0))
    if choose.random() < 0.3:
        add_slopes(call, torch.rand(kv_heads * group))
    if choose.random() < 0.3:
        add_sinks(call)
    if choose.random() < 0.5:
        for name in {"documents", "key_lengths"} & call.arguments.keys():
            given = call.arguments[name]
            numbers = tuple(x.int() for x in given) if isinstance(given, tuple) else given.int()
            call.arguments[name] = numbers
    return call


def complaints(call: Call, calls: int = 1) -> list[str]:
    """What is wrong with O, LSE and the gradients of the last of some calls."""
    inputs = (call.q, call.k, call.v)
    for _ in range(calls):
        o = fa_tutorial.attention(*inputs, **call.arguments)
        sinks = call.extras.sinks
        wanted = inputs if sinks is None else (*inputs, sinks)
        gradients = torch.autograd.grad(o, wanted, call.do)
    found = dict(zip(("dq", "dk", "dv", "dsinks"), gradients, strict=False)) | {"o": o}
    if "dropout_p" not in call.arguments:
        with torch.no_grad():
            found["lse"] = fa_tutorial.attention(*inputs, **call.arguments, return_lse=True)[1]
    expected = call.expected()
    said = (reference.complaint(expected, name, x) for name, x in found.items())
    return [words for words in said if words]
