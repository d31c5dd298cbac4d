"""What is refused: each function raises one sentence that says what would be right."""

from __future__ import annotations

import math

import torch

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
DEVICES = ("cpu", "cuda")
ALIGNMENT = 16  # the kernels copy 16 bytes at a time


def _listed(shape: torch.Size) -> str:
    return str(list(shape))


def is_expanded(tensor: torch.Tensor) -> bool:
    """Whether elements share memory, as those of an expanded tensor do."""
    return any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def rows_are_whole(tensor: torch.Tensor) -> bool:
    """Whether the tensor is dense, or each row is in one piece and begins at a multiple of ALIGNMENT bytes if
    the tensor does. The other strides may be any, also those of an expanded tensor, which are 0."""
    multiple = ALIGNMENT // tensor.element_size()
    *outer, of_rows = zip(tensor.shape, tensor.stride(), strict=True)
    # Strides before sizes: torch.compile may not know a size.
    whole = (of_rows[1] == 1 or of_rows[0] == 1) and all(
        stride % multiple == 0 or size == 1 for size, stride in outer
    )
    return whole or tensor.is_contiguous()


def require_readable(name: str, tensor: torch.Tensor) -> None:
    """Raises one sentence unless kernels can read the tensor where it is."""
    if tensor.layout != torch.strided:
        raise ValueError(f"{name} has the layout {tensor.layout}: it must be dense, try to_dense()")
    if tensor.dtype not in DTYPES:
        raise TypeError(f"{name} is {tensor.dtype}: it must be float32, float16 or bfloat16")
    if tensor.dim() != 4:
        raise ValueError(
            f"{name} has the shape {_listed(tensor.shape)}: it must be [batch, heads, sequence, head_dim]"
        )
    if tensor.shape[3] == 0:
        raise ValueError(f"{name} has the shape {_listed(tensor.shape)}: head_dim must be at least 1")
    if not rows_are_whole(tensor):
        raise ValueError(
            f"{name} has the strides {list(tensor.stride())}: the last must be 1 and the others multiples of "
            f"{ALIGNMENT} bytes,"
            f" pass {name}.contiguous()"
        )


def require_problem(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, other_width: bool = False
) -> None:
    """Raises one sentence unless these are the tensors of one attention.

    @param other_width  whether the rows of v may be longer or shorter than those of k
    """
    for name, tensor in (("query", q), ("key", k), ("value", v)):
        require_readable(name, tensor)
        if tensor.device != q.device:
            raise ValueError(f"{name} is on {tensor.device} and query on {q.device}: move them to one device")
        if tensor.dtype != q.dtype:
            raise TypeError(f"{name} is {tensor.dtype} and query {q.dtype}: convert them to one dtype")
    if other_width and k.shape[:3] != v.shape[:3]:
        raise ValueError(
            f"key has the shape {_listed(k.shape)} and value {_listed(v.shape)}: only the last number may "
            f"differ"
        )
    if not other_width and k.shape != v.shape:
        raise ValueError(
            f"key has the shape {_listed(k.shape)} and value {_listed(v.shape)}: they must be the same"
        )
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ValueError(
            f"query has the shape {_listed(q.shape)} and key {_listed(k.shape)}: batch and head_dim must be "
            f"the same"
        )
    heads, kv_heads = q.shape[1], k.shape[1]
    if heads != kv_heads and (kv_heads == 0 or heads % kv_heads != 0):
        raise ValueError(
            f"query has {heads} heads and key {kv_heads}: the heads of query must be a multiple of those of "
            f"key"
        )
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale is {scale}: it must be a finite number above 0")


def require_results(
    q: torch.Tensor, v: torch.Tensor, do: torch.Tensor, o: torch.Tensor, lse: torch.Tensor
) -> None:
    """Raises one sentence unless these belong to an attention of q and v."""
    rows, full = q.shape[:3], torch.float32
    outputs = torch.Size((*rows, v.shape[3]))
    for name, tensor, shape, dtype in (
        ("the gradient", do, outputs, q.dtype),
        ("o", o, outputs, q.dtype),
        ("lse", lse, rows, full),
    ):
        right = (tensor.shape, tensor.dtype, tensor.device) == (shape, dtype, q.device)
        if tensor is o:
            right = right and rows_are_whole(o)
        elif tensor is lse:
            right = right and lse.is_contiguous()
        if not right:
            raise ValueError(
                f"{name} is {_listed(tensor.shape)} of {tensor.dtype} on {tensor.device}: "
                f"it must be {_listed(shape)} of {dtype} on {q.device}"
                + ("" if tensor is do else ", as the forward pass returns it")
            )


def require_memory(tensors: dict[str, torch.Tensor]) -> None:
    """What only real tensors tell."""
    for name, tensor in tensors.items():
        if tensor.device.type not in DEVICES:
            raise ValueError(
                f"{name} is on {tensor.device}: the kernels run on cpu (in the simulator) and cuda"
            )
        if tensor.data_ptr() % ALIGNMENT != 0:
            raise ValueError(f"{name} does not begin at a multiple of {ALIGNMENT} bytes: pass {name}.clone()")
