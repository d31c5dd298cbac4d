"""The table of a profile: bytes for every chapter, and the groups of columns that the chapter selects."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..report.results import human
from . import ncu
from .variant import (
    Variant,
    both,
    difference_of,
    dram_bytes,
    l1_sectors,
    l2_sectors,
    per_request,
    total_sectors,
)

WIDTH = 100
GAP = 2  # between columns

Show = Callable[[float], str]


def size(count: float) -> str:
    return human(count, "B")


def number(count: float) -> str:
    return f"{count:,.0f}" if abs(count) < 1e7 else human(count)


def percent(value: float) -> str:
    return f"{value:.1f} %"


def signed_percent(share: float) -> str:
    return f"{100 * share:+.2f} %"


def ratio(value: float) -> str:
    return f"{value:.2f}"


@dataclass(frozen=True)
class Column:
    """A column: two lines of heading, the source of its values, and their format."""

    heading: tuple[str, str]
    value: Callable[[Variant], float | None]
    show: Show
    measured: bool  # by Nsight Compute


def pair(title: str, value: Callable[[dict | None], float | None], show: Show = number):
    """A quantity that both count: one column for the simulator, one for Nsight Compute."""
    return (
        Column((title, "simulator"), lambda v: value(v.simulator), show, False),
        Column((title, "ncu"), lambda v: value(v.measured), show, True),
    )


def only_ncu(title: str, below: str, name: str, show: Show = number, unit: float = 1):
    """A column for what only Nsight Compute measures."""

    def value(variant: Variant) -> float | None:
        measured = (variant.measured or {}).get(name)
        return None if measured is None else measured / unit

    return (Column((title, below), value, show, True),)


BYTES = (
    Column(("HBM bytes", "predicted"), lambda v: v.predicted_bytes, size, False),
    Column(("sectors x 32", "simulator"), lambda v: in_bytes(total_sectors(v.simulator, "")), size, False),
    Column(("sectors x 32", "at L1"), lambda v: in_bytes(l1_sectors(v)), size, True),
    Column(("sectors x 32", "at L2"), lambda v: in_bytes(l2_sectors(v)), size, True),
    Column(("bytes", "at DRAM"), dram_bytes, size, True),
    Column(("L1 vs.", "simulator"), difference_of, signed_percent, True),
)


def in_bytes(count: int | None) -> int | None:
    return None if count is None else ncu.SECTOR_BYTES * count


GROUPS: dict[str, tuple[Column, ...]] = {
    "requests": (
        *pair("sectors/load", lambda c: per_request(c, "read"), ratio),
        *pair("sectors/store", lambda c: per_request(c, "write"), ratio),
    ),
    "atomics": pair("atomic sectors", lambda c: (c or {}).get("atomic_sectors")),
    "shared": (
        *pair("shared wavefronts", lambda c: both(c, "shared_{}_wavefronts")),
        *pair("bank conflicts", lambda c: (c or {}).get("bank_conflicts")),
    ),
    "tensor": (
        *pair("mma", lambda c: (c or {}).get("mma")),
        *only_ncu("tensor", "pipe", "tensor_active_percent", percent),
    ),
    "copies": pair("sectors landed", lambda c: (c or {}).get("landed_sectors")),
    "wgmma": (
        *pair("wgmma of warps", lambda c: (c or {}).get("wgmma")),
        *only_ncu("tensor", "pipe", "tensor_active_percent", percent),
    ),
    "occupancy": only_ncu("warps", "active", "warps_active_percent", percent),
    "stalls": tuple(
        column
        for reason, (title, below) in {
            "barrier": ("stalled:", "barrier"),
            "long_scoreboard": ("long", "scoreb."),
            "short_scoreboard": ("short", "scoreb."),
            "math_pipe_throttle": ("math", "pipe"),
            "mio_throttle": ("MIO", "queue"),
            "lg_throttle": ("LG", "queue"),
            "wait": ("fixed", "wait"),
        }.items()
        for column in only_ncu(title, below, f"stalled_{reason}", ratio)
    ),
    "stalled_wgmma": only_ncu("stalled:", "wgmma", "stalled_gmma", ratio),
    "time": only_ncu("time", "us, ncu", "time_ns", lambda us: f"{us:,.1f}", 1000),
}
STALLED = "stalled: waiting warps, by reason, per cycle in which an instruction is issued"
LONGEST_NAME = 22


def cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 2]}.."


def rows_of(variants: list[Variant], kernels: bool) -> list[Variant]:
    """A row for each variant, plus one per kernel if the variant launches several."""
    rows = []
    for variant in variants:
        if variant.refused or variant.failed:
            continue
        rows.append(variant)
        if kernels and len(variant.kernels) > 1:
            rows += [
                Variant("  " + k.kernel.split("<")[0], measured=ncu.combine([k])) for k in variant.kernels
            ]
    return rows


def spans(columns: Sequence[Column]) -> list[tuple[str, range]]:
    """The titles, each centred over its columns."""
    every: list[tuple[str, range]] = []
    for at, column in enumerate(columns):
        title = column.heading[0]
        if every and every[-1][0] == title:
            every[-1] = (title, range(every[-1][1].start, at + 1))
        else:
            every.append((title, range(at, at + 1)))
    return every


def block(rows: list[Variant], columns: Sequence[Column]) -> list[str]:
    """One block of the table, a line per row."""
    names = ["variant", *(cut(row.name) for row in rows)]
    cells = [[column.heading[1] for column in columns]]
    for row in rows:
        values = [column.value(row) for column in columns]
        cells.append(
            [
                "-" if value is None else column.show(value)
                for column, value in zip(columns, values, strict=True)
            ]
        )
    widths = [GAP + max(map(len, texts)) for texts in zip(*cells, strict=True)]
    for title, span in spans(columns):
        missing = GAP + len(title) - sum(widths[i] for i in span)
        widths[span.start] += max(0, missing)
    first = max(map(len, names))
    heading = " " * first + "".join(
        f"{title:>{sum(widths[i] for i in span)}}" for title, span in spans(columns)
    )
    lines = [
        f"{name:{first}}" + "".join(f"{text:>{width}}" for text, width in zip(texts, widths, strict=True))
        for name, texts in zip(names, cells, strict=True)
    ]
    return [heading, *lines]


def packed(rows: list[Variant], groups: Sequence[str], gpu: bool) -> list[list[Column]]:
    """The columns of these groups, in as few blocks of at most WIDTH as possible; without a GPU, the
    simulator's.
    """
    blocks: list[list[Column]] = []
    for group in groups:
        columns = [c for c in GROUPS[group] if gpu or not c.measured]
        if blocks and max(map(len, block(rows, blocks[-1] + columns))) <= WIDTH:
            blocks[-1] += columns
        elif columns:
            blocks.append(columns)
    return blocks


def table(variants: list[Variant], groups: Sequence[str], gpu: bool) -> str:
    """The whole table: bytes first, then the chapter's own columns."""
    columns = [c for c in BYTES if gpu or not c.measured]
    lines = block(rows_of(variants, kernels=False), columns)
    rows = rows_of(variants, kernels=True)
    for columns in packed(rows, groups, gpu):
        lines += ["", *block(rows, columns)]
    return "\n".join(lines)
