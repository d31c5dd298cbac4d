"""The table that `./learn run` prints."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable

from .results import DECLARED, FAIL, OK, SKIPPED, Chapter, Row, human, on_simulator, scientific, skipped

WIDTH = 100
HOW_TO_READ = "counted = predicted: the formula holds. ratio < 1: fewer bytes than the variant above."

Column = tuple[str, str, str]

# Two lines of headings, and the alignment of the cells: "<" or ">".
COLUMNS: tuple[Column, ...] = (
    ("", "variant", "<"),
    ("relative error", "/ tolerance", ">"),
    ("work-", "space", ">"),
    ("HBM bytes", "predicted", ">"),
    ("", "counted", ">"),
    ("", "ratio", ">"),
    ("sector", "use", ">"),
    ("bank", "confl.", ">"),
    ("de-", "fects", ">"),
    ("", "verdict", "<"),
)
WORKSPACE = 2  # this column is omitted if no variant has a workspace
VERDICT_STYLES = {OK: "green", FAIL: "red", DECLARED: "yellow", SKIPPED: "dim"}
INDENT = "   "
LONGEST_NAME = 15  # with every other cell at its longest, the line is 100 columns wide

Paint = Callable[[str, str], str]


def cells(row: Row) -> list[str]:
    """A variant as text, one cell per column; "-" for what the backend cannot determine."""

    def known(value, show) -> str:
        return "-" if value is None else show(value)

    name = row.variant
    if len(name) > LONGEST_NAME:
        name = name[: LONGEST_NAME - 2] + ".."
    return [
        INDENT + name,
        known(row.error, lambda e: f"{scientific(e.rel_l2)} / {scientific(e.tolerance)}"),
        human(row.workspace_bytes, "B") if row.workspace_bytes else "-",
        known(row.predicted, lambda t: ">=" * bool(t.at_least) + human(t.bytes, "B")),
        known(row.counted, lambda t: human(t.bytes, "B")),
        known(row.ratio, lambda ratio: f"{ratio:.2f}" if ratio < 100 else human(ratio)),
        known(row.counted and row.counted.efficiency, lambda share: f"{100 * share:.1f} %"),
        known(row.shared, lambda shared: human(shared.conflicts)),
        known(row.defect_count, human),
        row.verdict,
    ]


def _line(texts: list[str], widths: list[int], columns: list[Column]) -> str:
    aligned = zip(texts, widths, columns, strict=True)
    return " ".join(f"{text:{align}{width}}" for text, width, (*_, align) in aligned)


def _notes(chapters: list[Chapter]) -> list[str]:
    """What the cells have no room for: why a variant was skipped, why a failure is declared, where a formula
    is wrong.
    """
    notes = [f"skipped: {names}: {why}" for names, why in skipped(chapters)]
    notes += on_simulator(chapters)
    for row in (row for chapter in chapters for row in chapter.rows):
        if row.failure:
            notes.append(f"{row.number} {row.variant} did not run: {row.failure}")
        if row.fault:
            notes.append(f"{row.number} {row.variant}: {row.fault}")
        if row.declared:
            notes.append(f"declared: {row.number} {row.variant}: {row.declared}")
        if row.formula_misses:
            notes.append(
                f"{row.number} {row.variant}: the formula says {row.predicted.bytes} bytes, "
                f"{row.counted.bytes} were counted; --json FILE has them by tensor"
            )
    return [textwrap.fill(note, WIDTH, initial_indent="* ", subsequent_indent="  ") for note in notes]


def render(chapters: list[Chapter], paint: Paint) -> str:
    """All chapters as one table of at most 100 columns, with its notes below.

    @param paint  (text, style) -> text, in colour if the terminal has any
    """
    some_workspace = any(row.workspace_bytes for c in chapters for row in c.rows)

    def shown(every: Iterable) -> list:
        return [x for i, x in enumerate(every) if i != WORKSPACE or some_workspace]

    columns = shown(COLUMNS)
    body = [[(row, shown(cells(row))) for row in chapter.rows] for chapter in chapters]
    texts_of_all = [texts for rows in body for _, texts in rows]
    head = [[column[0] for column in columns], [column[1] for column in columns]]
    widths = [max(map(len, c)) for c in zip(*head, *texts_of_all, strict=True)]

    lines = [paint(_line(texts, widths, columns).rstrip(), "bold") for texts in head]
    for chapter, rows in zip(chapters, body, strict=True):
        title = f"{chapter.name} ({chapter.problem})" if chapter.problem else chapter.name
        title = textwrap.fill(title, WIDTH, subsequent_indent=INDENT)
        lines.append(paint(title, "bold"))
        for row, texts in rows:
            line = _line(texts, widths, columns).rstrip()
            verdict = paint(row.verdict, VERDICT_STYLES.get(row.verdict, "plain"))
            lines.append(line.removesuffix(row.verdict) + verdict)
    return "\n".join(lines + _notes(chapters))
