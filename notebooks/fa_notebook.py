"""What the notebooks share: the chapters' programs, measurements, the bundled input, plots and tables.

The programs are built for the simulator, which counts bytes and bank conflicts.
"""

from __future__ import annotations

import base64
import html
import importlib.util
import io
import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
from IPython.display import HTML, Markdown, display
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

ROOT = Path(__file__).resolve().parents[1]

# Okabe and Ito's colours: people with any kind of colour vision can tell them apart.
BLUE, ORANGE, GREEN, PINK, SKY, YELLOW = COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#f0e442",
)
GREY, INK = "#767676", "#222222"
MARKERS = "osD^vP"
SHOWN_DPI = 105  # a figure of 9 inches is as wide as a page

pyplot.rcParams.update(
    {
        "figure.dpi": 100,
        "figure.facecolor": "white",  # on a dark page as well
        "font.size": 10,
        "axes.prop_cycle": pyplot.cycler(color=COLOURS),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "grid.color": "#dddddd",
        "legend.frameon": False,
    }
)


class Unusable(Exception):
    """Something that a notebook needs is missing. One line says what to do, instead of a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


# --- the chapters' programs -----------------------------------------------------------------------


def preset() -> str:
    """$FA_PRESET if it names a preset of the simulator, else sim."""
    asked = os.environ.get("FA_PRESET", "")
    return asked if asked.startswith("sim") else "sim"


def program(chapter: str) -> Path:
    """The program of a chapter: "05" -> build/sim/bin/ch05_loop_swapped_v2. It may not have been built."""
    folders = sorted(ROOT.glob(f"chapters/{chapter}_*"))
    if not folders:
        raise Unusable(f"there is no chapter {chapter}")
    return ROOT / "build" / preset() / "bin" / f"ch{folders[0].name}"


def is_built(chapter: str) -> bool:
    return os.access(program(chapter), os.X_OK)


def run(chapter: str, variant: str = "all", ranks: int = 0, **options: object) -> dict[str, dict]:
    """Runs a chapter's program. Returns the entries of its JSON, by variant.

    Options are the program's own: run("05", seq_q=256, causal=True) runs ch05.. --seq-q 256 --causal.

    @param ranks  how many processes, of a program that runs as several
    """
    path = program(chapter)
    if not is_built(chapter):
        name = path.relative_to(ROOT)
        how = f"./learn run --preset {preset()} {chapter}"
        raise Unusable(f"{name} is not built: `{how}` builds it")
    words = [str(path), "--variant", variant, "--json", "-"]
    if ranks:
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        words = ["mpirun", "--quiet", *root, "--oversubscribe", "-n", f"{ranks}", *words]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        words += [option] if value is True else [option, str(value)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        why = (done.stderr.strip() or "no reason given").splitlines()[0]
        raise Unusable(f"{path.name} ended with {done.returncode}: {why}")
    return {entry["name"]: entry for entry in json.loads(done.stdout)["variants"]}


def hbm_bytes(entry: dict, which: str = "counted") -> int:
    """Bytes read and written by an entry of run(). @param which  "counted" or "predicted" """
    traffic = entry["traffic"][which]
    return traffic["read_bytes"] + traffic["write_bytes"]


def fragment_maps() -> ModuleType:
    """tools/docs/fragment_maps.py, the maps of chapter 06's kernel.cuh: a notebook imports only from its own
    folder.
    """
    path = ROOT / "tools" / "docs" / "fragment_maps.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- data -----------------------------------------------------------------------------------------


def measured(name: str) -> dict:
    """What was measured on a GPU: docs/results/NAME.json."""
    text = (ROOT / "docs" / "results" / f"{name}.json").read_text(encoding="utf-8")
    return json.loads(text)


def bundled() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q, K and V of a layer of a language model: [1, 12, 229, 32], see data/README.md."""
    q, k, v = (np.load(ROOT / "data" / f"{name}.npy") for name in "qkv")
    return q.astype(np.float32), k.astype(np.float32), v.astype(np.float32)


def relative_error(x: np.ndarray, right: np.ndarray) -> float:
    """In the L2 norm, as the chapters measure it."""
    right = np.asarray(right, dtype=np.float64)
    return float(np.linalg.norm(x - right) / np.linalg.norm(right))


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent p of the best fit y = c * x^p, by least squares of the logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


# --- what a reader sees ---------------------------------------------------------------------------


def human(value: float, unit: str = "") -> str:
    """1672192, "B" -> "1.67 MB" """
    for prefix in ("", "k", "M", "G", "T"):
        if abs(value) < 999.5:
            break
        value /= 1000
    return f"{value:.3g} {prefix}{unit}".strip()


def plain_ticks(axis: Axis, values: Sequence[float]) -> None:
    """Ticks at these values of a logarithmic axis, and nowhere else."""
    axis.set_ticks(values, [f"{value:g}" for value in values])
    axis.set_ticks([], minor=True)


def styles(groups: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Each group with its colour and marker."""
    return zip(sorted(groups), COLOURS, MARKERS, strict=False)


def roof(axes: Axes, peak: float, slope: float, x_range: tuple[float, float]) -> None:
    """The roofline on logarithmic axes: the smaller of a peak and slope * x."""
    x = np.geomspace(*x_range, 200)
    axes.loglog(x, np.minimum(peak, slope * x), color=INK)
    axes.set_xlim(x_range)


def named_points(
    axes: Axes,
    points: Sequence[tuple[float, float, str]],
    names: Mapping[str, tuple[int, int]],
    marker: str,
    colour: str,
    label: str,
) -> None:
    """Points x, y, name. @param names  the names to write next to their points, and how far from them"""
    x, y = [point[0] for point in points], [point[1] for point in points]
    axes.plot(x, y, marker, color=colour, markersize=7, linestyle="", label=label)
    for at_x, at_y, name in points:
        if name in names:
            axes.annotate(
                name, (at_x, at_y), names[name], textcoords="offset points", fontsize=8, va="center"
            )


def ladder(axes: Axes, names: Iterable[str], values: Sequence[float], groups: Sequence[str | None]) -> None:
    """Bars from top to bottom, one colour per group; bars without a group are grey."""
    known = [group for group in dict.fromkeys(groups) if group is not None]
    colours = {None: GREY} | dict(zip(known, COLOURS, strict=False))
    bars = axes.barh(list(names), values, color=[colours[group] for group in groups])
    axes.invert_yaxis()
    axes.bar_label(bars, fmt="%.3g", padding=3, fontsize=8)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", labelsize=8)
    axes.margins(x=0.12, y=0.02)


def draw_cell(axes: Axes, row: int, col: int, text: object, colour: str, strong: bool) -> None:
    """A cell of a matrix. @param strong  whether it is highlighted"""
    alpha = 0.95 if strong else 0.25
    axes.add_patch(Rectangle((col, row), 1, 1, color=colour, alpha=alpha, linewidth=0))
    style = {"color": "white", "weight": "bold"} if strong else {"color": INK}
    middle = {"ha": "center", "va": "center", "fontsize": 8}
    axes.text(col + 0.5, row + 0.5, text, **middle, **style)


def matrix_axes(axes: Axes, rows: int, cols: int, title: str) -> None:
    """Row 0 at the top, square cells."""
    axes.set(xlim=(0, cols), ylim=(rows, 0), aspect="equal", title=title)
    axes.set_xticks(np.arange(0, cols, 2) + 0.5, range(0, cols, 2))
    axes.set_yticks(np.arange(0, rows, 2) + 0.5, range(0, rows, 2))
    axes.grid(visible=False)


def draw_owners(axes: Axes, lane_of: np.ndarray, register_of: np.ndarray, lane: int, title: str) -> None:
    """Which lane holds which element; the colour shows the register. @param lane  is highlighted"""
    for (row, col), owner in np.ndenumerate(lane_of):
        colour = COLOURS[register_of[row, col]]
        draw_cell(axes, row, col, owner, colour, owner == lane)
    matrix_axes(axes, *lane_of.shape, title)


def name_registers(axes: Axes) -> None:
    """A legend below the axes: the colours of draw_owners()."""
    for register in range(4):
        label, colour = f"register {register}", COLOURS[register]
        axes.plot([], [], "s", color=colour, label=label)
    place = {"loc": "upper left", "bbox_to_anchor": (0, -0.05)}
    axes.legend(ncols=4, handletextpad=0, **place)


def draw_banks(axes: Axes, group_of: Sequence[Sequence[int]], chunk: int, title: str) -> None:
    """Which banks hold the chunks of eight rows. @param group_of  row, chunk -> which four of the 32 banks"""
    for row, groups in enumerate(group_of):
        for part, group in enumerate(groups):
            colour = ORANGE if part == chunk else BLUE
            draw_cell(axes, row, group, part, colour, part == chunk)
    matrix_axes(axes, 8, 8, title)
    axes.set_xticks(np.arange(8) + 0.5, range(0, 32, 4))
    axes.set_yticks(np.arange(8) + 0.5, range(8))
    axes.set_xlabel("first of four banks")


def show(figure: Figure, text: str) -> None:
    """Shows a figure. @param text  describes it to those who cannot see it"""
    image = io.BytesIO()
    figure.savefig(image, format="png", bbox_inches="tight", dpi=2 * SHOWN_DPI)
    pyplot.close(figure)
    width = int.from_bytes(image.getvalue()[16:20], "big") // 2  # in a PNG's header
    data = base64.b64encode(image.getvalue()).decode()
    source = f"data:image/png;base64,{data}"
    alt = html.escape(text, quote=True)
    # As wide as the page, but still legible on a phone.
    style = f"max-width: max(100%, {width * 2 // 3}px); height: auto"
    display(HTML(f'<img src="{source}" alt="{alt}" width="{width}" style="{style}">'))


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table: the first column to the left, the others to the right."""
    lines = [header, [":---"] + ["---:"] * (len(header) - 1), *rows]
    text = "\n".join("| " + " | ".join(map(str, cells)) + " |" for cells in lines)
    display(Markdown(text))
