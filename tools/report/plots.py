"""The plots of the report, as SVG that takes its colours from the page.

matplotlib draws with placeholder colours, which are then replaced by the page's CSS variables, so that
one drawing suits both a light and a dark page. The page itself sets keys and captions, which therefore
wrap on a narrow screen.
"""

from __future__ import annotations

import io
import math
import re
from dataclasses import dataclass, field
from html import escape

import matplotlib
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .results import DECLARED, FAIL, Row, Traffic, human, scientific
from .results import OK as PASSED

matplotlib.use("svg")

# Placeholder colours for matplotlib, and the CSS variables that replace them.
INK, MUTED, GRID, OK, BAD, WARN = (f"#0000{n:02x}" for n in range(1, 7))
TENSORS = tuple(f"#0000{n:02x}" for n in range(0x10, 0x1C))
VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    OK: "--ok",
    BAD: "--bad",
    WARN: "--warn",
    **{colour: f"--tensor-{index}" for index, colour in enumerate(TENSORS)},
}
VERDICT_COLOURS = {PASSED: OK, FAIL: BAD, DECLARED: WARN}

WIDTH, ROW_HEIGHT, MARGIN = 4.6, 0.27, 0.6  # inches
BAR = 0.62  # as a fraction of a row's height
LONGEST_LABEL = 20

STYLE = {
    "svg.fonttype": "none",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "x",
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.left": False,
    "ytick.labelcolor": INK,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "hatch.linewidth": 1.2,
}


@dataclass
class Plot:
    """A drawing with its title, caption and key."""

    title: str
    caption: str  # how to read it
    svg: str = ""
    # Label, shape ("solid", "hatched", "dot", "cross" or "mark") and CSS variable.
    key: list[tuple[str, str, str]] = field(default_factory=list)

    def add_key(self, label: str, shape: str, colour: str) -> None:
        self.key.append((label, shape, VARIABLES[colour]))


def _label(row: Row) -> str:
    label = f"{row.number} {row.variant}"
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 2] + ".."


def _axes(rows: list[Row]) -> tuple[Figure, Axes]:
    """Axes with a row for each variant, the first on top, and a rule between chapters."""
    size = (WIDTH, MARGIN + ROW_HEIGHT * len(rows))
    figure, axes = pyplot.subplots(figsize=size, layout="constrained")
    axes.set_yticks(range(len(rows)), [_label(row) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    dotted = {"color": MUTED, "linewidth": 0.8, "linestyle": (0, (2, 2))}
    for position in range(1, len(rows)):
        if rows[position].chapter != rows[position - 1].chapter:
            axes.axhline(position - 0.5, **dotted)
    return figure, axes


def _write(axes: Axes, text: str, value: float, position: int) -> None:
    """A text at the end of a bar."""
    axes.annotate(text, (value, position), (5, 0), textcoords="offset points", va="center", fontsize=8)


def _mark(axes: Axes, value: float, position: int) -> None:
    """The upright mark of a formula or a tolerance."""
    axes.plot(value, position, "|", color=INK, markersize=13, markeredgewidth=1.8)


def _finish(figure: Figure, plot: Plot, name: str, facts: list[str]) -> Plot:
    """Turns the figure into an <svg> element for an HTML page.

    @param name   becomes part of the ids in the drawing, which must be unique on the page
    @param facts  what the drawing shows, for readers who cannot see it
    """
    with io.StringIO() as file:
        figure.savefig(file, format="svg")
        svg = file.getvalue()
    pyplot.close(figure)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg)  # HTML needs no declaration of either
    svg = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    svg = re.sub("|".join(VARIABLES), lambda c: f"var({VARIABLES[c[0]]})", svg)
    view_box = re.search(r'viewBox="[^"]*"', svg)[0]
    words = escape(f"{plot.title}. {'; '.join(facts)}.", quote=True)
    head = f'<svg {view_box} role="img" aria-label="{words}">'
    plot.svg = re.sub(r"<svg\b[^>]*>", lambda _: head, svg, count=1).strip()
    return plot


def _unit(largest: float) -> tuple[float, str]:
    units = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
    return next((unit for unit in units if largest >= unit[0]), (1.0, "bytes"))


def _stack_tensors(axes: Axes, plot: Plot, shown: list[Traffic], factor: float) -> None:
    """A bar per variant: solid for the bytes read of each tensor, hatched for those written."""
    left = [0.0] * len(shown)
    names = dict.fromkeys(name for traffic in shown for name in traffic.tensors)
    for index, name in enumerate(names):
        colour = TENSORS[index % len(TENSORS)]
        pairs = [traffic.tensors.get(name, (0, 0)) for traffic in shown]
        for way, (word, shape) in enumerate((("read", "solid"), ("written", "hatched"))):
            sizes = [pair[way] / factor for pair in pairs]
            if not any(sizes):
                continue
            fill = {"color": colour}
            if shape == "hatched":
                fill = {"facecolor": "none", "edgecolor": colour, "hatch": "////"}
            axes.barh(range(len(shown)), sizes, BAR, left, linewidth=0.8, **fill)
            plot.add_key(f"{name} {word}", shape, colour)
            left = [start + size for start, size in zip(left, sizes, strict=True)]


def hbm_bytes(rows: list[Row], name: str) -> Plot | None:
    """Bytes read and written by tensor, and the formula's total as a mark if bytes were counted."""
    rows = [row for row in rows if row.counted or row.predicted]
    if not rows:
        return None
    counted = any(row.counted for row in rows)
    shown = [row.counted or row.predicted for row in rows]
    factor, unit = _unit(max(traffic.bytes for traffic in shown))
    how = "counted; the mark is the formula" if counted else "by the formula"
    plot = Plot("Bytes between HBM and the chip", f"By tensor, {how}.")

    figure, axes = _axes(rows)
    _stack_tensors(axes, plot, shown, factor)
    facts = []
    for position, (row, traffic) in enumerate(zip(rows, shown, strict=True)):
        text = human(traffic.bytes, "B")
        _write(axes, text, traffic.bytes / factor, position)
        fact = f"{_label(row)}: {text}"
        if row.counted and row.predicted:
            _mark(axes, row.predicted.bytes / factor, position)
            fact += f" counted, {human(row.predicted.bytes, 'B')} by the formula"
        facts.append(fact)
    if counted:
        plot.add_key("formula", "mark", INK)
    axes.set_xlim(0, 1.2 * max(traffic.bytes for traffic in shown) / factor or 1)
    axes.set_xlabel(unit)
    return _finish(figure, plot, name, facts)


def sector_efficiency(rows: list[Row], name: str) -> Plot | None:
    """The requested share of the bytes in the touched sectors."""
    rows = [row for row in rows if row.counted and row.counted.efficiency is not None]
    if not rows:
        return None
    plot = Plot(
        "Sector efficiency",
        "Memory moves in sectors of 32 bytes; this is the share of them that the kernel asked for.",
    )
    shares = [100 * row.counted.efficiency for row in rows]
    figure, axes = _axes(rows)
    axes.barh(range(len(rows)), shares, BAR, color=TENSORS[0])
    facts = []
    for position, (row, share) in enumerate(zip(rows, shares, strict=True)):
        sectors = human(row.counted.sectors)
        _write(axes, f"{share:.1f} %, {sectors}", share, position)
        facts.append(f"{_label(row)}: {share:.1f} % of {sectors} sectors")
    top = max(100, *shares)
    axes.set_xlim(0, 1.4 * top)
    axes.set_xticks(range(0, int(top) + 1, 25 if top <= 150 else 100))
    axes.set_xlabel("% and number of sectors")
    return _finish(figure, plot, name, facts)


def errors(rows: list[Row], name: str) -> Plot | None:
    """Relative error against the tolerance, on a logarithmic axis."""
    rows = [row for row in rows if row.error]
    if not rows:
        return None
    plot = Plot(
        "Error against its tolerance",
        "Against a float64 reference, worst output. Left of the mark is accepted.",
    )
    values = [value for row in rows for value in (row.error.rel_l2, row.error.tolerance)]
    finite = [value for value in values if 0 < value < math.inf]
    low = 10 ** math.floor(math.log10(min(finite, default=1e-7)) - 0.5)
    high = 10 ** math.ceil(math.log10(max(finite, default=1.0)) + 0.5)

    figure, axes = _axes(rows)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    facts = []
    for position, row in enumerate(rows):
        error, colour = row.error, VERDICT_COLOURS.get(row.verdict, MUTED)
        on_axis = math.isfinite(error.rel_l2)
        value = max(error.rel_l2, low) if on_axis else high
        axes.plot([low, value], [position, position], color=colour, linewidth=1.5)
        _mark(axes, error.tolerance, position)
        marker = ">" if not on_axis else "o" if row.verdict == PASSED else "X"
        axes.plot(value, position, marker, color=colour, markersize=6, clip_on=False)
        axes.annotate(
            scientific(error.rel_l2),
            (1.04, position),
            xycoords=axes.get_yaxis_transform(),
            va="center",
            fontsize=8,
        )
        facts.append(
            f"{_label(row)}: {scientific(error.rel_l2)} in {error.tensor}, "
            f"tolerance {scientific(error.tolerance)}, {row.verdict}"
        )
    plot.add_key("tolerance", "mark", INK)
    for verdict in dict.fromkeys(row.verdict for row in rows):
        shape = "dot" if verdict == PASSED else "cross"
        plot.add_key(verdict, shape, VERDICT_COLOURS.get(verdict, MUTED))
    axes.set_xlabel("relative L2 error")
    return _finish(figure, plot, name, facts)


def shared_memory(rows: list[Row], name: str) -> Plot | None:
    """Wavefronts of shared memory: the minimum, and those that conflicts add."""
    rows = [row for row in rows if row.shared]
    top = max((row.shared.wavefronts for row in rows), default=0)
    if not top:
        return None
    plot = Plot(
        "Passes over shared memory",
        "A wavefront is one pass over the 32 banks; a bank conflict costs another.",
    )
    figure, axes = _axes(rows)
    ideal = [row.shared.ideal for row in rows]
    conflicts = [row.shared.conflicts for row in rows]
    axes.barh(range(len(rows)), ideal, BAR, color=TENSORS[0])
    plot.add_key("needed", "solid", TENSORS[0])
    if any(conflicts):
        axes.barh(range(len(rows)), conflicts, BAR, ideal, color=BAD)
        plot.add_key("added by conflicts", "solid", BAD)
    facts = []
    for position, row in enumerate(rows):
        text = human(row.shared.wavefronts)
        if row.shared.conflicts:
            text += f", {human(row.shared.conflicts)} added"
        _write(axes, text, row.shared.wavefronts, position)
        facts.append(f"{_label(row)}: {text}")
    axes.set_xlim(0, (1.6 if any(conflicts) else 1.25) * top)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.xaxis.set_major_formatter(lambda value, _: human(value))
    axes.set_xlabel("wavefronts")
    return _finish(figure, plot, name, facts)


def times(rows: list[Row], name: str) -> Plot | None:
    """Time on the GPU, and the resulting speed."""
    rows = [row for row in rows if row.time]
    if not rows:
        return None
    plot = Plot("Time on the GPU", "Median of several runs; shorter is better.")
    medians = [row.time.median_ms for row in rows]
    figure, axes = _axes(rows)
    axes.barh(range(len(rows)), medians, BAR, color=TENSORS[0])
    facts = []
    for position, row in enumerate(rows):
        text = f"{row.time.median_ms:.3g} ms"
        if row.time.tflops is not None:
            text += f", {row.time.tflops:.3g} TFLOP/s"
        elif row.time.gb_per_s is not None:
            text += f", {row.time.gb_per_s:.0f} GB/s"
        _write(axes, text, row.time.median_ms, position)
        facts.append(f"{_label(row)}: {text}")
    axes.set_xlim(0, 1.8 * max(medians))
    axes.set_xlabel("ms")
    return _finish(figure, plot, name, facts)


def draw(rows: list[Row], name: str) -> list[Plot]:
    """Every plot that the rows have data for.

    @param name  makes the ids of the drawings unique on the page
    """
    kinds = (hbm_bytes, sector_efficiency, errors, shared_memory, times)
    with matplotlib.rc_context(STYLE):
        plots = [kind(rows, f"{name}-{kind.__name__}") for kind in kinds]
    return [plot for plot in plots if plot]
