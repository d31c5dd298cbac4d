"""Programs whose errors are one line each."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def needs_pytorch() -> None:
    """Ends the program with status 3 if PyTorch is not installed."""
    try:
        import torch  # noqa: F401
    except ImportError:
        print(f"{Path(sys.argv[0]).stem}: PyTorch is not installed: pip install torch", file=sys.stderr)
        sys.exit(3)


def at_least(least: int):
    """For argparse: a whole number, not below `least`."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text}: must be a number of {least} or more")
        return value

    return read


class Arguments(argparse.ArgumentParser):
    """argparse with one-line errors."""

    def error(self, message: str):
        self.exit(2, f"{self.prog}: {message} (see --help)\n")
