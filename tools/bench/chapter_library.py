"""A chapter's kernels on tensors of PyTorch, as the benchmarks launch them: again and again on the same
tensors.

    final = ChapterLibrary("07_multi_stage").bind("final", q, k, v, causal=True)
    final.launch(torch.cuda.current_stream())
    final.o, final.lse

    fused = ChapterLibrary("08_backward").bind("mma_fused", q, k, v, causal=True, do=do)
    fused.launch(torch.cuda.current_stream())
    fused.dq, fused.dk, fused.dv

Needs build/cuda/lib: cmake --build --preset cuda --target chapter_libraries
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from fa_tutorial import chapter_library


class BoundVariant:
    """A variant with its tensors. Its outputs are NaN until it is launched."""

    def __init__(self, library, variant: str, q, k, v, causal: bool, do):
        def nan(like):  # with the same strides
            return torch.full_like(like, float("nan"))

        tensors = {"q": q, "k": k, "v": v}
        if do is None:
            self.o = nan(q)
            if v.shape[3] != q.shape[3]:
                self.o = q.new_full((*q.shape[:3], v.shape[3]), float("nan"))
            self.lse = torch.full(q.shape[:3], float("nan"), dtype=torch.float32, device=q.device)
            tensors |= {"o": self.o, "lse": self.lse}
        else:
            self.dq, self.dk, self.dv = (nan(x) for x in (q, k, v))
            tensors |= {"do": do, "dq": self.dq, "dk": self.dk, "dv": self.dv}
        self._tensors = tensors  # keeps them allocated as long as this object lives
        given = chapter_library.describe(tensors, causal, q.shape[-1] ** -0.5)
        self._bound = library.bind(variant, given)

    def launch(self, stream) -> None:
        """Enqueues the kernels."""
        self._bound.launch(stream.cuda_stream)


class ChapterLibrary:
    """libchNN_name.so."""

    def __init__(self, chapter: str):
        self._library = chapter_library.load(chapter)

    def variants(self) -> list[str]:
        """The names of the variants, in the chapter's order."""
        return self._library.variants()

    def bind(self, variant: str, q, k, v, causal: bool = False, do=None) -> BoundVariant:
        """A variant for dense q [batch, heads, seq_q, head_dim], k [batch, kv_heads, seq_k, head_dim] and v
        [batch, kv_heads, seq_k, head_dim_v].

        Chapters about the backward pass also take do, shaped like o. RuntimeError if the variant refuses,
        with its reason.
        """
        return BoundVariant(self._library, variant, q, k, v, causal, do)
