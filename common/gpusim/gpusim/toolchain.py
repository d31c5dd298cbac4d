"""The compiler, its options, and the simulator's library: what CMake has written into toolchain.json."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from .errors import SimError


@dataclass(frozen=True)
class Toolchain:
    compiler: str
    check: list[str]  # the command that compiles sources with kernels, without the compiler
    options: list[str]  # for those
    root: str  # where "gpusim/gpusim.hpp" is found
    system: list[str]  # folders with the simulator's <cuda_runtime.h> and the like
    libraries: list[str]


def load(path: Path | None = None) -> Toolchain:
    """The toolchain of a build. @param path  default: $GPUSIM_TOOLCHAIN, or the one next to this package"""
    path = path or Path(os.environ.get("GPUSIM_TOOLCHAIN") or Path(__file__).with_name("toolchain.json"))
    try:
        text = path.read_text(encoding="utf-8").replace("${here}", str(path.parent))  # in a wheel
        return Toolchain(**json.loads(text))
    except (OSError, ValueError, TypeError) as error:
        raise SimError(f"gpusim is not built: {path} cannot be read ({error})") from error
