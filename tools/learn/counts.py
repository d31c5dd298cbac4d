"""What the simulator counts of a variant, read from its entry in a program's JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Count:
    """A number and its name in the plural."""

    words: str
    of: Callable[[dict], int]


def _traffic(unit: str) -> Callable[[dict], int]:
    def total(result: dict) -> int:
        counted = result["traffic"]["counted"]
        kinds = ("read", "write", "atomic")
        return sum(counted.get(f"{kind}_{unit}", 0) for kind in kinds)

    return total


def wavefronts(result: dict, which: str = "") -> int:
    """Wavefronts of shared memory. @param which  "_ideal": the fewest that would do"""
    shared = result.get("shared", {})
    return sum(shared.get(f"{way}_wavefronts{which}", 0) for way in ("load", "store"))


def _link_bytes(result: dict) -> int:
    """What all ranks of chapter 13 send to others."""
    return sum(step["counted_bytes"] for steps in result["links"] for step in steps)


COUNTS = {
    "bytes": Count("HBM bytes", _traffic("bytes")),
    "sectors": Count("sectors", _traffic("sectors")),
    "link_bytes": Count("link bytes", _link_bytes),
    "requests": Count("requests", _traffic("requests")),
    "wavefronts": Count("wavefronts of shared memory", wavefronts),
    "conflicts": Count("bank conflicts", lambda r: wavefronts(r) - wavefronts(r, "_ideal")),
    "shared_bytes": Count("bytes of shared memory", lambda r: r["shared"]["bytes_per_block"]),
    "barriers": Count("barriers", lambda r: r["ops"]["barriers"]),
    "shuffles": Count("shuffles", lambda r: r["ops"]["shuffles"]),
    "mma": Count("mma instructions", lambda r: r["ops"]["mma"]),
    "wgmma": Count("wgmma instructions", lambda r: r["ops"]["wgmma"]),
}

# What an answer must not have less of than the solution.
LEAST = (
    "named_barriers",
    "votes_beside_products",
    "accesses_beside_products",
    "arrivals_beside_products",
    "arrivals_before_waits",
    "kernels_beside_transfers",
    "shared_room",
)
