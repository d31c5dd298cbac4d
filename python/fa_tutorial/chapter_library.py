"""A chapter's shared library: its kernels on tensors of PyTorch. The C side is common/harness/library.hpp."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import torch

from . import builds
from .refusal import Reason, Refusal, Refused

TENSORS = ("q", "k", "v", "o", "lse", "do", "dq", "dk", "dv")
STRIDED = tuple(name for name in TENSORS if name != "lse")
DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
ALIGNMENT = 256  # of the addresses of tensors that PyTorch allocates
INTERFACE = 8  # kFaInterface of library.hpp


class FaStrides(ctypes.Structure):
    """The struct of the same name in library.hpp."""

    _fields_ = [(name, ctypes.c_int64) for name in ("batch", "head", "row")]


class FaAttention(ctypes.Structure):
    """The struct of the same name in library.hpp."""

    _fields_ = [
        *(
            (name, ctypes.c_int64)
            for name in (*("batch", "heads", "kv_heads", "seq_q", "seq_k"), *("head_dim", "head_dim_v"))
        ),
        ("dtype", ctypes.c_int32),
        ("causal", ctypes.c_int32),
        ("scale", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in TENSORS),
        ("cache", ctypes.c_void_p),
        ("masks", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        *((f"{name}_strides", FaStrides) for name in STRIDED),
    ]


class FaCache(ctypes.Structure):
    """The struct of the same name in library.hpp."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("key_lengths", "block_table", "k_scale", "v_scale")),
        *(
            (name, ctypes.c_int64)
            for name in ("page_size", "pages", "table_columns", "splits", "workspace_is_zero")
        ),
    ]


class FaMasks(ctypes.Structure):
    """The struct of the same name in library.hpp."""

    _fields_ = [
        *(
            (name, ctypes.c_void_p)
            for name in ("documents", "key_documents", "key_lengths", "block_mask", "alibi_slopes")
        ),
        *((name, ctypes.c_void_p) for name in ("sinks", "dsinks")),
        *((name, ctypes.c_int64) for name in ("heads_of_blocks", "size_of_blocks", "window")),
        *((name, ctypes.c_double) for name in ("softcap", "dropout")),
        ("dropout_seed", ctypes.c_uint64),
    ]


def address(tensor: torch.Tensor | None) -> int | None:
    """Where a tensor begins; null for none."""
    return None if tensor is None else tensor.data_ptr()


def describe(tensors: dict[str, torch.Tensor], causal: bool, scale: float) -> FaAttention:
    """The problem of these tensors: q [batch, heads, seq_q, head_dim], k [batch, kv_heads, seq_k, head_dim],
    v [batch, kv_heads, seq_k, head_dim_v], and others of TENSORS; what else there is is left out. The
    elements of a row must be neighbours; the library refuses other strides that a variant does not take."""
    q, k = tensors["q"], tensors["k"]
    return FaAttention(
        batch=q.shape[0],
        heads=q.shape[1],
        kv_heads=k.shape[1],
        seq_q=q.shape[2],
        seq_k=k.shape[2],
        head_dim=q.shape[3],
        head_dim_v=tensors["v"].shape[3],
        dtype=DTYPES[q.dtype],
        causal=causal,
        scale=scale,
        **{name: tensor.data_ptr() for name, tensor in tensors.items() if name in TENSORS},
        **{
            f"{name}_strides": FaStrides(*tensor.stride()[:3])
            for name, tensor in tensors.items()
            if name in STRIDED
        },
    )


def _failure(library) -> RuntimeError:
    """Why the last call failed: Refused if the variant does not run the problem."""
    reason, text = library.fa_reason(), library.fa_error().decode()
    return Refused(Refusal(Reason(reason), text)) if reason else RuntimeError(text)


class BoundVariant:
    """A variant with its tensors, which must outlive it."""

    def __init__(self, library, variant: str, given: FaAttention):
        self._library = library
        self._bound = library.fa_bind(variant.encode(), ctypes.byref(given))
        if not self._bound:
            raise _failure(library)

    def launch(self, stream: int) -> None:
        """Enqueues the kernels. @param stream  a cudaStream_t"""
        if not self._library.fa_launch(self._bound, stream):
            raise _failure(self._library)

    def __del__(self):
        if getattr(self, "_bound", None):
            self._library.fa_release(self._bound)


class ChapterLibrary:
    """libchNN_name.so. @throws FileNotFoundError, RuntimeError  if it is not built, or not for this package
    or PyTorch
    """

    def __init__(self, chapter: str):
        path = builds.library(chapter)
        how = builds.how_to_build(path, chapter)
        if not path.exists():
            raise FileNotFoundError(builds.missing(path, chapter))
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            if not torch.version.cuda:
                how = "it needs the libraries of a PyTorch with CUDA, and this one is for CPUs"
            raise RuntimeError(f"{path} cannot be loaded ({error}): {how}") from error
        self._declare(path, how)

    def _declare(self, path: Path, how: str) -> None:
        library = self._library
        interface = getattr(library, "fa_interface", lambda: None)()
        if interface != INTERFACE:
            raise RuntimeError(f"{path} was built from other sources: {how}")
        built = library.fa_cuda_version() // 1000
        wanted = torch.version.cuda and int(torch.version.cuda.split(".")[0])
        if wanted and built > 0 and built != wanted:
            raise RuntimeError(
                f"{path} was built with CUDA {built} and PyTorch with CUDA {torch.version.cuda}: with an "
                f"nvcc {wanted}, {how}"
            )
        problem = ctypes.POINTER(FaAttention)
        library.fa_error.restype = ctypes.c_char_p
        library.fa_variants.restype = ctypes.c_char_p
        library.fa_workspace_bytes.restype = ctypes.c_int64
        library.fa_workspace_bytes.argtypes = [ctypes.c_char_p, problem]
        library.fa_bind.restype = ctypes.c_void_p
        library.fa_bind.argtypes = [ctypes.c_char_p, problem]
        library.fa_launch.restype = ctypes.c_bool
        library.fa_launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        library.fa_release.restype = None
        library.fa_release.argtypes = [ctypes.c_void_p]

    def variants(self) -> list[str]:
        """The names of the variants, in the chapter's order."""
        return self._library.fa_variants().decode().split()

    def workspace_bytes(self, variant: str, given: FaAttention) -> int:
        """The bytes that a variant needs in addition to the tensors that are given. @throws Refused"""
        bytes_ = self._library.fa_workspace_bytes(variant.encode(), ctypes.byref(given))
        if bytes_ < 0:
            raise _failure(self._library)
        return bytes_

    def bind(self, variant: str, given: FaAttention) -> BoundVariant:
        """A variant that can be launched. @throws Refused"""
        return BoundVariant(self._library, variant, given)


@functools.cache
def load(chapter: str) -> ChapterLibrary:
    """The library of a chapter, loaded once."""
    return ChapterLibrary(chapter)


@functools.cache
def refusal(
    chapter: str, variant: str, dtype: torch.dtype, head_dim: int, device: torch.device, dense: bool = True
) -> Refusal | None:
    """Why a variant does not run an element type and a head dimension; None if it does.

    @param dense  otherwise: tensors in the order [batch, seq, heads, head_dim]
    """
    lengths = dict.fromkeys(("batch", "heads", "kv_heads", "seq_q", "seq_k"), 2)
    widths = {"head_dim": head_dim, "head_dim_v": head_dim}
    given = FaAttention(**lengths, **widths, dtype=DTYPES[dtype], scale=1.0)
    if not dense:
        given.q = ALIGNMENT  # nothing reads there
        given.q_strides = FaStrides(4 * head_dim, head_dim, 2 * head_dim)
    with torch.cuda.device(device):
        try:
            load(chapter).workspace_bytes(variant, given)
        except Refused as refused:
            return refused.refusal
    return None


def run(
    chapter: str, variant: str, tensors: dict[str, torch.Tensor], causal: bool, scale: float, more=None
) -> None:
    """Enqueues a variant on the current stream of the tensors' device. Its workspace comes from PyTorch's
    allocator.

    @param more  an execution.More, or None
    """
    device = tensors["q"].device
    library = load(chapter)
    with torch.cuda.device(device):
        given = describe(tensors, causal, scale)
        added = more.add_to(given, tensors) if more else None  # stays alive until the launch
        size = library.workspace_bytes(variant, given)
        make = torch.zeros if given.cache else torch.empty  # FaCache.workspace_is_zero
        workspace = make(size, dtype=torch.uint8, device=device)
        given.workspace = workspace.data_ptr() or None
        bound = library.bind(variant, given)
        try:
            bound.launch(torch.cuda.current_stream().cuda_stream)
        except RuntimeError as error:
            raise RuntimeError(f"{chapter}/{variant}: {error}") from None
        del added
