"""How an operator becomes one of PyTorch: with a gradient, for torch.func, and for torch.compile."""

from __future__ import annotations

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd.forward_ad import _set_fwd_grad_enabled, unpack_dual
from torch.autograd.function import _SingleLevelFunction

from .execution import without_sharing

library = torch.library.Library("fa_tutorial", "FRAGMENT")


def define(name: str, kernel, fake, schema: str | None = None) -> torch._ops.OpOverload:
    """An operator without a gradient. torch.library.custom_op would give it one that torch.func cannot
    use.

    @param schema  where the kernel's annotations do not tell it
    """
    schema = schema or torch.library.infer_schema(kernel, mutates_args=())
    library.define(name + schema, tags=torch.Tag.pt2_compliant_tag)
    library.impl(name, torch._disable_dynamo(kernel), "CompositeExplicitAutograd")
    torch.library.register_fake(f"fa_tutorial::{name}", fake, lib=library)
    return getattr(torch.ops.fa_tutorial, name).default


def below_autograd(operator, args):
    with torch._C._AutoDispatchBelowAutograd():
        return operator(*args)


class _Function(_SingleLevelFunction):
    """A torch.autograd.Function for operators, which torch.func's transformations call one after another. A
    function turns gradients off in forward(), where those of the other transformations have to be turned on
    again."""

    _compiled_autograd_key = staticmethod(torch.autograd.Function._compiled_autograd_key)


def _function_of(operator, save, gradients) -> type[_Function]:
    class OfOperator(_Function):
        @staticmethod
        def forward(*args):
            with torch.enable_grad(), _set_fwd_grad_enabled(True):
                return below_autograd(operator, args)

        setup_context = staticmethod(save)
        backward = staticmethod(gradients)

    return OfOperator


def _save_nothing(ctx, inputs, output) -> None:
    pass


def _no_second_gradient(ctx, *_):
    raise NotImplementedError(
        "the backward pass of attention has no gradient of its own: leave create_graph=True and a second "
        "torch.func.grad out"
    )


def any_gradient(*tensors: torch.Tensor) -> bool:
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
        if not torch.is_grad_enabled() or not any_gradient(*tensors):
            return below_autograd(operator, args)
        with enable_single_level_autograd_function():
            return function.apply(*args)

    return call


def register_autograd(operator, backward, save, gradients) -> None:
    """Gives an operator the gradient that another one computes, which has none.

    @param save, gradients  setup_context() and backward() of a torch.autograd.Function
    """
    for op, function in (
        (operator, _function_of(operator, save, gradients)),
        (backward, _function_of(backward, _save_nothing, _no_second_gradient)),
    ):
        library.impl(op, _autograd_of(op, function), "Autograd")


def register_without_gradient(operator, sentence: str) -> None:
    """Lets an operator raise a sentence where a gradient is wanted."""

    def refuse(ctx, inputs, output):
        raise NotImplementedError(sentence)

    library.impl(operator, _autograd_of(operator, _function_of(operator, refuse, None)), "Autograd")


def by_vmap(
    operator, dense: tuple[int, ...] = (), shared: tuple[int, ...] = (), refused: tuple[int, ...] = ()
):
    """The rule with which vmap calls an operator once: its dimension becomes a part of the batch, which takes
    a copy where strides cannot say so.

    @param dense  the arguments that are copied if they are expanded
    @param shared  those without a batch: vmap must not go through them
    @param refused  those with a gradient that is a sum over the batch: they must not be given
    """

    def merged(x: torch.Tensor, dim: int | None, size: int) -> torch.Tensor:
        every = x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
        return every.flatten(0, 1)

    def rule(info, in_dims, *args):
        size = info.batch_size
        if any(in_dims[which] is not None for which in shared):
            raise NotImplementedError(
                "vmap goes through a mask, slopes or a seed: only query, key, value and key_lengths may vary"
            )
        if any(args[which] is not None for which in refused):
            raise NotImplementedError("vmap goes through the gradient of sinks: leave sinks or vmap out")
        given = [
            merged(x, dim, size) if isinstance(x, torch.Tensor) and which not in shared else x
            for which, (x, dim) in enumerate(zip(args, in_dims, strict=True))
        ]
        for which in dense:
            given[which] = without_sharing(given[which])
        results = [x.unflatten(0, (size, x.shape[0] // size)) for x in operator(*given)]
        return tuple(results), (0,) * len(results)

    return rule
