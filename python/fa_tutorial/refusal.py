"""Why a kernel does not run a problem: the value that chapters' programs and libraries return."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Reason(enum.IntEnum):
    """The enum fa::Refusal::Reason of common/attention/refusal.hpp. OTHER: the program refuses its options or
    a file.
    """

    OTHER = 0
    PROBLEM = 1
    VARIANT = 2
    LAYOUT = 3
    DEVICE = 4
    ADDRESS = 5
    NAME = 6


class Refusal(NamedTuple):
    """Code looks at the reason, people read the text, in which the names of options stand for arguments."""

    reason: Reason
    text: str


class Refused(RuntimeError):
    """A variant does not run a problem."""

    def __init__(self, refusal: Refusal):
        super().__init__(refusal.text)
        self.refusal = refusal
