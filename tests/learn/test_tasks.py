"""Bugs to find and numbers to predict: the sheet, the learner's files, the commands."""

import io
import unittest
from unittest import mock

from tests.learn.test_exercises import SHEET, InAChapter, attempt
from tools.learn import bugs, console, predictions, tasks
from tools.learn.commands import check, hint, start
from tools.learn.console import LearnError
from tools.learn.regions import RegionError

BUG = """
[[bug]]
task = "Too small."
minutes = 10
variant = "x"
from = "return x + x;"
to = "return x;"
hints = ["How often is x added?", "Once."]
why = "x was added once."
caught_by = "numbers"
says = "wrong"
"""
PREDICTION = """
[[predict]]
question = "How many bytes?"
minutes = 5
variant = "x"
input = "--rows 3"

[[predict.number]]
count = "bytes"
words = "HBM bytes"
why = "Each of 3 numbers has 4 bytes."
forgotten = [{ value = "3", says = "a number has 4 bytes" }]
"""


class OfSheet(InAChapter):
    def setUp(self):
        super().setUp()
        solution = self.exercise.regions[0].solution[0].strip()
        self.bug = BUG.replace("return x + x;", solution)
        self.write("exercises.toml", SHEET + self.bug + PREDICTION)

    def test_the_files_of_a_bug_have_no_marks_and_one_other_line(self):
        (bug,) = self.exercise.sheet.bugs
        ((file, text),) = bug.files(self.exercise).items()
        self.assertEqual(file, self.exercise.folder / "bug1" / "kernel.cuh")
        self.assertNotIn("EXERCISE", text)
        own = self.exercise.sheet.texts["kernel.cuh"]
        others = [line for line in text.splitlines() if line not in own.splitlines()]
        self.assertEqual([line.strip() for line in others], ["return x;"])
        self.assertEqual((bug.number, bug.hints[1], bug.limits), (1, "Once.", ()))

    def test_what_the_sheet_refuses(self):
        for text, words in (
            (self.bug.replace('from = "', 'from = "no '), "`from` occurs 0 times"),
            (self.bug.replace('hints = ["How often is x added?", "Once."]', "hints = []"), "has no hints"),
            (self.bug + 'limits = ["speed"]\n', "`speed` is no limit"),
            (PREDICTION.replace('count = "bytes"', 'count = "rows"'), "`rows` is no count"),
            (PREDICTION.replace('value = "3"', 'value = "x"'), "'x' is no number"),
        ):
            self.write("exercises.toml", SHEET + text)
            with self.subTest(words), self.assertRaisesRegex(RegionError, words):
                _ = (self.exercise.sheet.bugs, self.exercise.sheet.predictions)

    def test_tasks_that_do_not_exist(self):
        for module in (start, check, hint):
            with self.assertRaises(LearnError) as caught:
                self.run_command(module, "01", "bug2")
            self.assertEqual(
                (str(caught.exception), caught.exception.status), ("chapter 01 has no bug2: it has bug1", 2)
            )
        with self.assertRaisesRegex(LearnError, "has no predict7: it has predict1"):
            self.run_command(start, "01", "predict7")

    def test_start_does_not_overwrite(self):
        text = self.run_command(start, "01", "bug1")
        self.assertIn("exercises/01_x/bug1/kernel.cuh: 10 minutes\ntask:  Too small.\n", text)
        with self.assertRaisesRegex(LearnError, "exists: ./learn check 01 bug1 checks it"):
            self.run_command(start, "01", "bug1")
        own = self.exercise.folder / "bug1" / "kernel.cuh"
        own.write_text("mine")
        self.run_command(start, "01", "bug1", "--force")
        self.assertEqual(own.with_name("kernel.cuh.1").read_text(), "mine")
        self.assertNotEqual(own.read_text(), "mine")

    def test_hints_one_at_a_time(self):
        with self.assertRaisesRegex(LearnError, "./learn start 01 bug1 writes it"):
            self.run_command(hint, "01", "bug1")
        self.run_command(start, "01", "bug1")
        self.assertIn("hint 1: How often is x added?\n1 more hint", self.run_command(hint, "01", "bug1"))
        self.assertIn("hint 2: Once.\nno more hints", self.run_command(hint, "01", "bug1"))
        self.run_command(start, "01", "predict1")
        with self.assertRaisesRegex(LearnError, "predict1 has no hints"):
            self.run_command(hint, "01", "predict1")

    def test_a_bug_is_judged_in_one_variant_and_then_in_all(self):
        (bug,) = self.exercise.sheet.bugs
        bench = mock.Mock(try_files=mock.Mock(return_value=[attempt()]), solution=mock.Mock(return_value=[]))
        self.assertIsNone(bug.judge(bench, self.exercise, {"kernel.cuh": "x"}))
        variants = [call.args[2] for call in bench.try_files.call_args_list]
        self.assertEqual(variants, ["x", None])

    def test_what_check_says_of_a_bug(self):
        (bug,) = self.exercise.sheet.bugs
        finding = mock.Mock(
            headline="y is wrong", details=["by 1"], lines=["kernel.cuh:1"], variant="x", arguments="--rows 3"
        )
        self.run_command(start, "01", "bug1")
        for found, right, words in (
            (finding, False, "x: y is wrong\n   by 1\n   kernel.cuh:1 | "),
            (None, True, "bug1 of chapter 01 is found, on "),
        ):
            out = io.StringIO()
            with (
                mock.patch.object(bugs.Bug, "judge", return_value=found),
                mock.patch.object(check.trials, "Workbench"),
            ):
                own = bug.own(self.exercise)
                told = check.check_bug(console.Console(out), self.root, self.exercise, bug, own)
            self.assertEqual(told, right)
            self.assertIn(words, out.getvalue())
            self.assertEqual("x was added once." in out.getvalue(), right)


class OfPredictions(InAChapter):
    def setUp(self):
        super().setUp()
        self.write("exercises.toml", SHEET + PREDICTION)
        (self.prediction,) = self.exercise.sheet.predictions
        self.run_command(start, "01", "predict1")

    def predict(self, text: str) -> list[float]:
        file = self.prediction.file(self.exercise)
        lines = file.read_text().splitlines()[:-1]
        file.write_text("\n".join([*lines, text]))
        return self.prediction.own(self.exercise)

    def test_numbers_and_products(self):
        for text, number in (("12", 12), ("3 * 4", 12), ("2 ** 3 + 4", 12), ("24 / 2", 12), ("1_2", 12)):
            self.assertEqual(self.predict(f"HBM bytes: {text}"), [number])

    def test_what_is_no_number(self):
        for text, words in (
            ("HBM bytes:", "is empty: it must be a number"),
            ("HBM bytes: twelve", "is followed by 'twelve': it must be a number"),
            ("HBM bytes: 1 / 0", "must be a number"),
            ("HBM bytes: 9 ** 9 ** 9", "must be a number"),
            ("HBM bytes: abs(3)", "must be a number"),
            ("bytes: 3", 'has no line "HBM bytes:"'),
        ):
            with self.assertRaises(LearnError) as caught:
                self.predict(text)
            self.assertIn(words, str(caught.exception))
            self.assertEqual(caught.exception.status, 2)

    def test_what_is_said_of_a_number(self):
        result = {"traffic": {"counted": {"read_bytes": 8, "write_bytes": 4}}}
        tried = [mock.Mock(result=result)]
        for number, right, words in (
            (12, True, "Each of 3 numbers has 4 bytes."),
            (3, False, "a number has 4 bytes"),
            (24, False, "too large by a factor of 2"),
            (8, False, "too small by a factor of 1.5"),
            (12.5, False, "too large by 0.5"),
            (0, False, "it is not 0"),
        ):
            with mock.patch.object(predictions.trials, "run", return_value=tried):
                (outcome,) = self.prediction.compare(self.root, [number])
            self.assertEqual((outcome.is_right, outcome.remark), (right, words))

    def test_terms_that_are_missing_or_counted_twice(self):
        terms = (("Q", 100), ("O", 100), ("K", 3000), ("LSE", 7))
        number = predictions.Number("bytes", "HBM bytes", "", (), terms)
        for predicted, words in (
            (3200, "without LSE"),
            (6207, "with K counted twice"),
            (3107, "without Q or O"),
            (3007, "without Q and O"),
            (3114, "without Q or O and with LSE counted twice"),
            (1700, "with half of K and without LSE"),
            (1703.5, "with half of K and with half of LSE"),  # and not without one and with half of the other
        ):
            outcome = predictions.Outcome(number, predicted, 3207)
            self.assertEqual(outcome.remark, f"this is the number {words}", predicted)
        for predicted in (3210, 1234, 1):  # no way, or more than one, or more mistakes
            self.assertIn(
                "too small" if predicted < 3207 else "too large",
                predictions.Outcome(number, predicted, 3207).remark,
            )

    def test_names(self):
        self.assertEqual(tasks.named("predict12"), tasks.Named("predict", 12))
        for word in ("bug", "3", "bugs1", "predict-1"):
            self.assertIsNone(tasks.named(word))


if __name__ == "__main__":
    unittest.main()
