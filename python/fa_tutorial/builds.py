"""Where the chapters' programs and libraries are."""

from __future__ import annotations

import os
from pathlib import Path


def checkout() -> Path:
    """The tree that the kernels belong to: around this file, or the one that the package was installed
    from.
    """
    around = Path(__file__).resolve().parents[2]
    if (around / "chapters").is_dir():
        return around
    from ._checkout import ROOT  # written by setup.py

    return Path(ROOT)


def build_folder() -> Path:
    """$FA_TUTORIAL_BUILD, or else build/ of the checkout. The presets' folders, sim and cuda, are in it."""
    chosen = os.environ.get("FA_TUTORIAL_BUILD")
    return Path(chosen) if chosen else checkout() / "build"


def program(chapter: str) -> Path:
    """The chapter's program for the simulator. @param chapter  "07_multi_stage" """
    return build_folder() / "sim" / "bin" / f"ch{chapter}"


def library(chapter: str) -> Path:
    """The chapter's kernels for a GPU."""
    return build_folder() / "cuda" / "lib" / f"libch{chapter}.so"


SEVERAL_GPUS = ("13_ring",)  # whose programs are several processes


def chapters() -> list[str]:
    """The folders of all chapters that run on one GPU: "01_safe_softmax", ..."""
    return sorted(
        path.parent.name
        for path in checkout().glob("chapters/[0-9][0-9]_*/CMakeLists.txt")
        if path.parent.name not in SEVERAL_GPUS
    )


def how_to_build(path: Path, chapter: str) -> str:
    """The sentence for a program or a library that does not exist or is of no use."""
    preset = "cuda" if path.suffix == ".so" else "sim"
    target = f"ch{chapter}" + ("_library" if preset == "cuda" else "")
    return (
        f"(cd {checkout()} && cmake --preset {preset} && "
        f"cmake --build --preset {preset} --target {target}) builds it"
    )
