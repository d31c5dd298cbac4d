"""Which lane holds what in chapter 06: the maps of its kernel.cuh, as tools/docs/fragment_maps.cu prints them.

The notebooks load this file by its path, so it imports nothing but the standard library.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "fragment_maps"
LANES = range(32)


class NotBuilt(Exception):
    """The program with the maps cannot run; the text says how to build it."""

    def _render_traceback_(self) -> list[str]:  # in a notebook
        return [f"{type(self).__name__}: {self}"]


_preset = os.environ.get("FA_PRESET", "")
build = ROOT / "build" / (_preset if _preset.startswith("sim") else "sim")


@functools.cache
def _printed(folder: Path) -> dict:
    """The output of this build's program."""
    try:
        done = subprocess.run(
            [folder / "bin" / PROGRAM], capture_output=True, text=True, check=True
        )
    except OSError as error:
        raise NotBuilt(
            f"{folder / 'bin' / PROGRAM} cannot be run ({error.strerror}): "
            f"cmake --build {folder} --target {PROGRAM} makes it"
        ) from None
    return json.loads(done.stdout)


def maps(source: str = "chapter") -> dict:
    """All maps, by name. @param source  "chapter": as written out in chapter 06, or "device": from common/device"""
    return _printed(build)[source]


def element_of(
    matrix: str, source: str = "chapter"
) -> Callable[[int, int], tuple[int, int]]:
    """Lane, number of the element -> row, column of A, B or C."""
    elements = maps(source)[f"element_of_{matrix}"]
    return lambda lane, i: tuple(elements[lane][i])


def row_for(rows: str, source: str = "chapter") -> Callable[[int], tuple[int, int]]:
    """Lane -> row, column of the element whose address it passes to ldmatrix. @param rows  "row_for_a" or "row_for_b" """
    places = maps(source)[rows]
    return lambda lane: tuple(places[lane])


def loaded(rows: str) -> dict[tuple[int, int], tuple[int, int]]:
    """What ldmatrix.x4 gives each lane in each register: row and first column of a pair of the 16 x 16 tile.

    @param rows  "row_for_a" or "row_for_b": which lane supplies which address
    """
    address = row_for(rows)
    places = {}
    for lane in LANES:
        for register in range(4):
            row, col = address(8 * register + lane // 4)
            places[lane, register] = (row, col + lane % 4 * 2)
    return places


def layout(name: str, cols: int, source: str = "chapter") -> Callable[[int, int], int]:
    """Row, column -> position of the element, for RowMajor, Padded or Swizzled, in a tile of 64 rows."""
    offsets = maps(source)[name][str(cols)]
    return lambda row, col: offsets[row][col]
