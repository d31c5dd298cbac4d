"""The drawings of chapter 08, made from the maps of common/device, the kernels' rules, and data."""

from __future__ import annotations

import json
from collections.abc import Callable

from .drawings import RESULTS, WARPS, Svg
from .fragment_maps import LANES, element_of, row_for
from .fragments import HIGH, MINE, WIDE, _cells, _numbers


def needed_for_dq() -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Lane, register -> the two elements of dS^T (key, query) needed there for dS, the operand A of dQ = dS K."""
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


def loaded_transposed(rows: str) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """What ldmatrix.x4.trans gives each lane in each register of a 16 x 16 tile: row and column of two elements.

    @param rows  "row_for_a" or "row_for_b": which lane supplies which address
    """
    address = row_for(rows, "device")
    places = {}
    for lane in LANES:
        for register in range(4):
            row, col = address(8 * register)  # of the matrix's first row
            places[lane, register] = [
                (row + lane % 4 * 2 + i, col + lane // 4) for i in range(2)
            ]
    return places


def two_operands() -> str:
    """Which lane holds which element of dS^T after computing it, and which lane needs which for dQ."""
    svg, top, left = Svg(), 62, 30
    panels = (
        ("who has it: dK = dS^T Q", "rows of A: keys. In registers", held_after_s()),
        ("who needs it: dQ = dS K", "rows of A: queries", needed_for_dq()),
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
    svg.text(
        left,
        y,
        f"16 keys down, 16 queries to the right. The number is the lane, the colour the register of A. Of its 8 elements lane {MINE}",
        11,
    )
    text = f"needs {both or 'none'} for dQ: dS goes through shared memory, and ldmatrix.trans distributes it as on the right."
    svg.text(left, y + 16, text, 11)
    svg.width = max(svg.width, left + 640)
    return svg.render("dS as an operand of dK and of dQ")


def first_query_tile(key: int, seq_q: int, seq_k: int, Br: int, causal: bool) -> int:
    """The first query tile that the block with this first key reads, as in queries_that_see()."""
    first = key - seq_k + seq_q if causal else 0
    return max(0, first) // Br


def owners() -> str:
    """Pairs of a query tile and a key tile under a causal mask: those that a block of each kind sums."""
    tiles, cell, gap, top = 5, 38, 120, 76
    length, size = tiles * 64, 64
    svg = Svg()
    chosen = 1  # the key tile or query tile that stays
    for number, (name, text) in enumerate(
        (
            ("by key tiles: dK and dV", "K and V stay; Q, dO, LSE and D pass through"),
            ("by query tiles: dQ", "Q and dO stay; K and V pass through"),
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
        46, y, "the pairs of tiles of one block. Its sums stay in registers.", 11
    )  # fmt: skip
    text = "Each green pair on the left also contributes to dQ of its query tile, to which other blocks add as well."
    svg.text(30, y + 18, text, 11)
    svg.width = max(svg.width, 660)
    return svg.render("Which pairs of tiles a block sums")


def training() -> str:
    """The loss of a small layer at each step: in float64, with two variants, and with a mistake."""
    data = json.loads((RESULTS / "attention_training.json").read_text())
    width, height, left, top = 420, 190, 52, 34
    curves = {"float64": data["reference"]} | data["variants"]
    curves["float64, dQ and dK with the scale twice"] = data["wrong"]
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
        # float64 as a line; the kernels as a mark at every 16th step, at different steps for each.
        if name.startswith("float64"):
            points = " ".join(
                f"{x:.1f},{y:.1f}" for x, y in map(at, range(len(curve)), curve)
            )
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
    "training": training,
}
