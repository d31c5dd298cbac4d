"""Runs a chapter's program with the simulator's recorder on, and makes the page that shows what a block of it
did.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..watch import page, recording
from . import diagnosis, moments, phases, project, ranks, trials, views
from .console import Console, LearnError

Block = tuple[int, int, int]
FIRST: Block = (0, 0, 0)
# A short run: the grids of the launches are those of their first blocks.
SCOUT = {"GPUSIM_RECORD_BLOCKS": "0,0,0", "GPUSIM_RECORD_EVENTS": "1"}
BLOCK = re.compile(r"\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*")
ELEMENT = re.compile(r"\s*([A-Za-z_]\w*)\s*\[\s*(\d+(?:\s*,\s*\d+)*)\s*\]\s*")


@dataclass(frozen=True)
class Request:
    """What to run, and which blocks to record."""

    program: Path
    variant: str
    options: list[str]
    blocks: tuple[Block, ...] = ()  # none: one in the middle of the grid
    launch: int | None = None  # the only one to record; None: all of them
    kernel: str = ""  # or its name

    @property
    def words(self) -> list[str]:
        return ["--variant", self.variant, *self.options]


@dataclass(frozen=True)
class Run:
    """A run of a program: its JSON, and what was recorded."""

    report: dict
    recorded: recording.Recording
    file: Path  # of the recording
    output: str

    @property
    def sections(self) -> list[dict]:
        """The recorded blocks."""
        return self.recorded.header["sections"]

    def trouble(self) -> str | None:
        """What is wrong with the kernel, in a few words."""
        tensors = self.report.get("tensors")
        attempts = [trials.Attempt("", result["name"], result, tensors) for result in self.report["variants"]]
        finding = diagnosis.explain(attempts)
        return f"{finding.variant}: {finding.headline}" if finding else None


# --- what the learner asks for --------------------------------------------------------------------


def block_of(word: str) -> Block:
    """LearnError if these are not three numbers."""
    found = BLOCK.fullmatch(word)
    if not found:
        raise LearnError(f"--block {word}: must be three numbers, x,y,z, as in --block 0,0,0", 2)
    x, y, z = map(int, found.groups())
    return x, y, z


def in_words(numbers: Iterable[int], between: str = ",") -> str:
    return between.join(map(str, numbers))


@dataclass(frozen=True)
class Place:
    """An element as the learner names it: o[0, 1, 17, 5]."""

    name: str
    index: list[int]

    @property
    def shown(self) -> str:
        return f"{self.name}[{in_words(self.index)}]"

    def __str__(self) -> str:
        return f"--at '{self.shown}'"

    def element(self, tensors: Mapping[str, dict]) -> moments.Element:
        """LearnError if there is no such element. @param tensors  of the program's JSON"""
        name = next((n for n in tensors if n.lower() == self.name.lower()), None)
        if name is None:
            known = ", ".join(tensors)
            raise LearnError(f"{self}: there is no tensor {self.name}: must be one of {known}", 2)
        shape = tensors[name]["shape"]
        if len(self.index) != len(shape) or any(
            at >= length for at, length in zip(self.index, shape, strict=True)
        ):
            last = in_words(length - 1 for length in shape)
            raise LearnError(
                f"{self}: {name} has the shape {in_words(shape, ' x ')}: its last element is {name}[{last}]",
                2,
            )
        at = 0
        for number, length in zip(self.index, shape, strict=True):
            at = at * length + number
        size = tensors[name]["bytes"] // math.prod(shape)
        return moments.Element(name, at * size)


def place_of(word: str) -> Place:
    """LearnError if the text names no element of a tensor."""
    found = ELEMENT.fullmatch(word)
    if not found:
        raise LearnError(f"--at {word}: must be a tensor and an index, as in --at 'o[0,1,17,5]'", 2)
    return Place(found[1], [int(number) for number in found[2].split(",")])


# --- running --------------------------------------------------------------------------------------


def _execute(
    console: Console, request: Request, folder: Path, recorder: Mapping[str, str], title: str = ""
) -> Run:
    """Runs the program, its blocks in order. LearnError if it has no result.

    @param recorder  settings: GPUSIM_RECORD_BLOCKS, ..
    @param title     for the headline; "": none
    """
    result, file = folder / "result.json", folder / "recording"
    for old in (result, file):
        old.unlink(missing_ok=True)
    program = request.program
    if title:
        shown = shlex.join(ranks.command(program, request.words, project.shown(program)))
        console.say(f"-- {title}: {shown}", "bold")
    status, phase = phases.execute(
        console,
        title,
        ranks.command(program, [*request.words, "--json", str(result)]),
        phases.Phase.activity,
        cwd=Path.cwd(),  # options may name files
        env={**trials.IN_ORDER, "GPUSIM_RECORD": str(file), **recorder},
        quiet=True,  # the exit status says whether its results are right
    )
    if status < 0:
        why = diagnosis.reason_of(f"was ended by {signal.Signals(-status).name}")
        raise LearnError(
            f"{request.variant} stopped the program: {why}. Nothing is recorded: ./learn debug shows where", 1
        )
    if status > 1 or not result.exists():
        raise LearnError(phases.refusal(phase.output), max(status, 1))
    output = "\n".join(phase.output)
    if not file.exists():
        if said := re.search("^gpusim: (.*)", output, re.MULTILINE):
            raise LearnError(f"{request.variant}: {said[1]}", 1)
        shown = project.shown(program)
        raise LearnError(f"{shown} is older than the recorder: build it again", 3)
    report = json.loads(result.read_text(encoding="utf-8"))
    for variant in report["variants"]:
        if "skipped" in variant:
            reason = variant["skipped"]["reason"]
            raise LearnError(f"{request.variant} cannot run here: {reason}", 2)
    try:
        return Run(report, recording.read(file), file, output)
    except recording.WatchError as error:
        why = str(error).removeprefix(f"{file}: ")
        raise LearnError(f"{request.variant}: {why}", 1) from error


def _middle(launches: list[dict]) -> Block:
    """A block that each of these grids has: if possible, neither the first nor the last."""
    x, y, z = (min((launch["grid"][axis] - 1) // 2 for launch in launches) for axis in range(3))
    return x, y, z


def _require(block: Block, launches: list[dict]) -> None:
    """LearnError if no grid has the block."""
    grids = {launch["kernel"]: launch["grid"] for launch in launches}
    if any(all(at < length for at, length in zip(block, grid, strict=True)) for grid in grids.values()):
        return
    ends = " or ".join(
        f"{in_words(length - 1 for length in grid)} ({kernel}, {in_words(grid, ' x ')} blocks)"
        for kernel, grid in grids.items()
    )
    raise LearnError(f"--block {in_words(block)}: is outside of the grid: must be 0,0,0 to {ends}", 2)


def record(console: Console, request: Request, folder: Path, title: str = "") -> Run:
    """Runs the program with the recorder on. LearnError if there is nothing to show."""
    launches = [
        section
        for section in _execute(console, request, folder, SCOUT).sections
        if request.launch in (None, section["launch"]) and request.kernel in ("", section["kernel"])
    ]
    if not launches:
        raise LearnError(f"{request.variant} does not launch {request.kernel}", 2)
    for block in request.blocks:
        _require(block, launches)
    blocks = request.blocks or [_middle(launches)]
    recorder = {"GPUSIM_RECORD_BLOCKS": ";".join(in_words(b) for b in blocks)}
    if len(launches) == 1:
        recorder["GPUSIM_RECORD_LAUNCH"] = str(launches[0]["launch"])
    run = _execute(console, request, folder, recorder, title)
    if request.blocks or blocks == [FIRST] or moments.has_work(run.recorded):
        return run
    idle, first = in_words(blocks[0]), in_words(FIRST)
    note = (
        f"block {idle} has nothing to do on this input: this is block {first}; --block X,Y,Z chooses another"
    )
    console.wrap(note, "note:  ", style="yellow")
    return _execute(console, request, folder, recorder | {"GPUSIM_RECORD_BLOCKS": first})


WRITER = re.compile(r"was last written by block (\d+),(\d+),(\d+) of launch (\d+)", re.MULTILINE)


def writing(
    console: Console, request: Request, place: Place, folder: Path
) -> tuple[Request, moments.Element]:
    """The same request for the block that writes an element last, or unchanged if none does, and the
    element.
    """
    asked = {**SCOUT, "GPUSIM_RECORD_WRITER": place.shown}
    scout = _execute(console, request, folder, asked)
    element = place.element(scout.report["tensors"])
    if found := WRITER.search(scout.output):
        x, y, z, launch = map(int, found.groups())
        request = replace(request, blocks=((x, y, z),), launch=launch)
    return request, element


# --- the page -------------------------------------------------------------------------------------


def write(
    run: Run, path: Path, title: str, event: int | None = None, show: str | None = None, note: str = ""
) -> int:
    """Writes the page in one step. Returns its size. LearnError if it cannot be written.

    @param event  at which the page opens; None: at the beginning of the block that does most
    @param show   the view that is in sight then, one of page.VIEWS
    """
    recorded = run.recorded
    if event is not None:
        start = {
            "s": moments.section_of(recorded, event),
            "t": recorded.column("time")[event],
            "w": recorded.column("warp")[event],
            "e": event,
            "v": show,
        }
    elif len(run.sections) == 1 or recorded.header["defects"]:
        start = None  # the page chooses: a defect comes first
    else:
        most = max(run.sections, key=lambda section: section["end"] - section["begin"])
        start = {"s": run.sections.index(most)}
    try:
        page.write_page(
            run.file,
            path,
            title=title,
            sources=project.ROOT,
            note=note,
            start=start,
            tensors=run.report.get("tensors"),
        )
    except recording.WatchError as error:
        raise LearnError(f"the page was not written: {error}", 2) from error
    return path.stat().st_size


def request_of(view: views.View, program: Path) -> Request:
    """What a prepared view runs."""
    blocks = (block_of(view.block),) if view.block else ()
    options = shlex.split(view.options)
    return Request(program, view.variant, options, blocks, kernel=view.kernel)


def write_view(
    console: Console, view: views.View, program: Path, folder: Path, path: Path, title: str = ""
) -> tuple[Run, int]:
    """Records a prepared view and writes its page. Returns the run and the page's size.

    @param folder  for files that are of no use later
    @param title   of the headline that names the command; "": none
    """
    run = record(console, request_of(view, program), folder, title)
    heading = f"{view.chapter.number} {view.variant}: {view.title}"
    event = view.search.first(run.recorded)
    return run, write(run, path, heading, event, view.show, view.see.replace("`", ""))
