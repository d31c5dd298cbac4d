"""The functions of attention that people call: scaled_dot_product_attention() and attention()."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from . import arguments, checks, integers, masked, operators, selection
from .masks import Masks

LAST_DOCUMENT = 1 << 24
BLOCK_SIZES = (128, 64)


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale * Q K^T) V, as torch.nn.functional.scaled_dot_product_attention, by the kernels that
    use() has chosen.

    One thing differs: with is_causal, the last query sees all keys (query i sees key j only when
    j <= i + seq_k - seq_q), as in FlashAttention. PyTorch's first query sees the first key alone. Where seq_q
    = seq_k, both are the same.

    Kernels read and write tensors where they are: [batch, seq, heads, head_dim] tensors become an input by
    transpose(1, 2), O and the gradients are laid out like query and like their inputs, and what a variant
    cannot read is refused. A tensor that expand() has made is read where it is, too. A variant that reads
    dense tensors alone gets a dense copy of it. Under autocast, inputs are converted first, as PyTorch's own
    attention does.

    torch.func.grad, vjp, jacrev and vmap work. vmap makes one call of all, with a larger batch, and copies
    what it has to.

    @param query  [batch, heads, seq_q, head_dim], float32, float16 or bfloat16. All lengths but head_dim may
        be 0: a query that sees no key has O = 0 and LSE = -inf
    @param key, value  [batch, kv_heads, seq_k, head_dim]; heads must be a multiple of kv_heads, and if they
        differ, enable_gqa must be true
    @param scale  a number, which has no gradient; default: 1 / sqrt(head_dim)
    @param return_lse  also return the natural logarithm of each row's sum of exp(scale * q.k), [batch, heads,
        seq_q] in float32, which has no gradient
    @throws ValueError, TypeError, NotImplementedError  one sentence that says what would be right
    """
    chosen = selection.chosen
    if (
        not is_dynamo_compiling()
        and operators.at_once is not None
        and attn_mask is None
        and isinstance(dropout_p, (float, int))
        and dropout_p == 0.0
        and not return_lse
    ):
        o = operators.at_once(
            query, key, value, is_causal, scale, enable_gqa, chosen.forward, chosen.backward
        )
        if o is not None:
            return o
    arguments.require_tensors(query=query, key=key, value=value)
    if attn_mask is not None:
        raise NotImplementedError("attn_mask is given: only is_causal is supported, leave it out")
    dropout_p = arguments.number("dropout_p", dropout_p)
    query, key, value = arguments.under_autocast(query, key, value)
    of_query, of_key = query.shape, key.shape
    four = len(of_query) == len(of_key) == 4  # other shapes are refused below
    scale = arguments.scale_of(scale, query)
    if four and not enable_gqa and of_query[1] != of_key[1]:
        raise ValueError(
            f"query has {of_query[1]} heads and key {of_key[1]}: pass enable_gqa=True to share heads of key"
        )
    if return_lse:
        arguments.require_no_gradient_of_lse(query, key, value)
    if dropout_p:
        masks = Masks(dropout_p=dropout_p, seed=_seed_of_dropout(query))
        o, lse = _masked(query, key, value, is_causal, scale, masks, False, return_lse)
    else:
        o, lse = _plain(query, key, value, is_causal, scale, chosen.backward)
    return (o, lse) if return_lse else o


def _plain(query, key, value, is_causal, scale, backward) -> tuple[Tensor, Tensor]:
    """By the kernels of chapters 03 to 10."""
    in_cpp = query.device.type == "cuda" and not arguments.is_transformed()
    call = operators.call if in_cpp else operators.attention
    return call(query, key, value, bool(is_causal), scale, selection.chosen.forward, backward)


def _masked(
    query, key, value, is_causal, scale, masks, deterministic, wants_lse=True
) -> tuple[Tensor, Tensor | None]:
    """By the kernels of chapters 11 and 12."""
    deterministic = bool(deterministic) or torch.are_deterministic_algorithms_enabled()
    given = (query, key, value, *masks.arguments(), bool(is_causal), scale, deterministic)
    found = None
    if masked.at_once is not None and not is_dynamo_compiling():
        found = masked.at_once(*given, wants_lse)
    return masked.masked_attention(*given) if found is None else found


def _seed_of_dropout(query: Tensor) -> Tensor:
    """From PyTorch's generator for the CPU, which torch.manual_seed() sets."""
    if query.is_cuda and not is_dynamo_compiling() and torch.cuda.is_current_stream_capturing():
        raise NotImplementedError(
            "dropout_p is given in a CUDA graph, which would drop the same in every replay: leave it out"
        )
    return torch.randint(0, 2**63 - 1, (1,), dtype=torch.int64)


def _window(window: object) -> int:
    if window is None:
        return 0
    if isinstance(window, bool) or not isinstance(window, (int, torch.SymInt)):
        raise TypeError(f"window is a {type(window).__name__}: it must be a whole number")
    if window < 1:
        raise ValueError(f"window is {window}: it must be at least 1, which leaves each query one key")
    return window


def _documents(documents: object, query: Tensor, key: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Those of the queries and of the keys."""
    if documents is None:
        return None, None
    seq_q, seq_k = query.shape[2], key.shape[2]
    given = documents if isinstance(documents, (tuple, list)) else (documents,)
    if len(given) not in (1, 2):
        raise ValueError(
            f"documents has {len(given)} tensors: it must be one, or one of queries and one of keys"
        )
    if len(given) == 1 and seq_q != seq_k:
        raise ValueError(
            f"documents is one tensor for {seq_q} queries and {seq_k} keys: pass a pair, one of the queries "
            f"and one of the keys"
        )
    found = []
    for name, tensor, length in zip(("documents", "documents[1]"), given, (seq_q, seq_k), strict=False):
        numbers = integers.required(name, tensor, (length,), query, f"[{length}]")
        integers.require_range(name, tensor, 0, LAST_DOCUMENT, "the numbers of documents")
        integers.require_order(name, tensor)
        integers.set_checked(tensor, "documents")
        found.append(numbers)
    return found[0], found[1] if len(found) == 2 else None


def _key_lengths(key_lengths: object, key: Tensor) -> Tensor | None:
    if key_lengths is None:
        return None
    batch, seq_k = key.shape[0], key.shape[2]
    numbers = integers.required("key_lengths", key_lengths, (batch,), key, f"[{batch}], the batch")
    integers.require_range("key_lengths", key_lengths, 0, seq_k, "the number of keys")
    integers.set_checked(key_lengths, "key_lengths", seq_k)
    return numbers


def _block_mask(block_mask: object, query: Tensor, key: Tensor) -> tuple[Tensor | None, int]:
    """The mask as uint8 and the queries and keys of a block. Where both sizes are right, they mean the
    same."""
    if block_mask is None:
        return None, 0
    if not isinstance(block_mask, Tensor):
        raise arguments.not_a_tensor(block_mask=block_mask)
    if block_mask.dtype not in (torch.bool, torch.uint8):
        raise TypeError(f"block_mask is {block_mask.dtype}: it must be bool or uint8")
    if block_mask.device != query.device:
        raise ValueError(f"block_mask is on {block_mask.device} and query on {query.device}: move it there")
    shapes = {size: [-(-query.shape[2] // size), -(-key.shape[2] // size)] for size in BLOCK_SIZES}
    found = list(block_mask.shape)
    for size, shape in shapes.items():
        if len(found) == 3 and found[0] in (1, query.shape[1]) and found[1:] == shape:
            of_bytes = block_mask.view(torch.uint8) if block_mask.dtype == torch.bool else block_mask
            return of_bytes.contiguous(), size
    options = " or ".join(f"[1 or {query.shape[1]}, {rows}, {cols}]" for rows, cols in shapes.values())
    raise ValueError(f"block_mask has the shape {found}: it must be {options}, for blocks of 128 or of 64")


def _of_heads(name: str, given: object, query: Tensor) -> Tensor | None:
    """A number for each head."""
    if given is None:
        return None
    if not isinstance(given, Tensor):
        raise arguments.not_a_tensor(**{name: given})
    if given.dtype != torch.float32:
        raise TypeError(f"{name} is {given.dtype}: it must be float32, pass {name}.float()")
    if given.requires_grad and name == "alibi_slopes":
        raise TypeError("alibi_slopes has no gradient: pass alibi_slopes.detach()")
    if given.device != query.device or list(given.shape) != [query.shape[1]]:
        raise ValueError(
            f"{name} is {list(given.shape)} on {given.device}: it must be [{query.shape[1]}], the heads, on "
            f"{query.device}"
        )
    return given.contiguous()


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    is_causal: bool,
    scale: float | None,
    window: int | None,
    documents: Tensor | tuple[Tensor, Tensor] | None = None,
    key_lengths: Tensor | None = None,
    block_mask: Tensor | None = None,
    softcap: float | None,
    alibi_slopes: Tensor | None,
    sinks: Tensor | None,
    dropout_p: float,
    deterministic: bool,
    return_lse: bool,
) -> tuple[Tensor, Tensor | None]:
    """O and, if it is wanted, LSE, which autograd takes for a constant: attention() without that check."""
    query, key, value = arguments.under_autocast(query, key, value)
    scale = arguments.scale_of(scale, query)
    checks.require_problem(query, key, value, scale, other_width=True)
    dropout_p = arguments.number("dropout_p", dropout_p)
    of_queries, of_keys = _documents(documents, query, key)
    blocks, block_size = _block_mask(block_mask, query, key)
    masks = Masks(
        documents=of_queries,
        key_documents=of_keys,
        key_lengths=_key_lengths(key_lengths, key),
        block_mask=blocks,
        alibi_slopes=_of_heads("alibi_slopes", alibi_slopes, query),
        sinks=_of_heads("sinks", sinks, query),
        seed=_seed_of_dropout(query) if dropout_p else None,
        block_size=block_size,
        window=_window(window),
        softcap=0.0 if softcap is None else arguments.number("softcap", softcap),
        dropout_p=dropout_p,
    )
    if not masked.is_plain(query, value, masks):
        return _masked(query, key, value, is_causal, scale, masks, deterministic, return_lse)
    if deterministic or return_lse:
        backward = selection.chosen.backward
        if deterministic and not backward:
            backward = selection.default("backward", query, True)
        return _plain(query, key, value, is_causal, scale, backward)
    o = scaled_dot_product_attention(query, key, value, is_causal=is_causal, scale=scale, enable_gqa=True)
    return o, None


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    documents: Tensor | tuple[Tensor, Tensor] | None = None,
    key_lengths: Tensor | None = None,
    block_mask: Tensor | None = None,
    softcap: float | None = None,
    alibi_slopes: Tensor | None = None,
    sinks: Tensor | None = None,
    dropout_p: float = 0.0,
    deterministic: bool = False,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(score(scale * Q K^T)) V under masks, with dropout: the kernels of chapter 11, those of chapter
    12 for long rows, and those that use() has chosen where nothing but is_causal and scale is given.

    Query i stands at key i + seq_k - seq_q. A query sees a key that all masks let it see; one that sees none
    has O = 0, LSE = -inf and no gradients. Masks, softcap, alibi_slopes and dropout_p take float16 and
    bfloat16, and a head_dim that is a multiple of 8 up to 128. Without them, head_dim may be up to 1024 and
    value may have rows of another width: in float16 and bfloat16 with gradients up to 512, in float32 without
    gradients, on GPUs of compute capability 9.0.

    The numbers of documents and key_lengths are read back once and checked, which waits for the GPU, unless a
    graph is compiled or captured.

    @param query  [batch, heads, seq_q, head_dim]
    @param key  [batch, kv_heads, seq_k, head_dim]; heads must be a multiple of kv_heads
    @param value  [batch, kv_heads, seq_k, head_dim_v]
    @param is_causal  a query sees no key after the one that it stands at
    @param scale  a number; default: 1 / sqrt(head_dim)
    @param window  a query sees keys less than this far from where it stands, on both sides
    @param documents  int32 or int64 [seq], in which numbers do not decrease: a query sees keys with its own
        number. A pair (of the queries, of the keys) where they differ
    @param key_lengths  int32 or int64 [batch]: keys from that one on do not exist
    @param block_mask  bool or uint8 [heads or 1, ceil(seq_q / N), ceil(seq_k / N)] with N = 128 or 64: which
        blocks of N queries and keys exist
    @param softcap  scores s become softcap * tanh(s / softcap); None or 0: they stay
    @param alibi_slopes  float32 [heads]: scores lose this for each key of distance; no gradient
    @param sinks  float32 [heads]: one more logit in the softmax of each row, which has no value (gpt-oss);
        -inf: none
    @param dropout_p  the probability with which an element of the softmax is dropped, rounded to a multiple
        of 1 / 256; drawn from PyTorch's generator for the CPU
    @param deterministic  gradients have the same bits in every run; with masks alone
    @param return_lse  also return the natural logarithm of each row's sum, [batch, heads, seq_q] in float32,
        which has no gradient
    @throws ValueError, TypeError, NotImplementedError  one sentence that says what would be right
    """
    if masked.with_masks_at_once is not None and not is_dynamo_compiling():
        checked = documents is None or integers.are_checked(documents, "documents")
        if checked and key_lengths is not None:
            checked = integers.are_checked(key_lengths, "key_lengths", arguments.length_of(key, 2))
        if checked:
            masks = (window, documents, key_lengths, block_mask, softcap, alibi_slopes, sinks, dropout_p)
            chosen = selection.chosen
            rest = (deterministic, return_lse, chosen.forward, chosen.backward, False)
            found = masked.with_masks_at_once(query, key, value, is_causal, scale, *masks, *rest)
            if found is not None:
                return found
    arguments.require_tensors(query=query, key=key, value=value)
    if return_lse:
        arguments.require_no_gradient_of_lse(query, key, value)
    o, lse = attend(
        query,
        key,
        value,
        is_causal=is_causal,
        scale=scale,
        window=window,
        documents=documents,
        key_lengths=key_lengths,
        block_mask=block_mask,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        sinks=sinks,
        dropout_p=dropout_p,
        deterministic=deterministic,
        return_lse=return_lse,
    )
    return (o, lse) if return_lse else o
