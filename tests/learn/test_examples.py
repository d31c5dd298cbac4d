"""Tests of the examples of exercises. They compile small programs without a build.

python3 -m tests.learn.test_examples
"""

from __future__ import annotations

import re
import unittest
from concurrent.futures import ThreadPoolExecutor

from tools.learn import examples, exercises, machine, project
from tools.learn.exercises import Exercise

needs_compiler = unittest.skipIf(machine.compiler().problem, "there is no C++ compiler")

# Wrong answers that no example shows, because the mistake is in the order of things.
NOT_SHOWN = {("11", "multiplies O at once"), ("11", "counts the lanes one by one")}
MOST_WRONG = 1  # of each exercise that are tried: each takes half a second


def with_examples() -> list[Exercise]:
    chapters = map(Exercise, project.chapters())
    return [exercise for exercise in chapters if exercise.exists and examples.exercises_of(exercise)]


class ComparedTest(unittest.TestCase):
    def test_the_first_call_with_a_wrong_value(self):
        right = {"f(0)": {"x": "1", "y": "2.5"}, "f(1)": {"x": "3", "y": "yes"}, "f(2)": {"x": "4"}}
        own = {"f(0)": {"x": "1", "y": "2.501"}, "f(1)": {"x": "3", "y": "no"}, "f(2)": {"x": "5"}}
        self.assertEqual(
            examples.compared(own, right), "f(1): y is no, should be yes (2 of 3 examples differ)"
        )
        self.assertIsNone(examples.compared(right, right))

    def test_what_counts_as_the_same(self):
        for own, right, same in (
            ("0.1000001", "0.1", True),
            ("0.11", "0.1", False),
            ("2000000001", "2000000000", False),  # integers are exact
            ("NaN", "NaN", True),
            ("NaN", "1", False),
            ("inf", "inf", True),
            ("-inf", "inf", False),
            ("kFull", "kFull", True),
            ("kFull", "kPartial", False),
        ):
            with self.subTest(own=own, right=right):
                told = examples.compared({"f": {"x": own}}, {"f": {"x": right}})
                self.assertEqual(told, None if same else f"f: x is {own}, should be {right}")

    def test_a_value_that_is_missing(self):
        self.assertEqual(
            examples.compared({}, {"f": {"x": "1"}, "g": {"x": "2"}}),
            "f: x is nothing, should be 1 (2 of 2 examples differ)",
        )


@needs_compiler
class ChaptersTest(unittest.TestCase):
    """The examples of the chapters."""

    def test_answers(self):
        """Solutions and other right answers have the right values, blanks and wrong answers do not."""
        cases = []
        for exercise in with_examples():
            number = exercise.chapter.number
            numbers = examples.exercises_of(exercise)
            self.assertLessEqual(numbers, {region.number for region in exercise.regions}, number)
            text = (exercise.chapter.path / examples.PROGRAM).read_text(encoding="utf-8")
            named = {int(found) for found in re.findall(r"EXERCISE == (\d+)", text)}
            self.assertEqual(numbers, named, "each has a line `#if EXERCISE == K` of its own")
            for region in (exercise.region(n) for n in numbers):
                cases.append((exercise, region.number, "solution", region.solution))
                cases.append((exercise, region.number, "blank", region.stub))
                wrong = [m for m in exercise.mutants() if m.exercise == region.number][:MOST_WRONG]
                cases += [(exercise, region.number, answer.name, answer.solution) for answer in wrong]
            cases += [
                (exercise, answer.exercise, f"right: {answer.name}", answer.solution)
                for answer in exercise.sheet.rights()
                if answer.exercise in numbers
            ]
        self.assertGreater(len(cases), 80)

        def told(case: tuple) -> str | None:
            exercise, number, _, answer = case
            return examples.remark(exercise, exercise.copy_with({number: answer}), number)

        with ThreadPoolExecutor(machine.cores()) as pool:
            for (exercise, number, name, _), remark in zip(cases, pool.map(told, cases), strict=True):
                with self.subTest(chapter=exercise.chapter.number, exercise=number, answer=name):
                    is_right = name == "solution" or name.startswith("right: ")
                    if is_right or (exercise.chapter.number, name) in NOT_SHOWN:
                        self.assertIsNone(remark)
                    else:
                        self.assertIn("should be", remark or "")

    def told_of(self, answer: str) -> str | None:
        exercise = exercises.select_one("13")
        return examples.remark(exercise, exercise.copy_with({1: (answer,)}), 1)

    def test_an_answer_that_cannot_be_called(self):
        self.assertIsNone(self.told_of("return nothing_like_it();"))
        self.assertIsNone(self.told_of('std::puts("here"); return {};'))

    def test_an_answer_that_stops_the_program(self):
        self.assertIn("merge_weights(1, 2): did not end, and was stopped", self.told_of("for (;;) {}"))
        words = self.told_of("if (lse_earlier == 3) std::abort(); return {0.268941f, 0.731059f, 2.31326f};")
        self.assertIn("merge_weights(3, 0): stopped the program: it threw an exception", words)

    def test_an_exercise_without_examples(self):
        exercise = exercises.select_one("12")
        self.assertIsNone(examples.remark(exercise, exercise.copy_with({}), 2))


if __name__ == "__main__":
    unittest.main()
