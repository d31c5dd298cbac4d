"""Attention of sequences of any lengths that lie one after the other: attention_varlen().

The sequences are documents of chapter 11 on one packed sequence: its lists name the tiles in which a query
sees a key, and nothing is computed elsewhere. Where each sequence has as many queries as keys, tensors are
read where they are. Otherwise, queries or keys are moved so that the last ones of a sequence stand at the
same place, with gaps that no query sees: causal masks and windows are aligned to the bottom right of each
sequence.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from . import arguments, functions, integers, masked, selection


@dataclass(frozen=True)
class Slots:
    """Where queries and keys lie in the packed sequence that the kernels see."""

    length: int
    of_queries: Tensor | None  # int64 [tokens]; None: where they are
    of_keys: Tensor | None
    documents: Tensor  # int32 [length], of the queries
    key_documents: Tensor | None  # those of the keys, if they differ


def _documents(cu_seqlens: Tensor, tokens: int) -> Tensor:
    """The number of the sequence that each token belongs to."""
    every = torch.arange(tokens, device=cu_seqlens.device, dtype=torch.int32)
    return torch.searchsorted(cu_seqlens[1:], every, right=True, out_int32=True)


def _apart(cu_seqlens_q: list[int], cu_seqlens_k: list[int], device: torch.device) -> Slots:
    """Slots for sequences of which some have more queries than keys, or fewer. A slot has room for both,
    which end with it. The tokens of sequence n have the number 2 n + 1, the gaps before them 2 n."""
    lengths = [torch.tensor(cu).diff() for cu in (cu_seqlens_q, cu_seqlens_k)]
    most = torch.maximum(*lengths)
    ends = most.cumsum(0)
    total = int(ends[-1]) if len(ends) else 0
    places, documents = [], []
    for of_sequence in lengths:
        count = int(of_sequence.sum())
        first = (ends - of_sequence) - (of_sequence.cumsum(0) - of_sequence)
        place = torch.arange(count) + first.repeat_interleave(of_sequence)
        numbers = 2 * torch.arange(len(ends)).repeat_interleave(most)
        numbers[place] += 1
        places.append(None if count == total else place.to(device))
        documents.append(numbers.to(device, torch.int32))
    return Slots(total, *places, *documents)


def _slots(cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, tokens: int) -> Slots:
    """@param cu_seqlens_q, cu_seqlens_k  checked, int32"""
    if cu_seqlens_q is cu_seqlens_k or _are_equal(cu_seqlens_q, cu_seqlens_k):
        documents = integers.once(cu_seqlens_q, f"documents {tokens}", lambda cu: _documents(cu, tokens))
        return Slots(tokens, None, None, documents, None)
    ends = [integers.numbers(cu) for cu in (cu_seqlens_q, cu_seqlens_k)]
    if None in ends:
        raise NotImplementedError(
            "cu_seqlens_q and cu_seqlens_k are two tensors whose numbers are not known while a graph is "
            "compiled or captured: pass the same tensor for both"
        )
    kept = integers.once(cu_seqlens_q, "slots", lambda _: {})
    of_keys = tuple(ends[1])
    if of_keys not in kept:
        kept.clear()  # the layers of a model share one
        with torch.inference_mode(False):
            kept[of_keys] = _apart(*ends, cu_seqlens_q.device)
    return kept[of_keys]


def _checked_documents(
    query: object, key: object, value: object, cu_seqlens_q: object, cu_seqlens_k: object
) -> Tensor | None:
    """The documents of sequences that have been checked before, whose queries are those of the keys."""
    if cu_seqlens_k is not None and cu_seqlens_k is not cu_seqlens_q:
        return None
    if not all(isinstance(x, Tensor) and x.dim() == 3 for x in (query, key, value)):
        return None
    tokens = query.shape[0]
    if key.shape[0] != tokens:
        return None
    documents = integers.kept(cu_seqlens_q, f"documents {tokens}")
    return documents if integers.are_checked(documents, "documents") else None


def _are_equal(a: Tensor, b: Tensor) -> bool:
    numbers = integers.numbers(a)
    return numbers is not None and numbers == integers.numbers(b)


def _require_ends(name: str, cu_seqlens: object, tokens: int, of: str, like: Tensor) -> Tensor:
    """The ends of the sequences as int32. @throws ValueError, TypeError  one sentence, if they are none"""
    numbers = integers.required(name, cu_seqlens, (None,), like, "[sequences + 1]")
    if numbers.numel() == 0:
        raise ValueError(f"{name} is empty: it must begin with 0 and end with {tokens}, the tokens of {of}")
    known = integers.numbers(cu_seqlens)
    if known is not None:
        if known[0] != 0 or known[-1] != tokens:
            raise ValueError(
                f"{name} begins with {known[0]} and ends with {known[-1]}: it must begin with 0 and end with "
                f"{tokens}, the tokens of {of}"
            )
        integers.require_order(name, cu_seqlens)
    return numbers


def _require_tokens(query: Tensor, key: Tensor, value: Tensor) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dim() != 3:
            raise ValueError(
                f"{name} has the shape {list(tensor.shape)}: it must be [tokens, heads, head_dim]"
            )


def _moved(x: Tensor, places: Tensor | None, length: int) -> Tensor:
    """[1, heads, length, head_dim] of [tokens, heads, head_dim]; zeros where no token is."""
    if places is not None:
        x = x.new_zeros(length, *x.shape[1:]).index_copy(0, places, x)
    return x.transpose(0, 1).unsqueeze(0)


def attend_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor | None,
    *,
    return_lse: bool,
    **options,
) -> tuple[Tensor, Tensor | None]:
    """O and, if it is wanted, LSE: attention_varlen() as functions.attend() is attention().

    @param options  those of functions.attend()
    """
    _require_tokens(query, key, value)
    cu_seqlens_k = cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k
    of_queries = _require_ends("cu_seqlens_q", cu_seqlens_q, query.shape[0], "query", query)
    of_keys = of_queries
    if cu_seqlens_k is not cu_seqlens_q or key.shape[0] != query.shape[0]:
        of_keys = _require_ends("cu_seqlens_k", cu_seqlens_k, key.shape[0], "key", query)
    if of_queries.numel() != of_keys.numel():
        raise ValueError(
            f"cu_seqlens_q has {of_queries.numel() - 1} sequences and cu_seqlens_k {of_keys.numel() - 1}: "
            f"they must be as many"
        )
    slots = _slots(of_queries, of_keys, query.shape[0])
    documents = slots.documents if slots.key_documents is None else (slots.documents, slots.key_documents)
    q = _moved(query, slots.of_queries, slots.length)
    k, v = (_moved(x, slots.of_keys, slots.length) for x in (key, value))
    o, lse = functions.attend(q, k, v, documents=documents, return_lse=return_lse, **options)
    o = o[0].transpose(0, 1)
    if slots.of_queries is not None:
        o = o.index_select(0, slots.of_queries)
        lse = lse.index_select(2, slots.of_queries) if return_lse else None
    return o, lse[0] if return_lse else None


def attention_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    softcap: float | None = None,
    alibi_slopes: Tensor | None = None,
    sinks: Tensor | None = None,
    dropout_p: float = 0.0,
    deterministic: bool = False,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention of sequences that lie one after the other, without padding: each query sees the keys of its
    own sequence alone. Causal masks and windows are aligned to the bottom right of each sequence.

    Where each sequence has as many queries as keys, tensors are read where they are. Otherwise, queries or
    keys, or both, are copied. No tile of scores is computed in which no query sees a key.

    The numbers of cu_seqlens_q and cu_seqlens_k are read back once and checked, which waits for the GPU,
    unless a graph is compiled or captured; then both must be the same tensor, and nothing is checked.

    @param query  [tokens, heads, head_dim], float16 or bfloat16; head_dim is a multiple of 8 up to 128
    @param key, value  [tokens of keys, kv_heads, head_dim]; heads must be a multiple of kv_heads
    @param cu_seqlens_q  int32 or int64 [sequences + 1]: 0, and where each sequence ends. Lengths may be 0
    @param cu_seqlens_k  the same for the keys; default: those of the queries
    @param is_causal, scale, window, softcap, alibi_slopes, sinks, dropout_p, deterministic  as those of
        attention()
    @param return_lse  also return LSE, [heads, tokens] in float32, which has no gradient
    @return  O, [tokens, heads, head_dim]
    @throws ValueError, TypeError, NotImplementedError  one sentence that says what would be right
    """
    documents = None
    if masked.with_masks_at_once is not None and not is_dynamo_compiling():
        documents = _checked_documents(query, key, value, cu_seqlens_q, cu_seqlens_k)
    if documents is not None:
        masks = (window, documents, None, None, softcap, alibi_slopes, sinks, dropout_p)
        chosen = selection.chosen
        rest = (deterministic, return_lse, chosen.forward, chosen.backward, True)
        found = masked.with_masks_at_once(query, key, value, is_causal, scale, *masks, *rest)
        if found is not None:
            return found
    arguments.require_tensors(query=query, key=key, value=value)
    if return_lse:
        arguments.require_no_gradient_of_lse(query, key, value)
    o, lse = attend_varlen(
        query,
        key,
        value,
        cu_seqlens_q,
        cu_seqlens_k,
        is_causal=is_causal,
        scale=scale,
        window=window,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        sinks=sinks,
        dropout_p=dropout_p,
        deterministic=deterministic,
        return_lse=return_lse,
    )
    return (o, lse) if return_lse else o
