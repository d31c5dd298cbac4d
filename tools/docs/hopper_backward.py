"""The drawings of chapter 10, made from its formulas and from the order of its main loops."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .drawings import GREY, ON_COLOUR, WARPS, Svg
from .hopper import (
    TIMELINE_ROW,
    Actions,
    Job,
    busy_time,
    draw_jobs,
    draw_tensor_cores,
    offset_of,
    place_of,
    play,
)

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
            svg.text(x + col, y + 12.5, str(each), 9, "middle", own, ink)
    for key in (0, 7, 8, 15):
        svg.text(left - 5, top + key * cell + 12.5, f"key {key}", 9.5, "end")
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
        svg.text(left - 5, y + 12.5, f"row {key}", 9.5, "end")
        for chunk in range(8):
            x = left + place_of(chunk, key) * wide
            own = chunk in chunks
            colour = WARPS[key // 8 + 2 * (chunk - 2 * STEP)] if own else "none"
            svg.box(x, y, wide, cell, colour, 0.3)
            svg.text(x + wide / 2, y + 12.5, str(chunk), 9.5, "middle", own)
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
            svg.text(left - 5, y + 12.5, f"query {first + query}", 9.5, "end")
        for key in range(16):
            register = key // 8 + 2 * (query // 8)
            own = element_of(lane, register, query % 2) == (key, query)
            shade = 0.9 if own else 0.16
            svg.box(left + key * small, y, small, cell, WARPS[register], shade)
    y = top + 16 * cell + 60
    notes = (
        (
            f"Lane {lane} has two queries of a key in each register, and stores them with one instruction. "
            f"Rows of the panel are"
            " keys, so for dQ, whose rows are"
        ),
        (
            "queries, A is transposed: the tensor cores read across the rows. A step of 16 keys is 16 rows, "
            "2048 bytes. K, too,"
            " has keys as rows."
        ),
    )
    for number, text in enumerate(notes):
        svg.text(0, y + 16 * number, text, 11)
    return svg.render("dS on its way from registers to an operand in shared memory")


# --- who waits for whom ---------------------------------------------------------------------------------

# Of a consumer that has its units to itself. All five products take the same time.
PRODUCT_TIME, P_TIME, DS_TIME, ADD_TIME = 2.0, 3.0, 2.0, 1.0
LATE = 6.0  # by how much the second consumer begins later


def steps(consumer: int, tiles: int, dS: list[int], decoupled: bool) -> Actions:
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
        dp, p = product(f"dP {tile}"), compute(f"P {tile}", P_TIME)
        yield dp
        yield p
        yield done(p)
        dv = product(f"dV {tile}")
        yield dv
        yield done(dp)
        ds = compute(f"dS {tile}", DS_TIME)
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


def schedules(tiles: int) -> dict[str, list[Job]]:
    """The jobs of two consumers in two variants."""
    played = {}
    for name, decoupled in (("overlapped", False), ("decoupled", True)):
        dS = [0, 0]
        played[name] = play([steps(c, tiles, dS, decoupled) for c in range(CONSUMERS)])
    return played


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
    tiles, left = 4, 90

    def look(job: Job) -> tuple[str, float]:
        colour = PRODUCT if job.unit == "products" else ARITHMETIC
        return colour, SHADES.get(job.name.split()[0], 0.28)

    played = schedules(tiles)
    longest = max(job.end for jobs in played.values() for job in jobs)
    unit = 690 / longest
    svg, y = Svg(), 0
    for name, jobs in played.items():
        total = max(job.end for job in jobs)
        share = busy_time(jobs) / total
        svg.text(0, y + 13, name, 12, bold=True)
        words = f"{total:g} units of time, tensor cores busy for {share:.0%} of them"
        svg.text(left, y + 13, words, 11)
        y += 20
        svg.text(left - 8, y + 12, "producer", 11, "end")
        for tile, time in enumerate(copies(jobs, tiles), 2):
            x = left + time * unit
            svg.segment(x, y + 1, x, y + TIMELINE_ROW - 5, COPY, 2.4)
            svg.text(x + 4, y + 12, f"Q {tile}, dO {tile}", 9.5)
        y += TIMELINE_ROW
        for consumer in range(CONSUMERS):
            for kind in ("products", "arithmetic"):
                words = f"consumer {consumer}" if kind == "products" else "arithmetic"
                svg.text(left - 8, y + 14, words, 11, "end")
                if kind == "arithmetic":
                    for begin, end in waits_for_other(jobs, consumer):
                        x, width = left + begin * unit, (end - begin) * unit
                        svg.box(x, y, width, TIMELINE_ROW - 3, "none", 1, WARPS[1], 1.2)
                        svg.text(x + width / 2, y + 12.5, "waits", 9, "middle")
                own = [job for job in jobs if (job.consumer, job.unit) == (consumer, kind)]
                draw_jobs(svg, own, left, y, unit, look)
                y += TIMELINE_ROW
            y += 3
        draw_tensor_cores(svg, jobs, left, y, unit)
        y += TIMELINE_ROW + 12
    for number, (colour, shade, words) in enumerate(
        (
            (PRODUCT, 0.45, "a product of query tile n; 0: of zeros"),
            (ARITHMETIC, 0.28, "P n, dS n; +n: dQ of tile n is added"),
            ("none", 1, "a wait for the other consumer's dS"),
        )
    ):
        x, line = left + number % 2 * 250, WARPS[1] if colour == "none" else GREY
        svg.box(x, y - 9 + number // 2 * 18, 10, 10, colour, shade, line)
        svg.text(x + 16, y + number // 2 * 18, words, 11)
    svg.segment(left + 254, y + 9, left + 254, y + 19, COPY, 2.4)
    svg.text(left + 266, y + 18, "the producer can start copies", 11)
    svg.width = max(svg.width, left + 700)
    return svg.render("Products and arithmetic of two consumers over time")


def sizes_in_source() -> dict[int, int]:
    """Queries of a step for each head dimension, as backward.cuh says."""
    source = (CHAPTER / "backward.cuh").read_text(encoding="utf-8")
    limit, below, above = re.search(r"int Br = kHeadDim <= (\d+) \? (\d+) : (\d+);", source).groups()
    return {d: int(below) if d <= int(limit) else int(above) for d in SIZES}


DRAWINGS: dict[str, Callable[[], str]] = {"operands": operands, "ds_path": ds_path, "consumers": consumers}
