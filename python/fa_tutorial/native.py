"""The operators in C++ (cpp/), which cost the host less: python -m fa_tutorial.build_native builds
them.

Without them, the operators in Python run.
"""

from __future__ import annotations

import functools
import sys
from importlib import machinery, util
from pathlib import Path
from types import ModuleType

import torch

from . import builds, chapter_library


def library() -> Path:
    """The file for this Python, this version of PyTorch and this interface of the chapters' libraries."""
    python, interface = sys.implementation.cache_tag, chapter_library.INTERFACE
    name = f"fa_operators-{python}-torch{torch.__version__}-{interface}.so"
    return builds.libraries() / name


@functools.cache
def module() -> ModuleType | None:
    """Loads the operators if they are built and there is a GPU."""
    if not torch.cuda.is_available() or not library().exists():
        return None
    loader = machinery.ExtensionFileLoader("fa_operators", str(library()))
    spec = util.spec_from_loader(loader.name, loader)
    return util.module_from_spec(spec)


def is_loaded() -> bool:
    return module() is not None


def remember(like: torch.Tensor, chosen: str, backward: bool, dense: bool, name: tuple[str, str]) -> None:
    """Lets the operators in C++ run a kernel that has run in Python. @param name  chapter and variant"""
    if like.device.type == "cuda" and is_loaded():
        path = str(builds.library(name[0]))
        torch.ops.fa_tutorial.remember(like, chosen, backward, dense, path, name[1])


def forget() -> None:
    """Every kernel runs in Python first again."""
    if is_loaded():
        torch.ops.fa_tutorial.forget()
