"""A chapter's kernels on tensors of PyTorch.

    final = ChapterLibrary("07_multi_stage").bind("final", q, k, v, causal=True)
    final.launch(torch.cuda.current_stream())
    final.o, final.lse

Needs build/cuda/lib: cmake --build --preset cuda --target chapter_libraries
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}


class _Attention(ctypes.Structure):
    """FaAttention of library.cpp."""

    _fields_ = [
        *(
            (name, ctypes.c_int64)
            for name in ("batch", "heads", "kv_heads", "seq_q", "seq_k", "head_dim")
        ),
        ("dtype", ctypes.c_int32),
        ("causal", ctypes.c_int32),
        ("scale", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("q", "k", "v", "o", "lse")),
    ]


class BoundVariant:
    """A variant with its tensors. O and LSE are NaN until it is launched."""

    def __init__(self, library, variant: str, q, k, v, causal: bool):
        self.o = torch.full_like(q, float("nan"))
        self.lse = torch.full(
            q.shape[:3], float("nan"), dtype=torch.float32, device=q.device
        )
        self._tensors = (q, k, v)  # stay allocated as long as this object
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
            q=q.data_ptr(),
            k=k.data_ptr(),
            v=v.data_ptr(),
            o=self.o.data_ptr(),
            lse=self.lse.data_ptr(),
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

    def bind(self, variant: str, q, k, v, causal: bool = False) -> BoundVariant:
        """A variant for dense q [batch, heads, seq_q, head_dim], k and v [batch, kv_heads, seq_k, head_dim].

        RuntimeError if the variant refuses them, with its reason.
        """
        return BoundVariant(self._library, variant, q, k, v, causal)
