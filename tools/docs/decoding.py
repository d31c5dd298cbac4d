"""The drawings of chapter 14: which block reads which keys, the merge as a tree, a table of pages."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from .drawings import ON_COLOUR, WARPS, Svg

# Two sequences with two heads of K each: tiles of each head.
HEADS = (12, 12, 4, 4)
BLOCKS = 4


def division(total: int, blocks: int) -> list[range]:
    """The granules of each block: Division of plan.cuh."""
    blocks = min(blocks, total)
    each, longer = divmod(total, blocks)
    firsts = [block * each + min(block, longer) for block in range(blocks + 1)]
    return [range(first, end) for first, end in itertools.pairwise(firsts)]


def shares(tiles: int, splits: int) -> list[range]:
    """The tiles of each part of a head: split_keys_decoding()."""
    return [range(split * tiles // splits, (split + 1) * tiles // splits) for split in range(splits)]


def owners_of_splits(splits: int) -> list[list[int]]:
    """For each head, the block of each tile if each head has so many parts."""
    owners, block = [], 0
    for tiles in HEADS:
        owners.append([block + part for part, own in enumerate(shares(tiles, splits)) for _ in own])
        block += splits
    return owners


def owners_of_balanced() -> list[list[int]]:
    """The same if all blocks have equally many."""
    of_granule = [block for block, own in enumerate(division(sum(HEADS), BLOCKS)) for _ in own]
    firsts = [sum(HEADS[:head]) for head in range(len(HEADS))]
    return [of_granule[first : first + tiles] for first, tiles in zip(firsts, HEADS, strict=True)]


def longest(owners: list[list[int]]) -> int:
    """The tiles of the block that has most."""
    blocks = [block for of_head in owners for block in of_head]
    return max(map(blocks.count, blocks))


def _heads(svg: Svg, x: float, y: float, owners: list[list[int]]) -> None:
    """A row of tiles for each head, in the colours of their blocks."""
    cell, height = 15, 20
    for head, of_head in enumerate(owners):
        top = y + head * (height + 5)
        svg.text(x, top + 14, f"seq. {head // 2}, head {head % 2}", 11)
        left = x + 84
        for tile, block in enumerate(of_head):
            svg.box(left + tile * cell, top, cell, height, WARPS[block % 4])
        start = 0
        for tile in range(1, len(of_head) + 1):
            if tile == len(of_head) or of_head[tile] != of_head[start]:
                middle = left + (start + tile) / 2 * cell
                svg.box(left + start * cell, top, (tile - start) * cell, height, thick=1.4)
                svg.text(middle, top + 14, str(of_head[start]), 11, "middle", True, ON_COLOUR)
                start = tile


def decoding_work() -> str:
    """Which block reads which tiles of K, for four ways to divide them."""
    svg, width = Svg(), 330
    panels: list[tuple[str, str, list[list[int]]]] = [
        ("packed_heads", "a block for each head of K", owners_of_splits(1)),
        ("split_keys", "two for each head", owners_of_splits(2)),
        ("balanced", "four blocks, equally many tiles", owners_of_balanced()),
    ]
    svg.text(0, 13, "one_block_a_head", 13, bold=True)
    svg.text(0, 29, "a block for each head of Q: each tile is read by four", 11)
    for head, tiles in enumerate(HEADS):
        top = 40 + head * 25
        svg.text(0, top + 14, f"seq. {head // 2}, head {head % 2}", 11)
        for row in range(4):
            svg.box(84, top + row * 5, tiles * 15, 5, WARPS[row])
        svg.text(84 + tiles * 15 + 6, top + 14, f"{4 * head} to {4 * head + 3}", 11, bold=True)
    for number, (name, what, owners) in enumerate(panels, 1):
        x, y = number % 2 * width, number // 2 * 172
        svg.text(x, y + 13, name, 13, bold=True)
        svg.text(x, y + 29, f"{what}: at most {longest(owners)} tiles in a block", 11)
        _heads(svg, x, y + 40, owners)
    svg.text(0, 2 * 172, "A cell is a tile of keys, a number a block.", 11)
    svg.width += 60  # texts do not count
    return svg.render("Which block reads which keys")


def decoding_merge() -> str:
    """The parts of a head that two blocks share: of warps, of blocks, of all."""
    svg, warps = Svg(), 4
    box, gap, height = 72, 10, 30
    levels = (
        (0, "the warps' O, m and l, in shared memory"),
        (1, "the blocks' parts, in HBM"),
        (2, "O and LSE"),
    )
    y0, step = 18, 78

    def middle(level: int, number: int) -> float:
        spread = 2 * warps * (box + gap) - gap
        count = (2 * warps, 2, 1)[level]
        return (number + 0.5) * spread / count

    for level, words in levels:
        y = y0 + level * step
        count = (2 * warps, 2, 1)[level]
        for number in range(count):
            x = middle(level, number)
            block = number * 2 // count if level < 2 else 0
            colour = WARPS[block] if level < 2 else WARPS[2]
            if level < 2:
                parent = number * (2, 1)[level] // (2 * warps if level == 0 else 2)
                svg.segment(x, y + height, middle(level + 1, parent), y + step)
            svg.box(x - box / 2, y, box, height, colour, thick=0.8)
            name = (f"warp {number % warps}", f"block {number}", "last block")[level]
            svg.text(x, y + 19, name, 11, "middle", colour=ON_COLOUR)
        svg.text(2 * warps * (box + gap) + 6, y + 19, words, 11)
    svg.text(
        0, y0 + 3 * step - 36, "Each line multiplies by 2^(m of the part - m of all), then adds l and O.", 11
    )
    svg.width += 240  # texts do not count
    return svg.render("The merge of one head's parts as a tree")


@dataclass(frozen=True)
class Sequence:
    """A sequence and the numbers of its pages."""

    length: int
    pages: tuple[int, ...]


PAGE_SIZE = 16
SEQUENCES = (Sequence(56, (5, 2, 7, 0)), Sequence(40, (5, 2, 4)))


def place_of(sequence: Sequence, key: int) -> tuple[int, int]:
    """The page of a key, and its token there."""
    return sequence.pages[key // PAGE_SIZE], key % PAGE_SIZE


def decoding_pages() -> str:
    """Two sequences that share their first pages."""
    svg, cell, page = Svg(), 6, 16 * 6
    count, key = 8, 37
    svg.text(0, 13, "keys", 12, bold=True)
    svg.text(0, 108, "table", 12, bold=True)
    svg.text(0, 206, "cache", 12, bold=True)
    left = 60
    x = left
    for number, sequence in enumerate(SEQUENCES):
        marked = (
            f". Key {key}, violet: column {key // PAGE_SIZE}, token {key % PAGE_SIZE}" if number == 0 else ""
        )
        svg.text(x, 13, f"sequence {number}: {sequence.length} keys{marked}", 11)
        for column, at in enumerate(sequence.pages):
            own = min(PAGE_SIZE, sequence.length - column * PAGE_SIZE)
            start = x + column * page
            svg.box(start, 22, own * cell, 20, WARPS[number], 0.35)
            svg.box(start, 22, page, 20, thick=0.8)
            svg.box(start, 94, page, 22, WARPS[number])
            svg.text(start + page / 2, 109, str(at), 11, "middle", True, ON_COLOUR)
            svg.segment(start + page / 2, 42, start + page / 2, 94, thick=0.6)
            svg.segment(start + page / 2, 116, left + (at + 0.5) * page, 192, WARPS[number], 1)
        if number == 0:
            found, token = place_of(sequence, key)
            svg.box(x + key * cell, 22, cell, 20, WARPS[3], 1)
            svg.box(left + found * page + token * cell, 192, cell, 20, WARPS[3], 1)
        x += len(sequence.pages) * page + 20
    for at in range(count):
        users = [n for n, sequence in enumerate(SEQUENCES) if at in sequence.pages]
        for order, number in enumerate(users):
            svg.box(
                left + at * page, 192 + order * 20 / len(users), page, 20 / len(users), WARPS[number], 0.35
            )
        svg.box(left + at * page, 192, page, 20, thick=1)
        svg.text(left + (at + 0.5) * page, 228, f"page {at}", 11, "middle")
    return svg.render("Two sequences, their rows of the table, and the pages of the cache")


DRAWINGS: dict[str, Callable[[], str]] = {
    "decoding_work": decoding_work,
    "decoding_merge": decoding_merge,
    "decoding_pages": decoding_pages,
}
