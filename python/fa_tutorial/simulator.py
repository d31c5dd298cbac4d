"""Runs a chapter's program: its kernels in the simulator, on tensors in files. One process per call."""

from __future__ import annotations

import ast
import ctypes
import functools
import json
import struct
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import torch

from . import builds
from .refusal import Reason, Refusal, Refused

DTYPES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
TWO_WAY = ("11", "12")  # chapters whose programs have both passes
MAGIC = b"\x93NUMPY\x01\x00"


# --- .npy files, so that NumPy is not needed ----------------------------------------------------------


def write_npy(path: Path, tensor: torch.Tensor) -> None:
    """Writes a tensor as float32, which is exact for 16 bits, or integers as int32."""
    dtype, name = (torch.float32, "<f4") if tensor.is_floating_point() else (torch.int32, "<i4")
    values = tensor.detach().to(dtype).contiguous()
    header = f"{{'descr': '{name}', 'fortran_order': False, 'shape': {tuple(values.shape)}, }}"
    length = -(len(MAGIC) + 2 + len(header) + 1) % 64 + len(header) + 1
    with path.open("wb") as file:
        file.write(MAGIC + struct.pack("<H", length))
        file.write(header.ljust(length - 1).encode() + b"\n")
        file.write(ctypes.string_at(values.data_ptr(), values.nbytes))


def read_npy(path: Path) -> torch.Tensor:
    """Reads a file that a chapter's program has written."""
    content = bytearray(path.read_bytes())
    start = len(MAGIC) + 2
    (length,) = struct.unpack_from("<H", content, len(MAGIC))
    shape = ast.literal_eval(content[start : start + length].decode())["shape"]
    values = torch.frombuffer(content, dtype=torch.float32, offset=start + length)
    return values.reshape(shape)


# --- the programs -------------------------------------------------------------------------------------


def _execute(chapter: str, options: list[str]) -> subprocess.CompletedProcess:
    path = builds.program(chapter)
    if not path.exists():
        raise FileNotFoundError(builds.missing(path, chapter))
    try:
        return subprocess.run(
            [path, *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        reason, how = error.strerror or error, builds.how_to_build(path, chapter)
        raise RuntimeError(f"{path} cannot be run ({reason}): {how}") from error


@functools.cache
def variants(chapter: str) -> dict[str, str]:
    """The names of the variants and what each is about, in the chapter's order."""
    done = _execute(chapter, ["--list"])
    title, *lines = done.stdout.splitlines() or [""]
    if done.returncode != 0 or not title.startswith(chapter):
        path = builds.program(chapter)
        how = builds.how_to_build(path, chapter)
        raise RuntimeError(f"{path} does not list the variants of {chapter}: {how}")
    words = (line.split(maxsplit=1) for line in lines)
    return {name: summary for name, summary in words}


def _refusal(done: subprocess.CompletedProcess) -> Refusal:
    """What a program says as data, or else in words, which is about its options, the memory or the device."""
    try:
        refused = json.loads(done.stdout)["refused"]
    except (ValueError, KeyError):
        return Refusal(Reason.OTHER, done.stderr.strip().removeprefix("error: "))
    return Refusal(Reason[refused.get("reason", "other").upper()], refused["text"])


def _checked(chapter: str, options: list[str], shown: str) -> subprocess.CompletedProcess:
    """Runs a program. @throws Refused, RuntimeError  if it refuses, or if its kernels are wrong"""
    done = _execute(chapter, [*options, "--json", "-"])
    if done.returncode == 0:
        return done
    if done.returncode in (2, 3):
        raise Refused(_refusal(done))
    if done.returncode < 0:
        raise RuntimeError(f"the program of {shown} ended by signal {-done.returncode}")
    raise RuntimeError(f"the simulator finds a defect in {shown}: ./learn run {chapter[:2]} shows it")


@functools.cache
def refusal(chapter: str, variant: str, dtype: torch.dtype, head_dim: int) -> Refusal | None:
    """Why a variant does not run an element type and a head dimension; found out with one query and one
    key.
    """
    small = ["--batch", "1", "--heads", "1", "--seq-q", "1"]
    small += ["--dtype", DTYPES[dtype], "--head-dim", str(head_dim)]
    options = ["--variant", variant, "--no-check", *small]
    try:
        _checked(chapter, options, f"{chapter[:2]}/{variant}")
    except Refused as refused:
        return refused.refusal
    return None


def run(
    chapter: str,
    variant: str,
    tensors: dict[str, torch.Tensor],
    causal: bool,
    scale: float,
    more: Iterable[tuple[str, object]],
    names: tuple[str, ...],
) -> dict[str, torch.Tensor]:
    """Runs a variant and returns its outputs in float32, by name.

    @param tensors  q, k, v and, for a backward pass, do
    @param more  other options and their values; a tensor is passed in a file
    @param names  of the outputs
    """
    dtype = tensors["q"].dtype
    options = ["--variant", variant, "--no-check", "--dtype", DTYPES[dtype]]
    options += ["--scale", repr(scale)] + (["--causal"] if causal else [])
    options += ["--backward"] if "do" in tensors and chapter[:2] in TWO_WAY else []
    with tempfile.TemporaryDirectory(prefix="fa_tutorial_") as folder:
        outputs = Path(folder) / "out"
        for name, value in (*tensors.items(), *more):
            if isinstance(value, torch.Tensor):
                file = Path(folder) / f"{name}.npy"
                write_npy(file, value)
                value = file
            options += [f"--{name}", str(value)]
        _checked(chapter, [*options, "--out", str(outputs)], f"{chapter[:2]}/{variant}")
        try:
            return {name: read_npy(outputs / f"{name}.npy") for name in names}
        except OSError as error:
            path = builds.program(chapter)
            raise RuntimeError(
                f"{path} wrote no {' and '.join(f'{name}.npy' for name in names)}: "
                f"{builds.how_to_build(path, chapter)}"
            ) from error
