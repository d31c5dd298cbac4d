"""Reads the chapters' JSON into rows: the numbers that the table and the report show.

A chapter run with `--json FILE` writes one object with its variants. Fields that a backend cannot
determine are absent there and None here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import PurePath

OK, FAIL, DECLARED, SKIPPED, UNCHECKED = "ok", "FAIL", "declared", "skipped", "-"
SECTOR_BYTES = 32


@dataclass
class Error:
    """The worst output of a variant: the one with the largest ratio of relative error to tolerance."""

    tensor: str
    rel_l2: float
    tolerance: float

    @property
    def share(self) -> float:
        """Error divided by tolerance; infinite for NaN, which no tolerance admits."""
        if math.isnan(self.rel_l2):
            return math.inf
        return self.rel_l2 / self.tolerance if self.tolerance else self.rel_l2 and math.inf


@dataclass
class Traffic:
    """Bytes (and, where counted, 32-byte sectors) between HBM and the chip."""

    read_bytes: int
    write_bytes: int
    read_sectors: int | None = None
    write_sectors: int | None = None
    tensors: dict[str, tuple[int, int]] = field(default_factory=dict)  # name: (read, write)
    at_least: frozenset[str] = frozenset()  # tensors of a formula of which a run moves no fewer bytes

    @property
    def bytes(self) -> int:
        return self.read_bytes + self.write_bytes

    @property
    def sectors(self) -> int | None:
        if self.read_sectors is None or self.write_sectors is None:
            return None
        return self.read_sectors + self.write_sectors

    @property
    def efficiency(self) -> float | None:
        """The requested bytes as a share of the bytes in the sectors that had to be fetched."""
        return self.bytes / (SECTOR_BYTES * self.sectors) if self.sectors else None


@dataclass
class Shared:
    """Passes over the banks of shared memory: how many there were, and the fewest possible."""

    wavefronts: int
    ideal: int

    @property
    def conflicts(self) -> int:
        return self.wavefronts - self.ideal


@dataclass
class Time:
    """The time of a variant on a GPU, and its speed in bytes or operations."""

    median_ms: float
    gb_per_s: float | None = None
    tflops: float | None = None


@dataclass
class Row:
    """One variant of one chapter."""

    chapter: str  # "02_online_softmax"
    variant: str
    failure: str | None  # why it did not finish
    fault: str | None  # what is wrong although the outputs may be right
    declared: str | None  # why this variant is declared to fail on these inputs, if it did
    error: Error | None
    predicted: Traffic | None
    counted: Traffic | None
    shared: Shared | None
    defects: list[dict] | None  # None where the backend does not look for any
    workspace_bytes: int = 0  # of tensors in HBM that are neither input nor output
    verdict: str = UNCHECKED  # or OK, FAIL, DECLARED, SKIPPED
    time: Time | None = None  # where there was a GPU
    skipped: str | None = None  # what the device lacks to run it
    ratio: float | None = None  # counted bytes divided by those of the variant before it

    @property
    def number(self) -> str:
        return self.chapter[:2]

    @property
    def defect_count(self) -> int | None:
        """The number of faulty places in the kernel: a race between two lines is one defect, however often it
        occurs.
        """
        return None if self.defects is None else len(self.defects)

    @property
    def formula_misses(self) -> bool:
        """Whether formula and count disagree, in total or for any tensor."""
        formula, run = self.predicted, self.counted
        if formula is None or run is None:
            return False
        names = formula.tensors.keys() & run.tensors.keys()
        pairs = [(formula.tensors[name], run.tensors[name], name in formula.at_least) for name in names]
        total = (formula.read_bytes, formula.write_bytes), (run.read_bytes, run.write_bytes)
        pairs.append((*total, bool(formula.at_least)))
        return any(
            f > r or (f < r and not more) for fs, rs, more in pairs for f, r in zip(fs, rs, strict=True)
        )


@dataclass
class Chapter:
    """One run of one chapter."""

    name: str
    backend: str
    device: str
    problem: str  # "softmax, rows 3072, cols 256"
    rows: list[Row]
    too_old: str | None = None  # why the GPU of this run left it to the simulator


def _number(value: float | str | None) -> float:
    """JSON has no NaN and no infinity, so these arrive as null or as text."""
    return math.nan if value is None else float(value)


def _error(check: dict | None) -> Error | None:
    tensors = (check or {}).get("tensors") or {}
    errors = [
        Error(name, _number(t.get("rel_l2")), float(t["tolerance"]))
        for name, t in tensors.items()
        if t.get("measure", "rel_l2") == "rel_l2"  # others only affect the verdict
    ]
    return max(errors, key=lambda error: error.share, default=None)


def _traffic(data: dict | None) -> Traffic | None:
    if not data:
        return None
    # An atomic addition counts its bytes both as read and as written, but its sectors only once.
    atomic = data.get("atomic_sectors", 0)
    read, write = data.get("read_sectors"), data.get("write_sectors")
    return Traffic(
        data["read_bytes"],
        data["write_bytes"],
        None if read is None else read + atomic,
        None if write is None else write + atomic,
        {
            name: (tensor.get("read_bytes", 0), tensor.get("write_bytes", 0))
            for name, tensor in data.get("tensors", {}).items()
        },
        frozenset(name for name, tensor in data.get("tensors", {}).items() if tensor.get("at_least")),
    )


def _shared(data: dict | None) -> Shared | None:
    if not data or "load_wavefronts" not in data:
        return None
    return Shared(
        data["load_wavefronts"] + data["store_wavefronts"],
        data["load_wavefronts_ideal"] + data["store_wavefronts_ideal"],
    )


def _time(variant: dict) -> Time | None:
    if "time_ms" not in variant:
        return None
    median = variant["time_ms"]["median"]
    return Time(median, variant.get("gb_per_s"), variant.get("tflops"))


def _verdict(row: Row, check: dict | None) -> str:
    """The verdict that the chapter's exit status expresses: a declared failure does not count."""
    if row.skipped:
        return SKIPPED
    if row.failure or row.fault or row.defects or row.formula_misses:
        return FAIL
    if not check:
        return UNCHECKED
    if check.get("passed") is True:
        return OK
    return DECLARED if row.declared else FAIL


def _row(chapter: str, variant: dict) -> Row:
    check, traffic = variant.get("check"), variant.get("traffic", {})
    row = Row(
        chapter=chapter,
        variant=variant["name"],
        failure=variant.get("failure"),
        fault=variant.get("fault"),
        declared=(check or {}).get("known_failure"),
        error=_error(check),
        predicted=_traffic(traffic.get("predicted")),
        counted=_traffic(traffic.get("counted")),
        shared=_shared(variant.get("shared")),
        defects=variant.get("defects"),
        workspace_bytes=variant.get("workspace_bytes", 0),
        time=_time(variant),
        skipped=(variant.get("skipped") or {}).get("reason"),
    )
    row.verdict = _verdict(row, check)
    return row


def _describe(problem: dict) -> str:
    """{"name": "softmax", "rows": 8, "x": "/tmp/x.npy"} -> "softmax, rows 8, from x.npy"."""
    words, files = [], []
    for key, value in problem.items():
        if isinstance(value, str) and value.endswith(".npy"):
            files.append(PurePath(value).name)
        elif key == "name":
            words.append(str(value))
        elif isinstance(value, bool):
            words += [key] if value else []
        elif isinstance(value, float):
            words.append(f"{key} {value:.4g}")
        else:
            words.append(f"{key} {value}")
    if files:
        words.append(f"from {' '.join(files)}")
    return ", ".join(words)


def read(runs: list[dict]) -> list[Chapter]:
    """Turns the chapters' JSON objects, in order, into rows.

    Each variant is compared with the one before it, and the first of a chapter with the last of the
    previous chapter, if both solved the same problem.
    """
    chapters = []
    before: tuple[dict, Row] | None = None
    for run in runs:
        name, problem = run["chapter"], run.get("problem", {})
        rows = [_row(name, variant) for variant in run["variants"]]
        for row in rows:
            if before and before[0] == problem and row.counted and before[1].counted:
                row.ratio = row.counted.bytes / (before[1].counted.bytes or math.nan)
            if not row.skipped:
                before = (problem, row)
        chapters.append(
            Chapter(name, run["backend"], run.get("device", ""), _describe(problem), rows, run.get("too_old"))
        )
    return chapters


def skipped(chapters: list[Chapter]) -> list[tuple[str, str]]:
    """What was skipped, and why: [("07 stages_2, stages_3", "a block needs .."), ..]."""
    names: dict[tuple[str, str], list[str]] = {}
    for row in (row for chapter in chapters for row in chapter.rows):
        if row.skipped:
            names.setdefault((row.number, row.skipped), []).append(row.variant)
    return [
        (f"{number} {', '.join(dict.fromkeys(variants))}", reason)
        for (number, reason), variants in names.items()
    ]


def on_simulator(chapters: list[Chapter]) -> list[str]:
    """A sentence for each chapter that the GPU is too old for."""
    return [
        f"{chapter.name} ran on the simulator: {chapter.too_old}" for chapter in chapters if chapter.too_old
    ]


def human(count: float, unit: str = "") -> str:
    """27816960 -> "27.8 M": three digits, powers of 1000 (27.8 MB with unit="B").

    A count without a unit is printed in full up to four digits.
    """
    if not unit and abs(count) < 10_000:
        return f"{count:.0f}"
    for prefix in ("", "k", "M", "G", "T"):
        if abs(count) < 999.5 or prefix == "T":
            break
        count /= 1000
    if not prefix:
        return f"{count:.0f} {unit}".rstrip()
    digits = 2 if abs(count) < 9.995 else 1 if abs(count) < 99.95 else 0
    return f"{count:.{digits}f} {prefix}{unit}"


def scientific(value: float) -> str:
    """2.13e-07 -> "2.1e-07", 2e-06 -> "2e-06": two digits, without a trailing zero."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    return f"{value:.1e}".replace(".0e", "e")
