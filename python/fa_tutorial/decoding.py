"""Attention of a few new tokens to a cache, by the kernels of chapter 14: the operator
torch.ops.fa_tutorial.decode, and the function that people call."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.utils.flop_counter import register_flop_formula

from . import arguments, chapter_library, checks, execution, integers, native, selection
from .registration import define, register_without_gradient

PAGE_SIZES = (16, 64, 256)
HEAD_DIMS = (64, 128, 256)
MOST_QUERIES = 16
FP8 = torch.float8_e4m3fn


@dataclass(frozen=True)
class Cache:
    """What chapter 14 adds to an attention; fa::DecodingShape describes it. Is an execution.More."""

    pages: int  # of the cache; 0: it is contiguous
    page_size: int
    seq_k: int  # the most keys of a sequence
    lengths: Tensor | None = None  # int32 [batch]
    block_table: Tensor | None = None  # int32 [batch, columns]
    k_scale: Tensor | None = None  # float32 [kv_heads], of an fp8 cache
    v_scale: Tensor | None = None
    splits: int = 0

    def options(self) -> list[tuple[str, object]]:
        """Those of chapter 14's program, which stores K and V in pages itself."""
        given = [("key-lengths", self.lengths)] if self.lengths is not None else []
        if self.pages:
            given += [("page-size", self.page_size), ("pages", self.pages), ("block-table", self.block_table)]
        return given + ([("splits", self.splits)] if self.splits else [])

    def add_to(self, given: chapter_library.FaAttention, tensors: dict) -> chapter_library.FaCache:
        address = chapter_library.address
        cache = chapter_library.FaCache(
            key_lengths=address(self.lengths),
            block_table=address(self.block_table),
            k_scale=address(self.k_scale),
            v_scale=address(self.v_scale),
            page_size=self.page_size,
            pages=self.pages,
            table_columns=self.block_table.shape[1] if self.pages else 0,
            splits=self.splits,
            workspace_is_zero=1,
        )
        given.seq_k = self.seq_k
        given.cache = ctypes.addressof(cache)
        return cache


def _of_sequences(cache: Tensor, block_table: Tensor) -> Tensor:
    """The pages of each sequence one after the other: [batch, kv_heads, keys, head_dim]."""
    pages = cache[block_table.clamp(0, cache.shape[0] - 1).long()]  # those after the last key mean nothing
    return pages.transpose(1, 2).flatten(2, 3)


def _variant(q: Tensor, cache: Cache) -> str:
    if q.is_cuda and torch.cuda.get_device_capability(q.device) != (9, 0):
        return "14/ampere"
    return "14/fp8_cache" if cache.k_scale is not None else "14/paged"


def _decode(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lengths: Tensor | None,
    block_table: Tensor | None,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
    scale: float,
    splits: int,
) -> tuple[Tensor, Tensor]:
    """O and LSE, dense. Nothing checks what lengths and block_table hold."""
    o, lse = _fake_decode(q, k)
    paged = block_table is not None
    page_size = k.shape[2] if paged else 0
    cache = Cache(
        pages=k.shape[0] if paged else 0,
        page_size=page_size,
        seq_k=page_size * block_table.shape[1] if paged else k.shape[2],
        lengths=lengths,
        block_table=block_table,
        k_scale=k_scale,
        v_scale=v_scale,
        splits=splits,
    )
    if q.numel() == 0 or k.numel() == 0 or cache.seq_k == 0:
        return o.zero_(), lse.fill_(-math.inf)
    checks.require_memory({"query": q, "k_cache": k, "v_cache": v})
    if paged and not q.is_cuda:
        k, v = (_of_sequences(x, block_table) for x in (k, v))
    tensors = {"q": q.contiguous(), "k": k, "v": v}
    name = _variant(q, cache)
    execution.run(name, tensors, {"o": o, "lse": lse}, False, scale, cache)
    native.remember(q, "decode fp8" if k_scale is not None else "decode", False, True, selection.split(name))
    return o, lse


def _fake_decode(q, *rest):
    return q.new_empty(q.shape), q.new_empty(q.shape[:3], dtype=torch.float32)


decode_operator = define("decode", _decode, _fake_decode)
register_without_gradient(
    decode_operator, "decode() has no gradient: use attention() or attention_varlen(), or torch.no_grad()"
)


@register_flop_formula(torch.ops.fa_tutorial.decode)
def _flops(q, k, v, lengths, block_table, *rest, out_shape=None, **more) -> int:
    keys = k[2] * (block_table[1] if block_table else 1)
    return 4 * q[0] * q[1] * q[2] * q[3] * keys


at_once = native.module().decode_at_once if native.is_loaded() else None


# --- what people call ---------------------------------------------------------------------------------


def _require_cache(query: Tensor, k_cache: Tensor, v_cache: Tensor, fp8: bool, paged: bool) -> None:
    """Raises one sentence unless query and the caches belong together."""
    checks.require_readable("query", query)
    if query.element_size() != 2:
        raise TypeError(f"query is {query.dtype}: it must be float16 or bfloat16")
    if query.shape[3] not in HEAD_DIMS:
        raise ValueError(f"query has the head_dim {query.shape[3]}: it must be 64, 128 or 256")
    for name, cache in (("k_cache", k_cache), ("v_cache", v_cache)):
        wanted = FP8 if fp8 else query.dtype
        if cache.dtype != wanted:
            also = "" if fp8 else ", or torch.float8_e4m3fn with k_scale and v_scale"
            raise TypeError(f"{name} is {cache.dtype}: it must be {wanted}{also}")
        if cache.device != query.device:
            raise ValueError(f"{name} is on {cache.device} and query on {query.device}: move it there")
        shape = "[pages, kv_heads, page_size, head_dim]" if paged else "[batch, kv_heads, keys, head_dim]"
        if cache.dim() != 4 or cache.shape[3] != query.shape[3] or cache.shape[1] == 0:
            raise ValueError(
                f"{name} has the shape {list(cache.shape)}: it must be {shape} with head_dim {query.shape[3]}"
            )
        if not cache.is_contiguous():
            raise ValueError(f"{name} has the strides {list(cache.stride())}: pass {name}.contiguous()")
    if k_cache.shape != v_cache.shape:
        raise ValueError(
            f"k_cache has the shape {list(k_cache.shape)} and v_cache {list(v_cache.shape)}: both must have "
            f"one shape"
        )
    batch, heads = query.shape[:2]
    if heads % k_cache.shape[1] != 0:
        raise ValueError(
            f"query has {heads} heads and k_cache {k_cache.shape[1]}: they must divide those of query"
        )
    if not paged and k_cache.shape[0] != batch:
        raise ValueError(f"k_cache has {k_cache.shape[0]} sequences and query {batch}: they must be as many")
    if paged and k_cache.shape[2] not in PAGE_SIZES:
        raise ValueError(f"k_cache has pages of {k_cache.shape[2]} keys: they must have 16, 64 or 256")


def _require_pages(block_table: Tensor, lengths: Tensor | None, pages: int, page_size: int) -> None:
    """Raises one sentence if a key is in a page that the cache does not have."""
    if block_table.numel() == 0 or not integers.are_known(block_table):
        return

    def are_inside(table: Tensor) -> Tensor:
        return (table >= 0) & (table < pages)

    if integers.once(block_table, f"of {pages}", lambda table: bool(are_inside(table).all())):
        integers.set_checked(block_table, "pages", pages)
        return
    outside = ~are_inside(block_table)
    if lengths is not None:  # numbers after the page of the last key mean nothing
        columns = torch.arange(block_table.shape[1], device=block_table.device)
        outside &= columns * page_size < lengths[:, None]
    if bool(outside.any()):
        number = int(block_table[outside][0])
        raise ValueError(
            f"block_table has the number {number}: it must be from 0 to {pages - 1}, a page of the cache"
        )


def _require_queries(lengths: Tensor, queries: int) -> None:
    """Raises one sentence if a sequence is shorter than its queries, but not empty."""
    if queries < 2 or not integers.are_known(lengths):
        return
    short = integers.once(lengths, f"below {queries}", lambda x: bool(((x > 0) & (x < queries)).any()))
    if short:
        raise ValueError(
            f"lengths has a number from 1 to {queries - 1}: it must be 0 or at least {queries}, because the "
            f"queries are the last tokens"
        )


def _scales(k_scale: object, v_scale: object, k_cache: Tensor) -> tuple[Tensor | None, Tensor | None]:
    found = []
    for name, scale in (("k_scale", k_scale), ("v_scale", v_scale)):
        if scale is None:
            found.append(None)
            continue
        if not isinstance(scale, Tensor):
            raise arguments.not_a_tensor(**{name: scale})
        shape, right = list(scale.shape), [k_cache.shape[1]]
        if scale.dtype != torch.float32 or shape != right or scale.device != k_cache.device:
            raise ValueError(
                f"{name} is {shape} of {scale.dtype} on {scale.device}: it must be {right} of torch.float32 "
                f"on {k_cache.device}"
            )
        found.append(scale.contiguous())
    if (k_scale is None) != (v_scale is None):
        raise ValueError("one of k_scale and v_scale is given: an fp8 cache needs both")
    return tuple(found)


def _are_checked(query: object, k_cache: object, lengths: object, block_table: object) -> bool:
    """Whether the numbers of these tables have been checked for such a call."""
    keys = arguments.length_of(k_cache, 2)
    if block_table is not None:
        if not integers.are_checked(block_table, "pages", arguments.length_of(k_cache, 0)):
            return False
        keys *= block_table.shape[1]
    return lengths is None or integers.are_checked(lengths, "lengths", keys, arguments.length_of(query, 2))


def checked(
    query: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    lengths: Tensor | None,
    block_table: Tensor | None,
    scale: float | None,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
    splits: int | None,
) -> tuple:
    """The arguments of the operator. @throws ValueError, TypeError, NotImplementedError  as decode()"""
    arguments.require_tensors(query=query, k_cache=k_cache, v_cache=v_cache)
    k_scale, v_scale = _scales(k_scale, v_scale, k_cache)
    fp8, paged = k_scale is not None, block_table is not None
    _require_cache(query, k_cache, v_cache, fp8, paged)
    if fp8 and not query.is_cuda:
        raise NotImplementedError("the cache is fp8: only a GPU takes one that is stored already")
    batch, keys = query.shape[0], k_cache.shape[2]
    if paged:
        given, text = block_table, f"[{batch}, columns]"
        block_table = integers.required("block_table", given, (batch, None), query, text)
        keys *= block_table.shape[1]
    if lengths is not None:
        given = lengths
        lengths = integers.required("lengths", given, (batch,), query, f"[{batch}], the batch")
        integers.require_range("lengths", given, 0, keys, "the keys that the cache has for a sequence")
        _require_queries(lengths, query.shape[2])
        integers.set_checked(given, "lengths", keys, query.shape[2])
    if paged:
        _require_pages(block_table, lengths, k_cache.shape[0], k_cache.shape[2])
    splits = 0 if splits is None else splits
    if isinstance(splits, bool) or not isinstance(splits, int) or splits < 0:
        raise TypeError(f"splits is {splits!r}: it must be a whole number of at least 1")
    scale = arguments.scale_of(scale, query)
    if query.shape[2] > MOST_QUERIES:
        raise ValueError(f"query has {query.shape[2]} queries: it must have at most {MOST_QUERIES}")
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale is {scale}: it must be a finite number above 0")
    return query, k_cache, v_cache, lengths, block_table, k_scale, v_scale, scale, splits


def decode(
    query: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    lengths: Tensor | None = None,
    block_table: Tensor | None = None,
    *,
    scale: float | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    splits: int | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention of the last tokens of each sequence to all of its keys, by the kernels of chapter 14. It has
    no gradient.

    Query i of a sequence sees its keys up to number length - queries + i: the queries are its last tokens,
    whose keys are in the cache already. So a sequence has no key, where O = 0 and LSE = -inf, or at least as
    many keys as queries. head_dim is 64, 128 or 256.

    The numbers of lengths and block_table are read back once and checked, which waits for the GPU, unless a
    graph is compiled or captured.

    @param query  [batch, heads, queries, head_dim], float16 or bfloat16, 1 to 16 queries
    @param k_cache, v_cache  dense, [batch, kv_heads, keys, head_dim], or with block_table [pages, kv_heads,
        page_size, head_dim] with pages of 16, 64 or 256 keys; of query's type, or torch.float8_e4m3fn
    @param lengths  int32 or int64 [batch]: the keys of each sequence; default: all that fit
    @param block_table  int32 or int64 [batch, columns]: the pages of each sequence, in the order of its keys.
        Those after the page of the last key mean nothing
    @param scale  a number; default: 1 / sqrt(head_dim)
    @param k_scale, v_scale  float32 [kv_heads], of an fp8 cache: a key is its element times the scale of its
        head. On a GPU of compute capability 9.0 alone
    @param splits  parts of the keys of each sequence; default: as many as the chapter's model says
    @param return_lse  also return LSE, [batch, heads, queries] in float32
    @throws ValueError, TypeError, NotImplementedError  one sentence that says what would be right
    """
    given = (query, k_cache, v_cache, lengths, block_table, scale, k_scale, v_scale, splits)
    found = None
    if (
        at_once is not None
        and not is_dynamo_compiling()
        and _are_checked(query, k_cache, lengths, block_table)
    ):
        found = at_once(*given)
    o, lse = decode_operator(*checked(*given)) if found is None else found
    return (o, lse) if return_lse else o
