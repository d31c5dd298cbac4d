"""What chapter 11 adds to an attention: masks, functions of scores, and dropout."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import torch

from . import chapter_library

TENSORS = ("documents", "key_documents", "key_lengths", "block_mask", "alibi_slopes", "sinks")


@dataclass(frozen=True)
class Masks:
    """The arguments of attention() as kernels take them; fa::MaskedShape describes them. None and 0: not
    there. Is an execution.More."""

    documents: torch.Tensor | None = None  # int32 [seq_q]
    key_documents: torch.Tensor | None = None  # int32 [seq_k], where keys have others than queries
    key_lengths: torch.Tensor | None = None  # int32 [batch]
    block_mask: torch.Tensor | None = None  # uint8 [heads or 1, rows, cols]
    alibi_slopes: torch.Tensor | None = None  # float32 [heads]
    sinks: torch.Tensor | None = None  # float32 [heads]
    seed: torch.Tensor | None = None  # of dropout: int64 [1], on the CPU
    block_size: int = 0  # 64 or 128
    window: int = 0
    softcap: float = 0.0
    dropout_p: float = 0.0

    def arguments(self) -> tuple:
        """Those of the operator, in its order."""
        return (
            *(self.documents, self.key_documents, self.key_lengths, self.block_mask),
            *(self.alibi_slopes, self.sinks, self.seed),
            *(self.block_size, self.window, self.softcap, self.dropout_p),
        )

    def hide_something(self) -> bool:
        """Whether anything differs from an attention without them."""
        return any(
            x is not None for x in (self.documents, self.key_lengths, self.block_mask, self.sinks)
        ) or bool(self.window or self.dropout_p or self.change_scores())

    def change_scores(self) -> bool:
        return self.softcap != 0 or self.alibi_slopes is not None

    def options(self) -> list[tuple[str, object]]:
        """Those of chapter 11's program."""
        numbers = {"block-size": self.block_size, "window": self.window, "softcap": self.softcap}
        given = [(name, number) for name, number in numbers.items() if number]
        tensors = ((name.replace("_", "-"), getattr(self, name)) for name in TENSORS)
        given += [(name, tensor) for name, tensor in tensors if tensor is not None]
        if self.dropout_p:
            given += [("dropout", self.dropout_p), ("dropout-seed", int(self.seed))]
        return given

    def add_to(self, given: chapter_library.FaAttention, tensors: dict) -> chapter_library.FaMasks:
        masks = chapter_library.FaMasks(
            **{name: chapter_library.address(getattr(self, name)) for name in TENSORS},
            dsinks=chapter_library.address(tensors.get("dsinks")),
            heads_of_blocks=1 if self.block_mask is None else self.block_mask.shape[0],
            size_of_blocks=self.block_size,
            window=self.window,
            softcap=self.softcap,
            dropout=self.dropout_p,
            dropout_seed=int(self.seed) if self.dropout_p else 0,
        )
        given.masks = ctypes.addressof(masks)
        return masks
