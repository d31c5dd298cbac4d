"""What is refused: each function raises one sentence that says what would be right."""

from __future__ import annotations

import math

import torch

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
DEVICES = ("cpu", "cuda")
ALIGNMENT = 16  # the kernels copy 16 bytes at a time


def _listed(shape: torch.Size) -> str:
    return str(list(shape))


def require_dense(name: str, tensor: torch.Tensor) -> None:
    """Raises one sentence unless kernels can read the tensor where it is."""
    if tensor.layout != torch.strided:
        raise ValueError(
            f"{name} has the layout {tensor.layout}: it must be dense, try to_dense()"
        )
    if tensor.dtype not in DTYPES:
        raise TypeError(
            f"{name} is {tensor.dtype}: it must be float32, float16 or bfloat16"
        )
    if tensor.dim() != 4:
        raise ValueError(
            f"{name} has the shape {_listed(tensor.shape)}: it must be [batch, heads, sequence, head_dim]"
        )
    if tensor.numel() == 0:
        raise ValueError(
            f"{name} has the shape {_listed(tensor.shape)}: every length must be at least 1"
        )
    if not tensor.is_contiguous():
        raise ValueError(
            f"{name} is not contiguous, its strides are {list(tensor.stride())}: pass {name}.contiguous()"
        )


def require_problem(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float
) -> None:
    """Raises one sentence unless these are the tensors of one attention."""
    for name, tensor in (("query", q), ("key", k), ("value", v)):
        require_dense(name, tensor)
        if tensor.device != q.device:
            raise ValueError(
                f"{name} is on {tensor.device} and query on {q.device}: move them to one device"
            )
        if tensor.dtype != q.dtype:
            raise TypeError(
                f"{name} is {tensor.dtype} and query {q.dtype}: convert them to one dtype"
            )
    if k.shape != v.shape:
        raise ValueError(
            f"key has the shape {_listed(k.shape)} and value {_listed(v.shape)}: they must be the same"
        )
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ValueError(
            f"query has the shape {_listed(q.shape)} and key {_listed(k.shape)}: batch and head_dim must be the same"
        )
    if q.shape[1] % k.shape[1] != 0:
        raise ValueError(
            f"query has {q.shape[1]} heads and key {k.shape[1]}: the heads of query must be a multiple of those of key"
        )
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale is {scale}: it must be a finite number above 0")


def require_results(
    q: torch.Tensor, do: torch.Tensor, o: torch.Tensor, lse: torch.Tensor
) -> None:
    """Raises one sentence unless these belong to an attention of q."""
    rows, full = q.shape[:3], torch.float32
    for name, tensor, shape, dtype in (
        ("the gradient", do, q.shape, q.dtype),
        ("o", o, q.shape, q.dtype),
        ("lse", lse, rows, full),
    ):
        right = (tensor.shape, tensor.dtype, tensor.device) == (shape, dtype, q.device)
        if not right or not (tensor is do or tensor.is_contiguous()):
            raise ValueError(
                f"{name} is {_listed(tensor.shape)} of {tensor.dtype} on {tensor.device}: "
                f"it must be {_listed(shape)} of {dtype} on {q.device}, contiguous"
            )


def require_memory(tensors: dict[str, torch.Tensor]) -> None:
    """What only real tensors tell."""
    for name, tensor in tensors.items():
        if tensor.device.type not in DEVICES:
            raise ValueError(
                f"{name} is on {tensor.device}: the kernels run on cpu (in the simulator) and cuda"
            )
        if tensor.data_ptr() % ALIGNMENT != 0:
            raise ValueError(
                f"{name} does not begin at a multiple of {ALIGNMENT} bytes: pass {name}.clone()"
            )
