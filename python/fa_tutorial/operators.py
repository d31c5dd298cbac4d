"""The operators torch.ops.fa_tutorial.attention and attention_backward, and the function that people call.

On the CPU they run the chapters' programs in the simulator: exact, about 0.1 s per call for small tensors. On
a GPU they launch the kernels of the chapters' shared libraries on PyTorch's current stream. Once a kernel has
run, the operators in C++ (native.py) run it, if they are built: attention_native and
attention_backward_native, which cost the host less. An eager call costs it least: at_once() computes O where
nothing but a kernel has to run.
"""

from __future__ import annotations

import math
import numbers
import re

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.forward_ad import _set_fwd_grad_enabled, unpack_dual
from torch.autograd.function import _SingleLevelFunction
from torch.compiler import is_dynamo_compiling
from torch.utils.flop_counter import register_flop_formula

from . import chapter_library, checks, native, selection, simulator
from .refusal import Reason, Refusal, Refused

# --- the kernels --------------------------------------------------------------------------------------


def _sentence(name: str, refusal: Refusal) -> ValueError:
    """The refusal of a program or a library, with our names instead of its options."""
    text = re.sub(r"--([a-z][a-z-]*)", lambda option: option[1].replace("-", "_"), refusal.text)
    if refusal.reason == Reason.LAYOUT:
        text += ": pass it as .contiguous()"
    return ValueError(f"{name} cannot run this: {text}")


def _simulate(name: str, tensors: dict, outputs: dict, causal: bool, scale: float) -> None:
    """Fills the outputs in. @param tensors, outputs  by the names of the chapter's problem"""
    chapter, variant = selection.split(name)
    results = simulator.run(chapter, variant, tensors, causal, scale)
    for output, values in results.items():
        outputs[output].copy_(values)  # exact: rounded already, widened for the file


def _launch(name: str, tensors: dict, outputs: dict, causal: bool, scale: float) -> None:
    """Fills the outputs in on a GPU, once the current stream gets there."""
    chapter, variant = selection.split(name)
    chapter_library.run(chapter, variant, tensors | outputs, causal, scale)


def _run(name: str, tensors: dict, outputs: dict, causal: bool, scale: float) -> None:
    run = _simulate if tensors["q"].device.type == "cpu" else _launch
    try:
        run(name, tensors, outputs, causal, scale)
    except Refused as refused:
        raise _sentence(name, refused.refusal) from None


def _are_dense(*tensors: torch.Tensor) -> bool:
    return all(tensor.is_contiguous() for tensor in tensors)


def _without_sharing(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor, or a dense copy if it is expanded."""
    return tensor.contiguous() if checks.is_expanded(tensor) else tensor


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
    return tuple(_without_sharing(tensor) for tensor in tensors)


def _are_empty(q: torch.Tensor, k: torch.Tensor) -> bool:
    """Whether there is no query or no key, so that no kernel has to run."""
    return q.numel() == 0 or k.numel() == 0


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
    if _are_empty(q, k):
        return o.zero_(), lse.fill_(-math.inf)
    name = forward or selection.default("forward", q)
    if q.device.type == "cuda":
        q, k, v = _readable(name, q, k, v)
    _run(name, {"q": q, "k": k, "v": v}, {"o": o, "lse": lse}, is_causal, scale)
    native.remember(q, forward, False, _are_dense(q, k, v), selection.split(name))
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
    checks.require_results(q, do, o, lse)
    if _are_empty(q, k):
        return tuple(torch.zeros_like(x) for x in (q, k, v))
    if do.stride() != o.stride() or do.data_ptr() % checks.ALIGNMENT != 0:
        do = torch.empty_like(o).copy_(do)
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
    _run(name, tensors, outputs, is_causal, scale)
    native.remember(q, backward, True, _are_dense(q, k, v), selection.split(name))
    return gradients


def _fake_backward(do, q, k, v, o, lse, is_causal, scale, backward):
    checks.require_problem(q, k, v, scale)
    checks.require_results(q, do, o, lse)
    return tuple(torch.empty_like(x) for x in (q, k, v))


# --- the operators ------------------------------------------------------------------------------------

_library = torch.library.Library("fa_tutorial", "FRAGMENT")


def _define(name: str, kernel, fake) -> torch._ops.OpOverload:
    """An operator without a gradient. torch.library.custom_op would give it one that torch.func cannot
    use.
    """
    schema = torch.library.infer_schema(kernel, mutates_args=())
    _library.define(name + schema, tags=torch.Tag.pt2_compliant_tag)
    _library.impl(name, torch._disable_dynamo(kernel), "CompositeExplicitAutograd")
    torch.library.register_fake(f"fa_tutorial::{name}", fake, lib=_library)
    return getattr(torch.ops.fa_tutorial, name).default


attention = _define("attention", _attention, _fake_attention)
attention_backward = _define("attention_backward", _attention_backward, _fake_backward)

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
    if refusal and not _are_empty(q, k):
        refused = _sentence(name, refusal)
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


def _below_autograd(operator, args):
    with torch._C._AutoDispatchBelowAutograd():
        return operator(*args)


class _Function(_SingleLevelFunction):
    """A torch.autograd.Function for operators, which torch.func's transformations call one after another. A
    function turns gradients off in forward(), where those of the other transformations have to be turned on
    again."""

    _compiled_autograd_key = staticmethod(torch.autograd.Function._compiled_autograd_key)


class _Attention(_Function):
    @staticmethod
    def forward(*args):
        with torch.enable_grad(), _set_fwd_grad_enabled(True):
            return _below_autograd(attention, args)

    setup_context = staticmethod(_save)
    backward = staticmethod(_gradients)


class _AttentionBackward(_Function):
    @staticmethod
    def forward(*args):
        with torch.enable_grad(), _set_fwd_grad_enabled(True):
            return _below_autograd(attention_backward, args)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *_):
        raise NotImplementedError(
            "the backward pass of attention has no gradient of its own: leave create_graph=True and a second "
            "torch.func.grad out"
        )


def _any_gradient(*tensors: torch.Tensor) -> bool:
    return any(tensor.requires_grad for tensor in tensors)


def _autograd_of(operator, function: type[_Function]):
    """What an operator does for autograd, and for those transformations of torch.func that differentiate."""

    def call(*args):
        tensors = [x for x in args if isinstance(x, torch.Tensor)]
        if any(unpack_dual(x).tangent is not None for x in tensors):
            raise NotImplementedError(
                "attention has no derivative in forward mode: use one in reverse mode, as backward(), "
                "torch.func.vjp and jacrev do"
            )
        if not torch.is_grad_enabled() or not _any_gradient(*tensors):
            return _below_autograd(operator, args)
        with enable_single_level_autograd_function():
            return function.apply(*args)

    return call


def _by_vmap(operator, dense: tuple[int, ...] = ()):
    """The rule with which vmap calls an operator once: its dimension becomes a part of the batch, which takes
    a copy where strides cannot say so. @param dense  the arguments that are copied if they are expanded"""

    def merged(x: torch.Tensor, dim: int | None, size: int) -> torch.Tensor:
        every = x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
        return every.flatten(0, 1)

    def rule(info, in_dims, *args):
        size = info.batch_size
        given = [
            merged(x, dim, size) if isinstance(x, torch.Tensor) else x
            for x, dim in zip(args, in_dims, strict=True)
        ]
        for which in dense:
            given[which] = _without_sharing(given[which])
        results = [x.unflatten(0, (size, x.shape[0] // size)) for x in operator(*given)]
        return tuple(results), (0,) * len(results)

    return rule


for _operator, _function in ((attention, _Attention), (attention_backward, _AttentionBackward)):
    _library.impl(_operator, _autograd_of(_operator, _function), "Autograd")


# --- in C++ -------------------------------------------------------------------------------------------

_call = attention
_at_once = None
if native.is_loaded():
    torch.library.register_fake("fa_tutorial::attention_native", _fake_attention)
    torch.library.register_fake("fa_tutorial::attention_backward_native", _fake_backward)
    _call = torch.ops.fa_tutorial.attention_native.default
    _at_once = native.module().at_once


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
    torch.library.register_vmap(_forward.default, _by_vmap(_forward.default))
    # o and lse as the forward pass returns them
    torch.library.register_vmap(_backward.default, _by_vmap(_backward.default, (4, 5)))

# --- what people call ---------------------------------------------------------------------------------


def _not_a_tensor(**given: object) -> TypeError:
    name = next(n for n, x in given.items() if not isinstance(x, torch.Tensor))
    return TypeError(f"{name} is a {type(given[name]).__name__}: it must be a torch.Tensor")


def _is_transformed() -> bool:
    """Whether torch.func, or a derivative in forward mode, is to see a call."""
    of_func = torch._C._are_functorch_transforms_active()
    return of_func or forward_ad._current_level >= 0


def _number(name: str, given: object) -> float:
    """@throws TypeError  unless PyTorch's attention takes the number: a tensor has no gradient and no
    dimension
    """
    if isinstance(given, torch.Tensor):
        is_number = given.dim() == 0 and not (given.requires_grad or _is_transformed())
    else:
        is_number = isinstance(given, (numbers.Real, torch.SymFloat, torch.SymInt))
    if not is_number:
        raise TypeError(f"{name} is a {type(given).__name__}: it must be a number, and has no gradient")
    return float(given)


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
        and _at_once is not None
        and attn_mask is None
        and isinstance(dropout_p, (float, int))
        and dropout_p == 0.0
        and not return_lse
    ):
        o = _at_once(query, key, value, is_causal, scale, enable_gqa, chosen.forward, chosen.backward)
        if o is not None:
            return o
    if not (
        isinstance(query, torch.Tensor) and isinstance(key, torch.Tensor) and isinstance(value, torch.Tensor)
    ):
        raise _not_a_tensor(query=query, key=key, value=value)
    if attn_mask is not None:
        raise NotImplementedError("attn_mask is given: only is_causal is supported, leave it out")
    if _number("dropout_p", dropout_p) != 0.0:
        raise NotImplementedError(f"dropout_p is {dropout_p}: dropout is not supported, leave it out")
    device = query.device.type
    if device in checks.DEVICES and torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        query, key, value = (
            tensor.to(dtype) if tensor.dtype in checks.DTYPES else tensor for tensor in (query, key, value)
        )
    of_query, of_key = query.shape, key.shape
    four = len(of_query) == len(of_key) == 4  # other shapes are refused below
    if scale is None:
        scale = 1 / math.sqrt(of_query[3]) if four and of_query[3] else 1.0
    else:
        scale = _number("scale", scale)
    if four and not enable_gqa and of_query[1] != of_key[1]:
        raise ValueError(
            f"query has {of_query[1]} heads and key {of_key[1]}: pass enable_gqa=True to share heads of key"
        )
    if return_lse and torch.is_grad_enabled() and _any_gradient(query, key, value):
        raise NotImplementedError("return_lse: lse has no gradient, call it under torch.no_grad()")
    call = _call if device == "cuda" and not _is_transformed() else attention
    o, lse = call(query, key, value, bool(is_causal), scale, chosen.forward, chosen.backward)
    return (o, lse) if return_lse else o
