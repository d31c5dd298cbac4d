"""A chapter's kernels on tensors of PyTorch.

    final = ChapterLibrary("07_multi_stage").bind("final", q, k, v, causal=True)
    final.launch(torch.cuda.current_stream())
    final.o, final.lse

    fused = ChapterLibrary("08_backward").bind("mma_fused", q, k, v, causal=True, do=do)
    fused.launch(torch.cuda.current_stream())
    fused.dq, fused.dk, fused.dv

Needs build/cuda/lib: cmake --build --preset cuda --target chapter_libraries
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
TENSORS = ("q", "k", "v", "o", "lse", "do", "dq", "dk", "dv")
DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}


class _Attention(ctypes.Structure):
    """The struct FaAttention of library.cpp."""

    _fields_ = [
        *(
            (name, ctypes.c_int64)
            for name in ("batch", "heads", "kv_heads", "seq_q", "seq_k", "head_dim")
        ),
        ("dtype", ctypes.c_int32),
        ("causal", ctypes.c_int32),
        ("scale", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in TENSORS),
    ]


class BoundVariant:
    """A variant with its tensors. Its outputs are NaN until it is launched."""

    def __init__(self, library, variant: str, q, k, v, causal: bool, do):
        def nan(shape, dtype):
            return torch.full(shape, float("nan"), dtype=dtype, device=q.device)

        tensors = {"q": q, "k": k, "v": v}
        if do is None:
            self.o = nan(q.shape, q.dtype)
            self.lse = nan(q.shape[:3], torch.float32)
            tensors |= {"o": self.o, "lse": self.lse}
        else:
            self.dq, self.dk, self.dv = (nan(x.shape, x.dtype) for x in (q, k, v))
            tensors |= {"do": do, "dq": self.dq, "dk": self.dk, "dv": self.dv}
        self._tensors = tensors  # keeps them allocated as long as this object lives
        self._library = library
        batch, heads, seq_q, head_dim = q.shape
        given = _Attention(
            batch=batch,
            heads=heads,
            kv_heads=k.shape[1],
            seq_q=seq_q,
            seq_k=k.shape[2],
            head_dim=head_dim,
            dtype=DTYPES[q.dtype],
            causal=causal,
            scale=head_dim**-0.5,
            **{name: tensor.data_ptr() for name, tensor in tensors.items()},
        )
        self._bound = library.fa_bind(variant.encode(), ctypes.byref(given))
        if not self._bound:
            raise RuntimeError(library.fa_error().decode())

    def launch(self, stream) -> None:
        """Enqueues the kernels."""
        if not self._library.fa_launch(self._bound, stream.cuda_stream):
            raise RuntimeError(self._library.fa_error().decode())

    def __del__(self):
        if getattr(self, "_bound", None):
            self._library.fa_release(self._bound)


class ChapterLibrary:
    """libchNN_name.so."""

    def __init__(self, chapter: str):
        path = ROOT / "build" / "cuda" / "lib" / f"libch{chapter}.so"
        if not path.exists():
            raise FileNotFoundError(
                f"there is no {path}: cmake --build --preset cuda --target chapter_libraries"
            )
        self._library = ctypes.CDLL(str(path))
        self._library.fa_error.restype = ctypes.c_char_p
        self._library.fa_bind.restype = ctypes.c_void_p
        self._library.fa_bind.argtypes = [ctypes.c_char_p, ctypes.POINTER(_Attention)]
        self._library.fa_launch.restype = ctypes.c_bool
        self._library.fa_launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self._library.fa_release.restype = None
        self._library.fa_release.argtypes = [ctypes.c_void_p]

    def bind(
        self, variant: str, q, k, v, causal: bool = False, do=None
    ) -> BoundVariant:
        """A variant for dense q [batch, heads, seq_q, head_dim], k and v [batch, kv_heads, seq_k, head_dim].

        Chapters about the backward pass also take do, shaped like q. RuntimeError if the variant refuses, with its
        reason.
        """
        return BoundVariant(self._library, variant, q, k, v, causal, do)
