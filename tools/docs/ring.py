"""The drawings of chapter 13, made from what its schedule says of each rank and step, which
tools/docs/ring_schedule.cpp prints, and from measured times.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from .drawings import GREY, ON_COLOUR, RESULTS, WARPS, Svg
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
            svg.box(left, top, width * share, height, WARPS[rank], 1, "none")
            svg.box(left, top, width, height)
            middle, colour = (width * share / 2, ON_COLOUR) if share else (width / 2, "")
            svg.text(left + middle, top + 15, _number(share), 11, "middle", colour=colour)
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


# --- streams over time -------------------------------------------------------------------------------------

MEASURED = "ring_4_h200.json"
COPY = WARPS[1]


@dataclass(frozen=True)
class Bar:
    """Something that a stream does. Times are in ms."""

    stream: str
    words: str
    begin: float
    end: float


def times_of(variant: str) -> tuple[float, float, float]:
    """A call of attention, a transfer with what it brings to merge, and the whole causal forward pass on four
    GPUs: as measured, in ms.
    """
    runs = json.loads((RESULTS / MEASURED).read_text(encoding="utf-8"))["runs"]
    result = next(run["result"] for run in runs if "--causal" in run["options"])
    found = next(v for v in result["variants"] if v["name"] == variant)
    steps = result["problem"]["ranks"] - 1
    return found["own_ms"], found["rest_ms"] / steps, found["time_ms"]["median"]


def bars_of_zigzag(call: float, transfer: float, ranks: int = 4) -> list[Bar]:
    """Attention's blocks come first: a transfer begins when they leave, and the next call waits for it."""
    bars, now = [], 0.0
    for step in range(ranks):
        bars.append(Bar("kernels", f"step {step}", now, now + call))
        now += call
        if step + 1 < ranks:
            bars.append(Bar("transfers", "K, V", now, now + transfer))
            now += transfer
    return bars


def bars_of_overlapped(call: float, transfer: float, ranks: int = 4) -> list[Bar]:
    """The first transfer has a head start. Each later one begins when the blocks of a step leave, like the
    next step, which has a stream of lower priority.
    """
    bars = []
    for step in range(ranks):
        bars.append(Bar(f"kernels {step + 1}", f"step {step}", step * call, (step + 1) * call))
        if step + 1 < ranks:
            bars.append(Bar("transfers", "K, V", step * call, step * call + transfer))
    return bars


def ring_streams() -> str:
    """What the streams of a rank do over time, in `zigzag` and in `overlapped`."""
    svg, left, unit, row, y = Svg(), 100, 56, 24, 0
    for variant, bars_of in (("zigzag", bars_of_zigzag), ("overlapped", bars_of_overlapped)):
        call, transfer, measured = times_of(variant)
        bars = bars_of(call, transfer)
        end = max(bar.end for bar in bars)
        svg.text(0, y + 12, variant, 13, bold=True)
        svg.text(left, y + 12, f"ends after {end:.1f} ms here, measured: {measured:.1f} ms", 11)
        y += 20
        streams = sorted({bar.stream for bar in bars}, key=lambda name: (name != "transfers", name))
        for stream in streams:
            svg.text(left - 8, y + 14, stream, 11, "end")
            svg.segment(left, y + row - 2, left + 10 * unit, y + row - 2, thick=0.3)
            for bar in bars:
                if bar.stream != stream:
                    continue
                x, width = left + bar.begin * unit, (bar.end - bar.begin) * unit
                svg.box(x, y, width, row - 4, COPY if stream == "transfers" else WARPS[0])
                svg.text(x + width / 2, y + 14, bar.words, 10.5, "middle", colour=ON_COLOUR)
            y += row
        y += 14
    for ms in range(0, 11, 2):
        svg.segment(left + ms * unit, y, left + ms * unit, y + 5)
        svg.text(left + ms * unit, y + 18, f"{ms} ms", 11, "middle")
    svg.segment(left, y, left + 10 * unit, y)
    svg.width += 16  # texts do not count
    return svg.render("What the streams of a rank do over time")


# --- dK and dV return --------------------------------------------------------------------------------------

Message = tuple[int, int, int, int]  # step, rank, peer, bytes of an element


def way_home(messages: list[Message], owner: int) -> list[Message]:
    """The messages that bring dK of a rank's keys home. Parts that go straight home come from several ranks;
    a sum comes from one, and each hop before is one step earlier.
    """
    arrivals = sorted(m for m in messages if m[2] == owner)
    if len({rank for _, rank, _, _ in arrivals}) > 1:
        return arrivals
    way = [arrivals[-1]]
    while before := [m for m in messages if m[0] == way[0][0] - 1 and m[2] == way[0][1]]:
        way.insert(0, before[0])
    return way


def _arrow(svg, x1, y1, x2, y2):
    svg.segment(x1, y1, x2, y2, COPY, 1.6)
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    ux, uy = (x2 - x1) / length, (y2 - y1) / length
    corners = ((-8 * ux + side * uy, -8 * uy - side * ux) for side in (-4, 4))
    points = " ".join(f"{x2 + dx:.1f},{y2 + dy:.1f}" for dx, dy in corners)
    svg.parts.append(f'<polygon points="{x2:g},{y2:g} {points}" fill="{COPY}"/>')


def _returns(svg, x, title, way: list[Message], step_of: Callable[[int], int]):
    """Ranks across, steps down: which rank computes with rank 0's keys in each step, and what it sends, which
    arrives in the next row.

    @param step_of  the step in which a rank has these keys
    """
    ranks, cell, box, height, top, pitch = 4, 66, 52, 22, 44, 52
    svg.text(x, 12, title, 13, bold=True)

    def place(rank: int, step: int) -> tuple[float, float]:
        return x + 44 + rank * cell, top + step * pitch

    def cell_of(rank: int, step: int, text: str, filled: bool):
        left, y = place(rank, step)
        svg.box(left, y, box, height, WARPS[0] if filled else "none")
        svg.text(left + box / 2, y + 15, text, 10.5, "middle", colour=ON_COLOUR if filled else "")

    for rank in range(ranks):
        svg.text(place(rank, 0)[0] + box / 2, 32, f"rank {rank}", 11, "middle")
        cell_of(rank, step_of(rank), "part", True)
    for step in range(ranks):
        svg.text(x + 38, place(0, step)[1] + 15, f"step {step}", 11, "end")
    svg.text(x + 38, place(0, ranks)[1] + 15, "end", 11, "end")
    for _, rank, peer, element in way:
        arrives = step_of(rank) + 1
        (x1, y1), (x2, y2) = place(rank, step_of(rank)), place(peer, arrives)
        if step_of(peer) != arrives and arrives < ranks:
            cell_of(peer, arrives, f"of rank {rank}", False)
        _arrow(svg, x1 + box / 2, y1 + height + 1, x2 + box / 2, y2 - 1)
        right = x2 < x1  # the label is on the other side
        at = x1 + box / 2 + (8 if right else -8)
        svg.text(at, y1 + height + 14, f"{8 * element} bits", 10.5, "start" if right else "end")
    cell_of(0, ranks, "sum", False)


def ring_home() -> str:
    """How dK and dV of one rank's keys return to it."""
    data, svg = schedule(), Svg()
    last = data["ranks"] - 1
    round_trip, straight = (way_home([tuple(m) for m in data[name]], 0) for name in ("round", "straight"))
    _returns(svg, 0, "ring, zigzag: a sum goes round", round_trip, lambda rank: rank)
    _returns(svg, 350, "overlapped: parts go straight home", straight, lambda rank: last - rank)
    svg.width += 16  # texts do not count
    return svg.render("How the gradients of rank 0's keys return to it")


DRAWINGS: dict[str, Callable[[], str]] = {
    "ring_work": ring_work,
    "ring_pieces": ring_pieces,
    "ring_streams": ring_streams,
    "ring_home": ring_home,
}
