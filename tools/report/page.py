"""The report as one self-contained HTML page."""

from __future__ import annotations

import datetime
from collections import Counter
from html import escape

from . import plots
from .results import DECLARED, FAIL, OK, SKIPPED, UNCHECKED, Chapter, Row, on_simulator, skipped
from .table import HOW_TO_READ, cells

STYLE = r"""
:root {
  color-scheme: light dark;
  --page: #fdfdfc; --card: #ffffff; --ink: #1d2129; --muted: #6b7280; --grid: #e4e6ea;
  --ok: #1a7f4b; --bad: #c62f2f; --warn: #a86500;
  --tensor-0: #2f6fb7; --tensor-1: #d1701a; --tensor-2: #2c8f6d; --tensor-3: #a4479c;
  --tensor-4: #8a6d1c; --tensor-5: #4b5fc4; --tensor-6: #b8405e; --tensor-7: #5b7f1f;
  --tensor-8: #1f8296; --tensor-9: #7a5a45; --tensor-10: #6d6f7a; --tensor-11: #95356b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171c; --card: #1c2027; --ink: #e4e7ec; --muted: #98a1af; --grid: #333943;
    --ok: #4cc38a; --bad: #f2726f; --warn: #e6b04d;
    --tensor-0: #6aa8ea; --tensor-1: #f29b4e; --tensor-2: #5cc9a2; --tensor-3: #d98ad2;
    --tensor-4: #d3b35a; --tensor-5: #97a5ff; --tensor-6: #f0849f; --tensor-7: #a6cf62;
    --tensor-8: #63c5da; --tensor-9: #c7a28a; --tensor-10: #b4b6c2; --tensor-11: #e58bc0;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 76rem;
  background: var(--page); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif;
}
h1 { font-size: 1.5rem; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .25rem; }
h3 { font-size: 1rem; margin: 0; }
p { margin: .25rem 0; }
.muted, figcaption { color: var(--muted); font-size: .875rem; }
.ok { color: var(--ok); } .FAIL { color: var(--bad); } .declared { color: var(--warn); }
.skipped { color: var(--muted); }
.verdicts { font-weight: 600; }
.plots { display: grid; gap: 1rem; margin-top: .75rem;
         grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; padding: .75rem; background: var(--card); border: 1px solid var(--grid);
         border-radius: .5rem; max-width: 36rem; }
svg { display: block; width: 100%; height: auto; margin-top: .5rem; font-family: inherit; }
figure ul { display: flex; flex-wrap: wrap; gap: .1rem .9rem; margin: .4rem 0 0; padding: 0;
            list-style: none; font-size: .8125rem; }
figure li::before { content: ""; display: inline-block; width: .9em; height: .7em;
                    margin-right: .4em; background: var(--colour); }
figure li.hatched::before {
  border: 1px solid var(--colour);
  background: repeating-linear-gradient(135deg, var(--colour) 0 1.5px, transparent 1.5px 4px);
}
figure li.dot::before { width: .7em; border-radius: 50%; }
figure li.cross::before { content: "\2716"; width: auto; height: auto; background: none;
                          color: var(--colour); }
figure li.mark::before { width: .15em; height: .9em; margin: 0 .5em -.1em .2em; }
.scroll { overflow-x: auto; margin-top: .75rem; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .3rem .7rem .3rem 0; text-align: right; white-space: nowrap;
         border-bottom: 1px solid var(--grid); vertical-align: bottom; }
th { font-weight: 600; white-space: normal; }
th:first-child, td:first-child, th:last-child, td:last-child { text-align: left; }
td:last-child { font-weight: 600; padding-right: 0; }
pre { white-space: pre-wrap; padding: .75rem; background: var(--card); border: 1px solid var(--grid);
      border-radius: .5rem; font-size: .8125rem; }
@media print {
  body { max-width: none; padding: 0; }
  figure, tr, pre { break-inside: avoid; }
  h2, h3, figcaption { break-after: avoid; }
  .scroll { overflow: visible; }
  table { font-size: .625rem; }
  th, td { padding-right: .35rem; }
}
"""

VERDICT_WORDS = {
    OK: "ok",
    FAIL: "FAIL",
    DECLARED: "declared to fail",
    SKIPPED: "skipped on this device",
    UNCHECKED: "not checked",
}
HEADINGS = (
    "variant",
    "relative error / tolerance",
    "workspace",
    "HBM predicted",
    "HBM counted",
    "ratio",
    "sector efficiency",
    "bank conflicts",
    "defects",
    "verdict",
)


def _groups(chapters: list[Chapter]) -> list[list[Chapter]]:
    """Groups of consecutive chapters with the same problem and device. Each group gets one set of plots."""
    groups: list[list[Chapter]] = []
    for chapter in chapters:
        last = groups[-1][-1] if groups else None
        if last and (last.problem, last.device) == (chapter.problem, chapter.device):
            groups[-1].append(chapter)
        else:
            groups.append([chapter])
    return groups


def _table(chapters: list[Chapter]) -> str:
    rows = [row for chapter in chapters for row in chapter.rows]
    timed = any(row.time for row in rows)
    *headings, last = HEADINGS
    headings += ["time", last] if timed else [last]
    lines = ["<tr>", *(f'<th scope="col">{heading}</th>' for heading in headings), "</tr>"]
    for row in rows:
        _, *values, verdict = cells(row)
        if timed:
            values.append(f"{row.time.median_ms:.3g} ms" if row.time else "-")
        lines.append(f"<tr><td>{row.number} {escape(row.variant)}</td>")
        lines += [f"<td>{escape(value)}</td>" for value in values]
        lines.append(f'<td class="{verdict}">{verdict}</td></tr>')
    return '<div class="scroll"><table>' + "\n".join(lines) + "</table></div>"


def _verdicts(rows: list[Row]) -> str:
    """ "7 ok, 1 declared" """
    counts = Counter(row.verdict for row in rows)
    parts = (
        f'<span class="{name}">{counts[name]} {words}</span>'
        for name, words in VERDICT_WORDS.items()
        if counts[name]
    )
    return f'<p class="verdicts">{", ".join(parts)}</p>'


def _skipped(chapters: list[Chapter]) -> list[str]:
    lines = [f"{names} skipped: {why}" for names, why in skipped(chapters)]
    lines += on_simulator(chapters)
    return [f'<p class="muted">{escape(line)}</p>' for line in lines]


def _declared(rows: list[Row]) -> list[str]:
    return [
        f'<p class="muted"><span class="{DECLARED}">{row.number} {escape(row.variant)}</span> '
        f"is declared to fail on this input: {escape(row.declared)}</p>"
        for row in rows
        if row.declared
    ]


def _defects(rows: list[Row]) -> list[str]:
    """The simulator's defect reports, as they were printed."""
    lines = []
    for row in rows:
        if not row.defects:
            continue
        lines.append(f'<h3 class="{FAIL}">Defects in {row.number} {escape(row.variant)}</h3>')
        messages = (escape(defect.get("message", "")) for defect in row.defects)
        lines.append("<pre>" + "\n".join(messages) + "</pre>")
    return lines


def _figure(plot: plots.Plot) -> str:
    key = "".join(
        f'<li class="{shape}" style="--colour: var({variable})">{escape(label)}</li>'
        for label, shape, variable in plot.key
    )
    return (
        f"<figure><h3>{escape(plot.title)}</h3>"
        f"<figcaption>{escape(plot.caption)}</figcaption>"
        f"{f'<ul>{key}</ul>' if key else ''}{plot.svg}</figure>"
    )


def render(chapters: list[Chapter], when: datetime.datetime) -> str:
    """Makes the page.

    @param when  the time of the run, with its time zone
    """
    body = []
    for index, group in enumerate(_groups(chapters)):
        rows = [row for chapter in group for row in chapter.rows]
        numbers = ", ".join(chapter.name[:2] for chapter in group)
        word = "Chapter" if len(group) == 1 else "Chapters"
        first = group[0]
        body += [
            f"<h2>{word} {numbers}: {escape(first.problem)}</h2>",
            f'<p class="muted">{escape(first.backend)} backend, {escape(first.device)}</p>',
            _verdicts(rows),
            *_skipped(group),
            *_declared(rows),
            *_defects(rows),
            '<div class="plots">',
            *(_figure(plot) for plot in plots.draw(rows, f"plots-{index}")),
            "</div>",
            _table(group),
        ]
        if not any(row.counted for row in rows):
            body.append(
                '<p class="muted">Bytes, sectors and conflicts are counted by the simulator: '
                "<code>./learn run --preset sim</code> shows them.</p>"
            )
    names = ", ".join(chapter.name for chapter in chapters)
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<title>From Softmax to FlashAttention: results</title>",
            f"<style>{STYLE}</style></head><body>",
            "<h1>From Softmax to FlashAttention: results</h1>",
            f'<p class="muted">{escape(names)}, on {when:%Y-%m-%d at %H:%M %Z}</p>',
            *body,
            f'<p class="muted">{escape(HOW_TO_READ)}</p>',
            "</body></html>\n",
        )
    )
