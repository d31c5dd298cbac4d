"""The drawings of chapter 06, made from the maps in its kernel.cuh."""

from __future__ import annotations

from collections.abc import Callable

from .drawings import ON_COLOUR, WARPS, Svg
from .fragment_maps import LANES, element_of, layout, loaded, row_for

MINE = 5  # the lane that the drawings follow

# --- drawing --------------------------------------------------------------------------------------

WIDE, HIGH = 17, 16  # of an element, in pixels


def _cells(svg, x, y, places, text, colour, mine, rows=1, cols=1):
    """A labelled box for one or more elements. @param places  row and column of the first"""
    row, col = places
    left, top = x + col * WIDE, y + row * HIGH
    shade = 0.9 if mine else 0.2
    svg.box(left, top, cols * WIDE, rows * HIGH, colour, shade)
    middle = top + rows * HIGH / 2 + 3.5
    svg.text(
        left + cols * WIDE / 2, middle, text, 9.5, "middle", mine, ON_COLOUR * mine
    )


def _numbers(svg, x, y, rows, cols):
    """Row and column numbers at the edges of a matrix."""
    for row in range(rows):
        svg.text(x - 4, y + row * HIGH + 12, str(row), 8, "end")
    for col in range(cols):
        svg.text(x + (col + 0.5) * WIDE, y - 3, str(col), 8, "middle")


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


def _addresses(svg, x, y, rows):
    """A 16 x 16 tile in shared memory: which lane supplies the address of which 16 bytes."""
    address = row_for(rows)
    for lane in LANES:
        row, col = address(lane)
        text = f"lane {lane}"
        _cells(svg, x, y, (row, col), text, WARPS[lane // 8], False, cols=8)
    for row in range(16):
        svg.text(x - 4, y + row * HIGH + 12, str(row), 8, "end")


def ldmatrix() -> str:
    """ldmatrix.x4 for A and for B: which lane supplies which address, and which receives what."""
    svg = Svg()
    left, right = 24, 24 + 16 * WIDE + 60
    y = 50
    for rows, name, what in (
        ("row_for_a", "Q for A", "rows: queries"),
        ("row_for_b", "K for B", "rows: keys"),
    ):
        svg.text(
            left, y - 32, f"{name}: which lane supplies the address", 12, bold=True
        )
        svg.text(left, y - 17, f"{what}, columns: of the head", 11)
        _addresses(svg, left, y, rows)
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
    note = "Rows: keys, as V lies in shared memory. Columns: of the head. Number: the lane that receives the element."
    svg.text(0, y, note, 11)
    svg.width = max(svg.width, 660)  # texts do not count
    return svg.render("A matrix of 8 x 8, plain and transposed")


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


def banks() -> str:
    """In which banks the chunks of eight rows are, for the three layouts of d = 64."""
    cols, chunk = 64, 2
    svg, cell, top = Svg(), 25, 66
    for number, name in enumerate(("RowMajor", "Padded", "Swizzled")):
        offset = layout(name, cols)
        x = 44 + number * (8 * cell + 34)
        svg.text(x, 12, name, 12, bold=True)
        hits = [0] * 8
        for row in range(8):
            for part in range(cols // 8):
                group = offset(row, 8 * part) // 8 % 8
                wanted = part == chunk
                hits[group] += wanted
                colour = WARPS[1] if wanted else WARPS[0]
                y = top + row * cell
                svg.box(
                    x + group * cell, y, cell, cell, colour, 0.85 if wanted else 0.12
                )
                middle = x + (group + 0.5) * cell
                ink = ON_COLOUR * wanted
                svg.text(middle, y + 16, str(part), 10, "middle", wanted, ink)
        many = "wavefronts" if max(hits) > 1 else "wavefront"
        svg.text(x, 28, f"chunk {chunk} of 8 rows: {max(hits)} {many}", 11)
        for group in range(8):
            svg.text(x + (group + 0.5) * cell, top - 6, str(4 * group), 9, "middle")
        svg.text(x, top - 20, "first bank of four:", 9)
    for row in range(8):
        svg.text(38, top + row * cell + 16, f"row {row}", 10, "end")
    y = top + 8 * cell + 18
    note = f"Numbers are chunks: 8 columns, 16 bytes. Orange: what ldmatrix reads to load columns {8 * chunk} to {8 * chunk + 7} of 8 rows."
    svg.text(0, y, note, 11)
    svg.width = max(svg.width, 720)
    return svg.render("The banks of eight rows")


DRAWINGS: dict[str, Callable[[], str]] = {
    "fragments": fragments,
    "ldmatrix": ldmatrix,
    "transposed": transposed,
    "c_is_a": c_is_a,
    "repeats": repeats,
    "banks": banks,
}
