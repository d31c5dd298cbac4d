"""Runs a variant on tensors: in the simulator if they are on the CPU, on a GPU from a chapter's library."""

from __future__ import annotations

import re
from typing import Protocol

import torch

from . import chapter_library, checks, selection, simulator
from .refusal import Reason, Refusal, Refused


class More(Protocol):
    """What a problem has besides q, k, v, a causal mask and a scale: Masks or Cache."""

    def options(self) -> list[tuple[str, object]]:
        """For a chapter's program: names without "--" and their values; a tensor stands for a file."""

    def add_to(self, given: chapter_library.FaAttention, tensors: dict) -> object:
        """Adds it to the problem of a library with these tensors. The result must outlive the problem."""


def sentence(name: str, refusal: Refusal) -> ValueError:
    """The refusal of a program or a library, with our names instead of its options."""
    text = re.sub(r"--([a-z][a-z-]*)", lambda option: option[1].replace("-", "_"), refusal.text)
    if refusal.reason == Reason.LAYOUT:
        text += ": pass it as .contiguous()"
    return ValueError(f"{name} cannot run this: {text}")


def simulate(
    name: str, tensors: dict, outputs: dict, causal: bool, scale: float, more: More | None = None
) -> None:
    """Fills the outputs in. @param tensors, outputs  by the names of the chapter's problem"""
    chapter, variant = selection.split(name)
    options = more.options() if more else []
    results = simulator.run(chapter, variant, tensors, causal, scale, options, tuple(outputs))
    for output, values in results.items():
        outputs[output].copy_(values)  # exact: rounded already, widened for the file


def launch(
    name: str, tensors: dict, outputs: dict, causal: bool, scale: float, more: More | None = None
) -> None:
    """Fills the outputs in on a GPU, once the current stream gets there."""
    chapter, variant = selection.split(name)
    chapter_library.run(chapter, variant, tensors | outputs, causal, scale, more)


def run(
    name: str, tensors: dict, outputs: dict, causal: bool, scale: float, more: More | None = None
) -> None:
    """Fills the outputs in. @throws ValueError  one sentence, if the variant does not run the problem"""
    run_there = simulate if tensors["q"].device.type == "cpu" else launch
    try:
        run_there(name, tensors, outputs, causal, scale, more)
    except Refused as refused:
        raise sentence(name, refused.refusal) from None


def are_dense(*tensors: torch.Tensor) -> bool:
    return all(tensor.is_contiguous() for tensor in tensors)


def without_sharing(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor, or a dense copy if it is expanded."""
    return tensor.contiguous() if checks.is_expanded(tensor) else tensor


def are_empty(q: torch.Tensor, k: torch.Tensor) -> bool:
    """Whether there is no query or no key, so that no kernel has to run."""
    return q.numel() == 0 or k.numel() == 0


def readable_gradient(do: torch.Tensor, o: torch.Tensor) -> torch.Tensor:
    """The gradient of o, laid out like o. PyTorch makes gradients with any strides, those of o.sum() for
    example: it is copied where the kernels cannot read it."""
    if do.stride() != o.stride() or do.data_ptr() % checks.ALIGNMENT != 0:
        return torch.empty_like(o).copy_(do)
    return do
