"""The drawings of chapter 09, made from its formulas and from the order of its main loops."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from .drawings import GREY, ON_COLOUR, WARPS, Svg

CHAPTER = Path(__file__).resolve().parents[2] / "chapters" / "09_hopper"
COPY, PRODUCT, SOFTMAX, OTHER = WARPS[0], WARPS[2], WARPS[1], WARPS[3]

# --- swizzled tiles, and their descriptors ---------------------------------------------------------

ROW_BYTES, CHUNK_BYTES, PANEL_COLS = 128, 16, 64
ATOM_ROWS = 8
ATOM_BYTES = ATOM_ROWS * ROW_BYTES  # the stride from 8 rows to the next 8
STEP_ROWS = STEP_COLS = 16  # of K in the inner dimension: keys of V, columns of Q and K


def place_of(chunk: int, row: int) -> int:
    """Where TMA puts a chunk of 16 bytes in its row of 128."""
    return chunk ^ row % ATOM_ROWS


def offset_of(row: int, col: int, rows: int) -> int:
    """Offset in elements of an element of a tile of so many rows."""
    chunk = col % PANEL_COLS // 8
    in_row = place_of(chunk, row) * 8 + col % 8
    return col // PANEL_COLS * rows * PANEL_COLS + row * PANEL_COLS + in_row


# Fields of the descriptor: name, first bit, bits. A test compares them with the kernel.
FIELDS = (("address / 16", 0, 14), ("leading / 16", 16, 14), ("stride / 16", 32, 14), ("swizzle", 62, 2))


def atom() -> str:
    """Eight swizzled rows, a tile of two panels, and what the descriptor says about them."""
    svg, cell, high, left, top = Svg(), 34, 22, 44, 62
    chosen = 1  # the step of 16 columns that the drawing follows
    mine = {2 * chosen, 2 * chosen + 1}
    svg.text(0, 12, "8 rows of a panel: 1024 bytes", 12, bold=True)
    svg.text(0, 29, "a number is a chunk: 8 columns, 16 bytes", 11)
    svg.text(left, 50, "byte 0", 10)
    svg.text(left + 8 * cell, 50, "128", 10, "end")
    for row in range(ATOM_ROWS):
        y = top + row * high
        svg.text(left - 6, y + 15, f"row {row}", 10, "end")
        for chunk in range(ROW_BYTES // CHUNK_BYTES):
            x = left + place_of(chunk, row) * cell
            own = chunk in mine
            svg.box(x, y, cell, high, PRODUCT if own else COPY, 0.85 if own else 0.12)
            ink = ON_COLOUR * own
            svg.text(x + cell / 2, y + 15, str(chunk), 11, "middle", own, ink)
    first = STEP_COLS * chosen
    y = top + ATOM_ROWS * high + 20
    lines = (
        f"Green: columns {first} to {first + STEP_COLS - 1}, the operands of",
        f"step {chosen} of Q K^T. Its descriptor begins",
        f"{2 * STEP_COLS * chosen} bytes further on, as if nothing",
        "were swizzled: the hardware finds the chunks.",
    )
    for number, text in enumerate(lines):
        svg.text(0, y + 16 * number, text, 11)

    x, rows, cols, groups = left + 8 * cell + 56, 128, 128, 5
    svg.text(x, 12, f"a tile: {rows} rows, {cols} columns", 12, bold=True)
    svg.text(x, 29, "two panels, one after the other", 11)
    wide, tall, gap = 96, 30, 60
    panel_bytes = rows * ROW_BYTES
    for panel in range(cols // PANEL_COLS):
        at = x + panel * (wide + gap)
        begin = panel * PANEL_COLS
        svg.text(at + wide / 2, 50, f"columns {begin} to {begin + 63}", 10.5, "middle")
        for group in range(groups):
            gy = top + group * tall
            last = group == groups - 1
            if group == groups - 2:
                svg.text(at + wide / 2, gy + 19, "...", 13, "middle")
                continue
            here = 15 if last else group
            step = here // 2 == 0
            svg.box(at, gy, wide, tall, OTHER if step else COPY, 0.25 if step else 0.12)
            text = f"rows {8 * here} to {8 * here + 7}"
            svg.text(at + wide / 2, gy + 14, text, 10, "middle")
            byte = offset_of(8 * here, begin, rows) * 2
            svg.text(at + wide / 2, gy + 26, f"byte {byte}", 10, "middle")
    mid = x + wide + gap / 2
    svg.segment(x + wide + 2, top + 6, x + wide + gap - 2, top + 6, GREY, 1.2)
    svg.text(mid, top - 1, f"+{panel_bytes}", 10, "middle")
    y = top + groups * tall + 20
    lines = (
        "Purple: 16 keys of V, the operand of a step of P V.",
        "The next 16 keys begin 2048 bytes further on.",
    )
    for number, text in enumerate(lines):
        svg.text(x, y + 16 * number, text, 11)

    y = top + ATOM_ROWS * high + 100
    svg.text(0, y, "the descriptor: 64 bits", 12, bold=True)
    bit = 10.4
    y += 12
    svg.box(0, y, 64 * bit, 20)
    for number, (name, begin, bits) in enumerate(FIELDS):
        svg.box(begin * bit, y, bits * bit, 20, WARPS[number], 0.25)
        svg.text(begin * bit, y + 34, f"bit {begin}", 10)
        if bits > 4:
            svg.text((begin + bits / 2) * bit, y + 14, name, 10, "middle")
    svg.text(64 * bit, y + 50, "1: over 128 bytes", 10, "end")
    svg.text(62 * bit, y - 4, "swizzle", 10, "middle")
    svg.width = max(svg.width, 64 * bit + 14)
    return svg.render("Swizzled rows, and the descriptor of a tile")


# --- accumulators ------------------------------------------------------------------------------------

LANES, WARPS_OF_GROUP = 32, 4
FOLLOWED = 5  # the lane that the drawing follows


def element_of(warp: int, lane: int, i: int) -> tuple[int, int]:
    """Row and column of D of element i of a lane."""
    return 16 * warp + lane // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (lane % 4) + i % 2


def accumulator() -> str:
    """D of a warpgroup: which warp holds which rows, and which lane which elements of a warp's rows."""
    svg, left, top, cell, high = Svg(), 62, 52, 26, 17
    svg.text(0, 12, "D of a warpgroup: 64 x W", 12, bold=True)
    svg.text(0, 29, "each warp holds 16 rows", 11)
    tall = 16 * high / WARPS_OF_GROUP
    for warp in range(WARPS_OF_GROUP):
        y = top + warp * tall
        svg.box(left, y, 120, tall, WARPS[warp])
        svg.text(left + 60, y + tall / 2 + 4, f"warp {warp}", 11, "middle", colour=ON_COLOUR)
        first, _ = element_of(warp, 0, 0)
        svg.text(left - 6, y + 14, f"row {first}", 10, "end")
    right = left + 120 + 70
    svg.text(right - 34, 12, "columns 0 to 15 of a warp's 16 rows", 12, bold=True)
    svg.text(right - 34, 29, f"a number is a lane; {FOLLOWED}.i is element i of lane {FOLLOWED}", 11)
    for col in range(16):
        svg.text(right + (col + 0.5) * cell, top - 5, str(col), 10, "middle")
    for row in range(16):
        svg.text(right - 6, top + row * high + 13, str(row), 10, "end")
    for lane in range(LANES):
        for i in range(8):
            row, col = element_of(0, lane, i)
            mine = lane == FOLLOWED
            x, y = right + col * cell, top + row * high
            svg.box(x, y, cell, high, PRODUCT if mine else WARPS[0], 0.85 if mine else 0.12)
            words = f"{lane}.{i}" if mine else str(lane)
            svg.text(x + cell / 2, y + 13, words, 10, "middle", mine, ON_COLOUR * mine)
    svg.text(right, top + 16 * high + 20, "The pattern repeats every 8 columns: i grows by 4.", 11)
    return svg.render("Which warp and lane of a warpgroup hold which elements of D")


# --- rings -----------------------------------------------------------------------------------------


@dataclass
class Place:
    """Where a thread is in a ring: as in shared_tiles.cuh."""

    stages: int
    stage: int = 0
    parity: int = 0

    def advance(self) -> None:
        self.stage += 1
        if self.stage == self.stages:
            self.stage = 0
            self.parity ^= 1


@dataclass(frozen=True)
class Turn:
    """One tile in a ring."""

    tile: int
    stage: int
    full: int  # the parity that consumers wait for
    empty: int  # the parity that the producer waits for
    asked: float  # when the producer begins to wait
    start: float  # when the copy starts
    landed: float
    use: float  # when the consumers begin
    left: float  # when they are done


def turns_of_ring(stages: int, tiles: int, copy: float, work: float) -> list[Turn]:
    """What happens with each tile, if a copy takes `copy`, however many are in flight, and consumers
    `work`.
    """
    producer, consumer = Place(stages), Place(stages)
    turns: list[Turn] = []
    free = [0.0] * stages
    asked = busy = 0.0
    for tile in range(tiles):
        start = max(asked, free[producer.stage])
        landed = start + copy
        use = max(busy, landed)
        busy = free[producer.stage] = use + work
        turns.append(
            Turn(tile, producer.stage, consumer.parity, producer.parity ^ 1, asked, start, landed, use, busy)
        )
        asked = start
        producer.advance()
        consumer.advance()
    return turns


def phases(ends: list[float], until: float) -> list[tuple[int, float, float]]:
    """The phases of a barrier: parity, begin, end. @param ends  when each was complete"""
    edges = [0.0, *ends, until]
    return [(n % 2, begin, end) for n, (begin, end) in enumerate(pairwise(edges)) if end > begin]


def full_empty() -> str:
    """The barriers of a ring of two stages over time: phases, and who waits for which parity."""
    stages, tiles, unit, left, row = 2, 6, 54, 104, 22
    turns = turns_of_ring(stages, tiles, 1.5, 1.4)
    until = turns[-1].left + 0.4
    svg, y = Svg(), 0

    def label(text, bold=False):
        svg.text(left - 8, y + 15, text, 11, "end", bold)

    def span(begin, end, colour, opacity, text):
        x, width = left + begin * unit, (end - begin) * unit
        svg.box(x, y, width, row - 4, colour, opacity)
        if text:
            svg.text(x + width / 2, y + 13, text, 10.5, "middle")

    label("producer", True)
    for turn in turns:
        if turn.start > turn.asked:
            span(turn.asked, turn.start, "none", 1, "")
            x = left + (turn.asked + turn.start) / 2 * unit
            svg.text(x, y + 13, f"empty[{turn.stage}], {turn.empty}", 10, "middle")
    for turn in turns:
        x = left + turn.start * unit
        svg.segment(x, y, x, y + row - 4, COPY, 2.4)
    y += row + 6
    for stage in range(stages):
        mine = [turn for turn in turns if turn.stage == stage]
        label(f"stage {stage}", True)
        for turn in mine:
            span(turn.start, turn.landed, COPY, 0.25, f"tile {turn.tile} lands")
            if turn.use > turn.landed:
                span(turn.landed, turn.use, COPY, 0.08, "")
            span(turn.use, turn.left, PRODUCT, 0.28, f"tile {turn.tile} in use")
        y += row
        for name, ends in (("full", [turn.landed for turn in mine]), ("empty", [turn.left for turn in mine])):
            label(f"{name}[{stage}]")
            for parity, begin, end in phases(ends, until):
                words = f"phase of parity {parity}"
                short = (end - begin) * unit < 96
                shade = 0.28 if parity else 0.06
                span(begin, end, OTHER, shade, str(parity) if short else words)
            y += row
        y += 8
    label("consumers", True)
    before = 0.0
    for turn in turns:
        if turn.use > before:
            span(before, turn.use, "none", 1, "")
            width = (turn.use - before) * unit
            words = f"full[{turn.stage}], {turn.full}"
            if width > 44:
                svg.text(left + before * unit + width / 2, y + 13, words, 10, "middle")
        span(turn.use, turn.left, PRODUCT, 0.28, f"tile {turn.tile}")
        before = turn.left
    y += row + 14
    notes = (
        (
            "Blue marks: the producer starts a copy. Empty frames: a wait, with the barrier and the parity "
            "of "
            "the phase"
        ),
        (
            "that must be complete. The producer's first two waits, for parity 1, return at once. A phase of "
            "full[s] ends"
        ),
        "when a tile has landed in stage s, a phase of empty[s] when all consumers have left it.",
    )
    for number, text in enumerate(notes):
        svg.text(left - 90, y + 16 * number, text, 11)
    svg.width = max(svg.width, left + 600)
    return svg.render("The barriers of a ring of two stages over time")


# --- who multiplies when -----------------------------------------------------------------------------

PRODUCT_TIME, SOFTMAX_TIME = 2.0, 3.0  # of a warpgroup that has its units to itself


@dataclass
class Job:
    """Products or a softmax of one consumer."""

    consumer: int
    name: str
    unit: str  # "products", "softmax"
    left: float
    begin: float = -1.0
    end: float = -1.0


@dataclass
class Machine:
    """Units that divide their time equally among the consumers with work for them. A consumer's products run
    in order."""

    jobs: list[Job] = field(default_factory=list)
    now: float = 0.0

    def running(self) -> dict[str, list[Job]]:
        found: dict[str, list[Job]] = {}
        seen = set()
        for job in self.jobs:
            if job.end < 0 and (job.consumer, job.unit) not in seen:
                seen.add((job.consumer, job.unit))
                found.setdefault(job.unit, []).append(job)
        return found

    def run_until_something_ends(self) -> None:
        running = self.running()
        shares = [(j, 1 / len(js)) for js in running.values() for j in js]
        step = min(job.left / share for job, share in shares)
        for job, share in shares:
            if job.begin < 0:
                job.begin = self.now
            job.left -= step * share
        self.now += step
        for job, _ in shares:
            if job.left < 1e-9:
                job.end = self.now


# What a consumer does, as a generator: yields a job to start, or a condition to wait for.
Actions = Generator[Job | Callable[[], bool], None, None]


def in_order(consumer: int, tiles: int) -> Actions:
    """The loop of `specialised` and `persistent`."""
    for tile in range(tiles):
        for name, unit, time in (
            (f"QK {tile}", "products", PRODUCT_TIME),
            (f"{tile}", "softmax", SOFTMAX_TIME),
            (f"PV {tile}", "products", PRODUCT_TIME),
        ):
            job = Job(consumer, name, unit, time)
            yield job
            yield lambda job=job: job.end >= 0


def overlapping(consumer: int, tiles: int, turn: list[int] | None = None) -> Actions:
    """The loop of `overlapped`; with `turn`, that of `ping_pong`: turn[0] is whose turn it is."""

    def take() -> Callable[[], bool]:
        return lambda: turn is None or turn[0] == consumer

    def passed() -> None:
        if turn is not None:
            turn[0] ^= 1

    scores = Job(consumer, "QK 0", "products", PRODUCT_TIME)
    yield take()
    yield scores
    if turn is not None:
        yield lambda job=scores: job.end >= 0
    passed()
    values = scores
    for tile in range(tiles):
        yield lambda job=scores: job.end >= 0
        softmax = Job(consumer, f"{tile}", "softmax", SOFTMAX_TIME)
        yield softmax
        if tile > 0:
            yield lambda job=values: job.end >= 0
            passed()  # all of its products have begun
        yield lambda job=softmax: job.end >= 0
        yield take()
        if tile + 1 < tiles:
            scores = Job(consumer, f"QK {tile + 1}", "products", PRODUCT_TIME)
            yield scores
        values = Job(consumer, f"PV {tile}", "products", PRODUCT_TIME)
        yield values
    yield lambda job=values: job.end >= 0
    passed()


def play(consumers: list[Actions]) -> list[Job]:
    """All jobs of some consumers, with their times."""
    machine, waiting = Machine(), {}
    active = dict(enumerate(consumers))
    while active:
        progress = True
        while progress:
            progress = False
            for number, actions in list(active.items()):
                if number in waiting and not waiting[number]():
                    continue
                waiting.pop(number, None)
                progress = True
                action = next(actions, None)
                if action is None:
                    del active[number]
                elif isinstance(action, Job):
                    machine.jobs.append(action)
                else:
                    waiting[number] = action
        if active:
            machine.run_until_something_ends()
    return machine.jobs


def schedules(tiles: int) -> dict[str, list[Job]]:
    """The jobs of two consumers in each of three variants."""
    turn = [0]
    return {
        "specialised": play([in_order(0, tiles), in_order(1, tiles)]),
        "overlapped": play([overlapping(0, tiles), overlapping(1, tiles)]),
        "ping_pong": play([overlapping(0, tiles, turn), overlapping(1, tiles, turn)]),
    }


def busy_time(jobs: list[Job]) -> float:
    """For how long some product runs."""
    edges = sorted({t for job in jobs for t in (job.begin, job.end)})
    return sum(
        end - begin
        for begin, end in pairwise(edges)
        if any(job.unit == "products" and job.begin <= begin and end <= job.end for job in jobs)
    )


TIMELINE_ROW = 20  # the height of a row of jobs


def draw_jobs(
    svg: Svg,
    jobs: list[Job],
    left: float,
    y: float,
    unit: float,
    look: Callable[[Job], tuple[str, float]],
    least: float = 8,
) -> None:
    """A row with a named box for each job; `look` gives its colour and shade. @param least  size of names"""
    for job in jobs:
        x, width = left + job.begin * unit, (job.end - job.begin) * unit
        svg.box(x, y, width, TIMELINE_ROW - 3, *look(job))
        words = job.name if width > 30 else job.name.replace(" ", "")
        if width > 11:
            size = least if width < 24 else max(least, 9.5)
            svg.text(x + width / 2, y + 12.5, words, size, "middle")


def draw_tensor_cores(svg: Svg, jobs: list[Job], left: float, y: float, unit: float) -> None:
    """A row that shows when some product runs."""
    svg.text(left - 8, y + 12, "tensor cores", 11, "end")
    for job in jobs:
        if job.unit == "products":
            x, width = left + job.begin * unit, (job.end - job.begin) * unit
            svg.box(x, y, width, TIMELINE_ROW - 6, PRODUCT, 1, line=PRODUCT, thick=0.2)


def timeline() -> str:
    """Products and softmax of two consumers over time, in three variants."""
    tiles, left = 4, 110

    def look(job: Job) -> tuple[str, float]:
        if job.unit == "softmax":
            return SOFTMAX, 0.28
        return PRODUCT, 0.14 if job.name.startswith("PV") else 0.4

    played = schedules(tiles)
    unit = 640 / max(job.end for jobs in played.values() for job in jobs)
    svg, y = Svg(), 0
    for name, jobs in played.items():
        total = max(job.end for job in jobs)
        share = busy_time(jobs) / total
        svg.text(0, y + 13, name, 12, bold=True)
        text = f"{total:g} units of time, tensor cores busy for {share:.0%} of them"
        svg.text(left, y + 13, text, 11)
        y += 20
        for consumer in range(2):
            for kind in ("products", "softmax"):
                words = f"consumer {consumer}" if kind == "products" else "softmax"
                svg.text(left - 8, y + 14, words, 11, "end")
                own = [job for job in jobs if (job.consumer, job.unit) == (consumer, kind)]
                draw_jobs(svg, own, left, y, unit, look, least=10)
                y += TIMELINE_ROW
            y += 3
        draw_tensor_cores(svg, jobs, left, y, unit)
        y += TIMELINE_ROW + 12
    for colour, shade, words, x in (
        (PRODUCT, 0.4, "QK n: the scores of tile n", left),
        (PRODUCT, 0.14, "PV n", left + 180),
        (SOFTMAX, 0.28, "softmax of tile n", left + 250),
    ):
        svg.box(x, y - 9, 10, 10, colour, shade)
        svg.text(x + 16, y, words, 11)
    svg.width = max(svg.width, left + 650)
    return svg.render("Products and softmax of two consumers over time")


# --- registers ---------------------------------------------------------------------------------------

REGISTERS = 64 * 1024  # of a multiprocessor


@dataclass(frozen=True)
class Budget:
    """The registers of a block's threads, as choices.cuh gives them."""

    head_dim: int
    consumers: int
    producer: int
    consumer: int

    @property
    def threads(self) -> int:
        return 128 * (self.consumers + 1)

    @property
    def at_launch(self) -> int:
        """Of every thread: __launch_bounds__ makes the compiler stay below a multiple of 8."""
        return REGISTERS // self.threads // 8 * 8

    @property
    def after(self) -> int:
        return 128 * (self.producer + self.consumers * self.consumer)


def budgets() -> list[Budget]:
    """What Specialised in choices.cuh says."""
    source = (CHAPTER / "choices.cuh").read_text(encoding="utf-8")
    form = (
        r"struct Specialised<(\d+)> : TileChoices \{.*?kConsumers = (\d+);.*?"
        r"kProducerRegisters = (\d+), kConsumerRegisters = (\d+);"
    )
    return [Budget(*map(int, found)) for found in re.findall(form, source, re.DOTALL)]


def registers() -> str:
    """Registers of the warpgroups of a block, before and after setmaxnreg."""
    svg, left, width, row, y = Svg(), 172, 480, 34, 20
    svg.text(left, 12, "0", 10, "middle")
    svg.text(left + width, 12, "65,536: all registers of a multiprocessor", 10, "end")
    scale = width / REGISTERS
    for budget in budgets():
        svg.text(0, y + 14, f"head_dim {budget.head_dim}", 12, bold=True)
        svg.text(0, y + 29, f"{budget.threads} threads", 11)
        for when, producer, consumer in (
            ("at launch", budget.at_launch, budget.at_launch),
            ("setmaxnreg", budget.producer, budget.consumer),
        ):
            svg.text(left - 8, y + 20, when, 11, "end")
            x = float(left)
            for number in range(budget.consumers + 1):
                each = consumer if number else producer
                wide = 128 * each * scale
                colour = PRODUCT if number else COPY
                svg.box(x, y, wide, row - 6, colour, 0.25)
                svg.text(x + wide / 2, y + 18, str(each), 11, "middle")
                x += wide
            svg.segment(left + width, y - 4, left + width, y + row - 2, GREY, 1)
            y += row
        y += 14
    for colour, words, x in (
        (COPY, "producer", left),
        (PRODUCT, "a consumer; the number: registers of each of its 128 threads", left + 90),
    ):
        svg.box(x, y - 9, 10, 10, colour, 0.25)
        svg.text(x + 16, y, words, 11)
    svg.width = max(svg.width, left + width + 10)
    return svg.render("Registers before and after setmaxnreg")


DRAWINGS: dict[str, Callable[[], str]] = {
    "atom": atom,
    "accumulator": accumulator,
    "full_empty": full_empty,
    "timeline": timeline,
    "registers": registers,
}
