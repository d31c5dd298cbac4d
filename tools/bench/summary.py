"""Compares the chapters with other libraries: from the timings of a run to geometric means."""

from __future__ import annotations

import math
from collections.abc import Iterator

PROBLEM = ("dtype", "batch", "heads", "seq", "head_dim", "causal", "backward")
SHAPE = ("rows", "cols")


def compare(timings: list[dict]) -> Iterator[dict]:
    """How many times as fast each variant is as each peer that ran the same problems.

    Returns chapter, variant, head_dim (None: softmax), backward, peer, points, mean (geometric), worst and
    where.
    """
    by_problem: dict[tuple, list[dict]] = {}
    for timing in timings:
        problem = tuple(timing.get(name) for name in (*PROBLEM, *SHAPE))
        by_problem.setdefault(problem, []).append(timing)
    ratios: dict[tuple, dict[str, float]] = {}
    for rows in by_problem.values():
        for ours in (row for row in rows if row["chapter"]):
            for peer in (row for row in rows if not row["chapter"]):
                pair = (
                    ours["chapter"],
                    ours["variant"],
                    ours.get("head_dim"),
                    bool(ours.get("backward")),
                    peer["variant"],
                )
                speed = peer["median_ms"] / ours["median_ms"]
                ratios.setdefault(pair, {})[where(ours)] = speed
    for (chapter, variant, head_dim, backward, peer), points in ratios.items():
        worst = min(points, key=points.get)
        yield {
            "chapter": chapter,
            "variant": variant,
            "head_dim": head_dim,
            "backward": backward,
            "peer": peer,
            "points": len(points),
            "mean": math.exp(sum(map(math.log, points.values())) / len(points)),
            "worst": points[worst],
            "where": worst,
        }


def as_timings(sustained: list[dict]) -> list[dict]:
    """The rows of the sustained runs in the form of the others."""
    return [row | {"median_ms": row["mean_ms"]} for row in sustained]


def where(row: dict) -> str:
    """[8,16,1024,64] causal, or 4096 x 32768"""
    if "rows" in row:
        return f"{row['rows']} x {row['cols']}"
    lengths = ",".join(str(row[name]) for name in ("batch", "heads", "seq", "head_dim"))
    return f"[{lengths}]" + (" causal" if row["causal"] else "")


def lines(timings: list[dict]) -> list[str]:
    """The results of compare(), for a terminal."""
    told = []
    for found in compare(timings):
        d = f" d={found['head_dim']}" if found["head_dim"] else ""
        which = f"{found['chapter'][:2]} {found['variant']}{d}"
        told.append(
            f"{which:28} {found['mean']:5.2f} of {found['peer']:17} worst {found['worst']:.2f} at"
            f" {found['where']}, {found['points']} points"
        )
    return told
