"""The drawings of chapter 08, made from the maps of common/device, the kernels' rules, and data."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from .drawings import ON_COLOUR, RESULTS, WARPS, Svg
from .fragment_maps import LANES, Received, element_of, received, row_for
from .fragments import HIGH, MINE, WIDE, _cells, _numbers


def needed_for_dq() -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Lane, register -> the two elements of dS^T (key, query) needed there for dS, the operand A of dQ = dS
    K.
    """
    element_of_a = element_of("a", "device")
    places = {}
    for lane in LANES:
        for register in range(4):
            pair = (element_of_a(lane, 2 * register + i) for i in range(2))
            places[lane, register] = [(key, query) for query, key in pair]
    return places


def held_after_s() -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Lane, register -> the two elements of dS^T (key, query) held there, as the operand A of dK = dS^T Q."""
    element_of_a = element_of("a", "device")
    return {
        (lane, register): [element_of_a(lane, 2 * register + i) for i in range(2)]
        for lane in LANES
        for register in range(4)
    }


def loaded_transposed(rows: str) -> Received:
    """What ldmatrix.x4.trans gives each lane in each register of a 16 x 16 tile: row and column of two
    elements.

    @param rows  "row_for_a" or "row_for_b": which lane supplies which address
    """
    return received(row_for(rows, "device"), transposed=True)


def two_operands() -> str:
    """Which lane holds which element of dS^T after computing it, and which lane needs it for dQ."""
    svg, top, left = Svg(), 62, 30
    panels = (
        ("held: A of dK = dS^T Q", "rows of A are keys; in registers", held_after_s()),
        ("needed: A of dQ = dS K", "rows of A are queries", needed_for_dq()),
    )
    for number, (name, text, places) in enumerate(panels):
        x = left + number * (16 * WIDE + 84)
        svg.text(x, 12, name, 12, bold=True)
        svg.text(x, 28, text, 11)
        svg.text(x + 8 * WIDE, top - 16, "queries", 10, "middle")
        _numbers(svg, x, top, 16, 16)
        for (lane, register), pair in places.items():
            for place in pair:
                _cells(
                    svg, x, top, place, str(lane), WARPS[register], lane == MINE
                )  # fmt: skip
    svg.text(left + 16 * WIDE + 38, top + 8 * HIGH + 4, "→", 18, "middle")
    y = top + 16 * HIGH + 22
    has, needs = (
        {place for (lane, _), pair in places.items() if lane == MINE for place in pair}
        for _, _, places in panels
    )
    both = len(has & needs)
    svg.text(left, y, "16 keys down, 16 queries across. A number is a lane, a colour is a register of A.", 11)
    lines = (
        f"For dQ, lane {MINE} needs {both or 'none'} of the 8 elements that it holds. So dS goes through",
        "shared memory, and ldmatrix.trans loads it as on the right.",
    )
    for number, text in enumerate(lines, 1):
        svg.text(left, y + 16 * number, text, 11)
    svg.width = max(svg.width, left + 640)
    return svg.render("dS as an operand of dK and of dQ")


def first_query_tile(key: int, seq_q: int, seq_k: int, Br: int, causal: bool) -> int:
    """The first query tile that a block reads if this is its first key: as in queries_that_see()."""
    first = key - seq_k + seq_q if causal else 0
    return max(0, first) // Br


def owners() -> str:
    """Pairs of a query tile and a key tile under a causal mask: which pairs a block of each kind
    processes.
    """
    tiles, cell, gap, top = 5, 38, 120, 76
    length, size = tiles * 64, 64
    svg = Svg()
    chosen = 1  # the key tile or query tile that stays
    for number, (name, text) in enumerate(
        (
            ("a block per key tile: dK, dV", "K, V stay; Q, dO, LSE, D stream through"),
            ("a block per query tile: dQ", "Q and dO stay; K and V stream through"),
        )
    ):
        left = 60 + number * (tiles * cell + gap)
        svg.text(left - 30, 12, name, 12, bold=True)
        svg.text(left - 30, 28, text, 11)
        mine = chosen if number == 0 else tiles - 2
        for tile in range(tiles):
            staying = tile == mine
            x, y = left + tile * cell, top + tile * cell
            by_key = number == 0 and staying
            by_query = number == 1 and staying
            svg.box(x, top - 16, cell - 3, 10, WARPS[0], 0.75 if by_key else 0.15)
            svg.box(left - 20, y, 10, cell - 3, WARPS[1], 0.75 if by_query else 0.15)
        for key_tile in range(tiles):
            begin = first_query_tile(key_tile * size, length, length, size, True)
            for query_tile in range(tiles):
                x, y = left + key_tile * cell, top + query_tile * cell
                seen = query_tile >= begin
                mine_here = mine == (key_tile if number == 0 else query_tile)
                colour = WARPS[2] if seen and mine_here else WARPS[0]
                opacity = 0.6 if seen and mine_here else 0.1
                svg.box(
                    x, y, cell - 3, cell - 3, colour if seen else "none", opacity
                )  # fmt: skip
        svg.text(left + tiles * cell / 2, top - 22, "keys", 10, "middle")
        svg.text(left - 24, top + tiles * cell / 2, "queries", 10, "end")
    y = top + tiles * cell + 18
    svg.box(30, y - 9, 10, 10, WARPS[2], 0.6)
    svg.text(
        46, y, "the pairs that one block processes; its sums stay in registers", 11
    )  # fmt: skip
    text = "On the left, each green pair also adds to dQ of its query tile, and so do other blocks."
    svg.text(30, y + 18, text, 11)
    svg.width = max(svg.width, 660)
    return svg.render("Which pairs of tiles a block processes")


# The constants of chapter 08's key_tiles.cuh. A test compares them with the source.
KEYS, QUERIES = 128, 64  # Bc and Br: of a block, and of a step
WARP_KEYS, SCORE_COLS = 32, 32  # kWarpRows and kScoreCols
DQ_COLS = 32  # columns of dQ of a warp


class Share(NamedTuple):
    """What one warp has of a matrix. For S and dP also when: in which round of the step."""

    warp: int
    round: int
    row: int
    col: int
    rows: int
    cols: int


def warps_per_keys(d: int) -> int:
    return 1 if d <= 64 else 2


def shares_of_scores(d: int) -> list[Share]:
    """S^T and dP^T, [KEYS, QUERIES]: as `query` in the kernels."""
    sharing = warps_per_keys(d)
    return [
        Share(
            warp,
            n,
            warp // sharing * WARP_KEYS,
            (n * sharing + warp % sharing) * SCORE_COLS,
            WARP_KEYS,
            SCORE_COLS,
        )
        for warp in range(KEYS // WARP_KEYS * sharing)
        for n in range(QUERIES // SCORE_COLS // sharing)
    ]


def shares_of_keys(d: int) -> list[Share]:
    """dK and dV, [KEYS, d]: as `warp_key` and `part` of KeyBlock."""
    sharing = warps_per_keys(d)
    cols = d // sharing
    return [
        Share(warp, 0, warp // sharing * WARP_KEYS, warp % sharing * cols, WARP_KEYS, cols)
        for warp in range(KEYS // WARP_KEYS * sharing)
    ]


def shares_of_dq(d: int) -> list[Share]:
    """dQ, [QUERIES, d]: as element_of_dq()."""
    warps = KEYS // WARP_KEYS * warps_per_keys(d)
    col_warps = d // DQ_COLS
    rows = QUERIES * col_warps // warps
    return [
        Share(warp, 0, warp // col_warps * rows, warp % col_warps * DQ_COLS, rows, DQ_COLS)
        for warp in range(warps)
    ]


def key_tile() -> str:
    """How the warps of a block divide a step: S and dP, dK and dV, dQ, for two head dimensions."""
    svg, scale, left = Svg(), 1.5, 40
    places = (left, left + 160, left + 416)  # of the three matrices
    for number, d in enumerate((64, 128)):
        sharing = warps_per_keys(d)
        top = 58 + number * 272
        warps = KEYS // WARP_KEYS * sharing
        svg.text(0, top - 42, f"head_dim {d}: {warps} warps", 12, bold=True)
        for x, name, shares, across, down in (
            (places[0], "1. S^T, dP^T", shares_of_scores(d), QUERIES, KEYS),
            (places[1], "2. dK and dV", shares_of_keys(d), d, KEYS),
            (places[2], "3. dQ", shares_of_dq(d), d, QUERIES),
        ):
            svg.text(x, top - 22, name, 11, bold=True)
            what = "queries" if x == places[0] else "columns"
            middle = x + across * scale / 2
            svg.text(middle, top - 6, f"{across} {what}", 10, "middle")
            rows = "queries" if x == places[2] else "keys"
            svg.text(x - 6, top + 12, str(down), 10, "end")
            svg.text(x - 6, top + 24, rows, 10, "end")
            for share in shares:
                # Warps that share keys have one colour, in two shades.
                second = share.warp % sharing == 1
                colour = WARPS[share.warp // sharing]
                at = (x + share.col * scale, top + share.row * scale)
                size = (share.cols * scale, share.rows * scale)
                svg.box(*at, *size, colour, 0.9 if second else 0.2)
                middle, y = at[0] + size[0] / 2, at[1] + size[1] / 2 + 3
                text, ink = str(share.warp), ON_COLOUR * second
                svg.text(middle, y, text, 10, "middle", second, ink)
                if x == places[0] and sharing == 1:
                    svg.text(middle, y + 12, f"round {share.round}", 10, "middle")
    y = 58 + 272 + KEYS * scale + 22
    lines = (
        "A number is a warp. Warps of one colour have the same keys in 1 and 2.",
        "1. A warp computes 32 x 32 scores per round: two rounds at head_dim 64, one at 128.",
        "2. These sums stay in registers for all steps.",
        "3. Only in the fused kernels: each warp adds its part to dQ in HBM once per step.",
    )
    for number, text in enumerate(lines):
        svg.text(0, y + 16 * number, text, 11)
    return svg.render("How the warps of a block divide a step")


def training() -> str:
    """The loss of a small layer at each step: in float64, with two variants, and with a mistake."""
    data = json.loads((RESULTS / "attention_training.json").read_text())
    width, height, left, top = 420, 190, 52, 34
    curves = {"float64": data["reference"]} | data["variants"]
    curves["float64, scale applied twice to dQ and dK"] = data["wrong"]
    highest, lowest = 0.65, 0.2
    svg = Svg()
    svg.text(0, 14, "loss", 12, bold=True)
    svg.box(left, top, width, height)

    def at(step: int, loss: float) -> tuple[float, float]:
        x = left + width * step / (len(data["reference"]) - 1)
        return x, top + height * (highest - loss) / (highest - lowest)

    for tenths in range(2, 7):
        y = at(0, tenths / 10)[1]
        svg.text(left - 6, y + 4, f"{tenths / 10}", 10, "end")
        svg.box(left - 3, y, 3, 0)
    for step in range(0, len(data["reference"]), 50):
        x = at(step, 1)[0]
        svg.text(x, top + height + 14, str(step), 10, "middle")
        svg.box(x, top + height, 0, 3)
    svg.text(left + width, top + height + 28, "steps", 10, "end")
    for number, (name, curve) in enumerate(curves.items()):
        colour = WARPS[number]
        # float64 is a line; each kernel has a mark at every 16th step, at steps of its own.
        if name.startswith("float64"):
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(at, range(len(curve)), curve))
            svg.parts.append(
                f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
            )
        else:
            for step in range(8 * (number - 1), len(curve), 16):
                x, y = at(step, curve[step])
                svg.box(x - 2, y - 2, 4, 4, colour, 0.8, line=colour)
        y = top + 22 + 18 * number
        svg.box(left + width - 270, y - 9, 10, 10, colour, 0.9)
        svg.text(left + width - 254, y, name, 11)
    return svg.render("The loss of a layer trained with the chapter's kernels")


DRAWINGS: dict[str, Callable[[], str]] = {
    "two_operands": two_operands,
    "owners": owners,
    "key_tile": key_tile,
    "training": training,
}
