"""The kernels in Hugging Face transformers:

    import fa_tutorial.transformers

    fa_tutorial.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="fa_tutorial", dtype="bfloat16")

Attention to batches with padding on any side runs without their padding, by attention_varlen(); after
unpad(model), so do all layers, unless a cache has to be filled. A new token of each sequence runs by
decode(), if the kernels of chapter 14 have the head_dim and the layer has no softcap, no sinks and no window
that hides something.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from . import attention, attention_varlen, decode
from .decoding import HEAD_DIMS

NAME = "fa_tutorial"


class Tokens:
    """Those of a batch that are no padding, one after the other."""

    def __init__(self, real: Tensor):
        """@param real  bool [batch, seq]"""
        self.shape = real.shape
        lengths = real.sum(1, dtype=torch.int32)
        self.cu_seqlens = torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
        self.places = real.flatten().nonzero()[:, 0]  # waits for the GPU

    def packed(self, x: Tensor) -> Tensor:
        """[tokens, heads, head_dim] of [batch, heads, seq, head_dim]."""
        return x.transpose(1, 2).flatten(0, 1).index_select(0, self.places)

    def padded(self, x: Tensor) -> Tensor:
        """[batch, seq, heads, head_dim] of [tokens, heads, head_dim]; zeros where padding is."""
        batch, seq = self.shape
        return x.new_zeros(batch * seq, *x.shape[1:]).index_copy(0, self.places, x).unflatten(0, (batch, seq))

    def one_sequence(self, x: Tensor) -> Tensor:
        """[1, tokens, ...] of [batch, seq, ...]."""
        return x.expand(self.shape[0], *x.shape[1:]).flatten(0, 1).index_select(0, self.places)[None]

    def layout(self, real: Tensor) -> Layout:
        """Of these tokens as one sequence, in which each sequence of the batch begins anew."""
        all_real = torch.ones(1, len(self.places), dtype=torch.bool, device=real.device)
        return Layout(all_real, all_real, self.one_sequence(real & (real.cumsum(1) == 1)))


@dataclass
class Layout:
    """What transformers passes to every layer as its mask: which queries and keys there are. The queries are
    the last tokens of their sequence."""

    real_queries: Tensor  # bool [batch, seq_q]
    real_keys: Tensor  # bool [batch, seq_k]
    starts: Tensor | None = None  # bool [batch, seq]: of packed sequences, if there are any; no padding then
    ndim = 4  # as a mask of pairs, which transformers leaves as it is

    @property
    def shape(self) -> torch.Size:
        """The last length is the number of keys, as of a mask."""
        return self.real_keys.shape

    @cached_property
    def queries(self) -> Tokens:
        return Tokens(self.real_queries)

    @cached_property
    def keys(self) -> Tokens:
        return self.queries if self.real_keys is self.real_queries else Tokens(self.real_keys)

    @cached_property
    def lengths(self) -> Tensor:
        """int32 [batch]: the keys of each sequence."""
        return self.real_keys.sum(1, dtype=torch.int32)

    @cached_property
    def first_are_real(self) -> bool:
        """Whether the keys of each sequence are the first ones."""
        count = torch.arange(self.real_keys.shape[1], device=self.real_keys.device)
        return bool((self.real_keys == (count < self.lengths[:, None])).all())

    @cached_property
    def order(self) -> Tensor:
        """int64 [batch, seq_k]: real keys first."""
        return self.real_keys.to(torch.int8).argsort(dim=1, descending=True, stable=True)

    @cached_property
    def cu_seqlens(self) -> Tensor:
        """Of packed sequences."""
        first = self.starts.flatten().nonzero()[:, 0]
        return torch.nn.functional.pad(first, (0, 1), value=self.starts.numel()).to(torch.int32)


def _starts(mask_function, batch: int, seq: int, device: torch.device) -> Tensor | None:
    """Where packed sequences begin: at tokens that do not see the one before. None: nowhere."""
    before = torch.arange(seq - 1, device=device)
    row = torch.arange(batch, device=device)[:, None]
    sees_before = mask_function(row, 0, before + 1, before).expand(batch, seq - 1)
    sees_next = mask_function(row, 0, before, before + 1).expand(batch, seq - 1)
    if bool(sees_next.any()) and not bool(sees_next.all()):
        raise NotImplementedError(
            f"the mask is causal for some tokens only: attn_implementation={NAME!r} has no such mask, use "
            f"'sdpa'"
        )
    if bool(sees_before.all()):
        return None
    return torch.nn.functional.pad(~sees_before, (1, 0), value=True)


def mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function=None,
    attention_mask: Tensor | Layout | None = None,
    allow_is_causal_skip: bool = True,
    use_vmap: bool = False,
    config=None,
    device: torch.device | str = "cpu",
    **_,
) -> Layout | None:
    """What transformers calls once for all layers of a kind. None: all tokens of all sequences are there.

    @param q_offset, kv_offset  the positions of the first query and of the first key
    @param attention_mask  bool [batch, tokens]: False for padding
    """
    if isinstance(attention_mask, Layout):  # generate() has called this before
        return attention_mask
    if use_vmap:
        raise NotImplementedError(
            f"the model has a mask function of its own: attn_implementation={NAME!r} has none, use 'sdpa'"
        )
    if getattr(config, "attention_chunk_size", None):
        raise NotImplementedError(
            f"the model has chunked attention: attn_implementation={NAME!r} has none, use 'sdpa'"
        )
    first, end = int(q_offset) - kv_offset, int(q_offset) - kv_offset + q_length
    starts = None
    if attention_mask is None and not allow_is_causal_skip and 1 < q_length == kv_length:
        starts = _starts(mask_function, batch_size, q_length, torch.device(device))
    real = None
    if attention_mask is not None:
        real = attention_mask.bool()
        if real.shape[1] != kv_length or kv_offset:
            real = real[:, kv_offset : kv_offset + kv_length]
            real = torch.nn.functional.pad(real, (0, kv_length - real.shape[1]))
        seen = real if end == kv_length else real[:, :end]
        real = None if bool(seen.all()) else real
    if real is None and starts is None and end == kv_length:
        return None
    if real is None:
        real = torch.ones(batch_size, kv_length, dtype=torch.bool, device=device)
    if end < kv_length:  # a static cache has room for later tokens
        real = real & (torch.arange(kv_length, device=real.device) < end)
    queries = real if (first, end) == (0, kv_length) else real[:, first:end]
    return Layout(queries, real, starts)


def forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Layout | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    is_causal: bool | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    **_,
) -> tuple[Tensor, None]:
    """What transformers calls in each layer.

    @param query  [batch, heads, seq_q, head_dim]
    @param key, value  [batch, kv_heads, seq_k, head_dim]
    @param s_aux  sinks, [heads]
    @return  O, [batch, seq_q, heads, head_dim], and None for the probabilities, which do not exist
    @throws NotImplementedError  one sentence, if the kernels do not have it
    """
    if isinstance(attention_mask, Tensor):
        raise NotImplementedError(
            f"attention_mask has {attention_mask.dim()} dimensions: attn_implementation={NAME!r} takes one "
            f"of 2 dimensions, for padding"
        )
    if position_bias is not None:
        raise NotImplementedError(f"position_bias is given: attn_implementation={NAME!r} has none")
    causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
    layout: Layout | None = attention_mask
    window = sliding_window
    if window is not None:
        window = window if causal else window + 1
        window = None if window >= key.shape[2] else window
    if window is None and softcap is None and s_aux is None and not dropout:
        if query.shape[2] == 1 < key.shape[2] and _decodes(query, key, value):
            return _decode(query, key, value, layout, scaling), None
        if layout is None:
            return attention(query, key, value, is_causal=causal, scale=scaling).transpose(1, 2), None
    options = {
        "is_causal": causal,
        "scale": scaling,
        "window": window,
        "softcap": softcap,
        "sinks": None if s_aux is None else s_aux.float(),
        "dropout_p": dropout,
    }
    if layout is None:
        o = attention(query, key, value, **options).transpose(1, 2)
    elif layout.starts is not None:
        packed = (x.transpose(1, 2).flatten(0, 1) for x in (query, key, value))
        o = attention_varlen(*packed, layout.cu_seqlens, **options)
        o = o.unflatten(0, layout.real_queries.shape)
    else:
        queries, keys = layout.queries, layout.keys
        packed = (queries.packed(query), keys.packed(key), keys.packed(value))
        o = queries.padded(attention_varlen(*packed, queries.cu_seqlens, keys.cu_seqlens, **options))
    return o, None


def _decodes(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether decode() takes these tensors."""
    return (
        query.element_size() == 2
        and query.shape[3] in HEAD_DIMS
        and key.shape == value.shape
        and not (torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value)))
    )


def _decode(query: Tensor, key: Tensor, value: Tensor, layout: Layout | None, scale: float | None) -> Tensor:
    """By chapter 14, which reads keys from the first one on: with padding on the left, keys and values are
    copied to the front in each call."""
    lengths = None
    if layout is not None:
        lengths = layout.lengths
        if not layout.first_are_real:
            order = layout.order[:, None, :, None]
            key, value = (x.take_along_dim(order, 2) for x in (key, value))
    return decode(query, key.contiguous(), value.contiguous(), lengths, scale=scale).transpose(1, 2)


# --- models without padding ---------------------------------------------------------------------------


def _without_padding(model: torch.nn.Module, given: dict, parameters: set[str]) -> Tokens | None:
    """Makes the arguments of a call those of one sequence of the tokens that are no padding. None: it leaves
    them as they are, since there is no padding, or since a cache needs the place of each token."""
    real = given.get("attention_mask")
    causal = any(getattr(module, "is_causal", False) for module in model.modules())
    fills_cache = causal and not model.training and given.get("use_cache") is not False
    if model.config._attn_implementation != NAME or fills_cache or given.get("past_key_values") is not None:
        return None
    if not isinstance(real, Tensor) or real.dim() != 2 or bool(real.all()):
        return None
    real = real.bool()
    tokens = Tokens(real)
    if "position_ids" in parameters and given.get("position_ids") is None:
        given["position_ids"] = torch.arange(real.shape[1], device=real.device)[None]
    for name, x in given.items():
        if (
            isinstance(x, Tensor)
            and x.dim() > 1
            and x.shape[0] in (1, len(real))
            and x.shape[1] == real.shape[1]
        ):
            given[name] = tokens.one_sequence(x)
    given["attention_mask"] = tokens.layout(real)
    if "use_cache" in parameters:
        given["use_cache"] = False
    return tokens


def _with_padding(result: object, tokens: Tokens) -> object:
    """The same with tensors of a batch instead of those of one sequence. Padding has zeros."""
    if isinstance(result, Tensor):
        is_of_tokens = result.dim() > 1 and result.shape[:2] == (1, len(tokens.places))
        return tokens.padded(result[0]) if is_of_tokens else result
    if isinstance(result, dict):  # transformers' ModelOutput
        return type(result)(**{name: _with_padding(x, tokens) for name, x in result.items()})
    return tuple(_with_padding(x, tokens) for x in result) if isinstance(result, tuple) else result


def unpad(model: torch.nn.Module) -> torch.nn.Module:
    """Lets the layers of a model of transformers compute nothing on padding. The base model, which has no
    head, then takes the tokens of a batch as one sequence, and returns zeros for padding. Tokens keep their
    positions. A model that fills a cache runs as before: this is for training, and for calls with
    use_cache=False.

    @return  the same model
    @throws NotImplementedError  for models that compute positions from the tokens themselves (RoBERTa)
    """
    base = model.base_model
    if any(hasattr(module, "create_position_ids_from_input_ids") for module in base.modules()):
        raise NotImplementedError(
            f"{type(base).__name__} computes positions from its tokens: unpad() needs a model that takes them"
        )
    forward, signature = base.forward, inspect.signature(base.forward)

    @functools.wraps(forward)
    def without_padding(*args, **kwargs):
        given = dict(signature.bind(*args, **kwargs).arguments)
        given |= given.pop("kwargs", {})
        tokens = _without_padding(base, given, set(signature.parameters))
        return forward(*args, **kwargs) if tokens is None else _with_padding(forward(**given), tokens)

    base.forward = without_padding
    return model


def register() -> None:
    """Makes attn_implementation="fa_tutorial" known to transformers. May be called several times.

    @throws ImportError  if transformers is not installed
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, forward)
    AttentionMaskInterface.register(NAME, mask)
