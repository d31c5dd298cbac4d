"""Finds the longest context that fits, by bisection. Knows nothing of GPUs: training_step.py says what
fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Longest:
    """What a search has found. Both were tried."""

    fits: int  # the longest that does; 0 if none
    fails: int | None  # the shortest that does not; None if all fit


def find(fits: Callable[[int], bool], stride: int, bound: int) -> Longest:
    """The longest multiple of `stride` up to `bound` that fits. A length fits if a longer one does.

    Doubles the length until it does not fit, then halves the gap: about 2 log2(longest / stride) tries, each
    length once.
    """
    low, high, last = 0, stride, bound // stride * stride
    while True:
        high = min(high, last)
        if high <= low:
            return Longest(low, None)
        if not fits(high):
            break
        low, high = high, 2 * high
    while high - low > stride:
        middle = (low + high) // 2 // stride * stride
        if fits(middle):
            low = middle
        else:
            high = middle
    return Longest(low, high)
