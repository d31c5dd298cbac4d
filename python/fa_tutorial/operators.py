"""The operators torch.ops.fa_tutorial.attention and attention_backward: the kernels of chapters 03 to 10.

On the CPU they run the chapters' programs in the simulator: exact, about 0.1 s per call for small tensors. On
a GPU they launch the kernels of the chapters' shared libraries on PyTorch's current stream. Once a kernel has
run, the operators in C++ (native.py) run it, if they are built: attention_native and
attention_backward_native, which cost the host less. An eager call costs it least: at_once() computes O where
nothing but a kernel has to run.
"""

from __future__ import annotations

import math

import torch
from torch.utils.flop_counter import register_flop_formula

from . import chapter_library, checks, execution, native, selection, simulator
from .execution import are_dense, are_empty, without_sharing
from .registration import by_vmap, define, register_autograd

# --- the kernels --------------------------------------------------------------------------------------


def _readable(name: str, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The inputs of a variant on a GPU. One that reads dense tensors alone gets copies of those that are
    expanded.
    """
    if not any(checks.is_expanded(tensor) for tensor in tensors):
        return tensors
    q = tensors[0]
    kind = (*selection.split(name), q.dtype, q.shape[3], q.device)
    if chapter_library.refusal(*kind, dense=False) is None:
        return tensors
    return tuple(without_sharing(tensor) for tensor in tensors)


def _new_outputs(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)


def _attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    is_causal: bool,
    scale: float,
    forward: str,
    backward: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """O, laid out like Q, and LSE. @param forward, backward  variants as in "07/final"; "": the default"""
    checks.require_problem(q, k, v, scale)
    checks.require_memory({"query": q, "key": k, "value": v})
    o, lse = _new_outputs(q)
    if are_empty(q, k):
        return o.zero_(), lse.fill_(-math.inf)
    name = forward or selection.default("forward", q)
    if q.device.type == "cuda":
        q, k, v = _readable(name, q, k, v)
    execution.run(name, {"q": q, "k": k, "v": v}, {"o": o, "lse": lse}, is_causal, scale)
    native.remember(q, forward, False, are_dense(q, k, v), selection.split(name))
    return o, lse


def _fake_attention(q, k, v, is_causal, scale, forward, backward):
    checks.require_problem(q, k, v, scale)
    return _new_outputs(q)


def _attention_backward(
    do: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    is_causal: bool,
    scale: float,
    backward: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dQ, dK and dV, each laid out like its input. The chapters' programs, which run on the CPU, compute O
    and LSE themselves.

    @param do  with any strides: PyTorch itself makes such gradients, those of o.sum() for example. It is
        copied where the kernels cannot read it
    """
    checks.require_problem(q, k, v, scale)
    checks.require_results(q, v, do, o, lse)
    if are_empty(q, k):
        return tuple(torch.zeros_like(x) for x in (q, k, v))
    do = execution.readable_gradient(do, o)
    named = {"query": q, "key": k, "value": v, "the gradient": do, "o": o, "lse": lse}
    checks.require_memory(named)
    gradients = tuple(torch.empty_like(x) for x in (q, k, v))
    name = backward or selection.default("backward", q)
    results = {}
    if q.device.type == "cuda":
        q, k, v = _readable(name, q, k, v)
        results = {"o": o, "lse": lse}
    tensors = {"q": q, "k": k, "v": v, "do": do} | results
    outputs = dict(zip(("dq", "dk", "dv"), gradients, strict=True))
    execution.run(name, tensors, outputs, is_causal, scale)
    native.remember(q, backward, True, are_dense(q, k, v), selection.split(name))
    return gradients


def _fake_backward(do, q, k, v, o, lse, is_causal, scale, backward):
    checks.require_problem(q, k, v, scale)
    checks.require_results(q, v, do, o, lse)
    return tuple(torch.empty_like(x) for x in (q, k, v))


# --- the operators ------------------------------------------------------------------------------------

attention = define("attention", _attention, _fake_attention)
attention_backward = define("attention_backward", _attention_backward, _fake_backward)

# --- autograd -----------------------------------------------------------------------------------------


def _require_backward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, backward: str) -> None:
    """Raises one sentence if there is no backward pass for such tensors, before the loss is computed."""
    head_dim = q.shape[3]
    # A symbol of torch.compile, or no device: the backward pass says so itself.
    if not isinstance(head_dim, int) or q.device.type not in checks.DEVICES:
        return
    name = backward or selection.default("backward", q)
    chapter, variant = selection.split(name)
    if q.device.type == "cpu":
        refusal = simulator.refusal(chapter, variant, q.dtype, head_dim)
    else:
        kind = (q.dtype, head_dim, q.device)
        known = all(isinstance(size, int) for x in (q, k, v) for size in x.shape)
        dense = not known or all(x.is_contiguous() or checks.is_expanded(x) for x in (q, k, v))
        refusal = chapter_library.refusal(chapter, variant, *kind, dense)
    if refusal and not are_empty(q, k):
        refused = execution.sentence(name, refusal)
        raise ValueError(
            f"there is no backward pass for this query: {refused}; call it under torch.no_grad()"
        )


def _save(ctx, inputs, output) -> None:
    q, k, v, ctx.is_causal, ctx.scale, _, ctx.backward = inputs
    o, lse = output
    _require_backward(q, k, v, ctx.backward)
    ctx.save_for_backward(q, k, v, o, lse)
    ctx.mark_non_differentiable(lse)
    ctx.set_materialize_grads(False)


def _gradients(ctx, do, _):
    rest = (None,) * 4
    if do is None:
        return None, None, None, *rest
    q, k, v, o, lse = ctx.saved_tensors
    gradients = attention_backward(do, q, k, v, o, lse, ctx.is_causal, ctx.scale, ctx.backward)
    return *gradients, *rest


register_autograd(attention, attention_backward, _save, _gradients)


# --- in C++ -------------------------------------------------------------------------------------------

call = attention
at_once = None
if native.is_loaded():
    torch.library.register_fake("fa_tutorial::attention_native", _fake_attention)
    torch.library.register_fake("fa_tutorial::attention_backward_native", _fake_backward)
    call = torch.ops.fa_tutorial.attention_native.default
    at_once = native.module().attention_at_once


# --- FLOPs --------------------------------------------------------------------------------------------
# What torch.utils.flop_counter.FlopCounterMode counts: as for PyTorch's own attention, two products of each
# query and each key in the forward pass and five in the backward pass, also of those pairs that a causal mask
# hides.


def _product_flops(q: torch.Size, k: torch.Size) -> int:
    batch, heads, seq_q, head_dim = q
    return 2 * batch * heads * seq_q * k[2] * head_dim


def _flops(q, k, v, *options, out_shape=None, **more) -> int:
    return 2 * _product_flops(q, k)


def _backward_flops(do, q, k, v, *rest, out_shape=None, **more) -> int:
    return 5 * _product_flops(q, k)


for _kind in ("", "_native") if native.is_loaded() else ("",):
    _forward = getattr(torch.ops.fa_tutorial, f"attention{_kind}")
    _backward = getattr(torch.ops.fa_tutorial, f"attention_backward{_kind}")
    register_flop_formula(_forward)(_flops)
    register_flop_formula(_backward)(_backward_flops)
    torch.library.register_vmap(_forward.default, by_vmap(_forward.default))
    # o and lse as the forward pass returns them
    torch.library.register_vmap(_backward.default, by_vmap(_backward.default, (4, 5)))
