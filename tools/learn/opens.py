"""Open exercises: the learner changes the kernels freely, and counts decide whether the goal is reached."""

from __future__ import annotations

from dataclasses import dataclass

from . import diagnosis, trials
from .counts import COUNTS


@dataclass(frozen=True)
class Edit:
    """A change of one of the chapter's files: `old`, which occurs once, becomes `new`."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Wrong:
    """An answer that must not count as one, and the finding that it must cause."""

    name: str
    edit: Edit
    caught_by: str  # one of diagnosis.KINDS
    says: str  # words of the finding


@dataclass(frozen=True)
class Open:
    """An open exercise: on one input, one variant must stay within limits."""

    task: str
    minutes: int
    variant: str
    input: str
    at_most: dict[str, int]  # by keys of COUNTS
    may_exceed: tuple[str, ...]  # limits of the chapter that do not apply to it
    hints: tuple[str, ...]
    answer: tuple[Edit, ...]
    wrong: tuple[Wrong, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What an answer needs of each limited count, or why it has none."""

    counts: dict[str, int]
    reached: bool
    finding: diagnosis.Finding | None = None

    def lines(self, goal: Open) -> list[str]:
        """One sentence for each limit that is exceeded, or for the finding."""
        if self.finding:
            words = (self.finding.headline, *self.finding.details)
            return [f"{self.finding.variant}: {'; '.join(words)}"]
        return [
            f"{goal.variant} has {self.counts[name]} {COUNTS[name].words}, the goal is {most} or fewer"
            for name, most in goal.at_most.items()
            if self.counts[name] > most
        ]


def judge(goal: Open, attempts: list[trials.Attempt]) -> Outcome | None:
    """The outcome of the goal's variant on its input; None on a GPU, where nothing is counted."""
    finding = diagnosis.explain(attempts)
    if finding or not attempts:
        return Outcome({}, False, finding)
    result = attempts[0].result
    if "counted" not in result["traffic"]:
        return None
    counts = {name: COUNTS[name].of(result) for name in goal.at_most}
    reached = all(counts[name] <= most for name, most in goal.at_most.items())
    return Outcome(counts, reached)
