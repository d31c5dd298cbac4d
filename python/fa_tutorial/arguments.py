"""What functions do with the arguments that people pass."""

from __future__ import annotations

import math
import numbers

import torch
from torch.autograd import forward_ad

from . import checks


def not_a_tensor(**given: object) -> TypeError:
    name = next(n for n, x in given.items() if not isinstance(x, torch.Tensor))
    return TypeError(f"{name} is a {type(given[name]).__name__}: it must be a torch.Tensor")


def is_transformed() -> bool:
    """Whether torch.func, or a derivative in forward mode, is to see a call."""
    of_func = torch._C._are_functorch_transforms_active()
    return of_func or forward_ad._current_level >= 0


def number(name: str, given: object) -> float:
    """@throws TypeError  unless PyTorch's attention takes the number: a tensor has no gradient and no
    dimension
    """
    if isinstance(given, torch.Tensor):
        is_number = given.dim() == 0 and not (given.requires_grad or is_transformed())
    else:
        is_number = isinstance(given, (numbers.Real, torch.SymFloat, torch.SymInt))
    if not is_number:
        raise TypeError(f"{name} is a {type(given).__name__}: it must be a number, and has no gradient")
    return float(given)


def length_of(x: object, axis: int) -> int:
    """A length of a tensor of four dimensions; -1 for anything else."""
    return x.shape[axis] if isinstance(x, torch.Tensor) and x.dim() == 4 else -1


def require_tensors(**given: object) -> None:
    """@throws TypeError  if one is no tensor"""
    if not all(isinstance(x, torch.Tensor) for x in given.values()):
        raise not_a_tensor(**given)


def under_autocast(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors in the type of an active autocast, as PyTorch's own attention takes them."""
    device = tensors[0].device.type
    if device not in checks.DEVICES or not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(x.to(dtype) if x.dtype in checks.DTYPES else x for x in tensors)


def scale_of(scale: object, query: torch.Tensor) -> float:
    """The scale, or 1 / sqrt(head_dim)."""
    if scale is not None:
        return number("scale", scale)
    # other shapes are refused later
    return 1 / math.sqrt(query.shape[-1]) if query.dim() > 0 and query.shape[-1] else 1.0


def require_no_gradient_of_lse(*tensors: torch.Tensor) -> None:
    """@throws NotImplementedError  if a gradient may be wanted"""
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        raise NotImplementedError("return_lse: lse has no gradient, call it under torch.no_grad()")
