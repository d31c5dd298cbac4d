"""The drawings of chapter 11, made from what its masks say of each tile: tools/docs/mask_kinds.cu prints it."""

from __future__ import annotations

from collections.abc import Callable

from .drawings import GREY, WARPS, Svg
from .fragment_maps import printed

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
        f'<path d="{path}" fill="{colour}" fill-opacity="{opacity:g}" stroke="{GREY}" stroke-width="{thick:g}"/>'
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
        svg.text(
            x, y + side + 16, f"{tiles - full - partial} of {tiles} tiles empty,", 11
        )
        svg.text(x, y + side + 31, f"{partial} partial, {full} full", 11)
    y = 22 + 2 * (side + 62) + 6
    for x, kind, text in (
        (0, FULL, "full: no score is asked"),
        (170, PARTIAL, "partial: what is seen is darker"),
    ):
        svg.box(x, y - 9, 10, 10, COLOURS[kind], 0.6)
        svg.text(x + 15, y, text, 11)
    svg.text(392, y, "no colour: empty, not visited", 11)
    svg.text(
        0,
        y + 17,
        f"{data['seq']} queries (down) and keys (across), tiles of {data['tile'][0]} x {data['tile'][1]}",
        11,
    )
    svg.width = max(svg.width, 3 * side + 2 * gap)
    return svg.render("Tiles that are empty, full or partial under six masks")


DRAWINGS: dict[str, Callable[[], str]] = {"tile_kinds": tile_kinds}
