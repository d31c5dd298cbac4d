"""What is in python/, for the benchmarks that train or compile."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import fa_tutorial
from fa_tutorial import native
from training import gpt

__all__ = ["fa_tutorial", "gpt", "native"]
