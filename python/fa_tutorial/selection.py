"""Which variants of which chapters the operators run."""

from __future__ import annotations

import functools
from typing import Self

import torch

from . import builds, chapter_library, simulator

# Chapters whose kernels use() does not choose: what they are about.
OTHERS = {"01": "softmax", "02": "softmax", "11": "masks", "12": "large heads", "14": "decoding"}
BACKWARD = ("08", "10")  # chapters about the backward pass
# The last kernels, fastest and with the same bits in every run; by element size in bytes.
DEFAULTS = {
    ("forward", 4): ("05/register_tiled", "05/register_tiled"),
    ("forward", 2): ("07/final", "07/final"),
    ("backward", 4): ("08/fp32_fused", "08/fp32_two_kernels"),
    ("backward", 2): ("08/mma_pipelined", "08/mma_deterministic"),
}
# Those of GPUs of compute capability 9.0, for 16 bits and head dimensions of more than 32.
HOPPER_DEFAULTS = {"forward": ("09/final", "09/final"), "backward": ("10/final", "10/deterministic")}
HOPPER_HEAD_DIMS = range(40, 257, 8)


class Chosen:
    """What use() has chosen; "" is the default. An object, so that torch.compile sees it change."""

    forward = ""
    backward = ""


chosen = Chosen()


def default(direction: str, tensor: torch.Tensor, deterministic: bool = False) -> str:
    """The variant for a tensor where none was chosen.

    @param direction  "forward" or "backward"
    @param deterministic  the same bits in every run, also if PyTorch has not been told so
    """
    names = DEFAULTS[direction, tensor.element_size()]
    if tensor.device.type == "cuda" and tensor.element_size() == 2:
        capability = torch.cuda.get_device_capability(tensor.device)
        if capability == (9, 0) and tensor.shape[-1] in HOPPER_HEAD_DIMS:
            names = HOPPER_DEFAULTS[direction]
    return names[deterministic or torch.are_deterministic_algorithms_enabled()]


def folder_of(number: str) -> str:
    """ "07" -> "07_multi_stage". @throws ValueError  if there is no such chapter"""
    for chapter in builds.chapters():
        if number in (chapter, chapter[:2]):
            return chapter
    known = ", ".join(chapter[:2] for chapter in builds.chapters())
    raise ValueError(f"there is no chapter {number}: the chapters are {known}")


@functools.cache
def split(name: str) -> tuple[str, str]:
    """ "07/final" -> "07_multi_stage", "final"."""
    number, slash, variant = name.partition("/")
    if not slash or not variant:
        raise ValueError(f"{name!r} is not a variant: write CHAPTER/VARIANT, as in '07/final'")
    return folder_of(number), variant


@functools.cache
def variants_of(chapter: str) -> tuple[str, ...]:
    """The variants of a chapter, from its program or its library. @throws FileNotFoundError  if neither is
    built
    """
    if not builds.program(chapter).exists() and builds.library(chapter).exists():
        return tuple(chapter_library.load(chapter).variants())
    return tuple(simulator.variants(chapter))


def variants() -> list[str]:
    """The variants of attention that are built, in the order of the tutorial: "03/three_kernels", ...
    "10/deterministic".
    """
    names = []
    for chapter in builds.chapters():
        built = builds.program(chapter).exists() or builds.library(chapter).exists()
        if built and chapter[:2] not in OTHERS:
            names += [f"{chapter[:2]}/{variant}" for variant in variants_of(chapter)]
    if not names:
        raise FileNotFoundError(
            f"no chapter is built in {builds.build_folder()}: (cd {builds.checkout()} && ./learn run) builds "
            f"all"
        )
    return names


def _validated(name: str) -> tuple[str, str]:
    """The direction and the short name of a variant that exists. @throws ValueError, TypeError"""
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is not a variant: write CHAPTER/VARIANT, as in '07/final'")
    chapter, variant = split(name)
    number = chapter[:2]
    if number in OTHERS:
        raise ValueError(
            f"{name}: chapter {number} is about {OTHERS[number]}, use() chooses among the kernels of 03 to 10"
        )
    known = variants_of(chapter)
    if variant not in known:
        raise ValueError(f"chapter {number} has no variant {variant}: it has {', '.join(known)}")
    direction = "backward" if number in BACKWARD else "forward"
    return direction, f"{number}/{variant}"


class use:
    """Chooses the kernels of the calls that follow. A pass that no name is about gets its default.

        fa_tutorial.use("03/one_pass", "08/fp32_fused")
        fa_tutorial.use()                   # the defaults: the last kernels
        with fa_tutorial.use("07/final"):   # what was chosen before comes back
            ...

    A backward pass runs the kernel that was chosen when its forward pass ran.
    @throws ValueError, FileNotFoundError  if there is no such variant, or if its chapter is not built
    """

    def __init__(self, *names: str):
        wanted: dict[str, str] = {}
        for name in names:
            direction, short = _validated(name)
            if direction in wanted:
                raise ValueError(f"{wanted[direction]} and {short} are both {direction} passes: choose one")
            wanted[direction] = short
        self._before = (chosen.forward, chosen.backward)
        chosen.forward = wanted.get("forward", "")
        chosen.backward = wanted.get("backward", "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        chosen.forward, chosen.backward = self._before
