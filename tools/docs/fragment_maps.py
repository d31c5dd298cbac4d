"""Which lane holds what in chapter 06: the maps of its kernel.cuh, as tools/docs/fragment_maps.cu prints
them, and what follows from such maps.

The notebooks load this file by its path, so it imports nothing but the standard library.
"""

from __future__ import annotations

import collections
import functools
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "fragment_maps"
LANES = range(32)

Place = tuple[int, int]  # row and column of an element
Address = Callable[[int], Place]  # lane -> the element whose address it supplies
Received = dict[tuple[int, int], list[Place]]  # lane, register -> its two elements


class NotBuilt(Exception):
    """The program with the maps cannot run; the text says how to build it."""

    def _render_traceback_(self) -> list[str]:  # in a notebook
        return [f"{type(self).__name__}: {self}"]


_preset = os.environ.get("FA_PRESET", "")
build = ROOT / "build" / (_preset if _preset.startswith("sim") else "sim")


@functools.cache
def _printed(program: Path) -> dict:
    try:
        done = subprocess.run([program], capture_output=True, text=True, check=True)
    except OSError as error:
        raise NotBuilt(
            f"{program} cannot be run ({error.strerror}): "
            f"cmake --build {program.parents[1]} --target {program.name} makes it"
        ) from None
    return json.loads(done.stdout)


def printed(program: str) -> dict:
    """The output of a program of this build."""
    return _printed(build / "bin" / program)


def maps(source: str = "chapter") -> dict:
    """All maps, by name. @param source  "chapter": as written out in chapter 06, or "device": from
    common/device
    """
    return printed(PROGRAM)[source]


def element_of(matrix: str, source: str = "chapter") -> Callable[[int, int], tuple[int, int]]:
    """Lane, number of the element -> row, column of A, B or C."""
    elements = maps(source)[f"element_of_{matrix}"]
    return lambda lane, i: tuple(elements[lane][i])


def row_for(rows: str, source: str = "chapter") -> Address:
    """Lane -> row, column of the element whose address it passes to ldmatrix. @param rows  "row_for_a" or
    "row_for_b"
    """
    places = maps(source)[rows]
    return lambda lane: tuple(places[lane])


def received(address: Address, transposed: bool = False) -> Received:
    """What ldmatrix.x4 gives each lane in each register: the places of two elements of the tile.

    Lanes 8 * i to 8 * i + 7 supply the rows of matrix i, which goes to register i. Lane 4 * g + t receives
    elements 2 * t and 2 * t + 1 of row g of each matrix; of column g if it is transposed.
    """

    def element(matrix: int, row: int, col: int) -> Place:
        at_row, at_col = address(8 * matrix + row)
        return at_row, at_col + col

    places = {}
    for lane in LANES:
        g, pair = lane // 4, (lane % 4 * 2, lane % 4 * 2 + 1)
        for register in range(4):
            places[lane, register] = [
                element(register, at, g) if transposed else element(register, g, at) for at in pair
            ]
    return places


def holders(places: Received) -> Mapping[Place, list[tuple[int, int, int]]]:
    """Which lane, register and half of it hold each element: one, several or none."""
    held = collections.defaultdict(list)
    for (lane, register), pair in places.items():
        for half, place in enumerate(pair):
            held[place].append((lane, register, half))
    return held


def loaded(rows: str) -> dict[tuple[int, int], Place]:
    """What ldmatrix.x4 gives each lane in each register: row and first column of a pair of the 16 x 16 tile.

    @param rows  "row_for_a" or "row_for_b": which lane supplies which address
    """
    return {key: pair[0] for key, pair in received(row_for(rows)).items()}


def layout(name: str, cols: int, source: str = "chapter") -> Callable[[int, int], int]:
    """Row, column -> position of the element, for RowMajor, Padded or Swizzled, in a tile of 64 rows."""
    offsets = maps(source)[name][str(cols)]
    return lambda row, col: offsets[row][col]
