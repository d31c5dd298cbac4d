"""The drawings of measurements in docs/results/, in the style of tools/docs/drawings.py."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from .drawings import GREY, RESULTS, WARPS, Svg

CHAPTER_COLOURS = {
    "01": "#06b6d4",
    "02": "#84cc16",
    "03": "#a855f7",
    "04": "#f97316",
    "05": "#22a06b",
    "06": "#3b82f6",
    "07": "#e0435c",
    "08": "#b58900",
    "09": "#0e7490",
    "10": "#9d174d",
}
# Rows and columns of the drawn problem in docs/results/softmax_h100.json.
SOFTMAX = (32768, 4096)
# Operations per element: maximum, difference, exponential, sum, quotient.
SOFTMAX_OPERATIONS = 5


@dataclass(frozen=True)
class Panel:
    """Kernels on one problem, without a mask: a plan of tools/bench/plans.py, and one of its heads in
    bytes.json.
    """

    title: str
    file: str
    plan: str
    dtype: str
    seq: int
    head_dim: int
    peer: str  # the kernel that the others are compared with
    backward: bool = False
    hopper: bool = False  # of chapters 09 and 10, which another machine has timed


EVERY_PANEL = {
    "fp32": Panel(
        *("fp32, N = 1024, d = 64", "attention_h100.json", "fp32_ladder"),
        *("fp32", 1024, 64, "memory-efficient"),
    ),
    "bf16": Panel(
        *("bf16, N = 4096, d = 128", "attention_h100.json", "ladder"), *("bf16", 4096, 128, "flash (FA2)")
    ),
    "backward fp32": Panel(
        *("backward, fp32, N = 1024, d = 64", "bench_h100.json", "backward_fp32"),
        *("fp32", 1024, 64, "memory-efficient", True),
    ),
    "backward bf16": Panel(
        *("backward, bf16, N = 4096, d = 128", "bench_h100.json", "backward_d128"),
        *("bf16", 4096, 128, "flash (FA2)", True),
    ),
    "hopper": Panel(
        *("bf16, N = 4096, d = 128", "attention_h200.json", "hopper_ladder"),
        *("bf16", 4096, 128, "cuDNN", False, True),
    ),
    "hopper backward": Panel(
        *("backward, bf16, N = 4096, d = 128", "attention_h200.json"),
        *("hopper_backward_d128", "bf16", 4096, 128, "cuDNN", True, True),
    ),
}


def _load(name: str) -> dict:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def _is_measured(panel: Panel) -> bool:
    if not (RESULTS / panel.file).exists():
        return False
    return any(t.get("plan") == panel.plan for t in _load(panel.file)["timings"])


PANELS = {name: panel for name, panel in EVERY_PANEL.items() if _is_measured(panel)}


def timings(panel: Panel) -> list[dict]:
    """The measurements of a panel, in the order of the chapters; PyTorch's own kernels last."""
    found = [
        timing
        for timing in _load(panel.file)["timings"]
        if timing.get("plan") == panel.plan
        and (timing["seq"], timing["head_dim"]) == (panel.seq, panel.head_dim)
        and not timing["causal"]
    ]
    return sorted(found, key=lambda timing: timing["chapter"] or "99")


def softmax_timings() -> list[dict]:
    """The same for chapters 01 and 02 and torch.softmax."""
    found = _load("softmax_h100.json")["timings"]
    return [timing for timing in found if (timing["rows"], timing["cols"]) == SOFTMAX]


def bytes_of_head(panel: Panel) -> dict[tuple[str, str], int]:
    """Bytes that a head of a panel requests from HBM, by chapter and variant. Chapters 08 and 10: in both
    passes.
    """
    return {
        (run["chapter"], run["variant"]): run["bytes"]
        for run in _load("bytes.json")["runs"]
        if (run["chapter"][:2] in ("08", "10")) == panel.backward
        and (run["chapter"][:2] in ("09", "10")) == panel.hopper
        and (run.get("dtype"), run.get("seq_q"), run.get("head_dim"))
        == (panel.dtype, panel.seq, panel.head_dim)
    }


def bytes_of_element() -> dict[tuple[str, str], float]:
    """Bytes that a softmax requests from HBM per element, by chapter and variant."""
    return {
        (run["chapter"], run["variant"]): run["bytes"] / run["rows"] / run["cols"]
        for run in _load("bytes.json")["runs"]
        if "rows" in run
    }


def intensity(panel: Panel, bytes_asked: int) -> float:
    """Operations per byte: 4 * seq^2 * head_dim in a head, and 10 * seq^2 * head_dim more with the backward
    pass.
    """
    operations = 14 if panel.backward else 4
    return operations * panel.seq**2 * panel.head_dim / bytes_asked


def copy_bytes_per_second() -> float:
    """The rate of a copy, reads plus writes, on the machine of the other measurements."""
    timing = _load("softmax_h100.json")["timings"][0]
    return timing["gb_per_s"] / timing["share_of_copy"] * 1e9


class Plot(Svg):
    """An SVG with lines and dots."""

    def line(self, points: Iterable[tuple[float, float]], colour=GREY, thick=1.5, dash=""):
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


def placed_kernels() -> Iterator[tuple[str, str, float, float]]:
    """Chapter, variant, operations per byte and TFLOP/s of every kernel."""
    elements = bytes_of_element()
    for timing in softmax_timings():
        key = (timing["chapter"], timing["variant"])
        if key in elements:
            work = SOFTMAX_OPERATIONS * math.prod(SOFTMAX)
            speed = work / timing["median_ms"] / 1e9
            yield key[0][:2], key[1], SOFTMAX_OPERATIONS / elements[key], speed
    for panel in PANELS.values():
        asked = bytes_of_head(panel)
        for timing in timings(panel):
            key = (timing["chapter"], timing["variant"])
            if key in asked:
                x = intensity(panel, asked[key])
                yield key[0][:2], key[1], x, timing["tflops"]


def roofline() -> str:
    """TFLOP/s over operations per byte of every kernel, under the roofs of the machine."""
    left, top, width, height = 46, 20, 600, 380
    low_x, high_x, low_y, high_y = 0.2, 3000.0, 0.1, 1500.0
    svg = Plot()

    def place(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / low_x) / math.log(high_x / low_x)
        up = math.log(y / low_y) / math.log(high_y / low_y)
        return left + across * width, top + (1 - up) * height

    for value in (0.1, 1, 10, 100, 1000):
        x, _ = place(value, low_y)
        if value >= low_x:
            svg.line([(x, top), (x, top + height)], thick=0.3)
            svg.text(x, top + height + 16, str(value), 11, "middle")
        _, y = place(low_x, value)
        svg.line([(left, y), (left + width, y)], thick=0.3)
        svg.text(left - 6, y + 4, str(value), 11, "end")
    svg.text(left + width / 2, top + height + 34, "operations per byte requested from HBM", 12, "middle")
    svg.text(0, 12, "TFLOP/s", 12)

    data = _load("attention_h100.json")
    copy = copy_bytes_per_second() / 1e12  # TB/s, so that intensity times this is TFLOP/s
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

    fastest: dict[str, tuple[float, str]] = {}
    kernels = list(placed_kernels())
    for chapter, variant, _, tflops in kernels:
        fastest[chapter] = max(fastest.get(chapter, (0, "")), (tflops, variant))
    for chapter, variant, operations, tflops in kernels:
        large = fastest[chapter][1] == variant
        name = f"{chapter} {variant}: {tflops:.3g} TFLOP/s"
        x, y = place(operations, tflops)
        svg.dot(x, y, 6 if large else 3.5, CHAPTER_COLOURS[chapter], name)
    x = left + width - 165
    y = top + height - 18 * (len(fastest) + 1)
    svg.text(x - 8, y + 4, "large: the fastest of a chapter", 11)
    for chapter, (_, variant) in fastest.items():
        y += 18
        svg.dot(x, y, 6, CHAPTER_COLOURS[chapter], f"chapter {chapter}")
        elsewhere = " (H200)" if chapter in ("09", "10") else ""
        svg.text(x + 12, y + 4, f"{chapter} {variant}{elsewhere}", 11)
    svg.width = left + width + 8
    return svg.render("Roofline of an H100 with the kernels of all chapters")


# --- bars -----------------------------------------------------------------------------------------


def _bars(
    svg, top: float, rows: list[tuple[str, float, str, str]], longest: float, mark: float | None = None
) -> float:
    """Bars one below the other: name, length (of `longest`), colour, text. Returns the position after
    them.
    """
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


def _panel(svg: Plot, top: float, panel: Panel) -> float:
    """TFLOP/s of every kernel of a panel."""
    measured = timings(panel)
    rows = []
    for timing in measured:
        chapter = (timing["chapter"] or "")[:2]
        colour = CHAPTER_COLOURS.get(chapter, GREY)
        name = f"{chapter} {timing['variant']}".strip()
        rows.append((name, timing["tflops"], colour, f"{timing['tflops']:.1f}"))
    mark = next(t["tflops"] for t in measured if t["variant"] == panel.peer)
    machine = f", {_load(panel.file)['device']}" if panel.hopper else ""
    title = f"TFLOP/s, {panel.title}{machine}. Dashed: {panel.peer}"
    svg.text(0, top + 14, title, 12, bold=True)
    return _bars(svg, top + 28, rows, max(t["tflops"] for t in measured), mark) + 18


def climb() -> str:
    """TFLOP/s of standard attention, of every variant of chapters 06, 07, 09 and 10, and of PyTorch's
    kernels.
    """
    svg = Plot()
    top, chapters = _panel(svg, 0, PANELS["bf16"]), "06 and 07"
    if "hopper" in PANELS:
        top, chapters = _panel(svg, top, PANELS["hopper"]), "06, 07 and 09"
    if "hopper backward" in PANELS:
        _panel(svg, top, PANELS["hopper backward"])
        chapters = "06, 07, 09 and 10"
    return svg.render(
        f"TFLOP/s of standard attention, of every variant of chapters {chapters}, and of PyTorch's kernels"
    )


def ladder() -> str:
    """GB/s and TFLOP/s of every variant of the other chapters, and of PyTorch's kernels."""
    svg = Plot()
    measured = softmax_timings()
    rows = []
    for timing in measured:
        chapter = (timing["chapter"] or "")[:2]
        name = f"{chapter} {timing['variant']}".strip()
        colour = CHAPTER_COLOURS.get(chapter, GREY)
        rows.append((name, timing["gb_per_s"], colour, f"{timing['gb_per_s']:.0f}"))
    mark = next(t["gb_per_s"] for t in measured if t["variant"] == "torch.softmax")
    title = f"GB/s, softmax of {SOFTMAX[0]} x {SOFTMAX[1]}. Dashed: torch.softmax"
    svg.text(0, 14, title, 12, bold=True)
    top = _bars(svg, 28, rows, max(t["gb_per_s"] for t in measured), mark) + 18
    for name in ("fp32", "backward fp32", "backward bf16"):
        top = _panel(svg, top, PANELS[name])
    return svg.render("Speed of every variant of chapters 01 to 05 and 08, and of PyTorch's kernels")


def _size(count: float) -> str:
    """1.6 kB, 230 MB"""
    return f"{count / 1e6:.3g} MB" if count >= 1e5 else f"{count:.3g} B"


def hbm_bytes() -> str:
    """Bytes requested from HBM: per head by each variant, per element of a softmax. The axis is
    logarithmic.
    """
    svg, top = Plot(), 0.0

    def panel(title: str, what_is_least: str, least: float, asked: dict) -> float:
        first = least / 2  # the beginning of the axis
        rows = [(f"least: {what_is_least}", math.log(2), GREY, _size(least))]
        for (chapter, variant), count in asked.items():
            name = f"{chapter[:2]} {variant}"
            colour = CHAPTER_COLOURS[chapter[:2]]
            rows.append((name, math.log(count / first), colour, _size(count)))
        svg.text(0, top + 14, title, 12, bold=True)
        return _bars(svg, top + 28, rows, max(length for _, length, *_ in rows)) + 18

    top = panel("Bytes per element, softmax", "x and y once", 8, bytes_of_element())
    for kernels in PANELS.values():
        size = {"fp32": 4, "bf16": 2}[kernels.dtype]
        # Q, K, V, O and LSE; with the backward pass also dO, dQ, dK and dV.
        tensors = 8 if kernels.backward else 4
        least = kernels.seq * (tensors * kernels.head_dim * size + 4)
        what = "every tensor once" if kernels.backward else "Q, K, V, O, LSE once"
        title = kernels.title.replace("backward", "forward and backward")
        asked = bytes_of_head(kernels)
        top = panel(f"Bytes per head, {title}", what, least, asked)
    svg.text(0, top, "Equal steps to the right are equal factors.", 11)
    return svg.render("Bytes requested from HBM, by variant")


# --- where the last kernels stand -----------------------------------------------------------------

# Two runs on one GPU. If both have timed a kernel, the second counts: FlashAttention-3 and -4 ran in it.
STANDING = ("attention_h200.json", "peers_h200.json")
PEERS = {"flash (FA2)": "FlashAttention-2", "cuDNN": "cuDNN", **{f"FlashAttention-{n}": "" for n in (3, 4)}}


def _relative_to_cudnn(file: str, head_dim: int, backward: bool) -> dict[tuple, dict[tuple, float]]:
    """For each problem of a file, the speeds of its kernels relative to cuDNN's."""
    found: dict[tuple, dict[tuple, float]] = {}
    for timing in _load(file)["timings"]:
        grouped = timing.get("kv_heads", 0) > 0  # 0: as many heads of K and V as of Q
        if timing["head_dim"] == head_dim and bool(timing.get("backward")) == backward and not grouped:
            problem = tuple(timing[name] for name in ("batch", "heads", "seq", "causal"))
            kernel = (timing["chapter"] or "", timing["variant"])
            found.setdefault(problem, {})[kernel] = timing["median_ms"]
    return {
        problem: {kernel: times["", "cuDNN"] / ms for kernel, ms in times.items()}
        for problem, times in found.items()
        if ("", "cuDNN") in times
    }


def standing(backward: bool, head_dim: int = 128) -> tuple[list[tuple], dict[tuple[str, str], float]]:
    """The problems that both runs of STANDING timed, and for each kernel the geometric mean of its speed on
    them relative to cuDNN's in the same run. Chapters first, then the kernels of others.
    """
    runs = [_relative_to_cudnn(file, head_dim, backward) for file in STANDING]
    problems = sorted(runs[0].keys() & runs[1].keys())
    means = {}
    for run in runs:
        of_all = set.intersection(*({*run[problem]} for problem in problems))
        for kernel in of_all:
            product = math.prod(run[problem][kernel] for problem in problems)
            means[kernel] = product ** (1 / len(problems))
    # In the order of the chapters; PEERS, which have none, come last.
    timed = dict.fromkeys(
        (t["chapter"] or "", t["variant"]) for t in _load(STANDING[0])["timings"] if t["head_dim"] == head_dim
    )
    chapters = sorted((kernel for kernel in timed if kernel[0]), key=lambda kernel: kernel[0])
    order = [*chapters, *(("", name) for name in PEERS)]
    return problems, {kernel: means[kernel] for kernel in order if kernel in means}


def both_passes() -> str:
    """The speed of the last chapters' variants and of FlashAttention-2, -3, -4, relative to cuDNN's."""
    svg, top = Plot(), 0.0
    device = _load(STANDING[0])["device"]
    for title, backward in (("Forward", False), ("Backward", True)):
        _, means = standing(backward)
        rows = []
        for (chapter, variant), mean in means.items():
            name = f"{chapter[:2]} {variant}" if chapter else PEERS[variant] or variant
            colour = CHAPTER_COLOURS[chapter[:2]] if chapter else GREY
            rows.append((name, mean, colour, f"{mean:.2f}"))
        svg.text(
            0, top + 14, f"{title}: speed relative to cuDNN (dashed), bf16, d = 128, {device}", 12, bold=True
        )
        top = _bars(svg, top + 28, rows, max(means.values()), 1.0) + 18
    return svg.render(
        "Speed of the variants of chapters 07 to 10 relative to cuDNN, FlashAttention-2, -3 and -4"
    )


# --- the walk over the tiles ----------------------------------------------------------------------

TILES, SECONDS = 4, 0.6  # a side of the matrix of tiles, and a visit


def visits_of_v1(tiles: int) -> list[list[tuple[int, int]]]:
    """Chapter 04: key tiles in the outer loop. One block per head visits one (query tile, key tile) after
    another.
    """
    return [[(query, key)] for key in range(tiles) for query in range(tiles)]


def visits_of_v2(tiles: int) -> list[list[tuple[int, int]]]:
    """Chapter 05: one block per query tile. All blocks visit a key tile at the same time."""
    return [[(query, key) for query in range(tiles)] for key in range(tiles)]


WALK_STYLE = """<style>
.walk-step { opacity: .12; animation: walk-step CYCLEs linear infinite; }
@keyframes walk-step { 0%, SHARE% { opacity: .45 } LATER% { opacity: .2 } 100% { opacity: .12 } }
@media (prefers-reduced-motion: reduce) { .walk-step { animation: none; opacity: .3 } }
</style>"""


def swap() -> str:
    """What stays on the chip and what streams past, in chapters 04 and 05. Numbers give the order; it is
    animated.
    """
    cell, top = 44, 62
    steps = TILES * TILES + 2
    share = 100 / steps
    svg = Plot()
    style = WALK_STYLE.replace("CYCLE", f"{steps * SECONDS:g}")
    style = style.replace("SHARE", f"{share:.3g}").replace("LATER", f"{1.6 * share:.3g}")
    svg.parts.append(style)

    def lit(x, y, width, height, colour, step):
        svg._reach(x + width, y + height)
        svg.parts.append(
            f'<rect class="walk-step" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
            f'fill="{colour}" style="animation-delay: {step * SECONDS:g}s"/>'
        )

    panels = (
        ("04: keys outside", "one block per head, 16 steps", visits_of_v1(TILES)),
        ("05: queries outside", "four blocks per head, 4 steps", visits_of_v2(TILES)),
    )
    for panel, (title, note, visits) in enumerate(panels):
        left = 76 + panel * (TILES * cell + 130)
        svg.text(left, 14, title, 13, bold=True)
        svg.text(left, 31, note, 11)
        for tile in range(TILES):
            svg.text(left + tile * cell + cell / 2, top - 8, f"K, V {tile}", 11, "middle")
            svg.text(left - 8, top + tile * cell + cell / 2 + 4, f"Q, O {tile}", 11, "end")
        for step, together in enumerate(visits):
            for query, key in together:
                x, y = left + key * cell, top + query * cell
                lit(x, y, cell - 3, cell - 3, WARPS[2 if panel == 0 else query], step)
                svg.box(x, y, cell - 3, cell - 3)
                svg.text(x + cell / 2 - 1.5, y + cell / 2 + 3, str(step + 1), 13, "middle")
    bottom = top + TILES * cell + 16
    svg.text(76, bottom, "K, V stay on the chip for a column;", 11)
    svg.text(76, bottom + 15, "O is loaded and stored at every step", 11)
    right = 76 + TILES * cell + 130
    svg.text(right, bottom, "Q, O stay on the chip for a row;", 11)
    svg.text(right, bottom + 15, "O is stored once, K, V stream past", 11)
    svg.width = right + TILES * cell + 24
    return svg.render("The order in which chapters 04 and 05 process the tiles")


DRAWINGS: dict[str, Callable[[], str]] = {
    "roofline": roofline,
    "climb": climb,
    "both_passes": both_passes,
    "ladder": ladder,
    "hbm_bytes": hbm_bytes,
    "swap": swap,
}
