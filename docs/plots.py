"""The drawings that show measurements: from docs/results/, in the manner of docs/drawings.py."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable

from drawings import GREY, RESULTS, WARPS, Svg

CHAPTER_COLOURS = {
    "03": "#a855f7",
    "04": "#f97316",
    "05": "#22a06b",
    "06": "#3b82f6",
    "07": "#e0435c",
    "08": "#b58900",
}
FP32, BF16 = "fp32_ladder", "ladder"  # plans of common/bench/attention.py
# What is drawn of each plan, without a mask: sequence length and head_dim. attention_bytes.json has a head of the same.
POINTS = {FP32: (1024, 64), BF16: (4096, 128)}


def _load(name: str) -> dict:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def timings(plan: str) -> list[dict]:
    """What was measured of the point of a plan, in the order of the chapters; PyTorch's own kernels last."""
    point = POINTS[plan]
    found = [
        timing
        for timing in _load("attention_h100.json")["timings"]
        if timing["plan"] == plan
        and (timing["seq"], timing["head_dim"]) == point
        and not timing["causal"]
    ]
    return sorted(found, key=lambda timing: timing["chapter"] or "99")


def bytes_of_head(plan: str) -> dict[tuple[str, str], int]:
    """Bytes that a head of the plan's point asks of HBM, by chapter and variant."""
    runs = _load("attention_bytes.json")["runs"]
    point = POINTS[plan]
    return {
        (run["chapter"], run["variant"]): run["bytes"]
        for run in runs
        if (run["seq"], run["head_dim"]) == point
    }


def intensity(plan: str, bytes_asked: int) -> float:
    """Operations for each byte: 4 * seq^2 * head_dim in a head."""
    seq, head_dim = POINTS[plan]
    return 4 * seq * seq * head_dim / bytes_asked


def copy_bytes_per_second() -> float:
    """What a copy reaches, read and written, on the machine of the other measurements."""
    timing = _load("softmax_h100.json")["timings"][0]
    return timing["gb_per_s"] / timing["share_of_copy"] * 1e9


class Plot(Svg):
    """An SVG with lines and dots."""

    def line(
        self, points: Iterable[tuple[float, float]], colour=GREY, thick=1.5, dash=""
    ):
        points = list(points)
        for x, y in points:
            self._reach(x, y)
        where = " ".join(f"{x:.4g},{y:.4g}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<polyline points="{where}" fill="none" stroke="{colour}" stroke-width="{thick:g}"{dashes}/>'
        )

    def dot(self, x: float, y: float, radius: float, colour: str, name: str):
        self._reach(x + radius, y + radius)
        self.parts.append(
            f'<circle cx="{x:.4g}" cy="{y:.4g}" r="{radius:g}" fill="{colour}"><title>{name}</title></circle>'
        )


# --- roofline -------------------------------------------------------------------------------------


LABELS = {  # where the name of a chapter's fastest kernel stands: beside its dot, clear of the others
    "03": (10, 3, "start"),
    "04": (8, 12, "start"),
    "05": (0, -15, "middle"),
    "06": (9, 12, "start"),
    "07": (-9, -4, "end"),
}


def roofline() -> str:
    """TFLOP/s over operations for each byte of every kernel, under the roofs of the machine."""
    left, top, width, height = 46, 20, 560, 330
    low_x, high_x, low_y, high_y = 0.3, 3000.0, 0.3, 1500.0
    svg = Plot()

    def place(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / low_x) / math.log(high_x / low_x)
        up = math.log(y / low_y) / math.log(high_y / low_y)
        return left + across * width, top + (1 - up) * height

    for value in (1, 10, 100, 1000):
        x, _ = place(value, low_y)
        svg.line([(x, top), (x, top + height)], thick=0.3)
        svg.text(x, top + height + 16, str(value), 11, "middle")
        _, y = place(low_x, value)
        svg.line([(left, y), (left + width, y)], thick=0.3)
        svg.text(left - 6, y + 4, str(value), 11, "end")
    svg.text(
        left + width / 2,
        top + height + 34,
        "operations for each byte asked of HBM",
        12,
        "middle",
    )
    svg.text(0, 12, "TFLOP/s", 12)

    data = _load("attention_h100.json")
    copy = (
        copy_bytes_per_second() / 1e12
    )  # TB/s, so that intensity times this is TFLOP/s
    roofs = (
        ("bf16 matrix product", data["gemm_bf16_tflops"]),
        ("fp32 matrix product", data["gemm_fp32_tflops"]),
    )
    highest = max(tflops for _, tflops in roofs)
    svg.line([place(low_x, low_x * copy), place(highest / copy, highest)], thick=1.6)
    x, y = place(2.6, 2.6 * copy)
    svg.text(x - 8, y - 8, f"copy: {copy:.2f} TB/s", 11, "end")
    for name, tflops in roofs:
        svg.line([place(tflops / copy, tflops), place(high_x, tflops)], thick=1.6)
        x, y = place(high_x, tflops)
        svg.text(x - 4, y - 6, f"{name}: {tflops:.0f} TFLOP/s", 11, "end")

    best: dict[str, tuple[float, float, str]] = {}
    for plan in (FP32, BF16):
        asked = bytes_of_head(plan)
        for timing in timings(plan):
            key = (timing["chapter"], timing["variant"])
            if key not in asked:
                continue
            chapter = timing["chapter"][:2]
            x, y = place(intensity(plan, asked[key]), timing["tflops"])
            svg.dot(
                x, y, 4.5, CHAPTER_COLOURS[chapter], f"{chapter} {timing['variant']}"
            )
            if chapter not in best or y < best[chapter][1]:
                best[chapter] = (x, y, timing["variant"])
    for chapter, (x, y, variant) in best.items():
        dx, dy, anchor = LABELS.get(chapter, (8, 4, "start"))
        svg.text(x + dx, y + dy, f"{chapter} {variant}", 11, anchor, bold=True)
    for number, chapter in enumerate(best):
        y = top + height - 18 * (len(best) - number)
        svg.dot(
            left + width - 90, y, 4.5, CHAPTER_COLOURS[chapter], f"chapter {chapter}"
        )
        svg.text(left + width - 80, y + 4, f"chapter {chapter}", 11)
    svg.width = left + width + 8
    return svg.render("Roofline of an H100 with the kernels of chapters 03 to 07")


# --- bars -----------------------------------------------------------------------------------------


def _bars(
    svg,
    top: float,
    rows: list[tuple[str, float, str, str]],
    longest: float,
    mark: float | None = None,
) -> float:
    """Bars below each other: name, length (of `longest`), colour, text. Returns where the next may begin."""
    left, width, height = 190, 380, 17
    bottom = top + len(rows) * (height + 4)
    if mark is not None:
        x = left + width * mark / longest
        svg.line([(x, top - 4), (x, bottom)], thick=0.7, dash="3 3")
    for number, (name, value, colour, text) in enumerate(rows):
        y = top + number * (height + 4)
        svg.text(left - 8, y + 13, name, 11, "end")
        svg.box(left, y, width * value / longest, height, colour, 0.75)
        svg.text(left + width * value / longest + 6, y + 13, text, 11)
    svg.width = left + width + 70
    return bottom


def ladder() -> str:
    """TFLOP/s of every variant, beside PyTorch's kernels in the same process."""
    svg, top = Plot(), 0
    plans = (
        (FP32, "fp32, N = 1024, d = 64", "memory-efficient"),
        (BF16, "bf16, N = 4096, d = 128", "flash (FA2)"),
    )
    for plan, title, peer in plans:
        measured = timings(plan)
        longest = max(timing["tflops"] for timing in measured)
        rows = []
        for timing in measured:
            chapter = (timing["chapter"] or "")[:2]
            colour = CHAPTER_COLOURS.get(chapter, GREY)
            name = f"{chapter} {timing['variant']}".strip()
            rows.append((name, timing["tflops"], colour, f"{timing['tflops']:.1f}"))
        mark = next(
            timing["tflops"] for timing in measured if timing["variant"] == peer
        )
        svg.text(0, top + 14, f"TFLOP/s, {title}. Dashed: {peer}", 12, bold=True)
        top = _bars(svg, top + 28, rows, longest, mark) + 18
    return svg.render(
        "TFLOP/s of every variant of chapters 03 to 07, beside PyTorch's kernels"
    )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.3g} MB"


def hbm_bytes() -> str:
    """What a head of each variant asks of HBM. The axis is logarithmic."""
    svg, top = Plot(), 0
    for plan, title in (
        (FP32, "fp32, N = 1024, d = 64"),
        (BF16, "bf16, N = 4096, d = 128"),
    ):
        asked = bytes_of_head(plan)
        seq, head_dim = POINTS[plan]
        size = {FP32: 4, BF16: 2}[plan]
        least = 4 * seq * head_dim * size + 4 * seq  # Q, K, V and O once, and LSE
        first = least / 2  # where the axis begins
        rows = [("least: Q, K, V, O, LSE once", math.log(2), GREY, _megabytes(least))]
        for (chapter, variant), count in asked.items():
            colour = CHAPTER_COLOURS[chapter[:2]]
            rows.append(
                (
                    f"{chapter[:2]} {variant}",
                    math.log(count / first),
                    colour,
                    _megabytes(count),
                )
            )
        svg.text(0, top + 14, f"Bytes of a head, {title}", 12, bold=True)
        top = _bars(svg, top + 28, rows, max(length for _, length, *_ in rows)) + 18
    svg.text(0, top, "Equal steps to the right are equal factors.", 11)
    return svg.render("Bytes that a head asks of HBM, by variant")


# --- the walk over the tiles ----------------------------------------------------------------------

TILES, SECONDS = 4, 0.6  # a side of the matrix of tiles, and a visit


def visits_of_v1(tiles: int) -> list[list[tuple[int, int]]]:
    """Chapter 04: key tiles outside. One block of a head visits (query tile, key tile) after another."""
    return [[(query, key)] for key in range(tiles) for query in range(tiles)]


def visits_of_v2(tiles: int) -> list[list[tuple[int, int]]]:
    """Chapter 05: query tiles outside. Each is a block: all of them visit a key tile at the same time."""
    return [[(query, key) for query in range(tiles)] for key in range(tiles)]


WALK_STYLE = """<style>
.walk-step { opacity: .12; animation: walk-step CYCLEs linear infinite; }
@keyframes walk-step { 0%, SHARE% { opacity: .45 } LATER% { opacity: .2 } 100% { opacity: .12 } }
@media (prefers-reduced-motion: reduce) { .walk-step { animation: none; opacity: .3 } }
</style>"""


def swap() -> str:
    """Who waits on the chip and who comes by, in chapters 04 and 05; numbers are the order, and it moves."""
    cell, top = 44, 62
    steps = TILES * TILES + 2
    share = 100 / steps
    svg = Plot()
    style = WALK_STYLE.replace("CYCLE", f"{steps * SECONDS:g}")
    style = style.replace("SHARE", f"{share:.3g}").replace(
        "LATER", f"{1.6 * share:.3g}"
    )
    svg.parts.append(style)

    def lit(x, y, width, height, colour, step):
        svg._reach(x + width, y + height)
        svg.parts.append(
            f'<rect class="walk-step" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
            f'fill="{colour}" style="animation-delay: {step * SECONDS:g}s"/>'
        )

    panels = (
        ("04: keys outside", "one block for a head, 16 steps", visits_of_v1(TILES)),
        ("05: queries outside", "four blocks for a head, 4 steps", visits_of_v2(TILES)),
    )
    for panel, (title, note, visits) in enumerate(panels):
        left = 76 + panel * (TILES * cell + 130)
        svg.text(left, 14, title, 13, bold=True)
        svg.text(left, 31, note, 11)
        for tile in range(TILES):
            svg.text(
                left + tile * cell + cell / 2, top - 8, f"K, V {tile}", 11, "middle"
            )
            svg.text(
                left - 8, top + tile * cell + cell / 2 + 4, f"Q, O {tile}", 11, "end"
            )
        for step, together in enumerate(visits):
            for query, key in together:
                x, y = left + key * cell, top + query * cell
                lit(x, y, cell - 3, cell - 3, WARPS[2 if panel == 0 else query], step)
                svg.box(x, y, cell - 3, cell - 3)
                svg.text(
                    x + cell / 2 - 1.5, y + cell / 2 + 3, str(step + 1), 13, "middle"
                )
    bottom = top + TILES * cell + 16
    svg.text(76, bottom, "K, V wait on the chip for a column;", 11)
    svg.text(76, bottom + 15, "O comes and goes at every visit", 11)
    right = 76 + TILES * cell + 130
    svg.text(right, bottom, "Q, O wait on the chip for a row,", 11)
    svg.text(right, bottom + 15, "and leave once; only K, V come by", 11)
    svg.width = right + TILES * cell + 24
    return svg.render("The order in which chapters 04 and 05 visit the tiles")


DRAWINGS: dict[str, Callable[[], str]] = {
    "roofline": roofline,
    "ladder": ladder,
    "hbm_bytes": hbm_bytes,
    "swap": swap,
}
