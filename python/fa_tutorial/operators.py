"""The operators torch.ops.fa_tutorial.attention and attention_backward, and the function that people call.

On the CPU they run the chapters' programs in the simulator: exact, about 0.1 s per call for small tensors. On a GPU they
launch the kernels of the chapters' shared libraries on PyTorch's current stream. Once a kernel has run, the operators in
C++ (native.py) run it, if they are built: attention_native and attention_backward_native, which cost the host less. An
eager call costs it least: at_once() computes O where nothing but a kernel has to run.
"""

from __future__ import annotations

import math

import torch
from torch.compiler import is_dynamo_compiling

from . import chapter_library, checks, native, selection, simulator

# --- the kernels --------------------------------------------------------------------------------------


def _sentence(name: str, reason: Exception | str) -> ValueError:
    """The refusal of a program or a library, with our names instead of its options."""
    text = str(reason).strip()
    if text.startswith("--variant ") and " cannot run this: " in text:
        text = text.split(" cannot run this: ", 1)[1]
    text = text.replace(", those of --layout bhsd", ": pass it as .contiguous()")
    for option in ("head-dim", "dtype", "scale", "batch", "heads", "seq-q", "seq-k"):
        text = text.replace(f"--{option}", option.replace("-", "_"))
    return ValueError(f"{name} cannot run this: {text}")


def _simulate(
    name: str, tensors: dict, outputs: dict, causal: bool, scale: float
) -> None:
    """Fills the outputs in. @param tensors, outputs  by the names of the chapter's problem"""
    chapter, variant = selection.split(name)
    results = simulator.run(chapter, variant, tensors, causal, scale)
    for output, values in results.items():
        outputs[output].copy_(values)  # exact: rounded already, widened for the file


def _launch(
    name: str, tensors: dict, outputs: dict, causal: bool, scale: float
) -> None:
    """Fills the outputs in on a GPU, once the current stream gets there."""
    chapter, variant = selection.split(name)
    chapter_library.run(chapter, variant, tensors | outputs, causal, scale)


def _run(name: str, tensors: dict, outputs: dict, causal: bool, scale: float) -> None:
    run = _simulate if tensors["q"].device.type == "cpu" else _launch
    try:
        run(name, tensors, outputs, causal, scale)
    except (simulator.Refusal, chapter_library.Refusal) as reason:
        raise _sentence(name, reason) from None


def _are_dense(*tensors: torch.Tensor) -> bool:
    return all(tensor.is_contiguous() for tensor in tensors)


def _new_outputs(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.custom_op("fa_tutorial::attention", mutates_args=())
def attention(
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
    name = forward or selection.default("forward", q)
    _run(name, {"q": q, "k": k, "v": v}, {"o": o, "lse": lse}, is_causal, scale)
    native.remember(q, forward, False, _are_dense(q, k, v), selection.split(name))
    return o, lse


@attention.register_fake
def _fake_attention(q, k, v, is_causal, scale, forward, backward):
    checks.require_problem(q, k, v, scale)
    return _new_outputs(q)


@torch.library.custom_op("fa_tutorial::attention_backward", mutates_args=())
def attention_backward(
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
    """dQ, dK and dV, each laid out like its input. The chapters' programs, which run on the CPU, compute O and LSE themselves.

    @param do  with any strides: PyTorch itself makes such gradients, those of o.sum() for example. This is the only tensor
        that is copied where the kernels cannot read it
    """
    checks.require_problem(q, k, v, scale)
    checks.require_results(q, do, o, lse)
    if do.stride() != o.stride() or do.data_ptr() % checks.ALIGNMENT != 0:
        do = torch.empty_like(o).copy_(do)
    named = {"query": q, "key": k, "value": v, "the gradient": do, "o": o, "lse": lse}
    checks.require_memory(named)
    gradients = tuple(torch.empty_like(x) for x in (q, k, v))
    tensors = {"q": q, "k": k, "v": v, "do": do}
    if q.device.type == "cuda":
        tensors |= {"o": o, "lse": lse}
    name = backward or selection.default("backward", q)
    outputs = dict(zip(("dq", "dk", "dv"), gradients, strict=True))
    _run(name, tensors, outputs, is_causal, scale)
    native.remember(q, backward, True, _are_dense(q, k, v), selection.split(name))
    return gradients


@attention_backward.register_fake
def _fake_backward(do, q, k, v, o, lse, is_causal, scale, backward):
    checks.require_problem(q, k, v, scale)
    checks.require_results(q, do, o, lse)
    return tuple(torch.empty_like(x) for x in (q, k, v))


# --- autograd -----------------------------------------------------------------------------------------


def _require_backward(q: torch.Tensor, backward: str, dense: bool) -> None:
    """Raises one sentence if there is no backward pass for such tensors, before the loss is computed."""
    head_dim = q.shape[3]
    if not isinstance(
        head_dim, int
    ):  # it is a symbol of torch.compile: the backward pass will say so itself
        return
    name = backward or selection.default("backward", q)
    chapter, variant = selection.split(name)
    if q.device.type == "cpu":
        reason = simulator.refusal(chapter, variant, q.dtype, head_dim)
    else:
        kind = (q.dtype, head_dim, q.device)
        reason = chapter_library.refusal(chapter, variant, *kind, dense)
    if reason:
        refused = _sentence(name, reason)
        raise ValueError(
            f"there is no backward pass for this query: {refused}; call it under torch.no_grad()"
        )


def _save(ctx, inputs, output) -> None:
    q, k, v, ctx.is_causal, ctx.scale, _, ctx.backward = inputs
    o, lse = output
    _require_backward(q, ctx.backward, _are_dense(q, k, v))
    ctx.save_for_backward(q, k, v, o, lse)
    ctx.mark_non_differentiable(lse)
    ctx.set_materialize_grads(False)


def _gradients(ctx, do, _):
    rest = (None,) * 4
    if do is None:
        return None, None, None, *rest
    q, k, v, o, lse = ctx.saved_tensors
    return *attention_backward(
        do, q, k, v, o, lse, ctx.is_causal, ctx.scale, ctx.backward
    ), *rest


def _no_second_gradient(ctx, *_):
    raise NotImplementedError(
        "the backward pass of attention has no gradient of its own: leave create_graph=True out"
    )


attention.register_autograd(_gradients, setup_context=_save)
attention_backward.register_autograd(_no_second_gradient)


# --- in C++ -------------------------------------------------------------------------------------------

_call = attention
_at_once = None
if native.is_loaded():
    torch.library.register_fake("fa_tutorial::attention_native", _fake_attention)
    torch.library.register_fake(
        "fa_tutorial::attention_backward_native", _fake_backward
    )
    _call = torch.ops.fa_tutorial.attention_native.default
    _at_once = native.module().at_once

# --- what people call ---------------------------------------------------------------------------------


def _any_gradient(*tensors: torch.Tensor) -> bool:
    return any(tensor.requires_grad for tensor in tensors)


def _not_a_tensor(**given: object) -> TypeError:
    name = next(n for n, x in given.items() if not isinstance(x, torch.Tensor))
    return TypeError(
        f"{name} is a {type(given[name]).__name__}: it must be a torch.Tensor"
    )


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
    """softmax(scale * Q K^T) V, as torch.nn.functional.scaled_dot_product_attention, by the kernels that use() has chosen.

    One thing differs: with is_causal, the last query sees all keys (query i sees key j only when
    j <= i + seq_k - seq_q), as in FlashAttention. PyTorch's first query sees the first key alone. Where seq_q = seq_k, both
    are the same.

    Kernels read and write tensors where they are: [batch, seq, heads, head_dim] tensors become an input by transpose(1, 2),
    O and the gradients are laid out like query and like their inputs, and what a variant cannot read is refused. Under
    autocast, inputs are converted first, as PyTorch's own attention does.

    @param query  [batch, heads, seq_q, head_dim], float32, float16 or bfloat16
    @param key, value  [batch, kv_heads, seq_k, head_dim]; heads must be a multiple of kv_heads, and if they differ,
        enable_gqa must be true
    @param scale  default: 1 / sqrt(head_dim)
    @param return_lse  also return the natural logarithm of each row's sum of exp(scale * q.k), [batch, heads, seq_q] in
        float32, which has no gradient
    @throws ValueError, TypeError, NotImplementedError  one sentence that says what would be right
    """
    chosen = selection.chosen
    if (
        not is_dynamo_compiling()
        and _at_once is not None
        and attn_mask is None
        and dropout_p == 0.0
        and not return_lse
    ):
        o = _at_once(
            query,
            key,
            value,
            is_causal,
            scale,
            enable_gqa,
            chosen.forward,
            chosen.backward,
        )
        if o is not None:
            return o
    if not (
        isinstance(query, torch.Tensor)
        and isinstance(key, torch.Tensor)
        and isinstance(value, torch.Tensor)
    ):
        raise _not_a_tensor(query=query, key=key, value=value)
    if attn_mask is not None:
        raise NotImplementedError(
            "attn_mask is given: only is_causal is supported, leave it out"
        )
    if dropout_p != 0.0:
        raise NotImplementedError(
            f"dropout_p is {dropout_p}: dropout is not supported, leave it out"
        )
    device = query.device.type
    if device in checks.DEVICES and torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        query, key, value = (
            tensor.to(dtype) if tensor.dtype in checks.DTYPES else tensor
            for tensor in (query, key, value)
        )
    of_query, of_key = query.shape, key.shape
    four = len(of_query) == len(of_key) == 4  # other shapes are refused below
    if scale is None:
        scale = 1 / math.sqrt(of_query[3]) if four and of_query[3] else 1.0
    if four and not enable_gqa and of_query[1] != of_key[1]:
        raise ValueError(
            f"query has {of_query[1]} heads and key {of_key[1]}: pass enable_gqa=True to share heads of key"
        )
    if return_lse and torch.is_grad_enabled() and _any_gradient(query, key, value):
        raise NotImplementedError(
            "return_lse: lse has no gradient, call it under torch.no_grad()"
        )
    call = _call if device == "cuda" else attention
    o, lse = call(
        query,
        key,
        value,
        bool(is_causal),
        float(scale),
        chosen.forward,
        chosen.backward,
    )
    return (o, lse) if return_lse else o
