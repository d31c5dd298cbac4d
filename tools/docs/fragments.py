"""The drawings of chapter 06, made from the maps in its kernel.cuh, and the same drawings of a learner's
maps.
"""

from __future__ import annotations

import collections
from collections.abc import Callable

from .drawings import GREY, ON_COLOUR, WARPS, Svg
from .fragment_maps import LANES, Address, Received, element_of, holders, layout, loaded, received, row_for

MINE = 5  # the lane that the drawings follow
WRONG = "#dc2626"  # the frame of what differs from the correct map
TILE = [(row, col) for row in range(16) for col in range(16)]

# --- drawing --------------------------------------------------------------------------------------

WIDE, HIGH = 17, 16  # of an element, in pixels


def _cells(svg, x, y, places, text, colour, mine, rows=1, cols=1, wrong=False):
    """A labelled box for one or more elements. @param places  row and column of the first"""
    row, col = places
    left, top = x + col * WIDE, y + row * HIGH
    shade = 0.9 if mine else 0.2
    svg.box(left, top, cols * WIDE, rows * HIGH, colour, shade)
    if wrong:  # inside of the box, so that no neighbour covers it
        svg.box(left + 1, top + 1, cols * WIDE - 2, rows * HIGH - 2, "none", 1, WRONG, 1.4)
    middle = top + rows * HIGH / 2 + 3.5
    svg.text(left + cols * WIDE / 2, middle, text, 10, "middle", mine, ON_COLOUR * mine)


def _numbers(svg, x, y, rows, cols):
    """Row and column numbers at the edges of a matrix."""
    for row in range(rows):
        svg.text(x - 4, y + row * HIGH + 12, str(row), 10, "end")
    for col in range(cols):
        svg.text(x + (col + 0.5) * WIDE, y - 3, str(col), 10, "middle")


def _pairs(svg, x, y, places):
    """16 x 16 elements as loaded() gives them."""
    _numbers(svg, x, y, 16, 16)
    for (lane, register), place in places.items():
        mine = lane == MINE
        _cells(svg, x, y, place, str(lane), WARPS[register], mine, cols=2)


def _legend(svg, x, y, names, text=""):
    for number, name in enumerate(names):
        svg.box(x, y - 9, 10, 10, WARPS[number], 0.6)
        svg.text(x + 15, y, name, 11)
        x += 24 + 6.3 * len(name)
    svg.text(x, y, text, 11)


def _fragment(svg, x, y, matrix, rows, cols):
    """Which lane holds which element of A, B or C. The number is the lane, the colour the register."""
    element = element_of(matrix)
    _numbers(svg, x, y, rows, cols)
    per_register = 1 if matrix == "c" else 2
    for lane in LANES:
        for first in range(0, rows * cols // 32, per_register):
            last = element(lane, first + per_register - 1)
            row, col = element(lane, first)
            _cells(
                svg, x, y, (row, col), str(lane), WARPS[first // per_register],
                lane == MINE, last[0] - row + 1, last[1] - col + 1,
            )  # fmt: skip


def fragments() -> str:
    """mma.m16n8k16: how A, B and C are distributed over the lanes."""
    svg = Svg()
    left, top = 30, 34
    right, below = left + 16 * WIDE + 56, top + 16 * HIGH + 46
    svg.text(right, 12, "B: 16 x 8, two per register", 12, bold=True)
    _fragment(svg, right, top, "b", 16, 8)
    svg.text(left, below - 22, "A: 16 x 16, two per register", 12, bold=True)
    _fragment(svg, left, below, "a", 16, 16)
    svg.text(right, below - 22, "C: 16 x 8, fp32", 12, bold=True)
    _fragment(svg, right, below, "c", 16, 8)
    y = top + 30
    svg.text(left, y, "Each number is a lane.", 11)
    svg.text(left, y + 16, f"Lane {MINE} is highlighted: it has 8 elements of A,", 11)
    svg.text(left, y + 32, "4 of B and 4 of C.", 11)
    _legend(svg, left, y + 60, ["register 0", "register 1"])
    for number in (2, 3):
        x = left + (number - 2) * 87
        svg.box(x, y + 69, 10, 10, WARPS[number], 0.6)
        svg.text(x + 15, y + 78, f"register {number}", 11)
    svg.text(left, y + 104, "A and C have registers 0 to 3, B has 0 and 1.", 11)
    svg.text(left, y + 130, "C += A B: the rows of C are those of A, its columns", 11)
    svg.text(left, y + 146, "are those of B, and each sum gets 16 products.", 11)
    svg.width = max(svg.width, right + 190)  # texts do not count
    return svg.render("The fragments of mma.m16n8k16")


def _addresses(svg, x, y, address: Address, right: Address | None = None):
    """A 16 x 16 tile in shared memory: which lane supplies the address of which 16 bytes.

    @param right  the correct map, if `address` may differ from it
    """
    lanes = collections.defaultdict(list)
    for lane in LANES:
        lanes[address(lane)].append(lane)
    for place, here in lanes.items():
        if place not in TILE:
            continue
        text = f"lane {here[0]}"
        if len(here) > 1:
            few = len(here) <= 4
            text = f"lanes {', '.join(map(str, here))}" if few else f"{len(here)} lanes"
        wrong = right is not None and any(right(lane) != place for lane in here)
        colour = WARPS[here[0] // 8]
        _cells(svg, x, y, place, text, colour, False, cols=8, wrong=wrong)
    for row in range(16):
        svg.text(x - 4, y + row * HIGH + 12, str(row), 10, "end")


def ldmatrix() -> str:
    """ldmatrix.x4 for A and for B: which lane supplies which address, and which receives what."""
    svg = Svg()
    left, right = 24, 24 + 16 * WIDE + 60
    y = 50
    for rows, name, what in (
        ("row_for_a", "Q for A", "rows: queries"),
        ("row_for_b", "K for B", "rows: keys"),
    ):
        svg.text(left, y - 32, f"{name}: which lane supplies the address", 12, bold=True)
        svg.text(left, y - 17, f"{what}, columns: of the head", 11)
        _addresses(svg, left, y, row_for(rows))
        svg.text(right, y - 32, "which lane receives the elements", 12, bold=True)
        svg.text(right, y - 17, "colour: the register", 11)
        _pairs(svg, right, y, loaded(rows))
        svg.text(right - 32, y + 8 * HIGH + 4, "→", 18, "middle")
        y += 16 * HIGH + 74
    names = [f"matrix and register {n}" for n in range(4)]
    _legend(svg, left, y - 44, names)
    svg.width = max(svg.width, 680)
    return svg.render("ldmatrix.x4 for A and for B")


def transposed() -> str:
    """One matrix of 8 x 8, as ldmatrix and as ldmatrix.trans deliver it."""
    svg, top = Svg(), 62
    for number, name in enumerate(("ldmatrix", "ldmatrix.trans")):
        x = 80 + number * (8 * WIDE + 190)
        svg.text(x, 12, name, 12, bold=True)
        how = ("two elements of a row", "two elements of a column")[number]
        svg.text(x, 28, f"each register holds {how}", 11)
        _numbers(svg, x, top, 0, 8)
        for lane in LANES:
            if number == 0:
                place, rows, cols = (lane // 4, lane % 4 * 2), 1, 2
            else:
                place, rows, cols = (lane % 4 * 2, lane // 4), 2, 1
            mine = lane == MINE
            _cells(svg, x, top, place, str(lane), WARPS[0], mine, rows, cols)
        for row in range(8):
            y = top + row * HIGH + 12
            svg.text(x - 6, y, f"address: lane {row}", 8.5, "end")
    y = top + 8 * HIGH + 20
    note = "Rows: keys, as V lies in shared memory. Columns: of the head. Number: the lane that receives the element."  # noqa: E501
    svg.text(0, y, note, 11)
    svg.width = max(svg.width, 660)  # texts do not count
    return svg.render("A matrix of 8 x 8, plain and transposed")


def value_quarters() -> str:
    """ldmatrix.x4.trans on V: which quarter goes to which register, and the two operands B that the registers
    are.
    """
    svg, top, left, gap = Svg(), 66, 24, 20
    right = left + 16 * WIDE + 64
    address = row_for("row_for_a")
    svg.text(left, 12, "V: which lane supplies the address", 12, bold=True)
    svg.text(left, 28, "rows: keys, columns: of the head", 11)
    _addresses(svg, left, top, address)
    svg.text(right - 36, top + 8 * HIGH + 4, "→", 18, "middle")
    svg.text(right, 12, "B: which lane receives the elements", 12, bold=True)
    svg.text(right, 28, "each box: two keys of a column", 11)
    for half in range(2):
        x = right + half * (8 * WIDE + gap)
        index = "ni + 1" if half else "ni"
        svg.text(x + 4 * WIDE, top - 16, f"for rO[{index}]", 11, "middle")
        for col in range(8):
            svg.text(x + (col + 0.5) * WIDE, top - 3, str(8 * half + col), 8, "middle")
    for row in range(16):
        svg.text(right - 4, top + row * HIGH + 12, str(row), 10, "end")
    for (lane, register), (first, _) in received(address, transposed=True).items():
        x, mine = right + first[1] // 8 * gap, lane == MINE
        _cells(svg, x, top, first, str(lane), WARPS[register], mine, rows=2)
    y = top + 16 * HIGH + 22
    _legend(svg, left, y, [f"quarter in v[{n}]" for n in range(4)])
    lines = (
        (
            "The left half of the tile is B for rO[ni]: {v[0], v[1]}. The right half is B for rO[ni + 1]: "
            "{v[2], "
            "v[3]}."
        ),
        (
            f"Lane {MINE} supplies row {address(MINE)[0]} of the first quarter. It receives keys 2 and 3, 10 "
            f"and "
            f"11 of columns 1 and 9."
        ),
    )
    for number, text in enumerate(lines, 1):
        svg.text(left, y + 18 * number, text, 11)
    svg.width = max(svg.width, 680)  # texts do not count
    return svg.render("The quarters of V in the registers of two operands B")


def c_is_a() -> str:
    """Two fragments C of S are one fragment A of P."""
    svg, top, left = Svg(), 50, 24
    element = element_of("c")
    svg.text(left, 12, "S, two C fragments", 12, bold=True)
    for half in range(2):
        x = left + half * (8 * WIDE + 16)
        svg.text(x, 30, f"keys {8 * half} to {8 * half + 7}", 11)
        _numbers(svg, x, top, 0 if half else 16, 8)
        for lane in LANES:
            for i in range(4):
                colour = WARPS[2 * half + i // 2]
                _cells(svg, x, top, element(lane, i), str(lane), colour, lane == MINE)
    right = left + 16 * WIDE + 84
    svg.text(right, 12, "P, one fragment A", 12, bold=True)
    svg.text(right, 30, "16 keys", 11)
    svg.text(right - 32, top + 8 * HIGH + 4, "→", 18, "middle")
    _fragment(svg, right, top, "a", 16, 16)
    y = top + 16 * HIGH + 24
    for register in range(4):
        half, pair = divmod(register, 2)
        svg.box(left, y - 9, 10, 10, WARPS[register], 0.6)
        text = f"registers {2 * pair} and {2 * pair + 1} of the {('first', 'second')[half]} C"
        svg.text(left + 16, y, f"{text}: register {register} of A", 11)
        y += 16
    svg.text(left, y + 6, "The numbers are lanes. None of them changes.", 11)
    return svg.render("C of S is A of P V")


def repeats() -> str:
    """How a block covers its tiles of S and O: rows with warps, columns with registers."""
    svg, left, top, high, wide = Svg(), 62, 64, 24, 34
    for x, name, index, what in (
        (left, "S: 128 queries x 64 keys", "rS", "keys"),
        (left + 8 * wide + 60, "O: 128 queries x 64 columns", "rO", "columns"),
    ):
        svg.text(x, 12, name, 12, bold=True)
        for n in range(8):
            svg.text(x + (n + 0.5) * wide, top - 20, f"{index}[{n}]", 10, "middle")
            label = f"{8 * n}-{8 * n + 7}"
            svg.text(x + (n + 0.5) * wide, top - 6, label, 9, "middle")
            for warp in range(8):
                y = top + warp * high
                svg.box(x + n * wide, y, wide, high, WARPS[warp % 4], 0.28)
        svg.text(x, 28, f"8 {what} in each fragment", 11)
    for warp in range(8):
        y = top + warp * high + 15
        svg.text(left - 6, y, f"warp {warp}", 10, "end")
    x, y = left, top + 8 * high + 20
    for line in (
        "Down: more warps. Br = 8 warps x 16 rows. Each warp has its own queries and runs the same code.",
        "Right: more registers. Bc = 8 fragments x 8 keys. Each fragment adds 4 sums to every lane.",
    ):
        svg.text(x, y, line, 11)
        y += 16
    return svg.render("Br from warps, Bc from registers")


BANK_CELL = 25  # of four banks, in pixels


def hits_of(offset: Callable[[int, int], int], chunk: int) -> list[int]:
    """How many of rows 0 to 7 have a chunk in each group of four banks."""
    groups = [offset(row, 8 * chunk) // 8 % 8 for row in range(8)]
    return [groups.count(group) for group in range(8)]


def _banks(svg, x, top, name, offset, cols, chunk, right=None):
    """In which banks the chunks of eight rows are. @param right  the correct layout, if `offset` may differ
    from it
    """
    cell = BANK_CELL
    svg.text(x, 12, name, 12, bold=True)
    for row in range(8):
        chunks = collections.defaultdict(list)
        for part in range(cols // 8):
            chunks[offset(row, 8 * part) // 8 % 8].append(part)
        for group, parts in chunks.items():
            wanted = chunk in parts
            colour = WARPS[1] if wanted else WARPS[0]
            left, y = x + group * cell, top + row * cell
            svg.box(left, y, cell, cell, colour, 0.85 if wanted else 0.12)
            if right and any(offset(row, 8 * p) != right(row, 8 * p) for p in parts):
                svg.box(left + 1, y + 1, cell - 2, cell - 2, "none", 1, WRONG, 1.4)
            middle = left + cell / 2
            ink = ON_COLOUR * wanted
            text = ",".join(map(str, parts)) if len(parts) <= 3 else f"{len(parts)} x"
            svg.text(middle, y + 16, text, 10, "middle", wanted, ink)
    many = max(hits_of(offset, chunk))
    wavefronts = "wavefronts" if many > 1 else "wavefront"
    svg.text(x, 28, f"chunk {chunk} of 8 rows: {many} {wavefronts}", 11)
    for group in range(8):
        svg.text(x + (group + 0.5) * cell, top - 6, str(4 * group), 9, "middle")
    svg.text(x, top - 20, "first bank of four:", 9)


def _bank_rows(svg, top):
    for row in range(8):
        svg.text(38, top + row * BANK_CELL + 16, f"row {row}", 10, "end")


def banks() -> str:
    """In which banks the chunks of eight rows are, for the three layouts of d = 64."""
    cols, chunk = 64, 2
    svg, top = Svg(), 66
    for number, name in enumerate(("RowMajor", "Padded", "Swizzled")):
        x = 44 + number * (8 * BANK_CELL + 34)
        _banks(svg, x, top, name, layout(name, cols), cols, chunk)
    _bank_rows(svg, top)
    y = top + 8 * BANK_CELL + 18
    note = f"Numbers are chunks: 8 columns, 16 bytes. Orange: what ldmatrix reads to load columns {8 * chunk} to {8 * chunk + 7} of 8 rows."  # noqa: E501
    svg.text(0, y, note, 11)
    svg.width = max(svg.width, 720)
    return svg.render("The banks of eight rows")


DRAWINGS: dict[str, Callable[[], str]] = {
    "fragments": fragments,
    "ldmatrix": ldmatrix,
    "transposed": transposed,
    "value_quarters": value_quarters,
    "c_is_a": c_is_a,
    "repeats": repeats,
    "banks": banks,
}


# --- a learner's maps next to the correct ones ------------------------------------------------------


def _elements(svg, x, y, places: Received, right: Received):
    """Which lane holds which element of a 16 x 16 tile, with a frame where it should be another."""
    _numbers(svg, x, y, 16, 16)
    held, wanted = holders(places), holders(right)
    for place in TILE:
        here, wrong = held.get(place, []), held.get(place) != wanted.get(place)
        text = str(here[0][0]) if len(here) == 1 else f"{len(here)} x" if here else ""
        colour = WARPS[here[0][1]] if len(here) == 1 else GREY if here else "none"
        mine = len(here) == 1 and here[0][0] == MINE
        _cells(svg, x, y, place, text, colour, mine, wrong=wrong)


def compared_rows(name: str, right: Address, own: Address, transposed: bool) -> str:
    """A learner's map from lanes to addresses below the correct one, each with what ldmatrix.x4 makes of
    it.
    """
    svg, left, y = Svg(), 24, 50
    beside = left + 16 * WIDE + 60
    correct = received(right, transposed)
    for whose, address in ((f"{name}, as it should be", right), (f"{name}, yours", own)):
        svg.text(left, y - 32, whose, 12, bold=True)
        svg.text(left, y - 17, "which lane supplies the address", 11)
        _addresses(svg, left, y, address, right)
        svg.text(beside, y - 17, "which lane receives the elements", 11)
        _elements(svg, beside, y, received(address, transposed), correct)
        svg.text(beside - 32, y + 8 * HIGH + 4, "→", 18, "middle")
        y += 16 * HIGH + 74
    _legend(svg, left, y - 44, [f"matrix and register {n}" for n in range(4)])
    svg.box(left, y - 32, 10, 10, line=WRONG, thick=1.4)
    note = "differs from the correct map. 2 x: two registers have the element; empty: none has it"
    svg.text(left + 15, y - 23, note, 11)
    svg.width = max(svg.width, 680)
    return svg.render(f"{name}: yours and the correct map")


Offset = Callable[[int, int], int]  # row, column -> position in the tile


def compared_layouts(name: str, right: Offset, own: Offset, cols: int) -> str:
    """A learner's layout of a tile next to the correct one. Orange: the chunk with the most bank
    conflicts.
    """
    svg, top = Svg(), 66
    chunk = max(range(min(cols // 8, 8)), key=lambda part: max(hits_of(own, part)))
    for number, (whose, offset) in enumerate((("as it should be", right), ("yours", own))):
        x = 44 + number * (8 * BANK_CELL + 54)
        _banks(svg, x, top, f"{name}, {whose}", offset, cols, chunk, right)
    _bank_rows(svg, top)
    y = top + 8 * BANK_CELL + 18
    svg.text(0, y, f"Numbers are chunks: 8 columns, 16 bytes. Orange: chunk {chunk}.", 11)
    svg.box(0, y + 9, 10, 10, line=WRONG, thick=1.4)
    svg.text(15, y + 18, "at another place than in the chapter's layout", 11)
    svg.width = max(svg.width, 520)
    return svg.render(f"{name}: yours and the chapter's")


Chunk = list[int] | str | None  # row and column of its source, "zeros", or nothing


def compared_copies(name: str, right: list[list[Chunk]], own: list[list[Chunk]]) -> str:
    """What a learner's copy puts into each chunk of a tile, next to what belongs there."""
    svg, top, cols = Svg(), 66, 3  # of a chunk's box, in those of an element
    for number, (whose, chunks) in enumerate((("as it should be", right), ("yours", own))):
        x = 24 + number * (len(right[0]) * cols * WIDE + 40)
        svg.text(x, 12, f"{name}, {whose}", 12, bold=True)
        svg.text(x, 28, "row, column of the matrix", 11)
        for chunk in range(len(right[0])):
            svg.text(x + (chunk + 0.5) * cols * WIDE, top - 3, str(8 * chunk), 8, "middle")
        for row, sources in enumerate(chunks):
            svg.text(x - 4, top + row * HIGH + 12, str(row), 10, "end")
            for chunk, source in enumerate(sources):
                real = isinstance(source, list)
                text = ", ".join(map(str, source)) if real else source or ""
                colour = WARPS[0] if real else GREY if source else "none"
                wrong = source != right[row][chunk]
                place = row, cols * chunk
                _cells(svg, x, top, place, text, colour, False, cols=cols, wrong=wrong)
    y = top + len(right) * HIGH + 22
    note = "Rows and columns of the tile in shared memory. A box: 8 columns, 16 bytes. Empty: nothing is copied there."  # noqa: E501
    svg.text(24, y, note, 11)
    svg.box(24, y + 9, 10, 10, line=WRONG, thick=1.4)
    svg.text(39, y + 18, "differs from what belongs there", 11)
    return svg.render(f"{name}: what is copied where, yours and the chapter's")
