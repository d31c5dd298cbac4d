"""The drawings of chapter 10, made from its formulas and from the order of its main loops."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .drawings import GREY, ON_COLOUR, WARPS, Svg
from .hopper import TIMELINE_ROW, Actions, Job, draw_jobs, draw_tensor_cores, offset_of, place_of, play

CHAPTER = Path(__file__).resolve().parents[2] / "chapters" / "10_hopper_backward"
COPY, PRODUCT, ARITHMETIC, OTHER = WARPS[0], WARPS[2], WARPS[1], WARPS[3]
CONSUMERS = 2
BYTES = 2  # of an element
BYTES_PER_CYCLE = 128  # that the shared memory of a multiprocessor delivers
OPERATIONS_PER_CYCLE = 4096  # of the tensor cores of a multiprocessor

# --- what a step reads and keeps ---------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """Tiles for a head dimension, as KeyTiles in backward.cuh has them. Numbers are those of a consumer's
    step.
    """

    head_dim: int
    queries: int  # Br
    keys: int = 128  # Bc
    own_keys: int = 64  # a consumer's

    @property
    def dq_cols(self) -> int:
        return self.queries * self.head_dim // 64 // CONSUMERS

    @property
    def cycles(self) -> int:
        """Of each product: all five have as many operations."""
        operations = 2 * self.own_keys * self.queries * self.head_dim
        return operations // OPERATIONS_PER_CYCLE


@dataclass(frozen=True)
class Operands:
    """A product of 64 rows: its operands, and what one instruction, 16 of the inner dimension, reads."""

    name: str
    formula: str
    a: str
    a_in_registers: bool
    b: str
    sums_over: str
    columns: int
    instructions: int

    @property
    def a_bytes(self) -> int:
        return 0 if self.a_in_registers else self.instructions * 64 * 16 * BYTES

    @property
    def b_bytes(self) -> int:
        return self.instructions * 16 * self.columns * BYTES

    @property
    def accumulators(self) -> int:
        """Registers of each of 128 threads."""
        return 64 * self.columns // 128


def products(sizes: Sizes) -> list[Operands]:
    """The five products of a consumer's step."""
    d, br, bc = sizes.head_dim, sizes.queries, sizes.keys
    return [
        Operands("S", "K Qᵀ", "K", False, "Q", "columns", br, d // 16),
        Operands("dP", "V dOᵀ", "V", False, "dO", "columns", br, d // 16),
        Operands("dV", "Pᵀ dO", "P", True, "dO", "queries", d, br // 16),
        Operands("dK", "dSᵀ Q", "dS", True, "Q", "queries", d, br // 16),
        Operands("dQ", "dS K", "dS", False, "K", "keys", sizes.dq_cols, bc // 16),
    ]


def stored(sizes: Sizes) -> list[tuple[str, int]]:
    """What else passes through shared memory in a consumer's step, in bytes."""
    ds = sizes.own_keys * sizes.queries * BYTES
    tiles = 2 * sizes.queries * sizes.head_dim * BYTES // CONSUMERS
    return [("Q and dO land: half of it", tiles), ("dS is stored", ds)]


def detour(sizes: Sizes) -> int:
    """Bytes of dQ in fp32 that `wgmma` stores in shared memory and the copy engine reads again."""
    return 2 * 64 * sizes.dq_cols * 4


SIZES = {64: Sizes(64, 128), 128: Sizes(128, 64)}


def operands() -> str:
    """What each product reads from shared memory in its time, and what else passes through it."""
    svg, sizes, row, y = Svg(), SIZES[128], 26, 36
    time = sizes.cycles
    room = time * BYTES_PER_CYCLE
    left, scale = 338, 250 / room
    svg.text(0, 12, f"a step of one consumer, head_dim {sizes.head_dim}", 12, bold=True)
    for x, words in ((0, "product"), (112, "A"), (192, "B"), (262, "sums over")):
        svg.text(x, 32, words, 11)
    svg.text(left, 32, f"read from shared memory in {time} cycles", 11)
    listed = products(sizes)
    for product in listed:
        svg.text(0, y + 15, f"{product.name} = {product.formula}", 12, bold=True)
        words = "registers" if product.a_in_registers else "shared"
        svg.text(112, y + 15, f"{product.a}: {words}", 11)
        svg.text(192, y + 15, f"{product.b}: shared", 11)
        svg.text(262, y + 15, product.sums_over, 11)
        x = float(left)
        for count, colour in ((product.a_bytes, OTHER), (product.b_bytes, COPY)):
            if count:
                svg.box(x, y + 2, count * scale, row - 8, colour, 0.28)
                words = f"{count // 1024} KiB"
                svg.text(x + count * scale / 2, y + 15, words, 10, "middle")
                x += count * scale
        svg.box(left, y + 2, room * scale, row - 8)
        y += row
    y += 8
    for name, count in stored(sizes):
        svg.text(left - 8, y + 15, name, 11, "end")
        svg.box(left, y + 2, count * scale, row - 8, PRODUCT, 0.28)
        svg.text(left + count * scale / 2, y + 15, f"{count // 1024} KiB", 10, "middle")
        y += row
    svg.text(left - 8, y + 15, "only in wgmma: dQ is stored and read", 11, "end")
    extra = detour(sizes)
    svg.box(left, y + 2, extra * scale, row - 8, ARITHMETIC, 0.28)
    svg.text(left + extra * scale / 2, y + 15, f"{extra // 1024} KiB", 10, "middle")
    y += row + 16
    read = sum(p.a_bytes + p.b_bytes for p in listed)
    more = sum(count for _, count in stored(sizes))
    total = len(listed) * time
    notes = (
        (
            f"Purple: A, blue: B. Frames: {room // 1024} KiB, what {BYTES_PER_CYCLE} bytes per cycle deliver "
            f"in the {time}"
            " cycles of a product."
        ),
        (
            f"Five products take {total} cycles, in which {total * BYTES_PER_CYCLE // 1024} KiB can pass. "
            f"Their operands are"
            f" {read // 1024} KiB."
        ),
        (
            f"With what lands and with dS it is {(read + more) // 1024} KiB, with dQ as well"
            f" {(read + more + extra) // 1024} KiB."
        ),
    )
    for number, text in enumerate(notes):
        svg.text(0, y + 16 * number, text, 11)
    return svg.render("What the five products read from shared memory")


# --- dS on its way -------------------------------------------------------------------------------------

STEP = 1  # of 16 queries that the drawing follows


def element_of(lane: int, register: int, half: int) -> tuple[int, int]:
    """Key and query, of a warp's 16 and of a step's 16, in a half of a register of dS as an operand."""
    return (8 * (register % 2) + lane // 4, 8 * (register // 2) + lane % 4 * 2 + half)


def ds_path() -> str:
    """The registers of a step of dS, their places in the panel, and operand A of dQ."""
    svg, cell, col, top = Svg(), 17, 14, 66
    lane = 9  # whose four registers the drawing marks
    chunks = {2 * STEP, 2 * STEP + 1}
    first = 16 * STEP
    svg.text(0, 12, "registers of a warp", 12, bold=True)
    svg.text(0, 28, "16 keys, 16 queries; a number is a lane", 11)
    left = 46
    svg.text(left + 8 * col, 48, f"queries {first} to {first + 15}", 10.5, "middle")
    for register in range(4):
        for each in range(32):
            key, query = element_of(each, register, 0)
            x, y = left + query * col, top + key * cell
            own = each == lane
            svg.box(x, y, 2 * col, cell, WARPS[register], 0.9 if own else 0.16)
            ink = ON_COLOUR * own
            svg.text(x + col, y + 12.5, str(each), 10, "middle", own, ink)
    for key in (0, 7, 8, 15):
        svg.text(left - 5, top + key * cell + 12.5, f"key {key}", 10, "end")
    for register in range(4):
        y = top + 16 * cell + 18 + 16 * (register // 2)
        x = left + 90 * (register % 2)
        svg.box(x, y - 9, 10, 10, WARPS[register], 0.4)
        svg.text(x + 14, y, f"register {register}", 10)

    wide = 30
    left = 46 + 16 * col + 72
    svg.text(left - 40, 12, "the panel in shared memory", 12, bold=True)
    svg.text(left - 40, 28, "a row is a key; a number is a chunk: 8 queries", 11)
    svg.text(left, 48, "byte 0", 10)
    svg.text(left + 8 * wide, 48, "128", 10, "end")
    for key in range(16):
        y = top + key * cell
        svg.text(left - 5, y + 12.5, f"row {key}", 10, "end")
        for chunk in range(8):
            x = left + place_of(chunk, key) * wide
            own = chunk in chunks
            colour = WARPS[key // 8 + 2 * (chunk - 2 * STEP)] if own else "none"
            svg.box(x, y, wide, cell, colour, 0.3)
            svg.text(x + 0.75 * wide, y + 12.5, str(chunk), 10, "middle", own)
    for register in range(4):
        for half in range(2):
            key, query = element_of(lane, register, half)
            place = offset_of(key, first + query, 128) % 64  # in the row
            x, y = left + place * wide / 8, top + key * cell
            svg.box(x, y, wide / 8, cell, WARPS[register], 0.9)
    y = top + 16 * cell + 18
    svg.text(left, y, f"bold: chunks {min(chunks)} and {max(chunks)}", 10)

    small = 10
    left += 8 * wide + 66
    svg.text(left - 30, 12, "operand A of dQ", 12, bold=True)
    svg.text(left - 30, 28, "rows are queries", 11)
    svg.text(left + 8 * small, 48, "keys 0 to 15", 10.5, "middle")
    for query in range(16):
        y = top + query * cell
        if query in (0, 7, 8, 15):
            svg.text(left - 5, y + 12.5, f"query {first + query}", 10, "end")
        for key in range(16):
            register = key // 8 + 2 * (query // 8)
            own = element_of(lane, register, query % 2) == (key, query)
            shade = 0.9 if own else 0.16
            svg.box(left + key * small, y, small, cell, WARPS[register], shade)
    y = top + 16 * cell + 60
    notes = (
        f"Lane {lane} has two queries of a key in each register, and stores them with one instruction.",
        "Rows of the panel are keys, those of operand A are queries: the tensor cores read across the rows.",
    )
    for number, text in enumerate(notes):
        svg.text(0, y + 16 * number, text, 11)
    return svg.render("dS on its way from registers to an operand in shared memory")


# --- the halves of dQ ----------------------------------------------------------------------------------


def half_of_dq(sizes: Sizes, warp: int) -> tuple[int, int, int]:
    """Of a warp of the consumers: its first row of dQ, its first column, and how many columns it has."""
    parts = sizes.queries // 64  # of the rows
    part = warp // 4
    return part % parts * 64 + warp % 4 * 16, part // parts * sizes.dq_cols, sizes.dq_cols


def dq_halves() -> str:
    """Which half of dQ each consumer has, and what of dS and K it multiplies for it."""
    svg, scale, x0 = Svg(), 1.1, 0.0
    colours = (COPY, ARITHMETIC)
    top = 70
    for sizes in (SIZES[128], SIZES[64]):
        keys, queries, d = sizes.keys, sizes.queries, sizes.head_dim
        svg.text(x0, 12, f"head_dim {d}: a step has {queries} queries", 12, bold=True)
        x = x0 + 4
        svg.text(x + keys * scale / 2, top - 22, f"dS: {queries} queries, {keys} keys", 10.5, "middle")
        for consumer in range(CONSUMERS):
            half = keys * scale / CONSUMERS
            svg.box(x + consumer * half, top, half, queries * scale, colours[consumer], 0.28)
            middle = x + (consumer + 0.5) * half
            svg.text(middle, top - 8, f"consumer {consumer}", 10, "middle")
        svg.text(x + keys * scale / 2, top + queries * scale + 16, "each has stored its keys", 10, "middle")
        x += keys * scale + 16
        svg.text(x - 8, top + 36, "·", 16, "middle")
        svg.text(x + d * scale / 2, top - 22, f"K: {keys} keys", 10.5, "middle")
        svg.box(x, top, d * scale, keys * scale)
        if queries == 64:
            svg.segment(x + d * scale / 2, top, x + d * scale / 2, top + keys * scale, GREY, 0.8)
            for consumer in range(CONSUMERS):
                middle = x + (consumer + 0.5) * d * scale / 2
                svg.text(middle, top + 70, f"for {consumer}", 10, "middle")
        else:
            svg.text(x + d * scale / 2, top + 70, "for 0, 1", 10, "middle")
        x += d * scale + 22
        svg.text(x - 11, top + 36, "=", 13, "middle")
        svg.text(x + d * scale / 2, top - 22, f"dQ: {queries} x {d}", 10.5, "middle")
        for warp in range(4 * CONSUMERS):
            row, col, cols = half_of_dq(sizes, warp)
            svg.box(x + col * scale, top + row * scale, cols * scale, 16 * scale, colours[warp // 4], 0.28)
            middle = x + (col + cols / 2) * scale
            svg.text(middle, top + row * scale + 12.5, f"warp {warp}", 10, "middle")
        x0 = x + d * scale + 34
    y = top + 128 * scale + 40
    svg.text(
        0, y, "Blue: consumer 0, orange: consumer 1. Both halves of dQ sum over all keys of the block.", 11
    )
    return svg.render("Which half of dQ each consumer computes")


# --- who waits for whom ---------------------------------------------------------------------------------

UNIT = 128  # cycles
EXPONENTIALS_PER_CYCLE = 16  # of a multiprocessor


def exponential_time(sizes: Sizes) -> float:
    """Units that a consumer's exponentials of a step take."""
    return sizes.own_keys * sizes.queries / EXPONENTIALS_PER_CYCLE / UNIT


# Of a consumer that has its units to itself. All five products take the same time. P takes that of its
# exponentials. That dS takes half of it, and an addition of dQ a unit, is assumed.
PRODUCT_TIME = SIZES[64].cycles / UNIT
ADD_TIME = 1.0
LATE = 6.0  # by how much the second consumer begins later


def steps(consumer: int, tiles: int, dS: list[int], decoupled: bool, p_time: float) -> Actions:
    """The loop of `overlapped` or `decoupled`. @param dS  how many tiles of dS each consumer has stored"""

    def done(job: Job) -> Callable[[], bool]:
        return lambda: job.end >= 0

    def product(name: str) -> Job:
        return Job(consumer, name, "products", PRODUCT_TIME)

    def compute(name: str, time: float) -> Job:
        return Job(consumer, name, "arithmetic", time)

    def other_has_stored(count: int) -> Callable[[], bool]:
        return lambda: dS[1 - consumer] >= count

    if consumer == 1:
        late = Job(consumer, "late", "delay", LATE)
        yield late
        yield done(late)
    scores = product("S 0")
    yield scores
    for tile in range(tiles):
        yield done(scores)
        dp, p = product(f"dP {tile}"), compute(f"P {tile}", p_time)
        yield dp
        yield p
        yield done(p)
        dv = product(f"dV {tile}")
        yield dv
        yield done(dp)
        ds = compute(f"dS {tile}", p_time / 2)
        yield ds
        yield done(ds)
        multiplied = tile - 1 if decoupled else tile
        dS[consumer] += 1
        if decoupled:
            yield done(dv)
        yield other_has_stored(multiplied + 1)
        dq = product(f"dQ {multiplied}" if multiplied >= 0 else "0")
        yield dq
        dk = product(f"dK {tile}")
        yield dk
        yield done(dq)
        if multiplied >= 0:
            add = compute(f"+{multiplied}", ADD_TIME)
            yield add
            yield done(add)
        if tile + 1 < tiles:
            scores = product(f"S {tile + 1}")
            yield scores
        else:
            yield done(dk)
    if decoupled:
        yield other_has_stored(tiles)
        dq = product(f"dQ {tiles - 1}")
        yield dq
        yield done(dq)
        add = compute(f"+{tiles - 1}", ADD_TIME)
        yield add
        yield done(add)


def schedules(tiles: int, head_dim: int = 64) -> dict[str, list[Job]]:
    """The jobs of two consumers in two variants."""
    played, p_time = {}, exponential_time(SIZES[head_dim])
    for name, decoupled in (("overlapped", False), ("decoupled", True)):
        dS = [0, 0]
        played[name] = play([steps(c, tiles, dS, decoupled, p_time) for c in range(CONSUMERS)])
    return played


def step_times(head_dim: int) -> dict[str, float]:
    """Units between the same product of two steps, after many steps."""
    tiles = 12
    found = {}
    for name, jobs in schedules(tiles, head_dim).items():
        ends = {job.name: job.end for job in jobs if job.consumer == 0}
        found[name] = (ends[f"dK {tiles - 2}"] - ends["dK 4"]) / (tiles - 6)
    return found


def waits_for_other(jobs: list[Job], consumer: int) -> list[tuple[float, float]]:
    """When a consumer waits for the dS of the other: between its own dS, or dV if that ends later, and its
    dQ.
    """
    at = {job.name: job for job in jobs if job.consumer == consumer}
    decoupled = "0" in at
    found = []
    for name, ds in at.items():
        if name.startswith("dS"):
            tile = int(name[3:])
            dq = at.get(f"dQ {tile - 1}" if decoupled else f"dQ {tile}", at.get("0"))
            ready = max(ds.end, at[f"dV {tile}"].end if decoupled else 0)
            if dq.begin > ready + 1e-9:
                found.append((ready, dq.begin))
    return found


def copies(jobs: list[Job], tiles: int) -> list[float]:
    """When the producer can copy tiles 2, 3, ..: when both consumers have left the tile two steps before.

    dO is free before Q is, but the producer waits for Q first. Q is left at the top of the next step.
    """
    at = {(job.consumer, job.name): job for job in jobs}
    return [
        max(at[consumer, f"S {tile - 1}"].end for consumer in range(CONSUMERS)) for tile in range(2, tiles)
    ]


SHADES = {"S": 0.45, "dP": 0.45, "dV": 0.16, "dK": 0.16, "dQ": 0.3, "0": 0.3}


def consumers() -> str:
    """Products and arithmetic of two consumers over time, in two variants."""
    tiles, left = 3, 90

    def look(job: Job) -> tuple[str, float]:
        colour = PRODUCT if job.unit == "products" else ARITHMETIC
        return colour, SHADES.get(job.name.split()[0], 0.28)

    played, steady = schedules(tiles), step_times(64)
    longest = max(job.end for jobs in played.values() for job in jobs)
    unit = 740 / longest
    svg, y = Svg(), 0
    for name, jobs in played.items():
        svg.text(0, y + 13, name, 12, bold=True)
        words = (
            f"after the first steps, a step of both takes {steady[name]:g} units; "
            f"its {5 * CONSUMERS} products take {5 * CONSUMERS * PRODUCT_TIME:g}"
        )
        svg.text(left, y + 13, words, 11)
        y += 20
        svg.text(left - 8, y + 12, "producer", 11, "end")
        for tile, time in enumerate(copies(jobs, tiles), 2):
            x = left + time * unit
            svg.segment(x, y + 1, x, y + TIMELINE_ROW - 5, COPY, 2.4)
            svg.text(x + 4, y + 12, f"Q {tile}, dO {tile}", 10)
        y += TIMELINE_ROW
        for consumer in range(CONSUMERS):
            for kind in ("products", "arithmetic"):
                words = f"consumer {consumer}" if kind == "products" else "arithmetic"
                svg.text(left - 8, y + 14, words, 11, "end")
                if kind == "arithmetic":
                    for begin, end in waits_for_other(jobs, consumer):
                        x, width = left + begin * unit, (end - begin) * unit
                        svg.box(x, y, width, TIMELINE_ROW - 3, "none", 1, WARPS[1], 1.2)
                        svg.text(x + width / 2, y + 12.5, "waits", 10, "middle")
                own = [job for job in jobs if (job.consumer, job.unit) == (consumer, kind)]
                draw_jobs(svg, own, left, y, unit, look, least=10)
                y += TIMELINE_ROW
            y += 3
        draw_tensor_cores(svg, jobs, left, y, unit)
        y += TIMELINE_ROW + 12
    for number, (colour, shade, words) in enumerate(
        (
            (PRODUCT, 0.45, "a product of query tile t; 0: of zeros"),
            (ARITHMETIC, 0.28, "P t, dS t; +t: dQ of tile t is added"),
            ("none", 1, "a wait for the other consumer's dS"),
        )
    ):
        x, line = left + number % 2 * 250, WARPS[1] if colour == "none" else GREY
        svg.box(x, y - 9 + number // 2 * 18, 10, 10, colour, shade, line)
        svg.text(x + 16, y + number // 2 * 18, words, 11)
    svg.segment(left + 254, y + 9, left + 254, y + 19, COPY, 2.4)
    svg.text(left + 266, y + 18, "the producer can start copies", 11)
    svg.width = max(svg.width, left + 750)
    return svg.render("Products and arithmetic of two consumers over time")


# --- turns of two blocks ---------------------------------------------------------------------------------

STEP_TIME, TURN_TIME = (
    4.0,
    1.0,
)  # of a step's products and arithmetic; of an addition and the passing of a turn


@dataclass
class Step:
    """A query tile of a block of `deterministic`."""

    tile: int
    begin: float
    stored: float  # when dQ is in shared memory
    adds: float  # when the turn has come
    end: float  # of the addition


def turns_of_blocks(orders: list[list[int]]) -> list[list[Step]]:
    """The steps of blocks that add in turns: to each query tile, each block after the one before.

    @param orders  the query tiles of each block
    """
    blocks: list[list[Step]] = []
    for order in orders:
        passed = {step.tile: step.end for step in blocks[-1]} if blocks else {}
        steps_of_block: list[Step] = []
        for tile in order:
            before = steps_of_block[-1] if steps_of_block else Step(-1, 0, 0, 0, 0)
            stored_at = max(before.stored + STEP_TIME, before.end)  # one tile of dQ has room
            adds = max(stored_at, passed.get(tile, 0.0))
            steps_of_block.append(Step(tile, before.stored, stored_at, adds, adds + TURN_TIME))
        blocks.append(steps_of_block)
    return blocks


def orders_of_two(backward: bool, tiles: int = 6) -> list[list[int]]:
    """The query tiles of key tiles 0 and 1 under a causal mask: two query tiles of 64 to a key tile."""
    sign = -1 if backward else 1
    return [list(range(tiles))[::sign], list(range(2, tiles))[::sign]]


def two_blocks() -> str:
    """Two blocks of a head that add to the same tiles of dQ in turns, in two orders of the query tiles."""
    svg, left, y = Svg(), 96, 0
    plays = [(backward, turns_of_blocks(orders_of_two(backward))) for backward in (False, True)]
    unit = 660 / max(steps_[-1].end for _, blocks in plays for steps_ in blocks)
    for backward, blocks in plays:
        name = "from the last query tile (deterministic)" if backward else "from the first that sees the keys"
        svg.text(0, y + 13, name, 12, bold=True)
        y += 22
        for number, steps_ in enumerate(blocks):
            svg.text(left - 8, y + 13, f"key tile {number}", 11, "end")
            svg.text(left - 8, y + 33, "adds", 11, "end")
            for step in steps_:
                x = left + step.begin * unit
                svg.box(x, y, STEP_TIME * unit, TIMELINE_ROW - 3, PRODUCT, 0.28)
                svg.text(x + STEP_TIME * unit / 2, y + 12.5, str(step.tile), 10, "middle")
                waits = step.stored - step.begin - STEP_TIME
                if waits > 0:
                    x += STEP_TIME * unit
                    svg.box(x, y, waits * unit, TIMELINE_ROW - 3, "none", 1, WARPS[1], 1.2)
                    svg.text(x + waits * unit / 2, y + 12.5, "waits", 10, "middle")
                x = left + step.adds * unit
                svg.box(x, y + 20, TURN_TIME * unit, TIMELINE_ROW - 3, ARITHMETIC, 0.4)
                svg.text(x + TURN_TIME * unit / 2, y + 32.5, str(step.tile), 10, "middle")
            y += 2 * TIMELINE_ROW + 8
        y += 10
    svg.box(left, y - 9, 10, 10, PRODUCT, 0.28)
    svg.text(left + 16, y, "a step; the number is its query tile", 11)
    svg.box(left + 250, y - 9, 10, 10, ARITHMETIC, 0.4)
    svg.text(left + 266, y, "dQ of that tile is added, and the turn passed", 11)
    svg.width = max(svg.width, left + 670)
    return svg.render("Two blocks add to the same tiles of dQ in turns")


def sizes_in_source() -> dict[int, int]:
    """Queries of a step for each head dimension, as backward.cuh says."""
    source = (CHAPTER / "backward.cuh").read_text(encoding="utf-8")
    limit, below, above = re.search(r"int Br = kHeadDim <= (\d+) \? (\d+) : (\d+);", source).groups()
    return {d: int(below) if d <= int(limit) else int(above) for d in SIZES}


DRAWINGS: dict[str, Callable[[], str]] = {
    "operands": operands,
    "ds_path": ds_path,
    "dq_halves": dq_halves,
    "consumers": consumers,
    "two_blocks": two_blocks,
}
