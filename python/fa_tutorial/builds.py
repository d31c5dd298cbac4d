"""Where the chapters' programs and libraries are. Needs nothing but Python: setup.py reads it, too."""

from __future__ import annotations

import os
from pathlib import Path

IN_WHEEL = Path(__file__).resolve().with_name("lib")  # the libraries and library.hpp
SOFTMAX = ("01_safe_softmax", "02_online_softmax")  # whose kernels no operator runs
SEVERAL_GPUS = ("13_ring",)  # whose programs are several processes
EDITABLE = "pip install --editable ./python"


def is_wheel() -> bool:
    """Whether this package brings the kernels, for GPUs, and has no checkout."""
    return IN_WHEEL.is_dir()


def checkout() -> Path:
    """The tree around this file."""
    return Path(__file__).resolve().parents[2]


def build_folder() -> Path:
    """$FA_TUTORIAL_BUILD, or else build/ of the checkout. The presets' folders, sim and cuda, are in it."""
    chosen = os.environ.get("FA_TUTORIAL_BUILD")
    return Path(chosen) if chosen else checkout() / "build"


def libraries() -> Path:
    """The folder of the kernels for GPUs: that of a wheel, unless $FA_TUTORIAL_BUILD names another."""
    if is_wheel() and not os.environ.get("FA_TUTORIAL_BUILD"):
        return IN_WHEEL
    return build_folder() / "cuda" / "lib"


def interface() -> Path:
    """The folder of library.hpp."""
    return IN_WHEEL if is_wheel() else checkout() / "common" / "harness"


def program(chapter: str) -> Path:
    """The chapter's program for the simulator. @param chapter  "07_multi_stage" """
    return build_folder() / "sim" / "bin" / f"ch{chapter}"


def library(chapter: str) -> Path:
    """The chapter's kernels for a GPU."""
    return libraries() / f"libch{chapter}.so"


def chapters() -> list[str]:
    """The folders of all chapters that run on one GPU, or of those in the wheel: "01_safe_softmax", ..."""
    if is_wheel():
        return sorted(path.stem.removeprefix("libch") for path in IN_WHEEL.glob("libch*.so"))
    folders = (path.parent.name for path in checkout().glob("chapters/[0-9][0-9]_*/CMakeLists.txt"))
    return sorted(name for name in folders if name not in SEVERAL_GPUS)


def missing(path: Path, chapter: str) -> str:
    """The sentence for a program or a library that does not exist."""
    if is_wheel() and path.suffix != ".so":
        return (
            f"tensors on the CPU need the simulator, which a wheel does not have: move them to a GPU, or run "
            f"{EDITABLE} in a checkout"
        )
    return f"there is no {path}: {how_to_build(path, chapter)}"


def how_to_build(path: Path, chapter: str) -> str:
    """The end of a sentence about a program or a library that is missing or of no use."""
    if is_wheel():
        return "pip wheel ./python in a checkout builds another one"
    preset = "cuda" if path.suffix == ".so" else "sim"
    target = f"ch{chapter}" + ("_library" if preset == "cuda" else "")
    return (
        f"(cd {checkout()} && cmake --preset {preset} && "
        f"cmake --build --preset {preset} --target {target}) builds it"
    )
