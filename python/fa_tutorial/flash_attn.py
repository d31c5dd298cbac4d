"""Functions with the names and the arguments of the flash-attn package, on the tutorial's kernels:

    from fa_tutorial.flash_attn import flash_attn_func

Tensors are [batch, seq, heads, head_dim], or [tokens, heads, head_dim] packed. What the kernels do not have
is refused in one sentence: a window that is not as wide to the left as to the right, unless it ends at the
query; slopes that differ from batch to batch; rotary embeddings; a cache with padding on the left. max_seqlen
is not needed. Dropout draws other numbers than flash-attn's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from . import arguments, decoding, functions, integers, varlen


def _mask(causal: bool, window_size: Sequence[int]) -> tuple[bool, int | None]:
    """is_causal and window of attention()."""
    if not isinstance(window_size, (tuple, list)) or len(window_size) != 2:
        raise TypeError(f"window_size is {window_size!r}: it must be a pair of whole numbers, (left, right)")
    left, right = window_size
    right = 0 if causal else right
    if left < 0 and right < 0:
        return False, None
    if right == 0:
        return True, None if left < 0 else left + 1
    if left != right:
        raise NotImplementedError(
            f"window_size is ({left}, {right}): both must be the same, or the right one 0, or both -1"
        )
    return False, left + 1


def _options(dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic) -> dict:
    """Those of functions.attend()."""
    is_causal, window = _mask(causal, window_size)
    if isinstance(alibi_slopes, Tensor) and alibi_slopes.dim() == 2:
        raise NotImplementedError(
            "alibi_slopes is [batch, heads]: it must be [heads], the same for the batch"
        )
    return {
        "is_causal": is_causal,
        "scale": softmax_scale,
        "window": window,
        "softcap": softcap,
        "alibi_slopes": alibi_slopes,
        "sinks": None,
        "dropout_p": dropout_p,
        "deterministic": deterministic,
    }


def _inside(name: str, x: object, dims: int, shape: str) -> Tensor:
    """[batch, heads, seq, head_dim]."""
    if not isinstance(x, Tensor):
        raise arguments.not_a_tensor(**{name: x})
    if x.dim() != dims:
        raise ValueError(f"{name} has the shape {list(x.shape)}: it must be {shape}")
    return x.transpose(1, 2)


def _unpacked(name: str, x: object, count: int, shape: str) -> tuple[Tensor, ...]:
    """The tensors that lie in one, at the third dimension from the end."""
    if not isinstance(x, Tensor):
        raise arguments.not_a_tensor(**{name: x})
    if x.dim() != shape.count(",") + 1 or x.shape[-3] != count:
        raise ValueError(f"{name} has the shape {list(x.shape)}: it must be {shape}")
    return x.unbind(-3)


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Tensor | tuple[Tensor, Tensor, None]:
    """Attention of [batch, seq, heads, head_dim] tensors. fa_tutorial.attention() says what kernels have.

    @param window_size  keys that a query sees on its left and right; -1: all
    @return  O, with return_attn_probs also LSE, [batch, heads, seq], and None: the probabilities do not exist
    @throws ValueError, TypeError, NotImplementedError  one sentence that says what would be right
    """
    options = _options(dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic)
    shape = "[batch, seq, heads, head_dim]"
    inside = (_inside(name, x, 4, shape) for name, x in (("q", q), ("k", k), ("v", v)))
    o, lse = functions.attend(*inside, return_lse=return_attn_probs, **options)
    o = o.transpose(1, 2)
    return (o, lse, None) if return_attn_probs else o


def flash_attn_kvpacked_func(
    q: Tensor,
    kv: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Tensor | tuple[Tensor, Tensor, None]:
    """flash_attn_func() of K and V in one tensor. @param kv  [batch, seq, 2, kv_heads, head_dim]"""
    k, v = _unpacked("kv", kv, 2, "[batch, seq, 2, kv_heads, head_dim]")
    rest = (dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic)
    return flash_attn_func(q, k, v, *rest, return_attn_probs)


def flash_attn_qkvpacked_func(
    qkv: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Tensor | tuple[Tensor, Tensor, None]:
    """flash_attn_func() of Q, K and V in one tensor. @param qkv  [batch, seq, 3, heads, head_dim]"""
    q, k, v = _unpacked("qkv", qkv, 3, "[batch, seq, 3, heads, head_dim]")
    rest = (dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic)
    return flash_attn_func(q, k, v, *rest, return_attn_probs)


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor, None]:
    """Attention of sequences that lie one after the other: fa_tutorial.attention_varlen().

    @param q, k, v  [tokens, heads, head_dim]
    @param block_table  not supported: flash_attn_with_kvcache() and fa_tutorial.decode() read pages
    @return  O, with return_attn_probs also LSE, [heads, tokens], and None
    @throws ValueError, TypeError, NotImplementedError  one sentence that says what would be right
    """
    if block_table is not None:
        raise NotImplementedError("block_table is given: fa_tutorial.decode() reads pages, leave it out here")
    arguments.require_tensors(q=q, k=k, v=v)
    options = _options(dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic)
    ends = (cu_seqlens_q, cu_seqlens_k)
    o, lse = varlen.attend_varlen(q, k, v, *ends, return_lse=return_attn_probs, **options)
    return (o, lse, None) if return_attn_probs else o


def flash_attn_varlen_kvpacked_func(
    q: Tensor,
    kv: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Tensor | tuple[Tensor, Tensor, None]:
    """flash_attn_varlen_func() of K and V in one tensor. @param kv  [tokens, 2, kv_heads, head_dim]"""
    k, v = _unpacked("kv", kv, 2, "[tokens, 2, kv_heads, head_dim]")
    ends = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    rest = (dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic)
    return flash_attn_varlen_func(q, k, v, *ends, *rest, return_attn_probs)


def flash_attn_varlen_qkvpacked_func(
    qkv: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Tensor | tuple[Tensor, Tensor, None]:
    """flash_attn_varlen_func() of Q, K and V in one tensor. @param qkv  [tokens, 3, heads, head_dim]"""
    q, k, v = _unpacked("qkv", qkv, 3, "[tokens, 3, heads, head_dim]")
    ends = (cu_seqlens, cu_seqlens, max_seqlen, max_seqlen)
    rest = (dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic)
    return flash_attn_varlen_func(q, k, v, *ends, *rest, return_attn_probs)


# --- a cache ------------------------------------------------------------------------------------------


def _lengths(cache_seqlens: int | Tensor | None, batch: int, capacity: int, like: Tensor) -> Tensor:
    """int32 [batch]: the keys that are in the cache already."""
    if cache_seqlens is None:
        cache_seqlens = capacity
    if isinstance(cache_seqlens, Tensor):
        return integers.required("cache_seqlens", cache_seqlens, (batch,), like, f"[{batch}], the batch")
    if isinstance(cache_seqlens, bool) or not isinstance(cache_seqlens, int):
        raise TypeError(f"cache_seqlens is a {type(cache_seqlens).__name__}: it must be a number or a tensor")
    return torch.full((batch,), cache_seqlens, dtype=torch.int32, device=like.device)


def _store(cache: Tensor, new: Tensor, lengths: Tensor, block_table: Tensor | None) -> None:
    """Writes the new keys or values of each sequence after those that the cache has."""
    places = lengths[:, None].long() + torch.arange(new.shape[1], device=new.device)
    of_sequence = torch.arange(len(places), device=new.device)[:, None]
    if block_table is None:
        cache[of_sequence, places] = new
        return
    size = cache.shape[1]
    cache[block_table[of_sequence, places // size].long(), places % size] = new


def flash_attn_with_kvcache(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k: Tensor | None = None,
    v: Tensor | None = None,
    rotary_cos: Tensor | None = None,
    rotary_sin: Tensor | None = None,
    cache_seqlens: int | Tensor | None = None,
    cache_batch_idx: Tensor | None = None,
    cache_leftpad: Tensor | None = None,
    block_table: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Tensor | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention of the last tokens to a cache: fa_tutorial.decode(). No gradient.

    The kernels of chapter 14 read [.., kv_heads, keys, head_dim]: a cache in this function's order is copied
    in each call, unless it has one head. fa_tutorial.decode() copies nothing.

    @param q  [batch, queries, heads, head_dim], 1 to 16 queries; with several, causal must be true
    @param k_cache, v_cache  [batch, keys, kv_heads, head_dim], or with block_table [pages, page_size,
        kv_heads, head_dim] with pages of 16, 64 or 256 keys
    @param k, v  [batch, new keys, kv_heads, head_dim]: are written to the cache first
    @param cache_seqlens  the keys in the cache before: a number or int32 [batch]; default: all
    @return  O, with return_softmax_lse also LSE, [batch, heads, queries]
    @throws ValueError, TypeError, NotImplementedError  one sentence that says what would be right
    """
    refused = {"rotary_cos": rotary_cos, "rotary_sin": rotary_sin, "cache_batch_idx": cache_batch_idx}
    refused |= {"cache_leftpad": cache_leftpad, "alibi_slopes": alibi_slopes, "softcap": softcap or None}
    for name, given in refused.items():
        if given is not None:
            raise NotImplementedError(f"{name} is given: the kernels for a cache have none, leave it out")
    is_causal, window = _mask(causal, window_size)
    if window is not None:
        raise NotImplementedError("window_size is given: the kernels for a cache have none, leave it out")
    caches = [
        _inside(name, x, 4, "[batch or pages, keys, kv_heads, head_dim]")
        for name, x in (("k_cache", k_cache), ("v_cache", v_cache))
    ]
    query = _inside("q", q, 4, "[batch, queries, heads, head_dim]")
    batch, _, queries, _ = query.shape
    if queries > 1 and not is_causal:
        raise NotImplementedError(f"q has {queries} queries and causal is False: pass causal=True")
    if (k is None) != (v is None):
        raise ValueError("one of k and v is given: both must be, or none")
    columns = 1 if block_table is None else block_table.shape[-1]
    lengths = _lengths(cache_seqlens, batch, columns * k_cache.shape[1], q)
    new = 0 if k is None else k.shape[1]
    if new:
        most = columns * k_cache.shape[1] - new
        integers.require_range("cache_seqlens", lengths, 0, most, f"so that {new} new keys fit")
        for name, cache, x in (("k", k_cache, k), ("v", v_cache, v)):
            shape = [batch, new, *k_cache.shape[2:]]
            if list(x.shape) != shape or x.dtype != cache.dtype or x.device != cache.device:
                raise ValueError(
                    f"{name} is {list(x.shape)} of {x.dtype} on {x.device}: it must be {shape} of "
                    f"{cache.dtype} on {cache.device}"
                )
    inputs = [x for x in (q, k_cache, v_cache, k, v) if x is not None]
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        raise NotImplementedError("flash_attn_with_kvcache() has no gradient: call it under torch.no_grad()")
    copies = [x.contiguous() for x in caches]
    splits = num_splits or None
    given = decoding.checked(
        query, *copies, lengths + new if new else lengths, block_table, softmax_scale, None, None, splits
    )  # before anything is written
    if new:
        for cache, copy, x in zip((k_cache, v_cache), copies, (k, v), strict=True):
            for target in (cache, copy.transpose(1, 2)):
                _store(target, x, lengths, block_table)
    o, lse = decoding.decode_operator(*given)
    o = o.transpose(1, 2)
    return (o, lse) if return_softmax_lse else o
