"""The drawings of chapter 11, made from what its masks say of each tile and from the random bits that decide
dropout:
tools/docs/mask_kinds.cu prints both.
"""

from __future__ import annotations

from collections.abc import Callable

from .drawings import GREY, ON_COLOUR, WARPS, Svg
from .fragment_maps import element_of, printed
from .fragments import HIGH, MINE, WIDE, _cells, _numbers

PROGRAM = "mask_kinds"
EMPTY, PARTIAL, FULL = range(3)
COLOURS = {PARTIAL: WARPS[1], FULL: WARPS[0]}
PANELS = {
    "causal": "--causal",
    "window": "--window 300",
    "causal window": "--causal --window 300",
    "causal documents": "--causal --documents",
    "key length": "--key-lengths",
    "butterfly": "--block-mask",
}


def masks() -> dict:
    """All masks, by name, with the number of queries and keys and the sizes of a tile."""
    return printed(PROGRAM)


def count(kinds: list[list[int]], kind: int) -> int:
    return sum(row.count(kind) for row in kinds)


def _boxes(svg, boxes, colour, opacity, thick=0.3):
    """Many rectangles of one colour. @param boxes  left, top, width and height of each"""
    path = "".join(f"M{x:g} {y:g}h{w:g}v{h:g}h{-w:g}z" for x, y, w, h in boxes)
    svg.parts.append(
        f'<path d="{path}" fill="{colour}" fill-opacity="{opacity:g}" stroke="{GREY}" stroke-width="{thick:g}"/>'  # noqa: E501
    )


def _panel(svg, x, y, side, name):
    """The scores of a mask: its tiles, and within partial ones what is seen."""
    data = masks()
    seq, (br, bc) = data["seq"], data["tile"]
    mask, scale = data["masks"][name], side / data["seq"]

    def box(query, key, queries, keys):
        return x + key * scale, y + query * scale, keys * scale, queries * scale

    for kind, shade in ((FULL, 0.55), (PARTIAL, 0.2)):
        tiles = [
            box(row * br, col * bc, br, bc)
            for row, kinds in enumerate(mask["kinds"])
            for col, this in enumerate(kinds)
            if this == kind
        ]
        _boxes(svg, tiles, COLOURS[kind], shade)
    step = seq // len(mask["keys"])
    seen = []
    for row, runs in enumerate(mask["keys"]):
        kinds = mask["kinds"][row * step // br]
        for first, end in runs:
            for col in range(first // bc, -(-end // bc)):
                if kinds[col] == PARTIAL:
                    left, right = max(first, col * bc), min(end, (col + 1) * bc)
                    seen.append(box(row * step, left, step, right - left))
    _boxes(svg, seen, COLOURS[PARTIAL], 0.6, 0)
    svg.box(x, y, side, side, thick=0.8)


def tile_kinds() -> str:
    """Which tiles of each mask are empty, full or partial."""
    svg, side, gap = Svg(), 192, 32
    data = masks()
    tiles = (data["seq"] // data["tile"][0]) * (data["seq"] // data["tile"][1])
    for number, (name, options) in enumerate(PANELS.items()):
        x, y = 1 + number % 3 * (side + gap), 22 + number // 3 * (side + 62)
        svg.text(x, y - 8, options, 12, bold=True)
        _panel(svg, x, y, side, name)
        kinds = data["masks"][name]["kinds"]
        full, partial = count(kinds, FULL), count(kinds, PARTIAL)
        svg.text(x, y + side + 16, f"{tiles - full - partial} of {tiles} tiles empty,", 11)
        svg.text(x, y + side + 31, f"{partial} partial, {full} full", 11)
    y = 22 + 2 * (side + 62) + 6
    for x, kind, text in (
        (0, FULL, "full: the mask is not evaluated"),
        (200, PARTIAL, "partial: what is seen is darker"),
    ):
        svg.box(x, y - 9, 10, 10, COLOURS[kind], 0.6)
        svg.text(x + 15, y, text, 11)
    svg.text(420, y, "no colour: empty, not visited", 11)
    svg.text(
        0,
        y + 17,
        f"{data['seq']} queries (down) and keys (across), tiles of {data['tile'][0]} x {data['tile'][1]}",
        11,
    )
    svg.width = max(svg.width, 3 * side + 2 * gap)
    return svg.render("Tiles that are empty, full or partial under six masks")


LISTED, QUERY_TILE, KEY_TILE = ("causal documents", 7, 10)  # the mask whose lists are drawn


def in_lists(kinds: list[int]) -> tuple[list[int], list[int]]:
    """The partial tiles of a row or column and the full ones, as list_tiles() puts them from left to
    right.
    """
    partial = [tile for tile, kind in enumerate(kinds) if kind == PARTIAL]
    full = [tile for tile, kind in enumerate(kinds) if kind == FULL]
    return partial, full[::-1]


def _list(svg, y, title, kinds):
    """A row or column of tiles, and its list in memory below."""
    side = 18
    svg.text(0, y, title, 12, bold=True)
    for tile, kind in enumerate(kinds):
        colour = COLOURS.get(kind, "none")
        svg.box(tile * side, y + 10, side, side, colour)
        svg.text((tile + 0.5) * side, y + 23, str(tile), 10, "middle", colour=ON_COLOUR * (kind != EMPTY))
    partial, full = in_lists(kinds)
    svg.text(0, y + 54, f"counts: {len(partial)}, {len(full)}", 11)
    svg.text(90, y + 54, "tiles:", 11)
    left, gap = 130, len(kinds) - len(partial) - len(full)
    cells = [(t, PARTIAL) for t in partial] + [("", EMPTY)] * gap
    for place, (tile, kind) in enumerate(cells + [(t, FULL) for t in full]):
        svg.box(left + place * side, y + 41, side, side, COLOURS.get(kind, "none"))
        svg.text(left + (place + 0.5) * side, y + 54, str(tile), 10, "middle", colour=ON_COLOUR)


def tile_lists() -> str:
    """The list of a query tile, and that of a key tile."""
    svg, kinds = Svg(), masks()["masks"][LISTED]["kinds"]
    row, column = kinds[QUERY_TILE], [of_row[KEY_TILE] for of_row in kinds]
    _list(svg, 12, f"query tile {QUERY_TILE}: its key tiles", row)
    _list(svg, 104, f"key tile {KEY_TILE}: its query tiles", column)
    y = 188
    for x, kind, text in ((0, PARTIAL, "partial"), (80, FULL, "full")):
        svg.box(x, y - 9, 10, 10, COLOURS[kind])
        svg.text(x + 15, y, text, 11)
    svg.text(150, y, "no colour: empty, or not written", 11)
    return svg.render("The lists of a query tile and of a key tile")


def held_by_lane(lane: int, transposed: bool) -> list[tuple[int, int]]:
    """Query and key of the elements of P that a lane holds as operands A of 32 x 32. @param transposed  rows
    are keys
    """
    element_of_a = element_of("a", "device")
    places = [
        (down + row, right + col)
        for down in (0, 16)
        for right in (0, 16)
        for row, col in (element_of_a(lane, i) for i in range(8))
    ]
    return [(col, row) for row, col in places] if transposed else places


def decisions() -> list[list[list[int]]]:
    """By query and key of a 32 x 32 tile: the call of Philox, and its place in the answer, 0 to 15."""
    return printed(PROGRAM)["dropout"]


def calls_of_lane(lane: int, transposed: bool) -> list[int]:
    """The calls of Philox that decide these elements, without repetition."""
    held = held_by_lane(lane, transposed)
    return sorted({decisions()[query][key][0] for query, key in held})


def philox_calls() -> str:
    """Which call decides which elements of a quarter of a 32 x 32 tile, and which of them a lane holds in
    either pass.
    """
    svg, top, left = Svg(), 62, 30
    decided = decisions()
    for number, (name, axes, transposed) in enumerate(
        (
            ("forward: P", "queries down, keys across", False),
            ("backward: the transpose of P", "keys down, queries across", True),
        )
    ):
        x = left + number * (16 * WIDE + 84)
        svg.text(x, 12, name, 12, bold=True)
        svg.text(x, 28, axes, 11)
        _numbers(svg, x, top, 16, 16)
        mine = held_by_lane(MINE, transposed)
        places_here = sorted({place for row in decided[:16] for _, place in row[:16]})
        for query in range(16):
            for key in range(16):
                call, place = decided[query][key]
                cell = (key, query) if transposed else (query, key)
                colour = WARPS[places_here.index(place)]
                held = (query, key) in mine
                _cells(svg, x, top, cell, str(call), colour, held)
    y = top + 16 * HIGH + 22
    forward, backward = (
        " and ".join(map(str, calls_of_lane(MINE, transposed))) for transposed in (False, True)
    )
    lines = (
        (
            "A quarter of a 32 x 32 tile; the other quarters repeat the numbers. A number is the call of "
            "Philox "
            "that"
        ),
        "decides the element, a colour its place in the call's answer.",
        (
            f"Dark: what lane {MINE} holds. It needs calls {forward} in the forward pass, {backward} in the "
            f"backward pass,"
        ),
        "and in each the 32 x 32 tile has 16 elements of the lane for either call.",
    )
    for number, text in enumerate(lines):
        svg.text(left, y + 16 * number, text, 11)
    svg.width = max(svg.width, left + 640)
    return svg.render("Which call of Philox decides which elements")


NUMBERS, LARGEST = (2, 0, 3, 1), 2  # of four elements, and the largest that is kept: both have two bits


def sliced(numbers: tuple[int, ...], bit: int) -> list[int]:
    """A bit of all numbers, as one word has it."""
    return [number >> bit & 1 for number in numbers]


def compared(numbers: tuple[int, ...], largest: int, bits: int) -> list[list[int]]:
    """What Dropout::keeps() has in `smaller`: at first, and after each bit, the lowest first."""
    steps = [[1] * len(numbers)]
    for bit in range(bits):
        most = largest >> bit & 1
        steps.append(
            [
                (1 - own & most) | (1 - own & before) | (most & before)
                for own, before in zip(sliced(numbers, bit), steps[-1], strict=True)
            ]
        )
    return steps


def bit_slices() -> str:
    """Four elements whose numbers have two bits: how words of bits decide which of them are kept."""
    svg, side, left = Svg(), 24, 118

    def word(y, name, bits, colour, note=""):
        svg.text(left - 8, y + 16, name, 12, "end")
        for place, bit in enumerate(bits):
            svg.box(left + place * side, y, side, side, colour)
            svg.text(left + (place + 0.5) * side, y + 16, str(bit), 12, "middle", colour=ON_COLOUR)
        svg.text(left + len(bits) * side + 14, y + 16, note, 11)

    svg.text(0, 12, "What a call of Philox draws, and what is kept", 12, bold=True)
    for place in range(len(NUMBERS)):
        svg.text(left + (place + 0.5) * side, 32, str(place), 11, "middle")
    svg.text(left - 8, 32, "element", 11, "end")
    word(38, "number", NUMBERS, WARPS[2], f"kept: at most {LARGEST}, so 3 of 4 on average")
    word(72, "bits[0]", sliced(NUMBERS, 0), WARPS[1], "bit 0 of all four numbers, in one word")
    word(72 + side, "bits[1]", sliced(NUMBERS, 1), WARPS[1], "bit 1 of all four")
    y = 72 + 2 * side + 30
    svg.text(0, y, "One instruction per bit, for all elements at once", 12, bold=True)
    first, *after = compared(NUMBERS, LARGEST, 2)
    y += 10
    word(y, "smaller", first, WARPS[0], "at first: equal, which counts as kept")
    for bit, smaller in enumerate(after):
        y += side + 14
        most = [LARGEST >> bit & 1] * len(NUMBERS)
        word(y, f"bits[{bit}]", sliced(NUMBERS, bit), WARPS[1])
        why = f"{LARGEST} has a {most[0]} here: "
        why += "a number with a 0 is smaller" if most[0] else "a number with a 1 is larger"
        word(y + side, f"most[{bit}]", most, WARPS[3], why)
        end = (
            "kept: the highest bit has the last word"
            if bit + 1 == len(after)
            else "where the bits are equal: as before"
        )
        word(y + 2 * side, "smaller", smaller, WARPS[0], end)
        y += 2 * side
    svg.width = 480
    return svg.render("Which of four elements are kept, decided bit by bit")


DRAWINGS: dict[str, Callable[[], str]] = {
    "tile_kinds": tile_kinds,
    "tile_lists": tile_lists,
    "philox_calls": philox_calls,
    "bit_slices": bit_slices,
}
