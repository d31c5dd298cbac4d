"""Writes masks for chapter 11: patterns of blocks, documents in a packed sequence, key lengths of a padded
batch.

    python3 -m tools.masks butterfly --seq 4096 [--levels L] [--global G] OUT.npy
    python3 -m tools.masks random --seq 4096 --fraction S [--seed N] OUT.npy
    python3 -m tools.masks window --seq 4096 --blocks W [--global G] OUT.npy
    python3 -m tools.masks documents --seq 16384 [--shortest 50] [--longest 4000] [--seed N] OUT.npy
    python3 -m tools.masks lengths --batch 8 [--shortest 50] [--longest 4000] [--seed N] OUT.npy

The first three write blocks of --size (default 128) queries and as many keys, uint8 [heads, rows, cols], for
--block-mask. --seq-k: if there are more or fewer keys than queries. --heads H: a pattern for each head (only
`random` differs between them).

documents and lengths draw the same lengths if they are given the same seed, so that one sequence can be
packed and padded.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
from array import array
from pathlib import Path

from .options import Arguments, at_least

Blocks = list[list[int]]  # 1: the block exists; rows are queries


def butterfly(rows: int, cols: int, levels: int | None = None) -> Blocks:
    """The flat block butterfly of Chen et al. 2022 ("Pixelated butterfly"), which FlashAttention's Algorithm
    5 was timed on.

    Blocks (i, j) with i = j, and those whose numbers differ in exactly one of the lowest `levels` bits
    (default: all). It is the sum of the factors of a butterfly matrix. If the numbers of rows and columns are
    no power of two, it is cut from a larger one.
    """
    if levels is None:
        levels = (max(rows, cols) - 1).bit_length()
    seen = {0} | {1 << level for level in range(levels)}
    return [[int((i ^ j) in seen) for j in range(cols)] for i in range(rows)]


def random_blocks(rows: int, cols: int, fraction: float, dice: random.Random) -> Blocks:
    """A fraction of the blocks; rows have equally many, or differ by one."""
    count = round(fraction * rows * cols)
    shares = [(count + row) // rows for row in range(rows)]
    dice.shuffle(shares)
    pattern = []
    for share in shares:
        chosen = set(dice.sample(range(cols), share))
        pattern.append([int(col in chosen) for col in range(cols)])
    return pattern


def window(rows: int, cols: int, width: int) -> Blocks:
    """Blocks less than `width` blocks away from the one where the queries stand; the last row stands at the
    last column.
    """
    shift = cols - rows
    return [[int(abs(j - i - shift) < width) for j in range(cols)] for i in range(rows)]


def with_global(pattern: Blocks, count: int) -> Blocks:
    """Adds the first rows and columns: tokens that see all others and that all others see."""
    return [
        [int(seen or i < count or j < count) for j, seen in enumerate(row)] for i, row in enumerate(pattern)
    ]


def draw_lengths(count: int, shortest: int, longest: int, seed: int) -> list[int]:
    """Lengths of sequences. The first of them are the same for every count."""
    dice = random.Random(seed)
    return [dice.randint(shortest, longest) for _ in range(count)]


def documents(seq: int, lengths: list[int]) -> list[int]:
    """The document of each token. The last one is cut."""
    numbers = []
    for number, length in enumerate(lengths):
        numbers += [number] * min(length, seq - len(numbers))
    assert len(numbers) == seq, "lengths: must fill the sequence"
    return numbers


def write_npy(path: Path, kind: str, shape: tuple[int, ...], values) -> None:
    """@param kind  "u1" or "i4" """
    data = array("B" if kind == "u1" else "i", values)
    if sys.byteorder == "big":
        data.byteswap()
    sizes = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    order = "|" if kind == "u1" else "<"
    header = f"{{'descr': '{order}{kind}', 'fortran_order': False, 'shape': ({sizes}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    path.write_bytes(start + data.tobytes())


# --- the command ----------------------------------------------------------------------------------


def _fraction(text: str) -> float:
    try:
        above, _, below = text.partition("/")
        value = float(above) / float(below or 1)
    except (ValueError, ZeroDivisionError):
        value = -1
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text}: must be from 0 to 1, such as 0.25 or 1/4")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = Arguments(
        prog="tools.masks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = parser.add_subparsers(dest="pattern", required=True, metavar="PATTERN")
    of_blocks = Arguments(add_help=False)
    of_blocks.add_argument("--seq", type=at_least(1), required=True, metavar="N")
    of_blocks.add_argument("--seq-k", type=at_least(1), metavar="N", help="default: seq")
    of_blocks.add_argument("--size", type=int, choices=(64, 128), default=128)
    of_blocks.add_argument("--heads", type=at_least(1), default=1, metavar="H")
    of_blocks.add_argument("--global", type=at_least(0), default=0, metavar="G", dest="global_blocks")
    seeded = Arguments(add_help=False)
    seeded.add_argument("--seed", type=at_least(0), default=1, metavar="N")
    of_lengths = Arguments(add_help=False, parents=[seeded])
    of_lengths.add_argument("--shortest", type=at_least(1), default=50, metavar="N")
    of_lengths.add_argument("--longest", type=at_least(1), default=4000, metavar="N")

    of = names.add_parser("butterfly", parents=[of_blocks], help=_first_line(butterfly))
    of.add_argument("--levels", type=at_least(0), metavar="L", help="default: all")
    of = names.add_parser("random", parents=[of_blocks, seeded], help=_first_line(random_blocks))
    of.add_argument("--fraction", type=_fraction, required=True, metavar="S")
    of = names.add_parser("window", parents=[of_blocks], help=_first_line(window))
    of.add_argument("--blocks", type=at_least(1), required=True, metavar="W")
    of = names.add_parser("documents", parents=[of_lengths], help="The document of each token")
    of.add_argument("--seq", type=at_least(1), required=True, metavar="N")
    of = names.add_parser("lengths", parents=[of_lengths], help="Key lengths of a batch")
    of.add_argument("--batch", type=at_least(1), required=True, metavar="B")
    for each in names.choices.values():
        each.add_argument("out", type=Path, metavar="OUT.npy")
    return parser


def _first_line(function) -> str:
    return function.__doc__.strip().split("\n")[0]


def _write_blocks(options) -> str:
    seq_k = options.seq_k or options.seq
    rows, cols = -(-options.seq // options.size), -(-seq_k // options.size)
    dice = random.Random(getattr(options, "seed", 0))
    patterns = []
    for _ in range(options.heads):
        if options.pattern == "butterfly":
            pattern = butterfly(rows, cols, options.levels)
        elif options.pattern == "random":
            pattern = random_blocks(rows, cols, options.fraction, dice)
        else:
            pattern = window(rows, cols, options.blocks)
        patterns.append(with_global(pattern, options.global_blocks))
    blocks = [block for pattern in patterns for row in pattern for block in row]
    write_npy(options.out, "u1", (options.heads, rows, cols), blocks)
    return (
        f"{options.heads} x {rows} x {cols} blocks of {options.size}, "
        f"of which {sum(blocks)} exist: s = {sum(blocks) / len(blocks):.4g}"
    )


def _write_lengths(options) -> str:
    if options.shortest > options.longest:
        raise ValueError(f"--shortest {options.shortest}: must not exceed --longest {options.longest}")
    drawn = (options.shortest, options.longest, options.seed)
    if options.pattern == "lengths":
        lengths = draw_lengths(options.batch, *drawn)
        write_npy(options.out, "i4", (options.batch,), lengths)
        share = sum(lengths) / (max(lengths) * len(lengths))
        return f"{len(lengths)} sequences of {min(lengths)} to {max(lengths)} keys: {share:.1%} of a batch padded to the longest"  # noqa: E501
    count = -(-options.seq // options.shortest)
    numbers = documents(options.seq, draw_lengths(count, *drawn))
    write_npy(options.out, "i4", (options.seq,), numbers)
    sizes = [numbers.count(number) for number in range(numbers[-1] + 1)]
    seen = sum(size * size for size in sizes) / options.seq**2
    return f"{len(sizes)} documents of {min(sizes)} to {max(sizes)} tokens; a query sees {seen:.4g} of the keys on average"  # noqa: E501


def main(words: list[str] | None = None) -> int:
    options = _parser().parse_args(words)
    try:
        of_blocks = options.pattern in ("butterfly", "random", "window")
        text = _write_blocks(options) if of_blocks else _write_lengths(options)
    except ValueError as error:
        print(f"tools.masks: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"tools.masks: {options.out}: {error.strerror}", file=sys.stderr)
        return 2
    print(f"{options.out}: {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
