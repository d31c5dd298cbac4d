"""The drawing of docs/pages/journey.md: how a call travels from argv to the table, and which folder owns each
step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .drawings import WARPS, Svg

HARNESS, CHAPTERS, PROBLEMS, SIMULATOR = WARPS
HEIGHT, GAP = 62, 30  # of a box, and from one row to the next


@dataclass(frozen=True)
class Step:
    """A box: what happens, and who owns it."""

    name: str
    does: str
    owner: str  # below common/ if it does not begin with chapters/
    colour: str
    row: int
    left: float
    right: float


STEPS = (
    Step(
        "Options",
        "Words become variants, a shape and files. A word that makes no sense ends the run: one line, status "
        "2.",
        "harness/*options.cpp",
        HARNESS,
        1,
        0,
        760,
    ),
    Step("Problem", "shape, inputs (random or .npy), tolerances", "attention/", PROBLEMS, 2, 0, 370),
    Step(
        "Variants",
        "launch function, traffic formula, limits",
        "chapters/NN_name/chapter.cu",
        CHAPTERS,
        2,
        390,
        760,
    ),
    Step("Reference", "the right outputs, in float64", "attention/", PROBLEMS, 3, 0, 216),
    Step(
        "Device tensors", "inputs, outputs and work space", "harness/device_tensors.cpp", HARNESS, 3, 236, 524
    ),
    Step("Formula", "predicted bytes of each tensor", "chapters/NN_name/chapter.cu", CHAPTERS, 3, 544, 760),
    Step(
        "Launch",
        "the same source for both backends",
        "chapters/NN_name/*.cuh, common/device/",
        CHAPTERS,
        4,
        236,
        524,
    ),
    Step("GPU", "outputs, times", "harness/", HARNESS, 5, 236, 368),
    Step("Simulator", "outputs, bytes, defects", "gpusim/", SIMULATOR, 5, 378, 524),
    Step(
        "Comparison",
        "error of each output; if it is wrong, what kind of mistake explains it",
        "diagnosis/",
        PROBLEMS,
        6,
        0,
        440,
    ),
    Step(
        "Traffic",
        "counted bytes = predicted bytes, tensor by tensor",
        "harness/result.cpp",
        HARNESS,
        6,
        460,
        760,
    ),
    Step(
        "Verdict",
        "ok, WRONG, TRAFFIC, DEFECTS, ..: the worst of what was found, with a sentence for each complaint",
        "harness/result.cpp",
        HARNESS,
        7,
        0,
        760,
    ),
    Step(
        "Table, JSON",
        "The table goes to the terminal; ./learn, build/report.html and the lessons read the JSON.",
        "harness/report.cpp",
        HARNESS,
        8,
        0,
        760,
    ),
)
# From the bottom of a row to the top of a later one.
ARROWS = (
    (0, 1, 380),
    (1, 2, 185),
    (1, 2, 575),
    (2, 3, 113),
    (2, 3, 308),
    (2, 3, 452),
    (2, 3, 647),
    (3, 4, 380),
    (4, 5, 302),
    (4, 5, 450),
    (5, 6, 302),
    (5, 6, 410),
    (5, 6, 490),
    (3, 6, 113),
    (3, 6, 647),
    (6, 7, 220),
    (6, 7, 610),
    (7, 8, 380),
)


def _top(row: int) -> float:
    return row * (HEIGHT + GAP)


def folder(step: Step) -> str:
    """The owner, as a path from the root."""
    chapter = step.owner.startswith("chapters/")
    return step.owner if chapter else f"common/{step.owner}"


def journey() -> str:
    """From argv to the table."""
    svg = Svg()
    svg.box(0, 0, 760, HEIGHT, thick=0.8)
    svg.text(12, 20, "argv", 13, bold=True)
    words = "build/sim/bin/ch04_tiled_v1 --variant bc_max --seq-q 130 --seq-k 131"
    svg.text(12, 37, words, 11)
    svg.text(12, 53, "tools/learn: ./learn run 04 starts the same program", 11, bold=True)
    for step in STEPS:
        x, y = step.left, _top(step.row)
        svg.box(x, y, step.right - x, HEIGHT, step.colour, 0.18, step.colour, 1)
        svg.text(x + 12, y + 20, step.name, 13, bold=True)
        svg.text(x + 12, y + 37, step.does, 11)
        svg.text(x + 12, y + 53, folder(step), 11, bold=True)
    for begin, end, x in ARROWS:
        tip = _top(end)
        svg.segment(x, _top(begin) + HEIGHT, x, tip, thick=1.2)
        for side in (-4, 4):
            svg.segment(x + side, tip - 7, x, tip, thick=1.2)
    for x, row, words in (
        (314, 3, "inputs"),
        (458, 3, "launch"),
        (119, 6, "right outputs"),
        (308, 6, "outputs"),
        (496, 6, "counted"),
        (653, 6, "predicted"),
    ):
        svg.text(x, _top(row) - 11, words, 11)
    return svg.render("From argv to the table")


DRAWINGS: dict[str, Callable[[], str]] = {"journey": journey}
