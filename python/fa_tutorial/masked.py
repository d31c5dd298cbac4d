"""The operators torch.ops.fa_tutorial.masked_attention and masked_attention_backward: the kernels of chapter
11, and those of chapters 09, 10 and 12 where a row is long or V has another width."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from . import checks, execution, native, selection
from .execution import are_empty
from .masks import Masks
from .registration import by_vmap, define, register_autograd

MOST_COLS = 256  # of plain attention: chapters 03 to 10
MOST_MASKED_COLS = 128
MOST_COLS_OF_BACKWARD = 512  # of chapter 12
MOST_COLS_OF_PAIR = (192, 128)  # of Q and K, and of V, if chapters 09 and 10 have tiles of two widths
TENSORS = 7  # of Masks: its first members
OF_SINKS = 5  # the place of sinks among them
MASKED = "masks, softcap, alibi_slopes, sinks and dropout_p"


def is_plain(q: Tensor, v: Tensor, masks: Masks) -> bool:
    """Whether the kernels of chapters 03 to 10 run this."""
    return not masks.hide_something() and q.shape[-1] <= MOST_COLS and q.shape[-1] == v.shape[-1]


def _is_pair(q: Tensor, v: Tensor) -> bool:
    """Whether these widths are those of multi-head latent attention, or a little narrower."""
    most, most_of_v = MOST_COLS_OF_PAIR
    return q.dtype != torch.float32 and most_of_v < q.shape[3] <= most and v.shape[3] <= most_of_v


def variant_for(q: Tensor, v: Tensor, masks: Masks, deterministic: bool, backward: bool = False) -> str:
    """The variant of a chapter. @throws NotImplementedError  if no kernel has this combination"""
    widths = (q.shape[3], v.shape[3])
    if not masks.hide_something():
        if not _is_pair(q, v):
            return "12/final"
        if not backward:
            return "09/final"
        return "10/deterministic" if deterministic else "10/final"
    if widths[0] != widths[1] or widths[0] > MOST_MASKED_COLS:
        raise NotImplementedError(
            f"query has rows of {widths[0]} and value of {widths[1]} elements: {MASKED} take equal widths of "
            f"at most {MOST_MASKED_COLS}"
        )
    if q.dtype == torch.float32:
        raise NotImplementedError(f"query is torch.float32: {MASKED} take float16 or bfloat16")
    if masks.dropout_p:
        if masks.change_scores():
            raise NotImplementedError(
                "dropout_p is given with softcap or alibi_slopes: no kernel has both, leave one of them out"
            )
        return "11/dropout"
    if masks.change_scores():
        return "11/scores"
    if deterministic:
        return "11/deterministic"
    on_hopper = q.device.type == "cuda" and torch.cuda.get_device_capability(q.device) == (9, 0)
    return "11/hopper" if on_hopper else "11/compressed"


def _require_backward(q: Tensor, v: Tensor, masks: Masks, deterministic: bool) -> None:
    """Raises one sentence if there is no backward pass, before the loss is computed."""
    if not masks.hide_something():
        if q.dtype == torch.float32 or max(q.shape[3], v.shape[3]) > MOST_COLS_OF_BACKWARD:
            raise NotImplementedError(
                f"there is no backward pass for {q.dtype} rows of {q.shape[3]} and {v.shape[3]} elements: it "
                f"takes float16 or bfloat16 and at most {MOST_COLS_OF_BACKWARD}; call it under "
                f"torch.no_grad()"
            )
        if deterministic and not _is_pair(q, v):
            most, most_of_v = MOST_COLS_OF_PAIR
            raise NotImplementedError(
                f"deterministic gradients take equal widths of at most {MOST_COLS}, or {most_of_v + 8} to "
                f"{most} of query and at most {most_of_v} of value: leave deterministic out"
            )
    elif deterministic and (masks.change_scores() or masks.dropout_p):
        raise NotImplementedError(
            "deterministic gradients exist for masks alone: leave out either deterministic, or softcap, "
            "alibi_slopes and dropout_p"
        )


# --- the operators ------------------------------------------------------------------------------------


def _new_outputs(q: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """O, laid out like Q, and LSE."""
    lse = q.new_empty(q.shape[:3], dtype=torch.float32)
    if q.shape[3] == v.shape[3]:
        return torch.empty_like(q), lse
    batch, heads, seq, _ = q.shape
    if q.transpose(1, 2).is_contiguous():
        return q.new_empty(batch, seq, heads, v.shape[3]).transpose(1, 2), lse
    return q.new_empty(batch, heads, seq, v.shape[3]), lse


_MASKS = """Tensor? documents, Tensor? key_documents, Tensor? key_lengths, Tensor? block_mask,
    Tensor? alibi_slopes, Tensor? sinks, Tensor? seed, SymInt block_size, SymInt window, float softcap,
    float dropout_p"""
_OPTIONS = f"{_MASKS}, bool is_causal, float scale, bool deterministic"
_GIVEN = "Tensor q, Tensor k, Tensor v"


def _split(options: tuple) -> tuple[Masks, bool, float, bool]:
    """What _OPTIONS are."""
    *of_masks, is_causal, scale, deterministic = options
    return Masks(*of_masks), is_causal, scale, deterministic


def _remember(name, q, k, v, masks: Masks, deterministic: bool, backward: bool) -> None:
    """Lets the operators in C++ run such calls; cpp/masked.hpp has the same names of kinds."""
    if masks.hide_something():
        kind = "dropout" if masks.dropout_p else "masks"
        kind += " scores" if masks.change_scores() else ""
        kind += " deterministic" if deterministic else ""
        native.remember(q, kind, backward, execution.are_dense(q, k, v), selection.split(name))


def _masked_attention(q: Tensor, k: Tensor, v: Tensor, *options) -> tuple[Tensor, Tensor]:
    """O, laid out like Q, and LSE."""
    masks, is_causal, scale, deterministic = _split(options)
    checks.require_problem(q, k, v, scale, other_width=True)
    checks.require_memory({"query": q, "key": k, "value": v})
    name = variant_for(q, v, masks, deterministic)
    o, lse = _new_outputs(q, v)
    if are_empty(q, k):
        lse.fill_(-math.inf) if masks.sinks is None else lse.copy_(masks.sinks[:, None])
        return o.zero_(), lse
    more = masks if masks.hide_something() else None
    execution.run(name, {"q": q, "k": k, "v": v}, {"o": o, "lse": lse}, is_causal, scale, more)
    _remember(name, q, k, v, masks, deterministic, False)
    return o, lse


def _fake_masked_attention(q, k, v, *rest):
    checks.require_problem(q, k, v, rest[-2], other_width=True)
    return _new_outputs(q, v)


def _new_gradients(q: Tensor, k: Tensor, v: Tensor, masks: Masks) -> tuple[Tensor, ...]:
    of_sinks = q.new_empty(0, dtype=torch.float32) if masks.sinks is None else torch.empty_like(masks.sinks)
    return *(torch.empty_like(x) for x in (q, k, v)), of_sinks


def _masked_attention_backward(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *options
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """dQ, dK and dV, each laid out like its input, and the gradient of the sinks, [0] without sinks."""
    masks, is_causal, scale, deterministic = _split(options)
    checks.require_problem(q, k, v, scale, other_width=True)
    checks.require_results(q, v, do, o, lse)
    if are_empty(q, k):
        return tuple(x.zero_() for x in _new_gradients(q, k, v, masks))
    do = execution.readable_gradient(do, o)
    checks.require_memory({"query": q, "key": k, "value": v, "the gradient": do, "o": o, "lse": lse})
    gradients = _new_gradients(q, k, v, masks)
    results = {"o": o, "lse": lse} if q.device.type == "cuda" else {}
    tensors = {"q": q, "k": k, "v": v, "do": do} | results
    outputs = dict(zip(("dq", "dk", "dv", "dsinks"), gradients, strict=True))
    if masks.sinks is None:
        del outputs["dsinks"]
    more = masks if masks.hide_something() else None
    name = variant_for(q, v, masks, deterministic, backward=True)
    execution.run(name, tensors, outputs, is_causal, scale, more)
    _remember(name, q, k, v, masks, deterministic, True)
    return gradients


def _fake_backward(do, q, k, v, o, lse, *rest):
    checks.require_problem(q, k, v, rest[-2], other_width=True)
    checks.require_results(q, v, do, o, lse)
    return _new_gradients(q, k, v, _split(rest)[0])


masked_attention = define(
    "masked_attention",
    _masked_attention,
    _fake_masked_attention,
    f"({_GIVEN}, {_OPTIONS}) -> (Tensor, Tensor)",
)
masked_attention_backward = define(
    "masked_attention_backward",
    _masked_attention_backward,
    _fake_backward,
    f"(Tensor d_o, {_GIVEN}, Tensor o, Tensor lse, {_OPTIONS}) -> (Tensor, Tensor, Tensor, Tensor)",
)


# --- autograd -----------------------------------------------------------------------------------------


def _save(ctx, inputs, output) -> None:
    q, k, v, *options = inputs
    o, lse = output
    masks, _, _, deterministic = _split(options)
    _require_backward(q, v, masks, deterministic)
    tensors, ctx.numbers = options[:TENSORS], options[TENSORS:]
    ctx.save_for_backward(q, k, v, o, lse, *tensors)
    ctx.mark_non_differentiable(lse)
    ctx.set_materialize_grads(False)


def _gradients(ctx, do, _):
    rest = [None] * (TENSORS + len(ctx.numbers))
    if do is None:
        return None, None, None, *rest
    q, k, v, o, lse, *tensors = ctx.saved_tensors
    *gradients, of_sinks = masked_attention_backward(do, q, k, v, o, lse, *tensors, *ctx.numbers)
    if tensors[OF_SINKS] is not None:
        rest[OF_SINKS] = of_sinks
    return *gradients, *rest


register_autograd(masked_attention, masked_attention_backward, _save, _gradients)
torch.library.register_vmap(masked_attention, by_vmap(masked_attention, shared=(3, 4, 6, 7, 8, 9)))
torch.library.register_vmap(
    masked_attention_backward,
    by_vmap(masked_attention_backward, dense=(4, 5), shared=(6, 7, 9, 10, 11, 12), refused=(11,)),
)


# --- in C++ -------------------------------------------------------------------------------------------

at_once = None
with_masks_at_once = None
if native.is_loaded():
    at_once = native.module().masked_at_once
    with_masks_at_once = native.module().attention_with_masks_at_once


# --- FLOPs: as in operators.py, of all pairs, also of those that masks hide ----------------------------


def _pairs(q: torch.Size, k: torch.Size) -> int:
    batch, heads, seq_q, _ = q
    return 2 * batch * heads * seq_q * k[2]


@register_flop_formula(torch.ops.fa_tutorial.masked_attention)
def _flops(q, k, v, *rest, out_shape=None, **more) -> int:
    return _pairs(q, k) * (q[3] + v[3])


@register_flop_formula(torch.ops.fa_tutorial.masked_attention_backward)
def _backward_flops(do, q, k, v, *rest, out_shape=None, **more) -> int:
    return _pairs(q, k) * (3 * q[3] + 2 * v[3])
