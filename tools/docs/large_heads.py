"""The drawings of chapter 12, made from the sizes of its tiles and from its formula for bytes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

from .drawings import GREY, ON_COLOUR, WARPS, Svg

PANEL = 64  # keys or columns
SLICE = 16  # keys of a slice of V


@dataclass(frozen=True)
class Tiles:
    """How a query tile is divided, as PairTiles in pair_tiles.cuh has it."""

    query_groups: int
    cols: int  # of O, of a warpgroup
    blocks: int = 2
    warpgroups: int = 2

    @property
    def queries(self) -> int:
        return 64 * self.query_groups

    @property
    def sharers(self) -> int:
        return self.warpgroups // self.query_groups

    @property
    def block_keys(self) -> int:
        return PANEL * self.sharers

    @property
    def keys(self) -> int:
        return self.blocks * self.block_keys

    @property
    def block_cols(self) -> int:
        return self.cols * self.sharers

    def parts(self, head_dim_v: int) -> int:
        return math.ceil(head_dim_v / (self.blocks * self.block_cols))


STEPS = {"slices_of_d": Tiles(1, 256, blocks=1, warpgroups=1), "o_shared": Tiles(1, 256, blocks=1)}


def tiles_of(step: str, head_dim: int, head_dim_v: int) -> Tiles:
    """As SlicesOfD, OShared and with_pair_tiles() in pairs.hpp choose them."""
    if step in STEPS:
        return STEPS[step]
    if head_dim <= 640:
        for cols in (64, 128, 256):
            if head_dim_v <= 2 * cols:
                return Tiles(2, cols)
    return Tiles(1, 128 if head_dim_v <= 512 else 256)


def requested(step: str, length: int, head_dim: int, head_dim_v: int = 0) -> int:
    """The bytes of one head in 16 bits, without a mask, that a step reads and writes."""
    head_dim_v = head_dim_v or head_dim
    tiles = tiles_of(step, head_dim, head_dim_v)
    parts, times = tiles.parts(head_dim_v), math.ceil(length / tiles.queries)
    q = tiles.blocks * parts * head_dim
    kv = times * (parts * head_dim + head_dim_v)
    return 2 * length * (q + kv + head_dim_v) + 4 * length


def of_standard(length: int, head_dim: int) -> int:
    """The same of standard attention, whose products read each operand once: chapter 03's `three_kernels`."""
    return 2 * (4 * length * head_dim + 4 * length**2) + 4 * length


# --- who holds what
# ------------------------------------------------------------------------------------------


def scored_by(tiles: Tiles, block: int, key: int) -> int | None:
    """The warpgroup of a block that computes the scores of a key; None if another block does."""
    within = key % tiles.keys - block % tiles.blocks * tiles.block_keys
    if not 0 <= within < tiles.block_keys:
        return None
    return within // PANEL if tiles.sharers > 1 else 0


def shares() -> str:
    """Who computes which scores and has which columns of O, at 1024 columns, in the three steps of the
    lesson.
    """
    svg, width, high = Svg(), 1024, 22
    keys, left, scale = 256, 150, 0.28
    o_left = left + keys * 0.6 + 36
    y = 16
    svg.text(left, y, f"scores of {keys} keys", 12, bold=True)
    svg.text(o_left, y, f"{width} columns of O", 12, bold=True)
    y += 12
    for step in ("slices_of_d", "o_shared", "cluster"):
        tiles = tiles_of(step, width, width)
        blocks = tiles.blocks * tiles.parts(width)
        svg.text(0, y + 16, step, 12, bold=True)
        for block in range(blocks):
            first = block * tiles.warpgroups
            for key in range(0, keys, PANEL):
                who = scored_by(tiles, block, key)
                if who is None:  # the other block of the cluster
                    other = (block + 1) % tiles.blocks
                    number = other * tiles.warpgroups + scored_by(tiles, other, key)
                else:
                    number = first + who
                colour, opacity = WARPS[number], 0.15 if who is None else 0.75
                x = left + key * 0.6
                svg.box(x, y, PANEL * 0.6, high - 4, colour, opacity)
            svg.text(left - 8, y + 13, f"block {block}", 10.5, "end")
            svg.box(o_left, y, width * scale, high - 4)
            for group in range(tiles.warpgroups):
                x = o_left + (block * tiles.block_cols + group * tiles.cols) * scale
                svg.box(x, y, tiles.cols * scale, high - 4, WARPS[first + group], 0.75)
            if block == 0:
                y_of_name = y
            y += high
        times = tiles.parts(width)
        told = "once" if times == 1 else "twice" if times == 2 else f"{times} times"
        svg.text(o_left + width * scale + 12, (y_of_name + y) / 2 + 2, f"S computed {told}", 11.5)
        y += 20
    svg.text(left, y, "A colour is a warpgroup. Pale: P that the other block of the cluster has sent.", 11)
    svg.width = o_left + width * scale + 12 + 120
    return svg.render("Who computes which scores and has which columns of O")


def order_of_values(tiles: Tiles, block: int) -> list[int]:
    """The first keys of the slices of V, in the order of load_v()."""
    return [(block * tiles.block_keys + key) % tiles.keys for key in range(0, tiles.keys, SLICE)]


def exchange() -> str:
    """P of a tile in the two blocks of a cluster, and the order in which each multiplies it."""
    tiles = tiles_of("cluster", 1024, 1024)
    svg, side, gap = Svg(), 62, 10
    block_width = 4 * side + 3 * gap
    for block in range(2):
        x = block * (block_width + 76)
        svg.text(x, 14, f"block {block}", 13, bold=True)
        svg.text(x, 32, "p: 64 queries, 64 keys each", 11)
        for panel in range(4):
            of_block = panel // tiles.sharers
            left = x + panel * (side + gap)
            own = of_block == block
            svg.box(left, 42, side, 44, WARPS[panel], 1 if own else 0.15)
            svg.text(
                left + side / 2,
                68,
                f"p[{of_block}][{panel % 2}]",
                11,
                "middle",
                colour=ON_COLOUR if own else "",
            )
            svg.text(left + side / 2, 101, "computed" if own else "received", 10, "middle")
        svg.text(x, 128, "slices of V, in the order of the products:", 11)
        wide = block_width / (tiles.keys // SLICE)
        for number, key in enumerate(order_of_values(tiles, block)):
            left = x + number * wide
            panel = key // PANEL
            own = panel // tiles.sharers == block
            svg.box(left, 136, wide, 22, WARPS[panel], 1 if own else 0.15)
        half = tiles.keys // 2
        first, second = (0, half) if block == 0 else (half, 0)
        svg.text(x + block_width / 4, 174, f"keys {first} to {first + half - 1}", 10, "middle")
        svg.text(x + 3 * block_width / 4, 174, f"keys {second} to {second + half - 1}", 10, "middle")
    middle = block_width + 38
    arrow(svg, middle - 28, middle + 28, 56, GREY)
    arrow(svg, middle + 28, middle - 28, 74, GREY)
    svg.text(middle, 94, "2 x 8 KiB", 10, "middle")
    svg.text(middle, 107, "each way", 10, "middle")
    return svg.render("P of a tile in the two blocks of a cluster")


def arrow(svg: Svg, x1: float, x2: float, y: float, colour: str) -> None:
    """A horizontal line with a head at x2."""
    back = -6 if x2 > x1 else 6
    svg.segment(x1, y, x2, y, colour, 1.4)
    svg.segment(x2, y, x2 + back, y - 4, colour, 1.4)
    svg.segment(x2, y, x2 + back, y + 4, colour, 1.4)


def copies_of_rows() -> str:
    """Why two copies of `rows` are enough: two warpgroups over three tiles, of which one is late."""
    svg, left, high, unit = Svg(), 108, 24, 56
    early = ((0, "write", 0), (1.5, "read", 0), (2.5, "write", 1), (5, "read", 1), (6, "write", 0))
    late = ((0.5, "write", 0), (2.5, "read", 0), (4, "write", 1), (5.5, "read", 1), (6.5, "write", 0))
    tops = (26, 96)
    svg.text(left, 12, "time", 11)
    arrow(svg, left + 34, left + 7.6 * unit, 8, GREY)
    for name, top, steps in (("warpgroup A", tops[0], early), ("warpgroup B", tops[1], late)):
        svg.text(left - 10, top + 16, name, 12, "end", bold=True)
        for begin, what, copy in steps:
            x = left + begin * unit
            svg.box(x, top, 0.9 * unit, high, WARPS[copy])
            svg.text(x + 0.45 * unit, top + 16, f"{what} {copy}", 11, "middle", colour=ON_COLOUR)
    of_b = left + 4 * unit + 0.45 * unit
    svg.segment(of_b, tops[1], of_b, tops[0] + 14, GREY, 1.4)
    arrow(svg, of_b, left + 5 * unit - 2, tops[0] + 14, GREY)
    svg.text(of_b - 8, 68, "A waits at rows_full for the numbers of B", 11, "end")
    y = tops[1] + high + 20
    for line in (
        "A writes copy 0 again after it has read copy 1, and that holds what B has written.",
        "B wrote copy 1 after it had read copy 0. By then, no warpgroup reads copy 0.",
    ):
        svg.text(0, y, line, 11)
        y += 16
    svg.width = max(svg.width, left + 7.7 * unit)
    return svg.render("The two copies of rows, written and read by two warpgroups")


STEPS_OF_TILE = (  # of a warpgroup: what it does, and the barrier that it waits at before
    ("S of its own keys", ""),
    ("sends its maxima to all", ""),
    ("m of all, then P", "rows_full"),
    ("stores and sends P", "p_free"),
    ("multiplies own P", ""),
    ("multiplies received P", "p_full"),
    ("has read all of P", ""),
)
SIGNALS = (  # after which of these steps, what goes to the other block, and at which barrier it counts there
    (1, "64 floats each: st_async", "bytes at rows_full"),
    (3, "8 KiB of P each: bulk_copy_cluster", "bytes at p_full"),
    (6, "relaxed arrival of each warp", "counts at p_free"),
)


def signals() -> str:
    """Which signals the blocks of a pair exchange in one tile, and what each waits for."""
    svg, left, wide, high, gap, between = Svg(), 130, 150, 26, 14, 190
    right = left + wide + between
    for x, name in ((left, "block 0"), (right, "block 1")):
        svg.text(x, 14, name, 13, bold=True)
    for number, (what, awaited) in enumerate(STEPS_OF_TILE):
        y = 24 + number * (high + gap)
        for block, x in enumerate((left, right)):
            svg.box(x, y, wide, high, WARPS[block])
            svg.text(x + wide / 2, y + 17, what, 11, "middle", colour=ON_COLOUR)
        if awaited:
            svg.text(left - 8, y + 17, f"waits at {awaited}", 11, "end")
            svg.text(right + wide + 8, y + 17, f"waits at {awaited}", 11)
    for number, what, how in SIGNALS:
        y = 24 + number * (high + gap) + high / 2
        arrow(svg, left + wide + 4, right - 6, y - 4, WARPS[0])
        arrow(svg, right - 4, left + wide + 6, y + 4, WARPS[1])
        svg.text(left + wide + between / 2, y - 10, what, 11, "middle")
        svg.text(left + wide + between / 2, y + 19, how, 11, "middle")
    y = 24 + len(STEPS_OF_TILE) * (high + gap) + 16
    svg.text(
        0,
        y,
        "An arrow ends in the block whose barrier counts it. Each block waits at its own barriers. rows_full",
        11,
    )
    svg.text(
        0,
        y + 15,
        "and p_free also count what the block's own warpgroups send. p_free is awaited in the next tile.",
        11,
    )
    svg.width = right + wide + 110
    return svg.render("What the two blocks of a pair signal to each other in one tile")


# --- bytes
# ----------------------------------------------------------------------------------------------------

WIDTHS = (64, 128, 256, 512, 1024)


def ratio(length: int, head_dim: int) -> float:
    """Bytes of `cluster` for each byte of standard attention."""
    return requested("cluster", length, head_dim) / of_standard(length, head_dim)


def requested_bytes() -> str:
    """Bytes of `cluster` relative to standard attention, against the length, for several widths."""
    svg, left, top, wide, high = Svg(), 46, 26, 440, 250
    lengths = [2**k for k in range(4, 14)]
    low, most = -3, 3  # powers of 2

    def x_of(length):
        return left + wide * (math.log2(length) - 4) / 9

    def y_of(value):
        return top + high * (most - math.log2(value)) / (most - low)

    svg.text(0, 14, "bytes of cluster / bytes of standard attention", 12, bold=True)
    for power in range(low, most + 1):
        y = y_of(2.0**power)
        svg.segment(left, y, left + wide, y, GREY, 1.2 if power == 0 else 0.3)
        svg.text(left - 6, y + 4, f"{2.0**power:g}", 10.5, "end")
    for length in lengths:
        svg.text(x_of(length), top + high + 16, f"{length:,}", 10, "middle")
    svg.text(left + wide / 2, top + high + 34, "N, queries and keys", 11, "middle")
    colours = (*WARPS, GREY)
    for head_dim, colour in zip(WIDTHS, colours, strict=True):
        points = [(x_of(n), y_of(ratio(n, head_dim))) for n in lengths]
        for (x1, y1), (x2, y2) in itertools.pairwise(points):
            svg.segment(x1, y1, x2, y2, colour, 2)
        x, y = points[-1]
        svg.text(x + 8, y + 4, f"d = {head_dim}", 11)
    svg.width = max(svg.width, left + wide + 70)
    return svg.render("Bytes of cluster relative to standard attention")


DRAWINGS: dict[str, Callable[[], str]] = {
    "shares_of_o": shares,
    "exchange": exchange,
    "copies_of_rows": copies_of_rows,
    "signals": signals,
    "requested_bytes": requested_bytes,
}
