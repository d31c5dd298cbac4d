"""Tables and the drawing of what was measured through PyTorch: docs/pages/training.md.

Every function takes a parsed file of docs/results/ and returns Markdown, or raises NoSuchMeasurement. The
files are those of tools/bench/training_step.py, tools/bench/course.py, tools/bench/models.py,
python/training/train.py and python/tests/random_calls.py.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable

from .drawings import GREY, RESULTS
from .measured import NoSuchMeasurement, on_device, table
from .plots import Plot

BASE = "flash (FA2)"
LAST = 100  # steps whose mean is the loss at the end
SMOOTH = 20  # steps whose mean is a point of a curve


# --- a training step ------------------------------------------------------------------------------


def _steps(data: dict) -> tuple[list[int], list[str], dict]:
    """Contexts, kinds of attention, and the rows by both."""
    rows = {(row["context"], row["attention"]): row for row in data["steps"]}
    contexts = list(dict.fromkeys(context for context, _ in rows))
    return contexts, list(dict.fromkeys(name for _, name in rows)), rows


def _step_table(data: dict, unit: str, cell: Callable[[dict, dict], str]) -> str:
    """A line per context, a column per kind of attention. @param cell  of a row, and of that of BASE"""
    contexts, names, rows = _steps(data)

    def shown(context: int, name: str) -> str:
        row = rows[context, name]
        return cell(row, rows[context, BASE]) if row["fits"] else "does not fit"

    lines = [[f"{context:,}", *(shown(context, name) for name in names)] for context in contexts]
    return on_device(data, [f"context, {unit}", *names], lines)


def step_times(data: dict) -> str:
    """Milliseconds of a step, and in brackets the tokens per second relative to BASE."""

    def cell(row: dict, base: dict) -> str:
        ratio = base["median_ms"] / row["median_ms"]
        relative = "" if row is base else f" ({ratio:.2f})"
        return f"{row['median_ms']:.1f}{relative}"

    return _step_table(data, f"ms per step (of {BASE})", cell)


def step_tokens(data: dict) -> str:
    """Thousands of tokens per second."""
    return _step_table(
        data, "1000 tokens per second", lambda row, _: f"{row['tokens_per_second'] / 1e3:,.0f}"
    )


def step_memory(data: dict) -> str:
    """The peak of a step's memory."""
    return _step_table(data, "peak in GiB", lambda row, _: f"{row['bytes'] / 2**30:.1f}")


def _length(fits: int, fails: int | None) -> str:
    """What a search has found: tools/bench/longest.py."""
    if fails is None:
        return f"at least {fits:,}"
    return f"{fits:,}" if fits else f"less than {fails:,}"


def longest_context(data: dict) -> str:
    """The longest context whose step fits, with one sentence that says into what."""
    longest = data["longest"]
    cells = [_length(**found) for found in longest.values()]
    told = (
        f"With one sequence in a step, the longest contexts that fit into {data['memory_gib']:.0f} GiB, "
        f"in multiples of {data['stride']:,}:"
    )
    rows = on_device(data, ["attention", *longest], [["longest context", *cells]])
    return f"{told}\n\n{rows}"


# --- the course -----------------------------------------------------------------------------------


def course(data: dict) -> str:
    """Milliseconds of forward and backward, and those that the course's list shows."""
    rows = [
        [row["attention"], f"{row['mean_ms']:.2f}", f"{row['rel_l2']:.1e}", f"{row['rel_l2_gradients']:.1e}"]
        for row in data["rows"]
    ]
    shape = f"[1, {data['heads']}, {data['seq']}, {data['head_dim']}]"
    seconds = f"mean of {data['rep'] / 1000:g} s"
    header = [shape, f"ms, forward + backward, {seconds}", "error of O"]
    header.append("of the gradients")
    best, second = (f"{ms:.2f}" for ms in data["public_ms"])
    rows.append(["the course's list, on an H100: the first", best, "-", "-"])
    rows.append(["the second", second, "-", "-"])
    return on_device(data, header, rows)


# --- a training -----------------------------------------------------------------------------------


def _end(run: dict) -> float:
    return statistics.mean(run["losses"][-LAST:])


def losses(data: dict) -> str:
    """The losses at the end, their distance from PyTorch's, speed and memory of each run."""
    by_name = {run["run"]: run for run in data["runs"]}
    if "sdpa" not in by_name:
        raise NoSuchMeasurement("it has no run of sdpa")
    base = by_name["sdpa"]
    rows = []
    for name, run in by_name.items():
        pairs = zip(run["losses"], base["losses"], strict=True)
        far = statistics.mean([abs(a - b) for a, b in pairs][-LAST:])
        rows.append(
            [
                f"`{name}`",
                f"{_end(run):.4f}",
                "-" if run is base else f"{_end(run) - _end(base):+.4f}",
                "-" if run is base else f"{far:.4f}",
                f"{run['tokens_per_second'] / 1e3:,.0f}",
                f"{run['peak_bytes'] / 2**30:.2f}",
            ]
        )
    header = ["run", f"loss, mean of the last {LAST} steps", "difference from `sdpa`"]
    header += ["mean distance from `sdpa` in these steps"]
    header += ["1000 tokens per second", "peak, GiB"]
    return on_device(data, header, rows)


WAYS = {"no_cache": "no cache", "cache": "a cache", "graph": "a cache, in a CUDA graph"}


def writing(data: dict) -> str:
    """The tokens per second that each run's model writes, with a cache of keys and values and without."""
    rows = [
        [f"`{run['run']}`", *(f"{rates[way]:,.0f}" if way in rates else "-" for way in WAYS)]
        for run in data["runs"]
        if (rates := run.get("written_per_second"))
    ]
    if not rows:
        raise NoSuchMeasurement("no run of it measured how fast its model writes")
    return on_device(data, ["tokens per second", *WAYS.values()], rows)


def samples(data: dict, name: str) -> str:
    """What a run's model wrote."""
    for run in data["runs"]:
        if run["run"] == name:
            text = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in run["sample"])
            return f"```text\n{text.rstrip()}\n```"
    raise NoSuchMeasurement(f"it has no run {name}")


def models(data: dict) -> str:
    """Milliseconds with both kinds of attention, and the speed of ours relative to the other."""
    rows = []
    for row in data["rows"]:
        base, ours = row["ms"].values()
        of = {"attention": "attention alone"}.get(row["model"], row["model"])
        rows.append([of, row["case"], f"{base:.2f}", f"{ours:.2f}", f"{base / ours:.2f}"])
    header = ["model", "what it does", "ms with `sdpa`; padded", "with `fa_tutorial`; packed", "speed"]
    return on_device(data, header, rows)


def random_calls(data: dict) -> str:
    """How many calls of each kind, and the largest error of each result."""
    count = data["count"]
    kinds = [
        [what, ", ".join(f"{name} {n:,}" for name, n in sorted(of_kind.items()))]
        for what, of_kind in count.items()
    ]
    names = list(dict.fromkeys(key.split()[0] for key in data["largest"]))
    rows = [
        [dtype, *(f"{data['largest'][f'{name} {dtype}']:.2f}" for name in names)] for dtype in count["dtype"]
    ]
    told = f"{data['device']}, {data['calls']:,} calls, {len(data['wrong'])} wrong results:"
    header = ["largest error / its limit", *names]
    return f"{told}\n\n{table(['calls', 'number'], kinds)}\n\n{table(header, rows)}"


# --- the drawing ----------------------------------------------------------------------------------

FILE = "training_h200.json"
COLOURS = {
    "unfused": "#a855f7",
    "ours": "#e0435c",
    "sdpa": "#3b82f6",
    "sdpa-again": GREY,
    "efficient": "#10b981",
}


def _smooth(values: list[float]) -> list[tuple[int, float]]:
    """The means of SMOOTH steps each, and the last of these steps."""
    ends = range(SMOOTH, len(values) + 1, SMOOTH)
    return [(end, statistics.mean(values[end - SMOOTH : end])) for end in ends]


def _axes(svg: Plot, top: float, height: float, steps: int, ticks: list[float], title: str):
    """Draws axes and returns a function from a step and a value to a place."""
    left, width = 52, 560
    low, high = ticks[0], ticks[-1]

    def place(step: float, value: float) -> tuple[float, float]:
        up = (value - low) / (high - low)
        return left + width * step / steps, top + height * (1 - min(1.0, up))

    for value in ticks:
        _, y = place(0, value)
        svg.line([(left, y), (left + width, y)], thick=0.3)
        svg.text(left - 6, y + 4, f"{value:g}", 11, "end")
    for part in range(5):
        step = steps * part // 4
        x, _ = place(step, low)
        svg.text(x, top + height + 15, f"{step:,}", 11, "middle")
    svg.text(0, top - 10, title, 12, bold=True)
    return place


def training_curves() -> str:
    """The losses of all runs, and their differences from those of PyTorch's attention."""
    svg = Plot()
    if not (RESULTS / FILE).exists():
        svg.text(0, 14, f"Not measured yet: there is no docs/results/{FILE}.")
        return svg.render("Losses of a GPT with different attention")
    data = json.loads((RESULTS / FILE).read_text(encoding="utf-8"))
    curves = {run["run"]: run["losses"] for run in data["runs"]}
    steps, base = len(curves["sdpa"]), curves["sdpa"]
    place = _axes(svg, 30, 240, steps, [1, 1.5, 2, 2.5, 3], "loss, nats per byte, mean of 20 steps")
    for number, (name, values) in enumerate(curves.items()):
        dash = ("", "7 3", "2 3", "9 2 2 2", "5 2")[number % 5]
        colour = COLOURS.get(name, GREY)
        points = [place(x, y) for x, y in _smooth(values)]
        svg.line(points, colour, 1.4, dash)
        y = 44 + 16 * number
        svg.line([(470, y), (500, y)], colour, 1.8, dash)
        svg.text(506, y + 4, name, 11)
    others = {name: values for name, values in curves.items() if name != "sdpa"}
    differences = {
        name: _smooth([a - b for a, b in zip(values, base, strict=True)]) for name, values in others.items()
    }
    most = max(abs(y) for points in differences.values() for _, y in points)
    tick = max(0.01, round(most * 1.05, 2))
    ticks = [-tick, 0.0, tick]
    place = _axes(svg, 330, 130, steps, ticks, "difference from sdpa, nats per byte")
    for number, (name, points) in enumerate(differences.items()):
        dash = ("", "7 3", "2 3", "5 2")[number % 4]
        svg.line([place(*point) for point in points], COLOURS.get(name, GREY), 1.4, dash)
    svg.text(330, 496, "step", 11, "middle")
    svg.width = 640
    return svg.render(f"Losses of a GPT with different attention, {data['device']}")


DRAWINGS = {"training_curves": training_curves}
VIEWS = {
    r"step_times": step_times,
    r"step_tokens": step_tokens,
    r"step_memory": step_memory,
    r"longest_context": longest_context,
    r"course": course,
    r"losses": losses,
    r"writing": writing,
    r"sample (\S+)": samples,
    r"random_calls": random_calls,
    r"models": models,
}
