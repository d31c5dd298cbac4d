"""Predictions: numbers that the learner writes down before anything runs, compared with what the simulator
counts.

They stand in exercises/NN_name/predictK.txt. Each may be a number or a product and sum of numbers.
"""

from __future__ import annotations

import ast
import itertools
import operator
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import project, trials
from .console import LearnError
from .counts import COUNTS

if TYPE_CHECKING:
    from .exercises import Exercise

OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}


# What may be wrong with a term of a sum, in words that follow "this is the number ".
MISTAKES = {0: "without {}", 2: "with {} counted twice", 1 / 2: "with half of {}"}
MOST_MISTAKES = 2  # more of them would explain any number
CLOSE = 0.05  # a difference up to this says more than a factor


@dataclass(frozen=True)
class Number:
    """A number to predict, and what those forget who come to another one."""

    count: str  # a key of COUNTS
    words: str  # what it is, as the file asks for it
    why: str  # shown when it is right
    forgotten: tuple[tuple[str, str], ...]  # the wrong number as a sum of products, and what is missing
    terms: tuple[tuple[str, float], ...] = ()  # what the right number is the sum of


@dataclass(frozen=True)
class Prediction:
    """Numbers of one variant on one input."""

    number: int
    question: str
    minutes: int
    variant: str
    input: str
    numbers: tuple[Number, ...]

    @property
    def name(self) -> str:
        return f"predict{self.number}"

    def file(self, exercise: Exercise) -> Path:
        return exercise.folder / f"{self.name}.txt"

    def files(self, exercise: Exercise) -> dict[Path, str]:
        """The learner's file, and its text before anything is predicted."""
        lines = [
            f"# {self.question}",
            f"# With: --variant {self.variant} {self.input}",
            "# Write a number, or a product such as 2 * 64 * 100, after each colon. Then:",
            f"# ./learn check {exercise.number} {self.name}",
            *(f"{number.words}: " for number in self.numbers),
        ]
        return {self.file(exercise): "\n".join(lines) + "\n"}

    def own(self, exercise: Exercise) -> list[float]:
        """What the learner has written. @throws LearnError  one sentence"""
        shown = project.shown(self.file(exercise))
        start = f"./learn start {exercise.number} {self.name}"
        try:
            lines = self.file(exercise).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise LearnError(f"{shown} cannot be read: {start} writes it", 2) from error
        written = dict(line.rsplit(":", 1) for line in lines if ":" in line and not line.startswith("#"))
        found = []
        for number in self.numbers:
            text = written.get(number.words, "").strip()
            if number.words not in written:
                raise LearnError(f'{shown} has no line "{number.words}:": {start} --force writes it again', 2)
            try:
                found.append(value(text))
            except ValueError:
                given = f"is followed by {text!r}" if text else "is empty"
                raise LearnError(f'{shown}: "{number.words}:" {given}: it must be a number', 2) from None
        return found

    def compare(self, program: Path, numbers: list[float]) -> list[Outcome]:
        """The numbers beside those of the chapter's own program."""
        (attempt,) = trials.run(program, [self.input], variant=self.variant)
        return [
            Outcome(number, predicted, COUNTS[number.count].of(attempt.result))
            for number, predicted in zip(self.numbers, numbers, strict=True)
        ]


@dataclass(frozen=True)
class Outcome:
    """A prediction beside what was counted."""

    number: Number
    predicted: float
    counted: int

    @property
    def is_right(self) -> bool:
        return self.predicted == self.counted

    @property
    def remark(self) -> str:
        """Why it is right, or what is missing or how far it is off."""
        if self.is_right:
            return self.number.why
        for text, missing in self.number.forgotten:
            if value(text) == self.predicted:
                return missing
        if not self.predicted:
            return "it is not 0"
        if mistakes := self._mistaken_terms():
            return f"this is the number {mistakes}"
        ratio = self.counted / self.predicted
        small_or_large = "too small" if ratio > 1 else "too large"
        if abs(self.counted - self.predicted) < CLOSE * self.counted:
            return f"{small_or_large} by {abs(self.counted - self.predicted):,.6g}"
        return f"{small_or_large} by a factor of {max(ratio, 1 / ratio):.3g}"

    def _mistaken_terms(self) -> str:
        """The fewest mistakes in terms that lead to the number, if there is one way only; "" otherwise."""
        alike: dict[float, list[str]] = {}  # terms of the same size cannot be told apart
        for name, size in self.number.terms:
            alike.setdefault(size, []).append(name)
        choices = [  # the group, what it adds to the number, and the words
            (names, (by - 1) * size, words.format(" or ".join(names)))
            for size, names in alike.items()
            for by, words in MISTAKES.items()
        ]
        choices += [
            (names, (by - 1) * len(names) * size, MISTAKES[by].format(" and ".join(names)))
            for size, names in alike.items()
            for by in (0, 2)  # half of two is one of them
            if len(names) == 2
        ]
        for count in range(1, MOST_MISTAKES + 1):
            ways = [
                " and ".join(words for *_, words in mistakes)
                for mistakes in itertools.combinations(choices, count)
                if self.predicted - self.counted == sum(added for _, added, _ in mistakes)
                and all(one[0] is not other[0] for one, other in itertools.combinations(mistakes, 2))
            ]
            if ways:
                return ways[0] if len(ways) == 1 else ""
        return ""


def value(text: str) -> float:
    """The value of an expression of numbers, which may be written as 126,720. @throws ValueError"""

    def of(node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            left, right = of(node.left), of(node.right)
            if isinstance(node.op, ast.Pow) and not (0 <= right <= 64 and abs(left) <= 2**20):
                raise ValueError(text)
            return OPERATORS[type(node.op)](left, right)
        raise ValueError(text)

    try:
        return of(ast.parse(re.sub(r"(?<=\d),(?=\d{3}\b)", "", text.strip()), mode="eval").body)
    except (SyntaxError, ZeroDivisionError, OverflowError, RecursionError) as error:
        raise ValueError(text) from error
