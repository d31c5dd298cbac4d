"""Tensors of whole numbers: lengths, documents, tables. Kernels trust them, so their numbers are read back
and checked before. That waits for the GPU, and happens once for a tensor until it is written again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

from . import arguments

TYPES = (torch.int32, torch.int64)


def are_known(tensor: Tensor) -> bool:
    """Whether the numbers can be read now: not while a graph is compiled or captured."""
    if is_compiling() or type(tensor) is not Tensor or arguments.is_transformed():
        return False
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def _is_kept(tensor: Tensor) -> bool:
    """Whether something can be kept with the tensor."""
    return are_known(tensor) and not tensor.is_inference()


def _kept(tensor: Tensor) -> dict:
    """What is kept with the tensor since it has been written."""
    kept = getattr(tensor, "_fa_tutorial", None)
    if kept is None or kept[0] != tensor._version:
        kept = tensor._fa_tutorial = (tensor._version, {})
    return kept[1]


def _on_stream(tensor: Tensor, what: str) -> str:
    """A tensor that is kept belongs to the stream that computed it."""
    if not tensor.is_cuda:
        return what
    return f"{what} {torch._C._cuda_getCurrentRawStream(tensor.device.index)}"


def once(tensor: Tensor, what: str, compute: Callable[[Tensor], Any]) -> Any:
    """compute(tensor), or what it returned before on this stream, unless the tensor has been written since.

    Writes that PyTorch does not see (a CUDA graph's replay, a kernel of the caller, `.data`) are not noticed.

    @param what  tells several functions of one tensor apart
    """
    if not _is_kept(tensor):
        return compute(tensor)
    what = _on_stream(tensor, what)
    kept = _kept(tensor)
    if what not in kept:
        with torch.inference_mode(False):  # what is kept may be saved for a backward pass later
            kept[what] = compute(tensor)
    return kept[what]


def kept(tensor: object, what: str) -> Any:
    """What once() keeps; None if it keeps nothing."""
    kept = getattr(tensor, "_fa_tutorial", None)
    return None if kept is None or kept[0] != tensor._version else kept[1].get(_on_stream(tensor, what))


def set_checked(tensor: Tensor, *use: object) -> None:
    """Keeps that the numbers are right for a use of them, until the tensor is written again."""
    if _is_kept(tensor):
        _kept(tensor)[use] = True


def are_checked(tensor: object, *use: object) -> bool:
    """Whether set_checked() has been called for this tensor and use."""
    kept = getattr(tensor, "_fa_tutorial", None)
    return kept is not None and kept[0] == tensor._version and use in kept[1]


def numbers(tensor: Tensor) -> list | None:
    """The numbers, or None if they cannot be read now."""
    return once(tensor, "numbers", lambda x: x.tolist()) if are_known(tensor) else None


def required(name: str, tensor: object, shape: tuple[int | None, ...], like: Tensor, text: str) -> Tensor:
    """A tensor of whole numbers as int32 in one piece.

    @param shape  None: any length    @param like  on the device that is wanted    @param text  the shape
    @throws TypeError, ValueError  one sentence, unless it is such a tensor
    """
    if not isinstance(tensor, Tensor):
        raise arguments.not_a_tensor(**{name: tensor})
    if tensor.dtype not in TYPES:
        raise TypeError(f"{name} is {tensor.dtype}: it must be int32 or int64")
    if tensor.device != like.device:
        raise ValueError(f"{name} is on {tensor.device} and query on {like.device}: move it there")
    right = tensor.dim() == len(shape) and all(
        wanted is None or found == wanted for found, wanted in zip(tensor.shape, shape, strict=True)
    )
    if not right:
        raise ValueError(f"{name} has the shape {list(tensor.shape)}: it must be {text}")
    if tensor.dtype == torch.int32 and tensor.is_contiguous():
        return tensor  # kept in itself, it would be a cycle that only the garbage collector frees
    return once(tensor, "int32", lambda x: x.to(torch.int32).contiguous())


def _least_and_most(tensor: Tensor) -> tuple[int, int]:
    least, most = torch.aminmax(tensor)
    return tuple(torch.stack((least, most)).tolist())


def require_range(name: str, tensor: Tensor, first: int, last: int, why: str) -> None:
    """@throws ValueError  if a number is outside"""
    if tensor.numel() == 0 or not are_known(tensor):
        return
    least, most = once(tensor, "range", _least_and_most)
    if least < first or most > last:
        wrong = least if least < first else most
        raise ValueError(f"{name} has the number {wrong}: it must be from {first} to {last}, {why}")


def require_order(name: str, tensor: Tensor) -> None:
    """@throws ValueError  if a number is less than the one before it"""
    if not are_known(tensor):
        return
    decrease = once(tensor, "order", lambda x: int((x.diff() < 0).to(torch.int32).sum()))
    if decrease:
        raise ValueError(f"{name} has a number that is less than the one before it: they must not decrease")
