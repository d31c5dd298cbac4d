"""The drawings of the lessons, made from the mappings that the kernels use. The grey of text and lines is
readable on white and on black.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
GREY = "#7d8590"
WARPS = ("#3b82f6", "#f97316", "#22a06b", "#a855f7")
ON_COLOUR = "#000000"  # has a contrast of at least 4.5 on each of WARPS
SECTOR = 8  # floats in a sector of 32 bytes


class Svg:
    """An SVG file under construction."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.width = self.height = 0.0

    def _reach(self, x: float, y: float) -> None:
        self.width, self.height = max(self.width, x), max(self.height, y)

    def box(self, x, y, width, height, fill="none", opacity=1.0, line=GREY, thick=0.4):
        """A rectangle. @param line  colour of its border"""
        self._reach(x + width, y + height)
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" '
            f'fill-opacity="{opacity:g}" stroke="{line}" stroke-width="{thick:g}"/>'
        )

    def segment(self, x1, y1, x2, y2, colour=GREY, thick=0.8):
        """A straight line."""
        self._reach(max(x1, x2), max(y1, y2))
        self.parts.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" '
            f'stroke-width="{thick:g}"/>'
        )

    def text(self, x, y, text, size=12, anchor="start", bold=False, colour=""):
        """A line of text. @param y  its base line"""
        self._reach(x, y + size / 3)
        weight = ' font-weight="bold"' if bold else ""
        weight += f' fill="{colour}"' if colour else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}"{weight}>'
            f"{escape(text)}</text>"
        )

    def render(self, title: str) -> str:
        """The text of the file."""
        width, height = f"{self.width + 8:g}", f"{self.height + 6:g}"
        start = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-family="sans-serif" fill="{GREY}" role="img">'
        )
        lines = [start, f"<title>{escape(title)}</title>", *self.parts, "</svg>"]
        return "\n".join(lines) + "\n"


# --- chapter 01 -----------------------------------------------------------------------------------


Mapping = Callable[[int], tuple[int, int]]  # thread -> (row, column) of its first step


def _sectors_of_warp(where: Mapping) -> int:
    """How many sectors warp 0 needs for one step, if every row begins at a sector."""
    return len({(row, col // SECTOR) for row, col in map(where, range(32))})


def _first_step(svg, x, y, cell, rows, cols, where: Mapping, threads):
    """Part of the matrix, and what the threads of a block read in the first step of a pass."""
    asked = {where(thread): WARPS[thread // 32] for thread in range(threads)}
    brought = {(r, c // SECTOR): colour for (r, c), colour in asked.items()}
    for row in range(rows):
        for sector in range(cols // SECTOR):
            left = x + sector * SECTOR * cell
            colour = brought.get((row, sector))
            svg.box(left, y + row * cell, SECTOR * cell, cell, colour or "none", 0.28)
            for col in range(sector * SECTOR, (sector + 1) * SECTOR):
                if (row, col) in asked:
                    svg.box(x + col * cell, y + row * cell, cell, cell, asked[row, col])


def mappings() -> str:
    """What one warp reads in one step, for the three mappings of chapter 01."""
    svg, cell = Svg(), 6
    top = 34

    svg.text(0, 12, "row_per_thread", bold=True)
    svg.text(0, 27, "thread t: row t, column 0", 11)

    def per_thread(thread: int) -> tuple[int, int]:
        return thread, 0

    def per_warp(thread: int) -> tuple[int, int]:
        return thread // 32, thread % 32

    def per_block(thread: int) -> tuple[int, int]:
        return 0, thread

    # 32 of the block's 128 rows: those of warp 0.
    _first_step(svg, 0, top, cell, 32, 3 * SECTOR, per_thread, 32)
    count = _sectors_of_warp(per_thread)
    svg.text(0, top + 32 * cell + 16, f"the rows of warp 0: {count} sectors", 11)

    right, shown = 200, 17 * SECTOR
    svg.text(right, 12, "row_per_warp", bold=True)
    count = _sectors_of_warp(per_warp)
    svg.text(right, 27, f"thread t: row t / 32, column t % 32. A warp: {count} sectors", 11)
    _first_step(svg, right, top, cell, 6, shown, per_warp, 128)

    second = top + 6 * cell + 44
    svg.text(right, second - 22, "row_per_block", bold=True)
    count = _sectors_of_warp(per_block)
    svg.text(right, second - 7, f"thread t: row 0, column t. A warp: {count} sectors", 11)
    _first_step(svg, right, second, cell, 6, shown, per_block, 128)

    legend = top + 32 * cell - 16
    x = right
    for warp, colour in enumerate(WARPS):
        svg.box(x, legend - 9, 10, 10, colour)
        svg.text(x + 15, legend, f"warp {warp}", 11)
        x += 66
    svg.box(x, legend - 9, 80, 10, WARPS[0], 0.28)
    svg.box(x, legend - 9, 10, 10, WARPS[0])
    svg.text(x + 87, legend, "requested, and what comes with it in the same", 11)
    svg.text(x + 87, legend + 15, "sector: 8 columns, 32 bytes", 11)
    return svg.render("Which columns a block reads in the first step of a pass")


def butterfly_steps(values: list[int]) -> list[tuple[int, list[int]]]:
    """The steps of warp_max() with as many lanes as there are values: (mask, what each lane has then)."""
    steps, mask = [], len(values) // 2
    while mask:
        values = [max(v, values[lane ^ mask]) for lane, v in enumerate(values)]
        steps.append((mask, values))
        mask //= 2
    return steps


def butterfly() -> str:
    """warp_max() with eight lanes instead of 32."""
    values, lane, bits = [3, 1, 4, 1, 5, 9, 2, 6], 2, 3
    left, pitch, width, height, between = 96, 62, 40, 24, 40
    svg = Svg()

    def middle(number: int) -> float:
        return left + number * pitch + width / 2

    svg.text(0, 12, "lane", 12, bold=True)
    for number in range(len(values)):
        svg.text(middle(number), 12, f"{number:0{bits}b}", 12, "middle")
    x = left + len(values) * pitch + 4
    svg.text(x, 12, f"lane {lane:0{bits}b} has the maximum of", 11)
    used, y = 0, 24
    for mask, now in [(0, values), *butterfly_steps(values)]:
        used |= mask
        if mask:
            for number in range(len(values)):
                for source in (number, number ^ mask):
                    mine = number & ~used == lane & ~used
                    svg.segment(
                        middle(source),
                        y - between,
                        middle(number),
                        y,
                        WARPS[1] if mine else GREY,
                        1.4 if mine else 0.6,
                    )
            svg.text(0, y + 16, f"mask {mask:0{bits}b}", 12, bold=True)
        else:
            svg.text(0, y + 16, "before", 12, bold=True)
        group = []
        for number, value in enumerate(now):
            # Those that differ from the lane at most in the bits used so far.
            mine = number & ~used == lane & ~used
            group += [f"{number:0{bits}b}"] * mine
            x = middle(number) - width / 2
            svg.box(x, y, width, height, WARPS[1] if mine else "none", 0.35)
            svg.text(x + width / 2, y + 16, str(value), 12, "middle", bold=mine)
        x = left + len(values) * pitch + 4
        covers = ", ".join(group) if len(group) < len(values) else "all eight lanes"
        svg.text(x, y + 16, covers, 11)
        y += height + between
    y += height - between - 4
    note = f"Orange: the lanes that differ from lane {lane:0{bits}b} at most in the bits used so far. Each holds the maximum of all of them."  # noqa: E501
    svg.text(0, y, note, 12)
    svg.width = max(svg.width, left + len(values) * pitch + 170)  # texts do not count
    return svg.render("warp_max with eight lanes")


# --- chapter 02 -----------------------------------------------------------------------------------


def lead() -> str:
    """Which float4s the kernels of chapter 02 load of rows of 7 columns, and how."""
    rows, cols, cell, left, top = 4, 7, 24, 110, 34
    svg = Svg()
    for start in range(0, rows * cols + 1, 4):
        x = left + start * cell
        svg.text(x, 12, str(4 * start), 11, "middle")
        svg.segment(x, 18, x, top + rows * (cell + 26) - 8, thick=0.6)
    svg.text(0, 12, "address in bytes", 11)
    for row in range(rows):
        first = row * cols
        lead = first % 4
        y = top + row * (cell + 26) + 8
        svg.text(0, y + 11, f"row {row}", 13, bold=True)
        svg.text(0, y + 25, f"lead = {lead}", 12)
        for lane in range((lead + cols + 3) // 4):
            col = 4 * lane - lead
            whole = 0 <= col and col + 4 <= cols
            x = left + (first + col) * cell
            for c in range(col, col + 4):
                inside = 0 <= c < cols
                colour = WARPS[2 if whole else 1] if inside else "none"
                svg.box(x + (c - col) * cell, y, cell, cell, colour, 0.35)
                if inside:
                    svg.text(x + (c - col + 0.5) * cell, y + 16, str(c), 10, "middle")
            svg.box(x, y, 4 * cell, cell, thick=1.6)
            svg.text(x + 2 * cell, y + cell + 11, f"lane {lane}", 10, "middle")
    y = top + rows * (cell + 26) + 12
    for colour, words in (
        (WARPS[2], "all four columns are in the row: one load of 16 bytes"),
        (WARPS[1], "at an end of the row: each column is loaded by itself"),
        ("none", "in the same 16 bytes, but in another row: never read"),
    ):
        svg.box(left, y - 9, 10, 10, colour, 0.35)
        svg.text(left + 16, y, words, 11)
        y += 17
    svg.width += 12  # texts do not count
    return svg.render("Rows of 7 columns, and multiples of 16 bytes")


def on_chip() -> str:
    """Where on_chip keeps the columns of a row. There are only a few threads, so that they fit the
    drawing.
    """
    threads, in_registers_each, in_shared_each = 8, 2, 1
    cols, lead = 115, 3
    # The kernel's own variables: step, and the first columns of thread 0 in shared memory and in the rest.
    step = 4 * threads
    in_shared = in_registers_each * step - lead
    in_rest = in_shared + in_shared_each * step

    def kept(col: int) -> tuple[str, str]:
        if col < in_shared:
            return f"rX[{(col + lead) // step}]", WARPS[0]
        if col < in_rest:
            return f"sX[{(col - in_shared) // step}]", WARPS[2]
        return "read again", WARPS[1]

    svg, cell, label = Svg(), 24, 86
    for thread in range(threads):
        svg.text(label + (4 * thread + 2) * cell, 14, f"thread {thread}", 11, "middle")
    top = 22
    order = ("third", "third", "second", "first")  # of the loads of pass 1
    svg.text(label + step * cell + 12, 14, "pass 1 loads it", 11)
    for row in range(-(-(cols + lead) // step)):
        y = top + row * (cell + 5)
        svg.text(label + step * cell + 12, y + 16, order[row], 12)
        svg.text(0, y + 16, kept(row * step)[0], 13, bold=True)
        for slot in range(step):
            col = row * step + slot - lead
            inside = 0 <= col < cols
            colour = kept(col)[1] if inside else "none"
            svg.box(label + slot * cell, y, cell, cell, colour, 0.35)
            if inside:
                svg.text(label + (slot + 0.5) * cell, y + 16, str(col), 10, "middle")
        for thread in range(threads):
            svg.box(label + 4 * thread * cell, y, 4 * cell, cell, thick=1.6)
    y += cell + 20
    note = f"A row of {cols} columns that begins {lead} columns after a multiple of 16 bytes."
    svg.text(label, y, note, 12)
    note = (
        "Each frame is a float4: 16 aligned bytes, one load. Empty cells belong to the rows before and after."
    )
    svg.text(label, y + 17, note, 12)
    svg.width = max(svg.width, label + step * cell + 100)  # texts do not count
    return svg.render("Where on_chip keeps the columns of a row")


# --- chapter 03 -----------------------------------------------------------------------------------


def lanes() -> str:
    """The columns of a query, a key, a value and an output that one lane of chapter 03 works on."""
    head_dim, lane, cell, label = 64, 5, 11, 150
    svg = Svg()
    rows = (
        ("q, in registers", "loaded once", 0.28),
        ("key j, from HBM", "read, then discarded", 0.1),
        ("value j, from HBM", "read, then discarded", 0.1),
        ("o, in registers", "stored at the end", 0.28),
    )
    for group in range(head_dim // 32):
        x = label + group * (32 * cell + 10)
        text = f"c = {group}: columns {32 * group} .. {32 * group + 31}, 128 bytes"
        svg.text(x + 16 * cell, 12, text, 11, "middle")
    for number, (name, when, shade) in enumerate(rows):
        y = 22 + number * (cell + 21)
        svg.text(0, y + 6, name, 12, bold=True)
        svg.text(0, y + 20, when, 11)
        for col in range(head_dim):
            x = label + col * cell + col // 32 * 10
            mine = col % 32 == lane
            colour = WARPS[1] if mine else WARPS[0]
            svg.box(x, y, cell, cell + 8, colour, 0.9 if mine else shade)
    y += cell + 28
    note = f"lane {lane} owns columns {lane} and {lane + 32} of each row. Every lane holds m and l."
    svg.box(label, y - 9, 10, 10, WARPS[1], 0.9)
    svg.text(label + 16, y, note, 11)
    return svg.render("The columns that one lane works on")


def keys_seen(query: int, seq_q: int, seq_k: int) -> int:
    """How many keys a query sees under a causal mask: Attention::visible_keys()."""
    return max(0, seq_k - (seq_q - 1 - query))


def causal() -> str:
    """The keys that each query sees under a causal mask, for equal and unequal lengths."""
    svg, cell, top, x = Svg(), 24, 48, 16
    for seq_q, seq_k, words in (
        (4, 4, "as many queries as keys"),
        (3, 6, "fewer queries than keys"),
        (6, 4, "more queries than keys"),
    ):
        svg.text(x, 14, words, bold=True)
        left = x + 60
        for key in range(seq_k):
            svg.text(left + (key + 0.5) * cell - 1, top - 7, f"k{key}", 11, "middle")
        for query in range(seq_q):
            y = top + query * cell
            seen = keys_seen(query, seq_q, seq_k)
            svg.text(left - 8, y + 15, f"q{query}", 11, "end")
            for key in range(seq_k):
                fill = WARPS[2] if key < seen else "none"
                svg.box(left + key * cell, y, cell - 3, cell - 3, fill, 0.45)
            words = f"sees {seen}" if seen else "sees none: O = 0"
            svg.text(left + seq_k * cell + 6, y + 15, words, 11)
        x = left + seq_k * cell + 88
    x, y = 76, top + 6 * cell - 2
    svg.box(x, y - 9, 10, 10, WARPS[2], 0.45)
    note = "the query sees the key. The last query always sees every key."
    svg.text(x + 16, y, note, 11)
    svg.width += 110  # texts do not count
    return svg.render("A causal mask for equal and unequal lengths")


# --- chapter 04 -----------------------------------------------------------------------------------


def tile_order() -> str:
    """The order in which chapter 04 processes pairs of tiles, under a causal mask."""
    tiles, cell, left, top = 4, 46, 150, 40
    svg = Svg()
    for key_tile in range(tiles):
        x = left + key_tile * cell
        svg.box(x, top - 16, cell - 3, 12, WARPS[0], 0.28)
        svg.text(x + cell / 2, top - 21, f"K, V {key_tile}", 11, "middle")
    order = 0
    for key_tile in range(tiles):
        for query_tile in range(tiles):
            x, y = left + key_tile * cell, top + query_tile * cell
            # The first key tile meets every query tile, later ones those from the diagonal on.
            processed = query_tile >= key_tile
            fill = WARPS[2] if processed else "none"
            svg.box(x, y, cell - 3, cell - 3, fill, 0.28)
            if processed:
                order += 1
                svg.text(x + cell / 2, y + cell / 2 + 3, str(order), 14, "middle")
    for query_tile in range(tiles):
        y = top + query_tile * cell
        svg.box(left - 20, y, 12, cell - 3, WARPS[1], 0.28)
        svg.text(left - 26, y + 18, f"Q, O, m, l {query_tile}", 11, "end")
        count = query_tile + 1
        pairs = f"in {count} pair{'s' if count > 1 else ''}"
        svg.text(left - 26, y + 33, pairs, 11, "end")
    x, y = left + tiles * cell + 16, top + 14
    for colour, words in (
        (WARPS[0], "loaded once, stays on the chip for a whole column"),
        (WARPS[1], "loaded for each pair: Q is read; O, m, l are read and written"),
        (WARPS[2], "a pair of tiles, numbered in the order of processing"),
    ):
        svg.box(x, y - 9, 10, 10, colour, 0.28)
        svg.text(x + 16, y, words, 11)
        y += 20
    svg.text(x, y + 6, "empty: skipped, the causal mask hides every score in it", 11)
    svg.width = x + 400  # texts do not count
    return svg.render("The order in which pairs of tiles are processed")


def block_sizes() -> str:
    """HBM bytes and time of chapter 04 against the key tile, as measured."""
    measured = json.loads((RESULTS / "attention_h100.json").read_text())["block_sizes"]
    rows, length, height = measured["variants"], 190, 22
    svg = Svg()
    panels = (("bytes", 1e9, "GB requested from HBM", WARPS[0]), ("median_ms", 1.0, "ms", WARPS[1]))
    for panel, (key, unit, title, colour) in enumerate(panels):
        left = 110 + panel * (length + 90)
        svg.text(left, 14, title, 12, bold=True)
        longest = max(row[key] for row in rows)
        for number, row in enumerate(rows):
            y = 24 + number * (height + 6)
            width = length * row[key] / longest
            svg.box(left, y, width, height, colour, 0.5)
            svg.text(left + width + 6, y + 15, f"{row[key] / unit:.2f}", 12)
    for number, row in enumerate(rows):
        svg.text(102, 39 + number * (height + 6), row["variant"], 12, "end")
    svg.width = 110 + 2 * (length + 90)  # texts do not count
    return svg.render("HBM bytes and time by size of the key tile")


# --- chapter 05 -----------------------------------------------------------------------------------


def shares() -> str:
    """Which share of the scores and of O each of two warps has, in sliced_k and in sliced_q."""
    svg, cell = Svg(), 3
    rows, keys, cols, gap = 32, 64, 64, 44

    def tile(x, y, width, parts, text):
        for warp, (left, top, right, bottom) in parts:
            w, h = (right - left) * cell, (bottom - top) * cell
            svg.box(x + left * cell, y + top * cell, w, h, WARPS[warp], 0.28)
        svg.box(x, y, width * cell, rows * cell)
        svg.text(x + width * cell / 2, y - 6, text, 11, "middle")

    for number, name in enumerate(("sliced_k", "sliced_q")):
        x, y = number * (keys + cols + 2 * gap) * cell / 1.3, 40
        svg.text(x, 12, name, bold=True)
        if name == "sliced_k":
            scores = [(0, (0, 0, keys // 2, rows)), (1, (keys // 2, 0, keys, rows))]
            shift = 8
            svg.text(x, y + rows * cell + 18, "Both warps work on every row.", 11)
            svg.text(x, y + rows * cell + 34, "Each has a sum for all of O.", 11)
        else:
            scores = [(0, (0, 0, keys, rows // 2)), (1, (0, rows // 2, keys, rows))]
            shift = 0
            svg.text(x, y + rows * cell + 18, "Each row belongs to one warp.", 11)
            svg.text(x, y + rows * cell + 34, "Each warp has half of O.", 11)
        tile(x, y, keys, scores, "scores: 64 keys")
        right = x + keys * cell + 24
        if shift:
            for warp in (0, 1):
                at = (right + warp * shift, y + warp * shift)
                svg.box(*at, cols * cell, rows * cell, WARPS[warp], 0.28)
            svg.text(right + cols * cell / 2, y - 6, "O: 64 columns, twice", 11, "middle")
        else:
            parts = [(0, (0, 0, cols, rows // 2)), (1, (0, rows // 2, cols, rows))]
            tile(right, y, cols, parts, "O: 64 columns")
    x, y = 0, 40 + rows * cell + 54
    for warp in (0, 1):
        svg.box(x, y - 9, 10, 10, WARPS[warp], 0.28)
        svg.text(x + 15, y, f"warp {warp}", 11)
        x += 66
    return svg.render("Which warp has which share of the scores and of O")


# The grid of lanes of register_tiled for head_dim 64, and the rows and keys of a warp.
ROW_LANES, COL_LANES, WARP_ROWS, WARP_KEYS = 4, 8, 32, 64
OUTER_LANE = 5  # the lane that the drawings follow


def lane_at(row_lane: int, col_lane: int) -> int:
    """The lane at a place of the grid: the inverse of row_lane and col_lane in chapter 05's LaneGrid."""
    return col_lane % 2 + 2 * row_lane + col_lane // 2 * 2 * ROW_LANES


def lane_of(row: int, key: int) -> int:
    """The lane that owns a score of its warp: the inverse of chapter 05's lane_index()."""
    return lane_at(row // 4 % ROW_LANES, key // 4 % COL_LANES)


def rows_and_keys(lane: int) -> tuple[list[int], list[int]]:
    """The rows and the keys whose scores a lane owns."""
    rows = [row for row in range(WARP_ROWS) if any(lane_of(row, key) == lane for key in range(WARP_KEYS))]
    keys = [key for key in range(WARP_KEYS) if lane_of(rows[0], key) == lane]
    return rows, keys


def lane_grid() -> str:
    """The grid of lanes, and the outer product of one of them."""
    svg, cell, left, top, mine = Svg(), 34, 62, 72, OUTER_LANE
    svg.text(left, 12, "The grid of lanes: 4 x 8", bold=True)
    svg.text(left, 29, "columns: bits 4, 3 and 0 of the lane", 11)
    svg.text(0, top - 22, "rows:", 11)
    svg.text(0, top - 8, "bits 2, 1", 11)
    colours = {mine: WARPS[1], mine ^ 1: WARPS[2], mine ^ 2: WARPS[3]}
    for col_lane in range(COL_LANES):
        x = left + col_lane * cell
        bits = f"{col_lane:03b}"
        svg.text(x + cell / 2, top - 8, bits, 11, "middle")
        for row_lane in range(ROW_LANES):
            y, lane = top + row_lane * cell, lane_at(row_lane, col_lane)
            colour = colours.get(lane, WARPS[0])
            svg.box(x, y, cell, cell, colour, 0.9 if lane in colours else 0.1)
            ink = ON_COLOUR * (lane in colours)
            svg.text(x + cell / 2, y + cell / 2 + 4, str(lane), 12, "middle", colour=ink)
    for row_lane in range(ROW_LANES):
        y = top + row_lane * cell + cell / 2 + 4
        svg.text(left - 10, y, f"{row_lane:02b}", 11, "end")
    for half in range(2):
        x = left + half * COL_LANES // 2 * cell
        svg.box(x, top, COL_LANES // 2 * cell, ROW_LANES * cell, thick=1.8)
    y = top + ROW_LANES * cell + 22
    for lane, words in (
        (mine, f"lane {mine}"),
        (mine ^ 1, f"lane {mine} ^ 1 = {mine ^ 1}: the same rows"),
        (mine ^ 2, f"lane {mine} ^ 2 = {mine ^ 2}: the same keys"),
    ):
        svg.box(left, y - 9, 10, 10, colours[lane], 0.9)
        svg.text(left + 16, y, words, 11)
        y += 18
    svg.text(left, y, "Thick frames: the 16 lanes that one wavefront serves.", 11)

    rows, keys = rows_and_keys(mine)
    cell, gap, left = 20, 12, left + COL_LANES * 34 + 150
    svg.text(left, 12, f"The outer product of lane {mine}", bold=True)
    svg.text(left, 29, "from a line of K: two loads of 4 keys", 11)

    def at(number: int) -> int:
        """Where number 0 to 7 begins: there is a gap between the two loads."""
        return number * cell + number // 4 * gap

    for number, key in enumerate(keys):
        svg.text(left + at(number) + cell / 2, top - 26, str(key), 10, "middle")
        svg.box(left + at(number), top - 20, cell, 12, WARPS[2], 0.6)
    for number, row in enumerate(rows):
        y = top + at(number)
        svg.text(left - 28, y + 14, str(row), 10, "end")
        svg.box(left - 22, y, 12, cell, WARPS[2], 0.6)
        for col in range(len(keys)):
            svg.box(left + at(col), y, cell, cell, WARPS[1], 0.75)
    for number, words in enumerate(("from a line", "of Q: two", "loads of", "4 rows")):
        svg.text(left - 50, top + 14 + 14 * number, words, 11, "end")
    y = top + at(7) + cell + 20
    svg.text(left, y, "4 loads of 16 bytes, 64 multiply-adds", 11)
    svg.width = max(svg.width, left + 250)  # texts do not count
    return svg.render("The grid of lanes, and the outer product of one lane")


def outer() -> str:
    """Which lane of register_tiled owns which scores of its warp, for head_dim 64."""
    rows, keys, mine = WARP_ROWS, WARP_KEYS, OUTER_LANE
    cell, left, top = 9, 74, 56
    my_rows, my_keys = rows_and_keys(mine)

    svg = Svg()
    for row in range(0, rows, 4):
        for key in range(0, keys, 4):
            lane = lane_of(row, key)
            x, y = left + key * cell, top + row * cell
            shade = 0.9 if lane == mine else 0.1
            svg.box(x, y, 4 * cell, 4 * cell, WARPS[1 if lane == mine else 0], shade)
            ink = ON_COLOUR * (lane == mine)
            svg.text(x + 2 * cell, y + 2 * cell + 4, str(lane), 11, "middle", colour=ink)
    wide, high = 4 * COL_LANES * cell, 4 * ROW_LANES * cell
    for x in range(left, left + keys * cell, wide):
        for y in range(top, top + rows * cell, high):
            svg.box(x, y, wide, high, thick=1.8)
    for row in range(0, rows, 4):
        has = row in my_rows
        y = top + row * cell
        svg.box(left - 22, y, 12, 4 * cell, WARPS[2 if has else 0], 0.6 if has else 0.1)
    for key in range(0, keys, 4):
        has = key in my_keys
        x = left + key * cell
        svg.box(x, top - 22, 4 * cell, 12, WARPS[2 if has else 0], 0.6 if has else 0.1)
    svg.text(0, top + 14, "a line", 11)
    svg.text(0, top + 28, "of Q:", 11)
    svg.text(0, top + 42, "32 rows", 11)
    svg.text(left, top - 30, "a line of K: 64 keys", 11)
    y = top + rows * cell + 20
    for number, line in enumerate(
        (
            "Each box is a block of 4 x 4 scores, and its number is the lane that owns it.",
            "Each thick frame is a copy of the grid of lanes.",
            (
                f"Lane {mine} (orange) makes the four green loads of 16 bytes and adds all 8 x 8 products to "
                f"its "
                f"scores."
            ),
        )
    ):
        svg.text(left, y + 16 * number, line, 11)
    svg.width = max(svg.width, left + keys * cell + 40)
    return svg.render("Which lane owns which block of scores")


# --- chapter 07 -----------------------------------------------------------------------------------


class Flights:
    """Copies and work of a block in time: what chapter 07's kernels do with their key tiles.

    Work on a tile takes 1 and a copy takes `latency`, however many copies are in flight.
    """

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.now = 0.0
        self.groups: list[float] = []  # when each group has landed, in order
        self.copies: list[tuple[str, str, float, float]] = []  # what, stage, from, to
        self.work: list[tuple[str, str, float, float]] = []
        self.waits: list[tuple[float, int, int]] = []  # when, pending, unfinished groups

    def send(self, *what: tuple[str, str]) -> None:
        """Starts copies as a group, which may be empty. @param what  name and stage of each"""
        land = self.now + self.latency if what else self.now
        self.copies += [(name, stage, self.now, land) for name, stage in what]
        self.groups.append(max([land, *self.groups[-1:]]))

    def wait(self, pending: int) -> None:
        landed = self.groups[: len(self.groups) - pending]
        self.now = max([self.now, *landed])
        unfinished = sum(land > self.now for land in self.groups)
        self.waits.append((self.now, pending, unfinished))

    def use(self, name: str, stage: str, time: float) -> None:
        self.work.append((name, stage, self.now, self.now + time))
        self.now += time


def staged(stages: int, tiles: int, latency: float) -> Flights:
    """The loop of a kernel with kStages stages."""
    ahead = stages - 1
    flights = Flights(latency)
    for tile in range(ahead):
        flights.send(*[(str(tile), str(tile))] * (tile < tiles))
    for tile in range(tiles):
        stage = str(tile % stages)
        if ahead == 0:
            flights.send((str(tile), stage))
            flights.wait(0)
        else:
            flights.wait(ahead - 1)
            later = tile + ahead
            free = str((tile + ahead) % stages)
            flights.send(*[(str(later), free)] * (later < tiles))
        flights.use(str(tile), stage, 1.0)
    return flights


def split(tiles: int, latency: float) -> Flights:
    """The loop of split_kv: one buffer for K, one for V."""
    flights = Flights(latency)
    flights.send(("K0", "K"))
    for tile in range(tiles):
        flights.wait(0)
        flights.send((f"V{tile}", "V"))
        flights.use(f"K{tile}", "K", 0.5)
        flights.wait(0)
        flights.send(*[(f"K{tile + 1}", "K")] * (tile + 1 < tiles))
        flights.use(f"V{tile}", "V", 0.5)
    return flights


@dataclass(frozen=True)
class Round:
    """One round of the main loop of chapter 07's kernel with two stages or more."""

    tile: int  # the one in use
    groups: tuple[str, ...]  # committed before the wait: a tile's number, "" if empty
    pending: int  # how many of the youngest groups the wait leaves in flight
    starts: int | None  # the tile whose copy the round starts
    held: tuple[int | None, ...]  # by stage: the tile there while the block works


def rounds(stages: int, tiles: int) -> list[Round]:
    """The rounds of the kernel with kStages stages."""
    ahead = stages - 1
    groups = [str(tile) if tile < tiles else "" for tile in range(ahead)]
    held = [tile if tile < min(tiles, ahead) else None for tile in range(stages)]
    found = []
    for tile in range(tiles):
        starts = tile + ahead if tile + ahead < tiles else None
        if starts is not None:
            held[starts % stages] = starts
        found.append(Round(tile, tuple(groups), ahead - 1, starts, tuple(held)))
        groups.append("" if starts is None else str(starts))
        held[tile % stages] = None
    return found


def ring() -> str:
    """The rounds of stages_3 for five tiles: the groups at each wait, and what each stage holds
    afterwards.
    """
    stages, tiles, row, wide = 3, 5, 26, 74
    groups_at, stages_at, starts_at = 76, 250, 250 + stages * wide + 18
    svg = Svg()
    svg.text(groups_at, 12, "groups committed so far,", 11)
    svg.text(groups_at, 26, f"at wait_group {stages - 2}", 11)
    svg.text(stages_at, 12, "what the stages hold during the round", 11)
    for stage in range(stages):
        svg.text(stages_at + (stage + 0.5) * wide, 26, f"stage {stage}", 11, "middle")
    svg.text(starts_at, 12, "the copy that", 11)
    svg.text(starts_at, 26, "this round starts", 11)

    def cells(y, held, in_use):
        for stage, tile in enumerate(held):
            x = stages_at + stage * wide
            colour = WARPS[1] if tile == in_use else WARPS[0]
            shade = 0.4 if tile == in_use else 0.18
            svg.box(x, y, wide - 4, row - 4, "none" if tile is None else colour, shade)
            words = "free" if tile is None else f"tile {tile}"
            svg.text(x + (wide - 4) / 2, y + 15, words, 11, "middle")

    y = 34
    svg.text(0, y + 15, "prologue", 12, bold=True)
    first = [tile if tile < stages - 1 else None for tile in range(stages)]
    cells(y, first, -1)
    svg.text(starts_at, y + 15, f"tiles 0 to {stages - 2}, a group for each", 11)
    for now in rounds(stages, tiles):
        y += row
        svg.text(0, y + 15, f"round {now.tile}", 12, bold=True)
        for number, name in enumerate(now.groups):
            x = groups_at + number * 24
            flying = number >= len(now.groups) - now.pending
            fill = WARPS[0] if flying else WARPS[2]
            svg.box(x, y, 20, row - 4, fill, 0.18 if flying else 0.28)
            svg.text(x + 10, y + 15, name or "-", 11, "middle")
        cells(y, now.held, now.tile)
        words = "nothing: commits an empty group"
        if now.starts is not None:
            words = f"tile {now.starts}, into stage {now.starts % stages}"
        svg.text(starts_at, y + 15, words, 11)
    y += row + 12
    for at, colour, shade, words in (
        (groups_at, WARPS[2], 0.28, "group has landed"),
        (groups_at + 130, WARPS[0], 0.18, "may still be in flight"),
        (groups_at + 280, WARPS[1], 0.4, "tile in use"),
    ):
        svg.box(at, y, 10, 10, colour, shade)
        svg.text(at + 16, y + 9, words, 11)
    svg.text(groups_at + 370, y + 9, "-  an empty group", 11)
    svg.width = starts_at + 190  # texts do not count
    return svg.render("The rounds of stages_3")


def pipeline() -> str:
    """Copies and work of four variants of chapter 07 in time, if a copy takes as long as the work on 1.5
    tiles.
    """
    tiles, latency, unit, row, left = 6, 1.5, 46, 22, 96
    svg, y = Svg(), 0
    variants = [
        (f"stages_{n}", staged(n, tiles, latency), [str(stage) for stage in range(n)]) for n in (1, 2, 3)
    ]
    # Half of the bytes take less time, but not half: part of it is latency.
    variants.append(("split_kv", split(tiles, latency * 2 / 3), ["K", "V"]))
    for name, flights, stages in variants:
        svg.text(0, y + 15, name, bold=True)
        pending = flights.waits[-1][1]
        words = f"{pending} group{'s' * (pending != 1)}"
        svg.text(left, y + 14, f"waits leave {words} in flight", 11)
        svg.text(left + flights.now * unit, y + 14, f"{flights.now:g}", 11, "end")
        y += 20
        for stage in stages:
            label = f"stage {stage}" if stage.isdigit() else stage
            svg.text(left - 8, y + 15, label, 11, "end")
            for what, at, begin, end in flights.copies:
                if at == stage:
                    x = left + begin * unit
                    svg.box(x, y, (end - begin) * unit, row - 4, WARPS[0], 0.18)
                    svg.text(x + 5, y + 13, what, 10)
            for what, at, begin, end in flights.work:
                if at == stage:
                    x, width = left + begin * unit, (end - begin) * unit
                    svg.box(x, y, width, row - 4, WARPS[1], 0.4)
                    svg.text(x + width / 2, y + 13, what, 11, "middle")
            y += row
        y += 16
    svg.box(left, y, 10, 10, WARPS[0], 0.18)
    svg.text(left + 16, y + 9, "in flight: the copy has started and not yet landed", 11)
    svg.box(left, y + 18, 10, 10, WARPS[1], 0.4)
    text = "in use. The numbers are tiles. Far right: total time, in units of the work on one tile"
    svg.text(left + 16, y + 27, text, 11)
    svg.width = max(svg.width, left + 560)
    return svg.render("Copies and work over time, by number of stages")


def walk() -> str:
    """Which key tiles of a causal problem masked_first processes in which of its two loops."""
    tiles, cell, left, top, query_rows, keys = 4, 15, 150, 40, 128, 64
    columns = tiles * query_rows // keys
    svg = Svg()
    for query_tile in range(tiles):
        y = top + query_tile * 2 * cell
        svg.text(left - 10, y + cell + 4, f"block of query tile {query_tile}", 11, "end")
        first_row_sees, last_row_sees = (query_tile * query_rows + 1, (query_tile + 1) * query_rows)
        count, first_masked = -(-last_row_sees // keys), first_row_sees // keys
        for tile in range(columns):
            x = left + tile * 2 * cell
            colour = WARPS[1] if tile >= first_masked else WARPS[2]
            svg.box(x, y, 2 * cell - 2, 2 * cell - 2, colour if tile < count else "none", 0.35)
            if tile < count:
                svg.text(x + cell - 1, y + cell + 4, str(count - tile), 12, "middle")
    svg.text(left, top - 10, f"key tiles of {keys}", 11)
    x, y = left + columns * 2 * cell + 18, top + 14
    for colour, words in (
        (WARPS[1], "first loop: some scores may have to be masked"),
        (WARPS[2], "second loop: every row sees every key"),
    ):
        svg.box(x, y - 9, 10, 10, colour, 0.35)
        svg.text(x + 16, y, words, 11)
        y += 20
    svg.text(x, y + 4, "Numbers: the order in which a block takes its tiles", 11)
    svg.width = x + 300
    return svg.render("Masked tiles come first")


DRAWINGS: dict[str, Callable[[], str]] = {
    "mappings": mappings,
    "butterfly": butterfly,
    "lead": lead,
    "on_chip": on_chip,
    "lanes": lanes,
    "causal": causal,
    "tile_order": tile_order,
    "block_sizes": block_sizes,
    "shares": shares,
    "lane_grid": lane_grid,
    "outer": outer,
    "ring": ring,
    "pipeline": pipeline,
    "walk": walk,
}
