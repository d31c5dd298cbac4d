"""The drawing of chapter 13, made from what its schedule says of each rank and step:
tools/docs/ring_schedule.cpp prints it.
"""

from __future__ import annotations

from collections.abc import Callable

from .drawings import GREY, WARPS, Svg
from .fragment_maps import printed

PROGRAM = "ring_schedule"
SCHEDULES = ("ring", "zigzag")
TITLES = {"ring": "ring: a piece for each rank", "zigzag": "zigzag: an early and a late piece"}


def schedule() -> dict:
    """Pieces and pairs of queries and keys of each rank, for both schedules."""
    return printed(PROGRAM)


def shares(pairs: list[list[int]], tokens: int) -> list[list[float]]:
    """The same in units of a block: all queries of a rank with all keys of another."""
    block = (tokens // len(pairs)) ** 2
    return [[count / block for count in row] for row in pairs]


def slowest(shares: list[list[float]]) -> list[float]:
    """What the rank with the most work has to do in each step: the others wait for it."""
    return [max(step) for step in zip(*shares, strict=True)]


def _number(share: float) -> str:
    return f"{share:.2g}" if share else "-"


def _scores(svg, x, y, side, pieces, tokens):
    """The scores that a causal mask leaves, in the colours of the ranks that own the queries."""
    scale = side / tokens
    for rank, own in enumerate(pieces):
        for begin, end in own:
            top, bottom = y + begin * scale, y + end * scale
            svg.parts.append(
                f'<path d="M{x:g} {top:g}H{x + begin * scale:g}L{x + end * scale:g} {bottom:g}H{x:g}z" '
                f'fill="{WARPS[rank]}" fill-opacity="0.6" stroke="{GREY}" stroke-width="0.4"/>'
            )
            svg.text(x - 6, (top + bottom) / 2 + 4, str(rank), 11, "end")
    svg.box(x, y, side, side, thick=0.8)


def _steps(svg, x, y, work):
    """A row for each rank, a column for each step, filled as far as there is work."""
    cell, width, height = 62, 56, 22
    for step in range(len(work[0])):
        svg.text(x + step * cell + width / 2, y - 6, f"step {step}", 11, "middle")
    for rank, row in enumerate(work):
        top = y + rank * (height + 6)
        svg.text(x - 8, top + 15, f"rank {rank}", 11, "end")
        for step, share in enumerate(row):
            left = x + step * cell
            svg.box(left, top, width * share, height, WARPS[rank], 0.35, "none")
            svg.box(left, top, width, height)
            svg.text(left + width / 2, top + 15, _number(share), 11, "middle")
        svg.text(x + len(row) * cell + 6, top + 15, f"in all {_number(sum(row))}", 11)
    top = y + len(work) * (height + 6) + 14
    svg.text(x - 8, top, "slowest", 11, "end", bold=True)
    most = slowest(work)
    for step, share in enumerate(most):
        svg.text(x + step * cell + width / 2, top, _number(share), 11, "middle", bold=True)
    svg.text(x + len(most) * cell + 6, top, f"in all {_number(sum(most))}", 11, bold=True)


def ring_work() -> str:
    """What each rank computes in each step, for a ring and for zigzag."""
    data, svg, side = schedule(), Svg(), 140
    for number, name in enumerate(SCHEDULES):
        y = 34 + number * 190
        svg.text(0, y - 20, TITLES[name], 13, bold=True)
        _steps(svg, 60, y + 8, shares(data[name]["pairs"], data["tokens"]))
    left = 430
    svg.text(left, 14, "scores of the ring, by rank", 13, bold=True)
    _scores(svg, left + 12, 34, side, data["ring"]["pieces"], data["tokens"])
    svg.text(left + 12, 34 + side + 14, "keys across, queries down", 11)
    svg.width += 60  # texts do not count
    return svg.render("The work of four ranks in each step under a causal mask")


def ring_pieces() -> str:
    """Which queries each rank has with zigzag. It shows the answer to an exercise."""
    data, svg, side = schedule(), Svg(), 200
    _scores(svg, 14, 8, side, data["zigzag"]["pieces"], data["tokens"])
    svg.text(side + 30, 20, "keys across, queries down,", 11)
    svg.text(side + 30, 36, "a colour for each rank", 11)
    svg.width += 110  # texts do not count
    return svg.render("The scores of each rank with zigzag")


DRAWINGS: dict[str, Callable[[], str]] = {"ring_work": ring_work, "ring_pieces": ring_pieces}
