"""Tests of the exercises in ./learn, without a compiler: python3 test_exercises.py."""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
import re
import shlex
import subprocess
import tempfile
import threading
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from tools.learn import (
    checking,
    cli,
    console,
    diagnosis,
    examples,
    exercises,
    machine,
    maps,
    phases,
    project,
    ranks,
    regions,
    setup,
    sheet,
    trials,
    watching,
)
from tools.learn.commands import check, debug, diff, hint, reset, solution, start, try_, watch

from . import fakes, fixtures

KERNEL = """\
int twice(int x) {
  // EXERCISE 1: Make 2 x of x.
  const int y = x + x;
  return y;
  // END 1
}
int thrice(int x) {
    // EXERCISE 2: Make 3 x of x.
    return 3 * x;
    // END 2
}
"""
SECOND = """\
#include "kernel.cuh"
int square(int x) {
  // EXERCISE 3: Make x * x of x.
  return x * x;
  // END 3
}
"""
SHEET = """\
inputs = ["--rows 1", "--rows 2"]
limit_sectors = true

[[exercise]]
number = 1
minutes = 5
hints = ["Add.", "x + x"]
stub = '''
if (x)
  return x;
return 0;
'''

[[exercise.wrong]]
name = "three times"
from = "x + x"
to = "x + x + x"
caught_by = "numbers"
says = "wrong"

[[exercise]]
number = 2
minutes = 5
hints = ["Multiply."]
stub = "return x;"
"""
THIRD = """
[[exercise]]
number = 3
minutes = 5
hints = ["Multiply."]
stub = "return 0;"

[[exercise.wrong]]
name = "twice"
from = "x * x"
to = "x + x"
caught_by = "numbers"
says = "wrong"
"""


class InAChapter(unittest.TestCase):
    """A test with a tree that has one chapter."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        patch = mock.patch.object(project, "ROOT", self.root)
        patch.start()
        self.addCleanup(patch.stop)
        self.write("README.md", "# 01 X\n")
        self.write("kernel.cuh", KERNEL)
        self.write("exercises.toml", SHEET)

    def write(self, name: str, text: str) -> Path:
        """Writes a file of the chapter."""
        path = self.root / "chapters" / "01_x" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def second_file(self, files: str = '["kernel.cuh", "more.cuh"]') -> None:
        """Adds exercise 3, in a file of its own."""
        self.write("more.cuh", SECOND)
        self.write("exercises.toml", f"files = {files}\n{SHEET}{THIRD}")

    @property
    def exercise(self) -> exercises.Exercise:
        return exercises.Exercise(project.select(["01"])[0])

    def copy(self, contents: dict[int, tuple[str, ...]] | None = None) -> dict:
        return self.exercise.copy_with(contents or {})

    def run_command(self, module, *words: str) -> str:
        """The output of a command."""
        parser = argparse.ArgumentParser()
        module.add_options(parser)
        self.out = io.StringIO()
        self.status = module.main(console.Console(self.out), parser.parse_args(words))
        return self.out.getvalue()


class ParserTest(unittest.TestCase):
    def parse(self, text: str, first: int = 1) -> list[regions.Region]:
        return regions.parse(text, "k.cuh", "01_x", first)

    def test_a_region_has_task_and_solution(self):
        first, second = self.parse(KERNEL)
        self.assertEqual((first.number, first.task), (1, "Make 2 x of x."))
        self.assertEqual(first.solution, ("  const int y = x + x;", "  return y;"))
        self.assertEqual((first.begin, first.end, first.indent), (1, 5, "  "))
        self.assertEqual(second.solution, ("    return 3 * x;",))

    def test_a_text_without_marks_has_no_regions(self):
        self.assertEqual(self.parse("int f();\n"), [])

    def test_malformed_regions_are_told_with_file_and_line(self):
        one, end = "// EXERCISE 1: do\nx;\n", "// END 1\n"
        cases = {
            f"\n{end}": "2: END 1 comes before its EXERCISE",
            one: "1: EXERCISE 1 has no END 1",
            f"{one}{one}": "3: EXERCISE 1 occurs twice",
            f"{one}{end}{one}{end}": "4: EXERCISE 1 occurs twice",
            f"{one}// EXERCISE 2: do\n{end}": "1: EXERCISE 1 has no END 1",
            f"{one}// END 2\n": "3: END 2 ends EXERCISE 1: must be END 1",
            f"{one}{end}{end}": "4: END 1 comes before its EXERCISE",
            "// EXERCISE 2: do\nx;\n// END 2\n": "1: EXERCISE 2 must be EXERCISE 1",
            f"// EXERCISE 1: \nx;\n{end}": "1: EXERCISE 1 has no task",
            f"// EXERCISE 1: do\n\n{end}": "3: END 1: there is no solution before it",
        }
        for text, message in cases.items():
            with self.subTest(text), self.assertRaises(regions.RegionError) as caught:
                self.parse(text)
            self.assertEqual(str(caught.exception), f"01_x/k.cuh:{message}")

    def test_a_second_file_goes_on_with_the_numbers(self):
        [third] = self.parse(SECOND, 3)
        self.assertEqual((third.number, third.file), (3, "k.cuh"))
        with self.assertRaisesRegex(regions.RegionError, "3 must be EXERCISE 4"):
            self.parse(SECOND, 4)


class SheetTest(InAChapter):
    def refuse(self, message: str, sheet: str = SHEET) -> None:
        """One line says what is wrong."""
        self.write("exercises.toml", sheet)
        with self.subTest(message), self.assertRaises(console.LearnError) as caught:
            exercise = exercises.select_one("01")
            self.assertTrue(exercise.regions)
            exercise.mutants()
        self.assertEqual(str(caught.exception), f"chapters/01_x/{message}")
        self.assertEqual(caught.exception.status, 2)

    def test_it_gives_a_region_its_hints_and_its_stub(self):
        first, second = self.exercise.regions
        self.assertEqual(first.hints, ("Add.", "x + x"))
        self.assertEqual(first.stub, ("  if (x)", "    return x;", "  return 0;"))
        self.assertEqual(second.stub, ("    return x;",))
        self.assertEqual(self.exercise.inputs, ["--rows 1", "--rows 2"])
        self.assertEqual(self.exercise.limits, ["sectors"])

    def test_a_stub_may_be_written_with_the_indentation_of_the_kernel(self):
        self.write("exercises.toml", SHEET.replace('"return x;"', "'    return x;'"))
        self.assertEqual(self.exercise.regions[1].stub, ("    return x;",))

    def test_wrong_answers(self):
        [mutant] = self.exercise.mutants()
        self.assertEqual((mutant.exercise, mutant.name), (1, "three times"))
        self.assertEqual(mutant.solution, ("  const int y = x + x + x;", "  return y;"))

    def test_the_order_of_files_is_that_of_the_sheet(self):
        self.second_file()
        found = [(region.number, region.file) for region in self.exercise.regions]
        self.assertEqual(found, [(1, "kernel.cuh"), (2, "kernel.cuh"), (3, "more.cuh")])
        self.assertEqual([m.exercise for m in self.exercise.mutants()], [1, 3])

    def test_a_region_without_an_entry_and_an_entry_without_a_region(self):
        first = SHEET[: SHEET.rindex("[[exercise]]")]
        self.refuse("kernel.cuh:8: EXERCISE 2 is not in exercises.toml", first)
        self.refuse("exercises.toml: exercise 3 is not in kernel.cuh", SHEET + THIRD)

    def test_what_it_refuses(self):
        def but(old: str, new: str) -> str:
            self.assertIn(old, SHEET)
            return SHEET.replace(old, new, 1)

        sheet, first = "exercises.toml: ", "exercises.toml: exercise 1"
        wrong = f"{first}: wrong answer 1"
        keys = (
            "inputs, files, try, limit_tiles, limit_sectors, limit_conflicts, limit_mma, limit_wgmma, "
            "limit_barriers, limit_shuffles, limit_votes, "
            "limit_over_waited, limit_wavefronts, limit_late_arrivals, limit_steps_before_arrivals, "
            "limit_mbarrier_waits, limit_named_barrier_threads, "
            "limit_shared_bytes, least_named_barriers, least_votes_beside_products, "
            "least_accesses_beside_products, least_arrivals_beside_products, "
            "least_arrivals_before_waits, least_kernels_beside_transfers, "
            "least_shared_room, exercise, open, bug, predict"
        )
        for message, text in {
            f"{sheet}`input` is unknown: the keys are {keys}": but("inputs", "input"),
            f"{sheet}`inputs` must be a list of strings": but('"--rows 1"', "1"),
            f"{sheet}`limit_sectors` must be true or false": but("true", "1"),
            f"{sheet}`exercise` is missing": "inputs = ['']",
            f"{sheet}`exercise` must be a list of tables": "exercise = [1]",
            f"{sheet}there are no inputs": but('"--rows 1", "--rows 2"', ""),
            f"{first} has the number 2": but("number = 1", "number = 2"),
            f"{first}: `number` must be a number": but("number = 1", 'number = "1"'),
            f"{first}: `hints` is missing": but('hints = ["Add.", "x + x"]', ""),
            f"{first} has no hints": but('"Add.", "x + x"', ""),
            f"{first}: `hints` must be a list of strings": but('["Add.", "x + x"]', "''"),
            f"{first}: `hint` is unknown: the keys are number, minutes, hints, stub, bug, only, variant, free, wrong, right, more, watch": but(  # noqa: E501
                "hints", "hint"
            ),
            f"{first}: no input has `only`: --rows 9": but("number = 1", 'number = 1\nonly = "--rows 9"'),
            f"{first}: `only` must be a string": but("number = 1", "number = 1\nonly = 2"),
            "exercises.toml: exercise 2: `stub` is missing": but('stub = "return x;"', ""),
            "exercises.toml: exercise 2 has an empty stub": but('"return x;"', "' '"),
            f"{first}: `more` must be a table of strings": but(
                "number = 1", "number = 1\nmore = { sectors = 2 }"
            ),
            f"{first}: `more` has votes, but there is no `limit_votes = true`": but(
                "number = 1", "number = 1\nmore = { votes = 'Who votes?' }"
            ),
            f"{first}: `more` has speed, which is no kind of finding": but(
                "number = 1", "number = 1\nmore = { speed = 'Why?' }"
            ),
            f"{first}: `watch`: `variant` is missing": but(
                "number = 1", "number = 1\nwatch = { function = 'mask' }"
            ),
            f"{wrong}: `to` is missing": but('to = "x + x + x"', ""),
            f"{wrong}: `says` must be a string": but('says = "wrong"', "says = []"),
            f"{wrong}: `word` is unknown: the keys are name, from, to, caught_by, says": but("says", "word"),
            f"{first}: three times: `from` occurs 0 times in the solution; it must occur once": but(
                'from = "x + x"', 'from = "x - x"'
            ),
            f"{first}: three times: `from` occurs 2 times in the solution; it must occur once": but(
                'from = "x + x"', 'from = "y"'
            ),
        }.items():
            self.refuse(message, text)

    def test_the_inputs_of_an_exercise(self):
        only = SHEET.replace("number = 1", 'number = 1\nonly = "--rows 2"')
        self.write("exercises.toml", only)
        sheet = self.exercise
        self.assertEqual(sheet.inputs_of(1), ["--rows 2"])
        self.assertEqual(sheet.inputs_of(2), ["--rows 1", "--rows 2"])
        self.assertEqual(sheet.inputs_of(None), ["--rows 1", "--rows 2"])

    def test_what_is_added_if_an_answer_exceeds_a_limit(self):
        more = "number = 1\nmore = { sectors = 'Who reads x[0]?' }"
        self.write("exercises.toml", SHEET.replace("number = 1", more))
        sheet = self.exercise
        self.assertEqual(sheet.limits, ["sectors"])
        self.assertEqual(sheet.more_of(1), {"sectors": "Who reads x[0]?"})
        self.assertEqual(sheet.more_of(2), {})
        self.assertEqual(sheet.more_of(None), {})

    def test_what_is_added_to_wrong_numbers(self):
        more = "number = 1\nmore = { numbers = 'Which row?' }"
        self.write("exercises.toml", SHEET.replace("number = 1", more))
        bad = attempt(**wrong(ALL_ROWS, ALL_COLS))
        finding = diagnosis.explain([bad], more=self.exercise.more_of(1))
        self.assertEqual((finding.kind, finding.details[-1]), ("numbers", "Which row?"))

    def test_what_an_answer_must_not_have_less_of(self):
        more = "number = 1\nmore = { named_barriers = 'Whose turn is it?' }"
        text = SHEET.replace("number = 1", more)
        self.write("exercises.toml", text)
        message = "`more` has named_barriers, but there is no `least_named_barriers = true`"
        with self.assertRaisesRegex(regions.RegionError, message):
            _ = self.exercise.limits
        self.write("exercises.toml", "least_named_barriers = true\n" + text)
        self.assertEqual(self.exercise.limits, ["sectors", "named_barriers"])

    def test_a_function_that_is_watched(self):
        self.assertEqual(self.exercise.watches, {})
        fields = "function = 'f', variant = 'v', input = '--rows 1', says = 'Why?'"
        watch = f"number = 1\nwatch = {{ {fields} }}"
        self.write("exercises.toml", SHEET.replace("number = 1", watch))
        self.assertEqual(self.exercise.watches[1].function, "f")
        self.assertEqual(sheet.DEFECTS, tuple(diagnosis.DEFECTS))

    def test_what_is_no_toml_is_told_with_its_line(self):
        self.write("exercises.toml", SHEET.replace("true", "yes"))
        where = r"^chapters/01_x/exercises.toml: [^\n]+ line 2,[^\n]+$"
        with self.assertRaisesRegex(console.LearnError, where):
            self.assertTrue(self.exercise.regions)

    def test_right_answers_other_than_the_solution(self):
        right = (
            "\n[[exercise.right]]\nname = 'shifts'\nfrom = 'x + x'\nto = 'x << 1'\n\n[[exercise]]\nnumber = 2"
        )
        text = SHEET.replace("\n[[exercise]]\nnumber = 2", right)
        self.write("exercises.toml", text)
        (shifts,) = self.exercise.sheet.rights()
        self.assertEqual((shifts.exercise, shifts.name), (1, "shifts"))
        self.assertEqual(shifts.solution, ("  const int y = x << 1;", "  return y;"))
        self.assertEqual(len(self.exercise.mutants()), 1)
        self.refuse(
            "exercises.toml: exercise 1: right answer 1: `to` is missing", text.replace("to = 'x << 1'", "")
        )

    def test_tensors_of_which_an_answer_may_move_more(self):
        self.assertEqual(self.exercise.free_of(1), [])
        self.write("exercises.toml", SHEET.replace("number = 1\n", 'number = 1\nfree = ["counters"]\n'))
        free = [self.exercise.free_of(number) for number in (None, 1, 2)]
        self.assertEqual(free, [[], ["counters"], []])
        self.assertEqual(self.exercise.free_of_any, ["counters"])

    def test_files_that_it_refuses(self):
        for files, message in {
            '["kernel.cuh", "gone.cuh"]': "exercises.toml: there is no file gone.cuh",
            '["../01_x/kernel.cuh"]': "exercises.toml: there is no file ../01_x/kernel.cuh",
            "[]": "exercises.toml: `files` must name each file once",
            '["kernel.cuh", "kernel.cuh"]': "exercises.toml: `files` must name each file once",
            '"kernel.cuh"': "exercises.toml: `files` must be a list of strings",
            '["kernel.cuh", "plain.cuh"]': "plain.cuh marks no exercise",
            '["more.cuh", "kernel.cuh"]': "more.cuh:3: EXERCISE 3 must be EXERCISE 1",
        }.items():
            self.write("more.cuh", SECOND)
            self.write("plain.cuh", "int f();\n")
            self.refuse(message, f"files = {files}\n{SHEET}{THIRD}")

    def test_a_chapter_without_a_sheet_has_no_exercises(self):
        (self.root / "chapters/01_x/exercises.toml").unlink()
        self.assertEqual(self.exercise.state(self.root).words, "no exercises")
        self.assertEqual(self.exercise.regions, [])
        with self.assertRaisesRegex(console.LearnError, "has no exercises yet"):
            exercises.select_one("01")


class CopyTest(InAChapter):
    def places(self, copy: dict[str, str]) -> dict[int, regions.Place]:
        return regions.places(copy, self.exercise.regions, "own")

    def alone(self, copy: dict[str, str], keep: int) -> regions.Alone:
        return regions.alone(copy, self.exercise.regions, "own", keep)

    def test_blanks_stand_between_marks_and_hints_are_left_out(self):
        copy = self.copy()["kernel.cuh"]
        first, second, rest = copy.split("\n", 2)
        self.assertIn("copy of chapters/01_x/kernel.cuh. ", first)
        self.assertIn("./learn check 01", first)
        self.assertIn("./learn hint 01", second)
        stub = f"  {regions.PLACEHOLDER}\n  if (x)\n    return x;\n  return 0;\n"
        blank = f"  // EXERCISE 1: Make 2 x of x.\n{stub}  // END 1\n"
        second = f"{regions.PLACEHOLDER}\n    return x;"
        expected = KERNEL.replace("return 3 * x;", second)
        at, end = expected.index("  // EXER"), expected.index("}\nint thrice")
        self.assertEqual(rest, expected[:at] + blank + expected[end:])

    def test_places_are_found_again_after_an_edit(self):
        where = self.places(self.copy({1: ("  // mine", "  return x << 1;")}))
        self.assertEqual(where[1].lines, ("  // mine", "  return x << 1;"))
        placeholder = f"    {regions.PLACEHOLDER}"
        self.assertEqual(where[2].lines, (placeholder, "    return x;"))

    def test_lost_and_doubled_marks_are_told(self):
        whole = self.copy()["kernel.cuh"]
        lost = {"kernel.cuh": whole.replace("  // END 1\n", "")}
        with self.assertRaisesRegex(regions.RegionError, r"^own/kernel.cuh:\d+: EXERCISE 2 is out of"):
            self.places(lost)
        gone = {"kernel.cuh": re.sub(r".*// (EXERCISE|END) 2.*\n", "", whole)}
        with self.assertRaisesRegex(regions.RegionError, "^own/kernel.cuh: .*EXERCISE 2: .* are gone"):
            self.places(gone)

    def test_marks_in_the_wrong_file_are_told(self):
        self.second_file()
        copy = self.copy()
        marks = "".join(copy["more.cuh"].splitlines(keepends=True)[4:8])
        copy["kernel.cuh"] += marks
        copy["more.cuh"] = copy["more.cuh"].replace(marks, "")
        with self.assertRaisesRegex(regions.RegionError, "^own/more.cuh: .*EXERCISE 3: .* are gone"):
            self.places(copy)

    def test_alone_solves_the_others_and_knows_the_learners_lines(self):
        copy = self.copy({1: ("  return 1;",), 2: ("    int z = x;", "    return z;")})
        alone, name = self.alone(copy, 2), "kernel.cuh"
        self.assertIn("const int y = x + x;", alone.texts[name])
        self.assertNotIn("return 1;", alone.texts[name])
        line = alone.texts[name].splitlines().index("    return z;")
        origin = alone.lines[name][line]
        self.assertEqual(copy[name].splitlines()[origin - 1], "    return z;")
        solved = alone.texts[name].splitlines().index("  return y;")
        self.assertIsNone(alone.lines[name][solved])

    def test_alone_works_across_files(self):
        self.second_file()
        copy = self.copy({3: ("  int z = x;", "  return z;")})
        third = self.alone(copy, 3)
        self.assertIn("const int y = x + x;", third.texts["kernel.cuh"])
        self.assertIn("return 3 * x;", third.texts["kernel.cuh"])
        line = third.texts["more.cuh"].splitlines().index("  return z;")
        origin = third.lines["more.cuh"][line]
        self.assertEqual(copy["more.cuh"].splitlines()[origin - 1], "  return z;")
        first = self.alone(copy, 1)
        self.assertIn("    return x;\n  return 0;", first.texts["kernel.cuh"])
        self.assertIn("return x * x;", first.texts["more.cuh"])

    def test_alone_does_not_depend_on_what_the_others_hold(self):
        one = self.copy({1: ("  return 1;",), 2: ("    return 7;",)})
        other = self.copy({1: ("  int a;", "  int b;"), 2: ("    return 7;",)})
        texts = [self.alone(copy, 2).texts for copy in (one, other)]
        self.assertEqual(texts[0], texts[1])

    def test_a_comment_does_not_fill_a_blank(self):
        self.assertTrue(regions.same_code(("  return x;",), ("return x;  // mine",)))
        self.assertFalse(regions.same_code(("return x;",), ("return y;",)))

    def test_brackets(self):
        self.assertFalse(regions.unbalanced(("if (x) {  // }", '  f(")");', "}")))
        self.assertTrue(regions.unbalanced(("if (x) {",)))
        self.assertTrue(regions.unbalanced(("f(x;",)))


class BugTest(InAChapter):
    """An exercise whose stub is code with a mistake: nothing calls it blank."""

    STILL = "still the code that you were given"

    def setUp(self):
        super().setUp()
        self.write("exercises.toml", SHEET.replace('stub = "return x;"', 'stub = "return x;"\nbug = true'))
        self.run_command(start, "01")

    def test_the_copy_has_the_code_without_the_placeholder_of_blanks(self):
        copy = self.copy()["kernel.cuh"]
        self.assertIn("// EXERCISE 2: Make 3 x of x.\n    return x;\n    // END 2\n", copy)
        self.assertEqual(copy.count(regions.PLACEHOLDER), 1)

    def test_check_says_what_it_is(self):
        verdict = checking.Verdict(exercise=2, exercises={1: checking.RIGHT, 2: checking.GIVEN})
        out = io.StringIO()
        check.show_failure(console.Console(out), self.exercise, verdict)
        self.assertEqual(
            out.getvalue(),
            "exercises: 1 right, 2 not solved yet\n"
            f"exercise 2 is not solved yet: it is {self.STILL}\n"
            "task:  Make 3 x of x.\n"
            "next:  find the mistake; a hint: ./learn hint 01 2\n",
        )

    def test_the_judge_does_not_try_it(self):
        bench = mock.Mock(try_files=mock.Mock(return_value=[attempt()]), solution=mock.Mock(return_value=[]))
        copy = self.exercise.copy_with({1: ("  return 2 * x;",)})
        verdict = checking.judge(bench, self.exercise, copy)
        self.assertEqual(verdict.exercises, {1: checking.RIGHT, 2: checking.GIVEN})
        self.assertEqual((verdict.exercise, verdict.untouched), (2, True))

    def test_the_map_says_what_it_is(self):
        build = self.root / "build"
        result = self.exercise.result_file(build)
        result.parent.mkdir(parents=True)
        states = {"1": checking.RIGHT, "2": checking.GIVEN}
        kept = {"passed": False, "exercise": 2, "exercises": states, "files": self.exercise.hashes()}
        result.write_text(json.dumps(kept))
        self.assertEqual(self.exercise.state(build).words, "1 of 2 right, exercise 2 is not solved yet")

    def test_try_and_diff_say_what_it_is(self):
        out = io.StringIO()
        try_.say_blanks(console.Console(out), self.exercise)
        note = f"note:  exercise 1 is still blank, exercise 2 is {self.STILL}: what needs them is wrong\n"
        self.assertEqual(" ".join(out.getvalue().split()), " ".join(note.split()))
        self.assertIn(f"{self.STILL}; the solution: ./learn diff 01 2", self.run_command(diff, "01"))


class SeveralFilesTest(InAChapter):
    """The commands, for a learner whose chapter has exercises in two files."""

    def setUp(self):
        super().setUp()
        self.second_file()
        self.own = self.root / "exercises" / "01_x"

    def answer(self, number: int, *lines: str) -> None:
        place = self.exercise.own_places()[number]
        file = self.own / place.file
        code = file.read_text().splitlines()
        code[place.begin : place.end] = lines or self.exercise.region(number).solution
        file.write_text("\n".join(code) + "\n")

    def test_start_writes_all_and_overwrites_none(self):
        text = self.run_command(start, "01")
        self.assertIn("exercises/01_x/kernel.cuh: 2 exercises\n   1  line 4 ", text)
        self.assertIn("exercises/01_x/more.cuh: 1 exercise\n   3  line 5 ", text)
        first = (self.own / "more.cuh").read_text().splitlines()[0]
        self.assertIn("copy of chapters/01_x/more.cuh", first)
        (self.own / "kernel.cuh").unlink()
        with self.assertRaisesRegex(console.LearnError, "more.cuh exists: ./learn"):
            self.run_command(start, "01")
        with self.assertRaisesRegex(console.LearnError, "kernel.cuh is gone: ./learn r"):
            self.run_command(hint, "01")
        self.assertIn("kept as exercises/01_x/more.cuh.1", self.run_command(reset, "01"))
        self.assertTrue((self.own / "kernel.cuh").exists())

    def test_reset_keeps_all_under_one_number(self):
        self.run_command(start, "01")
        (self.own / "more.cuh.1").write_text("from before")
        self.answer(1)
        self.answer(3)
        texts = [(self.own / n).read_text() for n in ("kernel.cuh", "more.cuh")]
        names = "exercises/01_x/kernel.cuh.2, exercises/01_x/more.cuh.2"
        self.assertIn(f"your files are kept as {names}\n", self.run_command(reset, "01"))
        kept = [(self.own / n).read_text() for n in ("kernel.cuh.2", "more.cuh.2")]
        self.assertEqual(kept, texts)
        self.assertEqual(self.exercise.own_copy(), self.exercise.blank_copy)
        self.assertEqual(self.exercise.blanks(), [1, 2, 3])

    def test_hints_are_for_the_first_blank_of_all_files(self):
        self.run_command(start, "01")
        self.answer(1)
        self.answer(2)
        with mock.patch.object(machine, "choose_preset", return_value=("sim", "")):
            self.assertIn("exercise 3: Make x * x", self.run_command(hint, "01"))

    def test_diff_and_solution_name_the_file(self):
        self.run_command(start, "01")
        self.answer(1)
        self.answer(3, "return 1;")
        file = self.own / "more.cuh"
        file.write_text(file.read_text() + "int own;\n")
        first, second = self.run_command(diff, "01").split("\n\n-  exercises/")
        self.assertTrue(first.startswith("-  exercises/01_x/kernel.cuh\n+  chapters/"))
        self.assertIn("exercise 1, line 5: Make 2 x of x.\n   the same", first)
        self.assertTrue(second.startswith("01_x/more.cuh\n+  chapters/01_x/more.cuh"))
        self.assertIn("exercise 3, line 6: ", second)
        self.assertIn("-  return 1;\n+  return x * x;\n", second)
        self.assertIn("outside the exercises:\n-  int own;", second)
        only = self.run_command(diff, "01", "3")
        self.assertTrue(only.startswith("-  exercises/01_x/more.cuh\n"))
        self.assertNotIn("kernel.cuh", only)
        text = self.run_command(solution, "01", "3")
        self.assertIn("   return x * x;\n   chapters/01_x/more.cuh:3\n", text)

    def test_diff_shows_the_solution_of_a_blank_only_if_it_is_asked_for(self):
        self.run_command(start, "01")
        self.assertNotIn("return x * x;", self.run_command(diff, "01"))
        said = "still blank; the solution: ./learn diff 01 3\n"
        self.assertIn(said, self.run_command(diff, "01"))
        self.assertIn("+  return x * x;\n", self.run_command(diff, "01", "3"))

    def test_diff_compares_code_not_indentation(self):
        self.run_command(start, "01")
        self.answer(1, "int mine;", "  const int y = x + x;", "    return  y;")
        text = self.run_command(diff, "01", "1")
        self.assertIn(".\n-  int mine;\n   const int y = x + x;\n     return  y;\n", text)
        self.assertNotIn("\n+  const", text)
        self.answer(1, "const int y = x + x;", "\treturn y;")
        text = self.run_command(diff, "01", "1")
        self.assertIn("exercise 1, line 5: Make 2 x of x.\n   the same\n", text)
        file = self.own / "kernel.cuh"
        file.write_text(file.read_text().replace("\nint twice", "\n  int twice"))
        self.assertNotIn("outside", self.run_command(diff, "01"))

    def test_an_edit_of_any_file_outdates_the_last_check(self):
        self.run_command(start, "01")
        build = self.root / "build"
        result = self.exercise.result_file(build)
        result.parent.mkdir(parents=True)
        kept = {"passed": True, "exercise": None, "files": self.exercise.hashes()}
        result.write_text(json.dumps(kept))
        self.assertEqual(self.exercise.state(build).words, "passed")
        states = {"1": "right", "2": "blank", "3": "blank"}
        first = kept | {"passed": False, "exercise": 2, "exercises": states}
        result.write_text(json.dumps(first))
        blank = "1 of 3 right, exercise 2 is blank"
        self.assertEqual(self.exercise.state(build).words, blank)
        result.write_text(json.dumps(first | {"exercises": states | {"2": "wrong"}}))
        self.assertEqual(self.exercise.state(build).words, "failing: exercise 2")
        result.write_text(json.dumps(kept))
        self.answer(3)
        changed = "changed since the last check"
        self.assertEqual(self.exercise.state(build).words, changed)

    def test_an_edit_of_the_chapters_own_files_is_noticed(self):
        git = ["git", "-C", str(self.root), "-c", "user.name=x", "-c", "user.email=x"]
        self.write("other.cuh", "")
        for words in (["init", "-q"], ["add", "chapters"], ["commit", "-qm", "x"]):
            subprocess.run([*git, *words], check=True, capture_output=True)
        self.assertEqual(exercises.edited_chapters(), [])
        self.write("other.cuh", "// mine\n")
        self.write("more.cuh", f"{SECOND}// mine\n")
        self.assertEqual(exercises.edited_chapters(), ["chapters/01_x/more.cuh"])

    def test_lines_of_a_trial_are_those_of_the_learners_files(self):
        def bench_that_finds(message: str) -> mock.Mock:
            race = {"kind": "race", "message": message, "count": 1}
            bench = mock.Mock()
            bench.try_files.return_value = [attempt(defects=[race])]
            return bench

        copy = self.copy({1: ("  return 1;",), 3: ("  int z = x;", "  return z;")})
        at = "kernel.cuh:5 and more.cuh:6 and math.cuh:7"
        bench = bench_that_finds(at)
        [found] = checking._try_alone(bench, self.exercise, copy, 3)
        [defect] = found.result["defects"]
        solved = "line 1 of exercise 1's solution in twice() of kernel.cuh"
        self.assertEqual(defect["message"], f"{solved} and more.cuh:6 and math.cuh:7")
        files, inputs, variant = bench.try_files.call_args.args
        self.assertIsNone(variant)
        self.assertEqual(list(files), ["kernel.cuh", "more.cuh"])
        self.assertEqual(inputs, self.exercise.inputs)
        [found] = checking._try_alone(bench_that_finds(at), self.exercise, copy, 1)
        message = found.result["defects"][0]["message"]
        solved = "line 1 of exercise 3's solution in square() of more.cuh"
        self.assertEqual(message, f"kernel.cuh:5 and {solved} and math.cuh:7")

    def placed(self, message: str, keep: int | None) -> str:
        """What a learner reads of a message about a trial of one answer."""
        copy = self.copy({1: ("  return 1;",), 3: ("  int z = x;", "  return z;")})
        race = {"kind": "race", "message": message, "count": 1}
        bench = mock.Mock()
        bench.try_files.return_value = [attempt(defects=[race])]
        [found] = checking._try_alone(bench, self.exercise, copy, keep)
        return found.result["defects"][0]["message"]

    def test_a_line_of_the_answer_comes_before_what_it_calls_and_its_callers(self):
        self.assertEqual(
            self.placed("Race at math.cuh:7 (from more.cuh:6, kernel.cuh:3)", 3),
            "Race at more.cuh:6 (calls math.cuh:7; from kernel.cuh:3)",
        )
        self.assertEqual(
            self.placed("at a.cuh:1 (from math.cuh:7, more.cuh:7) and kernel.cuh:3", 3),
            "at more.cuh:7 (calls math.cuh:7, a.cuh:1) and kernel.cuh:3",
        )
        self.assertEqual(
            self.placed("at more.cuh:7 (from kernel.cuh:6, kernel.cuh:3)", 3),
            "at more.cuh:7 (from exercise 1's solution in twice(), kernel.cuh:3)",
        )

    def test_the_lines_of_the_answer_are_known(self):
        copy = self.copy({1: ("  return 1;",), 3: ("  int z = x;", "  return z;")})
        place = "math.cuh:7 (from more.cuh:6, kernel.cuh:3)"
        race = {"kind": "race", "message": f"at {place} and kernel.cuh:5", "count": 1}
        bench = mock.Mock()
        for keep, lines in ((3, ["more.cuh:6"]), (1, ["kernel.cuh:5"]), (None, [])):
            tried = attempt(defects=[dict(race)], early_waits={place: 2})
            bench.try_files.return_value = [tried]
            [found] = checking._try_alone(bench, self.exercise, copy, keep)
            self.assertEqual(found.result["defects"][0]["own"], lines)
        bench.try_files.return_value = [attempt(early_waits={place: 2})]
        [found] = checking._try_alone(bench, self.exercise, copy, 3)
        wait = "more.cuh:6 (calls math.cuh:7; from kernel.cuh:3)"
        self.assertEqual(found.result["early_waits"], {wait: 2})

    def test_a_debugger_shows_the_learners_lines_and_no_line_of_a_solution(self):
        copy = self.copy({1: ("  return 1;",), 3: ("  int z = x;", "  return z;")})
        own = Path("/own")
        solutions = {line for r in self.exercise.regions for line in r.solution}
        shown = {}  # what the debugger shows for a line
        for keep in (1, 3):
            alone = regions.alone(copy, self.exercise.regions, "", keep)
            for name, text in regions.for_debugger(alone, own).items():
                number, whole = 0, copy[name].splitlines()
                for line in text.splitlines():
                    if mark := re.fullmatch(rf'#line (\d+) "/own/{name}"', line):
                        number = int(mark[1])
                        continue
                    shown[line] = whole[number - 1]
                    number += 1
        self.assertTrue(solutions & set(shown))
        for line, seen in shown.items():
            if line in solutions:
                self.assertRegex(seen, r"^\s*// EXERCISE \d+: ")
            else:
                self.assertEqual(line, seen)

    def test_without_a_line_of_the_answer_the_solutions_around_it_are_named(self):
        first = "line 1 of exercise 1's solution in twice() of kernel.cuh"
        third = "line 1 of exercise 3's solution in square() of more.cuh"
        said = "Divergent threads: 3 of 4 reached {}, the others are at {}"
        self.assertEqual(
            self.placed(said.format("kernel.cuh:5", "more.cuh:6"), None), said.format(first, third)
        )

    def test_the_function_around_a_line(self):
        text = (
            "template <int kA>\n__device__ __forceinline__ int twice(int x) {\n  return go(x);\n}\n"
            "// of x (see above)\n__global__ void __launch_bounds__(kA)\n    run(int* x) {\n  go(x);\n}\n"
        )
        names = [regions.function_at(text, line) for line in (3, 7, 8)]
        self.assertEqual(names, ["twice", "run", "run"])
        self.assertIsNone(regions.function_at("#define A(x) x\n", 1))
        member = (
            "__device__ int once(int x) {\n  return x;\n}\nstruct Place {\n"
            "  __device__ void wait(int n) {\n    use(n);\n  }\n};\n"
        )
        self.assertEqual(regions.function_at(member, 6), "wait")

    def check_one(self, number: int, wrong_numbers: bool) -> checking.Verdict:
        bad = wrong(ALL_ROWS, ALL_COLS) if wrong_numbers else {}
        bench = mock.Mock()
        bench.try_files.return_value = [attempt(**bad)]
        bench.solution.return_value = []
        with (
            mock.patch.object(trials, "Workbench", return_value=bench),
            mock.patch.object(checking, "require"),
        ):
            build = self.root / "build"
            terminal = console.Console(io.StringIO())
            return checking.check_one(terminal, build, build, self.exercise, number)

    def test_one_exercise_is_checked_whatever_the_others_are(self):
        self.run_command(start, "01")
        self.answer(3, "return x + x;")
        verdict = self.check_one(3, wrong_numbers=True)
        self.assertEqual((verdict.passed, verdict.exercise), (False, 3))
        states = {1: checking.BLANK, 2: checking.BLANK, 3: checking.WRONG}
        self.assertEqual(verdict.exercises, states)
        self.assertEqual(verdict.finding.kind, "numbers")
        verdict = self.check_one(3, wrong_numbers=False)
        self.assertEqual((verdict.passed, verdict.finding), (True, None))
        verdict = self.check_one(2, wrong_numbers=False)
        self.assertTrue(verdict.untouched)
        self.assertFalse(verdict.passed)

    def fails_on(self, bad: str) -> mock.Mock:
        """A bench on which answers to exercise 1 fail on one input, and everything else is right."""

        def try_files(files, inputs, _variant):
            answered = "return 1;" in files["kernel.cuh"]
            numbers = wrong(ALL_ROWS, ALL_COLS)
            return [attempt(line, **(numbers if answered and line == bad else {})) for line in inputs]

        return mock.Mock(try_files=try_files, solution=mock.Mock(return_value=[]))

    def test_an_answer_is_right_only_after_all_inputs(self):
        only = SHEET.replace("= 1\n", '= 1\nonly = "--rows 2"\n')
        self.write("exercises.toml", only)
        self.assertEqual(self.exercise.inputs_of(1), ["--rows 2"])
        copy = self.exercise.copy_with({1: ("  return 1;",), 2: ("    return 3 * x;",)})
        for bad in ("--rows 1", "--rows 2"):
            bench = self.fails_on(bad)
            state, finding = checking.explain_in_full(bench, self.exercise, copy, 1)
            self.assertEqual((state, finding.arguments), (checking.WRONG, bad))
            verdict = checking.judge(bench, self.exercise, copy)
            self.assertEqual((verdict.exercise, verdict.finding.arguments), (1, bad))
            self.assertEqual(verdict.exercises[1], checking.WRONG)
        bench = self.fails_on("")
        state, _ = checking.explain_in_full(bench, self.exercise, copy, 1)
        self.assertEqual(state, checking.RIGHT)

    def test_the_inputs_on_which_one_answer_is_right_are_named(self):
        self.run_command(start, "01")
        self.answer(3, "return x + x;")
        verdict = self.check_one(3, wrong_numbers=False)
        self.assertEqual(verdict.inputs, ["--rows 1", "--rows 2"])
        self.assertEqual(self.check_one(3, wrong_numbers=True).inputs, [])
        out = io.StringIO()
        with mock.patch.object(checking, "check_one", return_value=verdict):
            terminal = console.Console(out)
            check.report_one(terminal, self.root, self.exercise, lambda: self.root, 3)
        self.assertIn(
            "exercise 3 of chapter 01 is right\n"
            "   with the solutions of the others, on these inputs:\n"
            "   --rows 1\n"
            "   --rows 2\n",
            out.getvalue(),
        )

    def test_what_the_check_of_one_exercise_left_out_is_said_in_one_line(self):
        self.run_command(start, "01")
        for number, line in ((2, "return x;  //"), (3, "return x + x;")):
            self.answer(number, line)
        verdict = self.check_one(3, wrong_numbers=True)
        verdict.exercises = {1: checking.BLANK} | {
            n: checking.WRONG if n == 7 else checking.UNKNOWN for n in range(2, 12)
        }
        out = io.StringIO()
        check.show_failure(console.Console(out), self.exercise, verdict)
        line = "exercises: 1 blank, 7 wrong; not tried: 2 to 6, 8 to 11\n"
        self.assertIn(line, out.getvalue())
        self.assertEqual(out.getvalue().count("not tried"), 1)
        self.assertEqual(check.in_ranges([1, 3, 4, 9]), "1, 3 to 4, 9")

    def test_after_one_exercise_comes_the_next_blank(self):
        def said(number: int) -> str:
            out, right = io.StringIO(), checking.Verdict(True, number)
            with mock.patch.object(checking, "check_one", return_value=right):
                check.report_one(console.Console(out), self.root, self.exercise, lambda: self.root, number)
            return out.getvalue()

        self.run_command(start, "01")
        self.answer(2, "return x + x + x;")
        self.assertIn("next:  exercise 3; a hint: ./learn hint 01 3\n", said(2))
        self.answer(3, "return x * x;")
        self.assertIn("next:  exercise 1; a hint: ./learn hint 01 1\n", said(3))
        self.answer(1, "return x + x;")
        self.assertIn("next:  all exercises: ./learn check 01\n", said(1))

    def judged(self, wrong_on: set[str | None]) -> tuple[checking.Verdict, list]:
        """Exercise 1 has an answer, the others are blank; trials of these variants fail, and all of
        blanks.
        """
        self.write("exercises.toml", SHEET.replace("= 1\n", '= 1\nvariant = "b"\n'))
        copy = self.exercise.copy_with({1: ("  return 1;",)})
        calls = []

        def try_files(files, inputs, variant):
            answered = "return 1;" in files["kernel.cuh"]
            calls.append((answered, variant))
            wrong = variant in wrong_on if answered else True
            race = {"kind": "race", "message": "kernel.cuh:3", "count": 1}
            return [attempt(defects=[race] if wrong else [])]

        bench = mock.Mock(try_files=try_files, solution=mock.Mock(return_value=[]))
        return checking.judge(bench, self.exercise, copy), calls

    def test_one_variant_is_enough_where_it_is_wrong(self):
        verdict, calls = self.judged({"b", None})
        self.assertEqual((verdict.exercise, calls), (1, [(True, "b")]))

    def test_the_first_finding_is_told_while_others_are_still_tested(self):
        copy = self.exercise.copy_with({1: ("  return 1;",), 3: ("  return 1;",)})
        was_told = threading.Event()
        told = []

        def try_files(files, inputs, variant):
            if "return 1;" in files["more.cuh"] and not was_told.wait(10):
                raise AssertionError("nothing was told")
            race = {"kind": "race", "message": "kernel.cuh:3", "count": 1}
            return [attempt(defects=[race])]

        def tell(verdict: checking.Verdict) -> None:
            told.append((verdict.exercise, verdict.exercises[1], verdict.kind))
            was_told.set()

        bench = mock.Mock(try_files=try_files, solution=mock.Mock(return_value=[]))
        with mock.patch.object(machine, "cores", return_value=2):
            verdict = checking.judge(bench, self.exercise, copy, tell)
        self.assertEqual(told, [(1, checking.WRONG, "race")])
        self.assertEqual(verdict.exercises[3], checking.WRONG)

    def checked(
        self, copy: dict[int, tuple[str, ...]], bench: mock.Mock
    ) -> tuple[checking.Verdict, list[str]]:
        """The verdict of the whole check, and the targets that are built for it."""
        self.run_command(start, "01", "--force")
        for number, lines in copy.items():
            self.answer(number, *lines)
        build, targets = self.root / "build", []
        build.mkdir(exist_ok=True)
        (build / "build.ninja").touch()

        def make(_console, _build, target):
            targets.append(target)
            return 1, ["error: the whole program"]

        bench.compiler_said.return_value = ""
        bench.solution.return_value = []
        terminal = console.Console(io.StringIO())
        with (
            mock.patch.object(trials, "Workbench", return_value=bench),
            mock.patch.object(checking, "make", make),
            mock.patch.object(checking, "require"),
        ):
            verdict = checking.check(terminal, build, self.exercise, lambda: build)
        return verdict, targets

    def test_with_blanks_the_whole_program_is_not_built(self):
        bench = mock.Mock()
        bench.try_files.return_value = [attempt()]
        verdict, targets = self.checked({1: ("  return 2 * x;",)}, bench)
        self.assertEqual((verdict.exercise, verdict.untouched), (2, True))
        self.assertEqual(targets, [])
        bench.try_files.return_value = [attempt(**wrong(ALL_ROWS, ALL_COLS))]
        verdict, targets = self.checked({1: ("  return 3 * x;",)}, bench)
        self.assertEqual((verdict.exercise, verdict.kind), (1, "numbers"))
        self.assertEqual(targets, [])

    def test_without_blanks_the_whole_program_comes_after_a_quick_trial(self):
        bench = mock.Mock()
        bench.try_files.return_value = [attempt()]
        answers = {n: (f"  return x + {n};",) for n in (1, 2, 3)}
        verdict, targets = self.checked(answers, bench)
        self.assertEqual(targets, [self.exercise.target])
        self.assertEqual(verdict.kind, "compile")
        bench.try_files.return_value = [attempt(**wrong(ALL_ROWS, ALL_COLS))]
        verdict, targets = self.checked(answers, bench)
        self.assertEqual((verdict.kind, targets), ("numbers", []))

    def test_errors_of_the_compiler_come_before_trials(self):
        bench, chapter = mock.Mock(), self.exercise.chapter.path
        line = f"{chapter}/kernel.cuh:5:3: error: no"
        bench.look.side_effect = trials.CompileError(line)
        verdict, targets = self.checked({1: ("  no;",)}, bench)
        said = ["exercises/01_x/kernel.cuh:5:3: error: no"]
        self.assertEqual((verdict.compiler, verdict.exercise), (said, 1))
        self.assertEqual((targets, bench.try_files.call_count), ([], 0))

    def test_what_only_code_shows_is_an_error_of_the_compiler_too(self):
        bench, chapter = mock.Mock(), self.exercise.chapter.path
        line = f"{chapter}/kernel.cuh:5: error: a kernel cannot throw"
        bench.try_files.side_effect = trials.CompileError("elsewhere")
        bench.program.side_effect = trials.CompileError(line)
        verdict, _ = self.checked({1: ("  throw 1;",)}, bench)
        said = ["exercises/01_x/kernel.cuh:5: error: a kernel cannot throw"]
        self.assertEqual((verdict.compiler, verdict.exercise), (said, 1))

    def test_warnings_of_a_trial_are_on_the_learners_lines(self):
        copy = self.copy({2: ("", "  float m;", "  return x;")})
        alone = regions.alone(copy, self.exercise.regions, "own", 2)
        tried = alone.texts["kernel.cuh"].splitlines()
        at = tried.index("  float m;") + 1
        solved = tried.index("  const int y = x + x;") + 1
        own = copy["kernel.cuh"].splitlines().index("  float m;") + 1
        self.assertNotEqual(at, own)
        path = self.exercise.chapter.path / "kernel.cuh"
        lines = [f"{path}:{line}:9: warning: m" for line in (at, solved)]
        found = checking._in_own_files(lines, alone, self.exercise)
        mine = f"{self.exercise.folder / 'kernel.cuh'}:{own}:9: warning: m"
        self.assertEqual(found, [mine, lines[1]])

    def test_what_one_variant_does_not_show_is_looked_for_in_all(self):
        verdict, calls = self.judged({None})
        self.assertEqual(verdict.exercise, 1)
        self.assertEqual(calls[:1], [(True, "b")])
        self.assertIn((True, None), calls)

    def test_the_limits_of_one_variant_come_after_its_numbers_and_before_the_other_variants(self):
        asked = []

        def explain(attempts, limits, *_):
            asked.append(limits)

        with (
            mock.patch.object(checking, "limits_of", return_value=["conflicts"]),
            mock.patch.object(checking.diagnosis, "explain", explain),
        ):
            _, calls = self.judged(set())
        self.assertEqual(calls, [(True, "b"), (True, "b"), (True, None)])
        self.assertEqual(asked, [[], ["conflicts"], ["conflicts"]])

    def test_a_blank_is_named_when_the_answers_are_right_and_nothing_else_is_said_about_it(self):
        verdict, calls = self.judged(set())
        self.assertEqual(verdict.exercise, 2)
        states = {1: checking.RIGHT, 2: checking.BLANK}
        self.assertEqual(verdict.exercises, states)
        self.assertTrue(all(answered for answered, _ in calls))
        self.assertTrue(verdict.untouched)
        self.assertIsNone(verdict.kind)
        out = io.StringIO()
        check.show_failure(console.Console(out), self.exercise, verdict)
        self.assertEqual(
            out.getvalue(),
            "exercises: 1 right, 2 blank\n"
            "exercise 2 is still blank\n"
            "task:  Make 3 x of x.\n"
            "next:  fill it in; a hint: ./learn hint 01 2\n",
        )

    def test_a_wrong_answer_is_told_before_a_blank_that_comes_earlier(self):
        copy = self.exercise.copy_with({3: ("  return 1;",)})
        race = {"kind": "race", "message": "more.cuh:6", "count": 1}
        calls = []

        def try_files(files, inputs, variant):
            calls.append(variant)
            return [attempt(defects=[race] if len(calls) == 2 else [])]

        bench = mock.Mock(try_files=try_files, solution=mock.Mock(return_value=[]))
        verdict = checking.judge(bench, self.exercise, copy)
        states = {1: checking.BLANK, 2: checking.BLANK, 3: checking.WRONG}
        self.assertEqual((verdict.exercise, verdict.exercises), (3, states))
        self.assertEqual(verdict.finding.kind, "race")
        self.run_command(start, "01")
        out = io.StringIO()
        check.show_failure(console.Console(out), self.exercise, verdict)
        self.assertIn("v: has a race\n   more.cuh:6\n", out.getvalue())
        self.assertIn("exercises: 1 blank, 2 blank, 3 wrong\n", out.getvalue())
        self.assertIn("exercise 3 is wrong\n", out.getvalue())

    def test_a_wrong_map_is_the_first_detail(self):
        says = mock.Mock(return_value=["row_for_a: lane 8 gives (0, 8)"])
        with mock.patch.object(maps, "remarks", says):
            verdict, _ = self.judged({"b", None})
            self.assertEqual(verdict.finding.details[:1], says.return_value)
            self.assertEqual(verdict.finding.details[1:], ["kernel.cuh:3"])
            self.assertEqual(says.call_args.args[2], 1)
            says.reset_mock()
            self.judged(set())  # a blank is not wrong: it is blank
        says.assert_not_called()

    def test_an_example_is_the_first_detail(self):
        told = "f(1): the result is 2, should be 3"
        copy = self.exercise.copy_with({1: ("  return 1;",)})
        with mock.patch.object(examples, "remark", return_value=told):
            bench = self.fails_on("--rows 1")
            verdict = checking.judge(bench, self.exercise, copy)
            self.assertEqual((verdict.kind, verdict.finding.details[0]), ("numbers", told))
            self.assertGreater(len(verdict.finding.details), 1)
            bench.try_files = mock.Mock(side_effect=console.LearnError("not enough memory", 3))
            state, finding = checking.explain_in_full(bench, self.exercise, copy, 1)
            self.assertEqual((state, finding.details), (checking.WRONG, [told]))
        with mock.patch.object(examples, "remark", return_value=None), self.assertRaises(console.LearnError):
            checking.explain_in_full(bench, self.exercise, copy, 1)

    def test_an_answer_that_only_an_example_shows_to_be_wrong(self):
        copy = self.exercise.copy_with({1: ("  return 1;",)})
        with mock.patch.object(examples, "remark", return_value="f(1): the result is 2, should be 3"):
            verdict = checking.judge(self.fails_on(""), self.exercise, copy)
            state, finding = checking.explain_in_full(self.fails_on(""), self.exercise, copy, 1)
        self.assertEqual((state, finding.kind), (checking.WRONG, "examples"))
        self.assertEqual((verdict.exercise, verdict.kind), (1, "examples"))
        self.assertIsNone(check.watch_command(self.exercise, verdict))
        self.run_command(start, "01")
        out = io.StringIO()
        check.show_finding(console.Console(out), self.exercise, verdict)
        self.assertEqual(
            out.getvalue(),
            "exercise 1: is right on all inputs tried, but not in this example\n"
            "   f(1): the result is 2, should be 3\n",
        )

    def test_a_finding_quotes_the_file_that_it_names(self):
        self.run_command(start, "01")
        lines = ["more.cuh:7", "math.cuh:6", "kernel.cuh:3", "kernel.cuh:99"]
        self.assertEqual(
            check.quote(self.exercise, lines),
            ["more.cuh:7 |   return 0;", "kernel.cuh:3 | int twice(int x) {"],
        )

    def test_a_defect_and_a_crash_come_with_the_command_for_gdb(self):
        self.run_command(start, "01")
        command = "gdb:   ./learn debug 01 --exercise --variant v --rows 4 --cols 8\n"
        for kind in ("race", "crash", "hang", "numbers"):
            finding = diagnosis.Finding(kind, "v", "--rows 4 --cols 8", "is wrong")
            out = io.StringIO()
            verdict = checking.Verdict(exercise=1, finding=finding)
            check.show_failure(console.Console(out), self.exercise, verdict)
            shown = out.getvalue().count(command)
            self.assertEqual(shown, kind in ("race", "crash"), out.getvalue())
            verdict.exercises = {1: checking.UNKNOWN, 2: checking.BLANK}
            check.show_failure(console.Console(out), self.exercise, verdict)
            self.assertEqual(out.getvalue().count(command), shown)  # not once more
            verdict.exercises = {1: checking.WRONG, 2: checking.BLANK}
            check.show_failure(console.Console(out), self.exercise, verdict)
            alone = command.replace("--exercise", "--answer 1")
            self.assertEqual(out.getvalue().count(alone), shown)

    def test_a_failure_ends_with_the_command_that_shows_where(self):
        self.run_command(start, "01")
        number = len(self.exercise.inputs)
        last = self.exercise.inputs[-1]

        def command(kind: str, states: dict, arguments: str = last, **found: str) -> str | None:
            finding = diagnosis.Finding(kind, "v", arguments, "is wrong", **found)
            verdict = checking.Verdict(exercise=1, finding=finding, exercises=states)
            out = io.StringIO()
            check.show_failure(console.Console(out), self.exercise, verdict)
            *_, end = out.getvalue().splitlines()
            return end.removeprefix("watch: ") if end.startswith("watch: ") else None

        alone = {1: checking.WRONG, 2: checking.BLANK}
        watch = "./learn watch 01"
        self.assertEqual(
            command("numbers", alone, at="y[0,5]"),
            f"{watch} --answer 1 --variant v --at 'y[0,5]' --input {number}",
        )
        self.assertEqual(
            command("race", {}, block="1,0,0"),
            f"{watch} --exercise --variant v --block 1,0,0 --input {number}",
        )
        self.assertEqual(command("sectors", alone), f"{watch} --answer 1 --variant v --input {number}")
        self.assertEqual(
            command("numbers", alone, "--rows 3", at="y[0,5]"),
            f"{watch} --answer 1 --variant v --at 'y[0,5]' --rows 3",
        )
        blank = {1: checking.UNKNOWN, 2: checking.BLANK}
        self.assertIsNone(command("numbers", blank, at="y[0,5]"))
        for kind in ("hang", "crash", "did_not_run"):
            self.assertIsNone(command(kind, alone))

    def test_the_file_of_a_compiler_error_decides_who_is_blamed(self):
        self.run_command(start, "01")
        for name, line, number in (
            ("more.cuh", 6, 3),
            ("kernel.cuh", 6, 1),
            ("kernel.cuh", 99, 2),
            ("more.cuh", 2, None),
        ):
            verdict = checking.Verdict()
            errors = [(self.own / name, line), (self.own / "kernel.cuh", 6)]
            checking._blame_for_compiling(verdict, self.exercise, errors)
            self.assertEqual(verdict.exercise, number)
        self.answer(3, "  return f(x;")
        checking._blame_for_compiling(verdict, self.exercise, [])
        self.assertEqual(verdict.remark, "the brackets of exercise 3 do not match")

    def test_a_change_outside_of_the_exercises_is_found_in_any_file(self):
        copy, blank = self.copy({3: ("  return 9;",)}), self.exercise.blank_copy
        self.assertIsNone(checking._first_change_outside(copy, blank))
        copy["more.cuh"] = copy["more.cuh"].replace("// END", "   // END") + "\n\n"  # white space
        self.assertIsNone(checking._first_change_outside(copy, blank))
        copy["more.cuh"] += "int own;\n"
        found = checking._first_change_outside(copy, blank)
        self.assertEqual(found, "a different number of lines")


class QuickTrial(unittest.TestCase):
    """What is compiled and run to find the faulty exercise quickly."""

    CHAPTER = """\
      .variants = {
          Step{.name = "a", .summary = "} , {", .sum = [](int x) { return f(x, 1); }},
          step<A, B>("b", "of \\"a\\", (b", launch<A, B>),
          step<B>("c", "last"),
      }};
}
"""

    def test_one_variant_is_left(self):
        for name, left in (
            ("a", 'Step{.name = "a", .summary = "} , {", .sum = [](int x) { return f(x, 1); }}'),
            ("b", 'step<A, B>("b", "of \\"a\\", (b", launch<A, B>)'),
            ("c", 'step<B>("c", "last")'),
        ):
            text = trials.with_one_variant(self.CHAPTER, name)
            head, _, rest = text.partition(".variants = {")
            self.assertEqual(head, "      ")
            self.assertEqual(rest.split("}};")[0].strip(), left)
            self.assertTrue(rest.endswith("}};\n}\n"))
        with self.assertRaisesRegex(console.LearnError, "has no variant d"):
            trials.with_one_variant(self.CHAPTER, "d")

    def test_inputs_of_the_size_that_most_have(self):
        lines = ["--head-dim 32", "--rows 1", "--rows 2", "--dtype bf16"]
        self.assertEqual(trials.most_alike(lines), ["--rows 1", "--rows 2"])
        self.assertEqual(trials.most_alike(["--rows 3"]), ["--rows 3"])

    def test_another_program_of_the_folder_is_left_out(self):
        with tempfile.TemporaryDirectory() as name:
            sources = self.bench(Path(name))._sources
        self.assertEqual([source.path.name for source in sources], ["chapter.cu", "more.cu"])

    def bench(self, folder: Path) -> trials.Workbench:
        """A chapter with two sources and another program, which has been built."""
        texts = {
            "chapter.cu": '#include "a.cuh"\n',
            "more.cu": '#include "a.cuh"\n#include "b.cuh"\nvoid launch_w(int n) {\n  f(n);\n}\n',
            "first.cu": "int main() {}\n",
            "a.cuh": "int a;\n",
            "b.cuh": "int b;\n",
        }
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        chapter = mock.Mock(path=folder, executable="ch")
        commands = [f"c++ -o {name}.o -c {folder}/{name}.cu" for name in ("chapter", "more", "first")]
        commands += ["c++ -o first first.o", "c++ -o ch chapter.o more.o"]
        with mock.patch.object(trials, "ninja_commands", return_value=commands):
            return trials.Workbench(folder / "build", chapter)

    def test_only_sources_that_a_change_concerns_are_compiled(self):
        with tempfile.TemporaryDirectory() as name:
            bench = self.bench(Path(name))

            def compiled(files: dict[str, str], variant: str | None) -> list[str]:
                found = bench._to_compile(files, variant)
                return [source.path.name for source in found]

            both = ["chapter.cu", "more.cu"]
            new = {"a.cuh": "int a = 1;\n", "b.cuh": "// mine\n\n  int b;\n"}
            self.assertEqual(compiled(new, "v"), ["chapter.cu"])
            self.assertEqual(compiled(new, None), both)
            self.assertEqual(compiled({"b.cuh": "int b = 1;  // mine\n"}, "v"), both)
            self.assertEqual(compiled({"a.cuh": "int a;\n"}, None), ["chapter.cu"])
            self.assertEqual(compiled(new, "w"), both)  # the kernels of w are in more.cu
            self.assertEqual(compiled(new, "v"), ["chapter.cu"])

    def test_a_look_makes_no_code(self):
        calls = []
        with (
            tempfile.TemporaryDirectory() as name,
            mock.patch.object(trials.Workbench, "_call", lambda _, w: calls.append(w) or ""),
        ):
            bench = self.bench(Path(name))
            bench.look({"a.cuh": "int a = 1;\n"}, [])
            (words,) = calls
            self.assertEqual(Path(words[words.index("-c") + 1]).name, "chapter.cu")
            bench.look({"a.cuh": "int a = 1;\n", "b.cuh": "int b = 1;\n"}, [])
        files = sorted(Path(words[words.index("-c") + 1]).name for words in calls[1:])
        self.assertEqual(files, ["chapter.cu", "more.cu"])
        for words in calls:
            self.assertIn("-fsyntax-only", words)
            self.assertEqual(words[words.index("-o") + 1], "/dev/null")

    def test_errors_name_the_chapters_files(self):
        def fail(_bench: trials.Workbench, words: list[str]) -> str:
            file = Path(words[words.index("-c") + 1]).with_name("a.cuh")
            raise trials.CompileError(f"{file}:1:5: error: no")

        with tempfile.TemporaryDirectory() as name, mock.patch.object(trials.Workbench, "_call", fail):
            bench = self.bench(Path(name))
            with self.assertRaisesRegex(trials.CompileError, f"^{name}/a.cuh:1:5: "):
                bench.look({"a.cuh": "int a = 1;\n"}, [])

    def test_trials_at_the_same_time_do_not_write_the_same_file(self):
        both_are_there, written = threading.Barrier(2), []

        def around(_text: str, _compiled: Path, to: Path) -> None:
            both_are_there.wait(10)
            written.append(to)

        with (
            tempfile.TemporaryDirectory() as name,
            mock.patch.object(trials.Workbench, "_call"),
            mock.patch.object(trials.kernels, "around", around),
        ):
            bench = self.bench(Path(name))

            def build(text: str) -> None:
                with tempfile.TemporaryDirectory() as folder:
                    bench.program({"a.cuh": text}, Path(folder), [], "v")

            threads = [threading.Thread(target=build, args=[f"// {n}\nint a;\n"]) for n in "12"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(len(set(written)), 2)

    def test_a_program_runs_once_on_each_input(self):
        lines, ran = [], []

        def run(program: Path, inputs: list[str]) -> list[trials.Attempt]:
            ran.append(inputs)
            ended = {line: trials.HANGS for line in lines}
            return [trials.Attempt(i, "v", {}, {}, ended.get(i)) for i in inputs]

        with (
            tempfile.TemporaryDirectory() as name,
            mock.patch.object(trials, "run", run),
            mock.patch.object(trials.Workbench, "program", return_value="program"),
        ):
            bench = self.bench(Path(name))
            (Path(name) / "build").mkdir()

            def tried(text: str, *inputs: str) -> list[str]:
                files = {"a.cuh": text}
                return [a.arguments for a in bench.try_files(files, [*inputs])]

            self.assertEqual(tried("1", "--rows 1", "--rows 2"), ["--rows 1", "--rows 2"])
            self.assertEqual(tried("1", "--rows 2"), ["--rows 2"])
            self.assertEqual(tried("1", "--rows 3", "--rows 1"), ["--rows 3", "--rows 1"])
            self.assertEqual(ran, [["--rows 1", "--rows 2"], ["--rows 3"]])
            tried("2", "--rows 1")
            tried("1", "--rows 1", "--dtype fp16")
            self.assertEqual(ran[2:], [["--rows 1"], ["--rows 1", "--dtype fp16"]])
            lines.append("--rows 4")  # a busy machine may be the reason
            tried("1", "--rows 4")
            tried("1", "--rows 4")
            self.assertEqual(ran[4:], [["--rows 4"], ["--rows 4"]])


class ChaptersTest(unittest.TestCase):
    """The exercises of this repository."""

    def test_the_variant_of_each_exercise_is_one_of_the_chapters(self):
        for exercise in self.each():
            source = (exercise.chapter.path / "chapter.cu").read_text()
            for region in exercise.regions:
                variant = exercise.variant_of(region.number)
                self.assertIsNotNone(variant, (exercise.chapter.name, region.number))
                self.assertIn(variant, trials.with_one_variant(source, variant))

    def each(self) -> Iterator[exercises.Exercise]:
        for chapter in project.chapters():
            exercise = exercises.Exercise(chapter)
            if exercise.exists:
                with self.subTest(chapter.name):
                    yield exercise

    def test_every_file_that_marks_exercises_is_listed(self):
        self.assertTrue(list(self.each()))
        sources = (".cuh", ".cu", ".hpp")
        for chapter in project.chapters():
            marked = {
                path.name
                for path in chapter.path.rglob("*")
                if path.suffix in sources and "// EXERCISE " in path.read_text(encoding="utf-8")
            }
            exercise = exercises.Exercise(chapter)
            listed = set(exercise.names) if exercise.exists else set()
            self.assertEqual(marked, listed, chapter.name)

    def test_only_sources_of_the_program_include_files_with_exercises(self):
        """Another one would find the chapter's file next to it instead of the learner's. These sources and
        headers are copied.
        """
        for exercise in self.each():
            cmake = (exercise.chapter.path / "CMakeLists.txt").read_text(encoding="utf-8")
            copied = {"chapter.cu", *re.findall(r"\w+\.cu\b", cmake)}
            for path in exercise.chapter.path.glob("*.c*"):
                if path.suffix != ".cuh" and path.name not in copied:
                    text = path.read_text(encoding="utf-8")
                    for name in exercise.names:
                        self.assertNotIn(f'#include "{name}"', text, path)

    def test_a_file_with_exercises_has_a_name_of_its_own(self):
        """Findings name a file without its folder."""
        shared = {path.name for path in fakes.SOURCE.glob("common/**/*.cuh")}
        for exercise in self.each():
            self.assertEqual(shared & set(exercise.names), set())

    def test_each_chapter_has_short_and_long_exercises_and_an_open_one(self):
        for exercise in self.each():
            minutes = [region.minutes for region in exercise.regions]
            with self.subTest(exercise.number):
                self.assertTrue(0 < min(minutes) <= 10, minutes)
                self.assertGreaterEqual(max(minutes), 30)
                self.assertTrue(exercise.opens)

    def test_a_stub_is_not_the_solution_and_there_are_hints(self):
        for exercise in self.each():
            for region in exercise.regions:
                self.assertFalse(regions.same_code(region.stub, region.solution))
                self.assertFalse(regions.unbalanced(region.stub), region.number)
                self.assertGreaterEqual(len(region.hints), 2, region.number)
                self.assertTrue(all(hint.strip() for hint in region.hints))

    def test_every_wrong_answer_changes_its_solution_and_names_a_kind(self):
        for exercise in self.each():
            mutants = exercise.mutants()
            for mutant in mutants:
                solution = exercise.region(mutant.exercise).solution
                self.assertNotEqual(mutant.solution, solution, mutant.name)
                kinds = ("compile", *diagnosis.KINDS)
                kinds += ("note",) * (mutant.exercise in exercise.watches)
                self.assertIn(mutant.caught_by, kinds, mutant.name)
                self.assertTrue(mutant.says, mutant.name)
            names = [(mutant.exercise, mutant.name) for mutant in mutants]
            self.assertEqual(len(set(names)), len(names))

    def test_the_learners_copy_has_tasks_and_stubs_and_nothing_else_is_changed(self):
        for exercise in self.each():
            for name, copy in exercise.blank_copy.items():
                text = exercise.sheet.texts[name]
                own = copy.split("\n", 2)[2]
                self.assertEqual(regions.outside(own), regions.outside(text))
                solved = exercise.copy_with({r.number: r.solution for r in exercise.regions})
                self.assertEqual(solved[name].split("\n", 2)[2], text)


# --- diagnosis ------------------------------------------------------------------------------------

SHAPE = (4, 8)  # of y in these attempts


def axis(length: int, count: int, first: int, last: int, step: int = 0, **fields: object) -> dict:
    return {
        "length": length,
        "count": count,
        "first": first,
        "last": last,
        "step": step,
        "ranges": [],
        "period": 0,
        **fields,
    }


def attempt(arguments: str = "--rows 4 --cols 8", variant: str = "v", **fields):
    """An attempt that passes, except for these fields of its result."""
    traffic = {"tensors": {"x": {"read_bytes": 256, "write_bytes": 0}}}
    result = {"name": variant, "traffic": {"predicted": traffic, "counted": traffic}}
    tensors = {"x": {"shape": SHAPE, "bytes": 128}}
    return trials.Attempt(arguments, variant, {**result, **fields}, tensors)


def wrong(rows: dict, cols: dict, count: int = 3, **pattern) -> dict:
    """The field `check` of an attempt with wrong elements."""
    base = {"unwritten": 0, "not_a_number": 0, "zeros": 0, "factor_per_line": False}
    y = {
        "wrong_elements": count,
        "first_wrong": {"index": [1, 2], "got": "nan", "expected": 0.25},
        "pattern": {**base, "axes": [rows, cols], **pattern},
    }
    return {"check": {"passed": False, "tensors": {"y": y}}}


ALL_ROWS, ALL_COLS = axis(4, 4, 0, 3, 1), axis(8, 8, 0, 7, 1)


class PrintedCommands(unittest.TestCase):
    """The commands that `check` prints, for each chapter, variant and input: each is parsed as ./learn parses
    it.
    """

    def setUp(self):
        # As if the program, which is not there, used MPI where the chapter's does.
        by_name = mock.patch.object(ranks, "has", lambda program: program.name.startswith("ch13"))
        mpirun = mock.patch("shutil.which", return_value="/usr/bin/mpirun")
        for patch in (by_name, mpirun):
            patch.start()
            self.addCleanup(patch.stop)

    def commands(self, exercise: exercises.Exercise, alone: bool) -> Iterator[tuple]:
        """The finding, and the words of the two commands."""
        exercise_1 = checking.WRONG if alone else checking.SO_FAR
        for arguments in [*exercise.inputs, f"{exercise.inputs[0]} --seed 77"]:
            for variant in trials.variants_in(arguments) or ["some_variant"]:
                finding = diagnosis.Finding("race", variant, arguments, "is wrong")
                finding = dataclasses.replace(finding, at="o[0,0,0,0]")
                verdict = checking.Verdict(exercise=1, finding=finding)
                verdict.exercises = {1: exercise_1}
                out = io.StringIO()
                with mock.patch.object(check, "quote", return_value=[]):
                    check.show_failure(console.Console(out), exercise, verdict)
                said = dict(line.split(": ", 1) for line in out.getvalue().splitlines() if ": " in line)
                yield finding, *(shlex.split(said[name]) for name in ("watch", "gdb"))

    def test_all_of_them(self):
        for chapter in project.chapters():
            exercise = exercises.Exercise(chapter)
            program = Path(exercise.target)
            for alone in (True, False):
                for finding, to_watch, to_debug in self.commands(exercise, alone):
                    with self.subTest(chapter.number, command=to_watch):
                        self.assertEqual(to_watch[:2], ["./learn", "watch"])
                        args = cli.parse(to_watch[1:])
                        watch.refuse(args, chapter)
                        options = watch.options_of(args, chapter, exercise)
                        request = watching.Request(program, args.variant, options)
                        words = ranks.command(program, request.words)
                        self.assert_runs(words, finding, chapter)
                    with self.subTest(chapter.number, command=to_debug):
                        self.assertEqual(to_debug[:2], ["./learn", "debug"])
                        args = cli.parse(to_debug[1:])
                        words = debug.command_of(program, [], args.options, args.rank)
                        at = words.index("--args")
                        self.assert_runs(words[at + 1 :], finding, chapter)

    def assert_runs(self, words: list[str], finding: diagnosis.Finding, chapter: project.Chapter):
        """The command line has one variant, that of the finding, and the program no number of ranks."""
        at = next(i for i, word in enumerate(words) if word.startswith("ch"))
        options = words[at + 1 :]
        options = options[: options.index(":")] if ":" in options else options
        expected = trials.words_of(finding.arguments, finding.variant)
        if chapter.has_ranks:
            count = expected.index("-n")
            del expected[count : count + 2]
        self.assertEqual(options, expected)


class CountersTest(unittest.TestCase):
    def lines(self, width: int) -> list[str]:
        options = "--dtype bf16 --heads 1 --seq-q 131 --seq-k 190 --head-dim 64 --causal --seed 5"
        tried = [
            trials.Attempt(options, name, fixtures.variant(name, 3), None)
            for name in ("row_per_warp", "fragment_double_buffer")
        ]
        return check.counters(tried, tried, width)

    def test_no_line_is_wider_than_the_terminal(self):
        for width in (60, 80, 100, 200):
            self.assertLessEqual(max(map(len, self.lines(width))), width)

    def test_what_does_not_fit_follows_below(self):
        whole, parts = self.lines(200), self.lines(80)
        self.assertEqual(sum("HBM bytes" in line for line in whole), 1)
        self.assertEqual(sum("row_per_warp" in line for line in whole), 1)
        self.assertEqual(sum("row_per_warp" in line for line in parts), 2)
        words = " ".join(parts)
        for count in check.COUNTERS:
            self.assertEqual(words.count(count.words), 1, count.words)


OPEN = """
[[open]]
task = "Use fewer sectors."
minutes = 60
variant = "row_per_warp"
input = "--rows 4"
at_most = { sectors = 1_000_000, shuffles = 3 }
hints = ["How?"]

[[open.answer]]
from = "return 3 * x;"
to = "return x + x + x;"
"""


class OpenTest(InAChapter):
    """Open exercises: what the sheet says, and what is said of an attempt."""

    def setUp(self):
        super().setUp()
        self.write("exercises.toml", SHEET + OPEN)

    def test_the_sheet(self):
        (goal,) = self.exercise.opens
        self.assertEqual((goal.task, goal.minutes), ("Use fewer sectors.", 60))
        self.assertEqual(goal.at_most, {"sectors": 1_000_000, "shuffles": 3})

    def test_the_answer_is_put_into_a_solved_copy(self):
        (goal,) = self.exercise.opens
        text = self.exercise.copy_with_edits(goal.answer)["kernel.cuh"]
        self.assertIn("const int y = x + x;", text)
        self.assertIn("    return x + x + x;\n", text)

    def test_an_answer_that_must_not_count(self):
        wrong = """
[[open.wrong]]
name = "no barrier"
from = "return 3 * x;"
to = "return x;"
caught_by = "race"
says = "no barrier between the two"
"""
        self.write("exercises.toml", SHEET + OPEN + wrong)
        (goal,) = self.exercise.opens
        (answer,) = goal.wrong
        self.assertEqual((answer.name, answer.caught_by), ("no barrier", "race"))
        text = self.exercise.copy_with_edits([answer.edit])["kernel.cuh"]
        self.assertIn("    return x;\n", text)
        self.assertIn("const int y = x + x;", text)

    def test_limits_that_it_may_exceed_apply_until_something_outside_is_changed(self):
        more = OPEN.replace("hints", 'may_exceed = ["sectors"]\nhints')
        self.write("exercises.toml", SHEET + more)
        exercise = self.exercise
        copy = exercise.copy_with({1: ("return 2 * x;",)})
        self.assertEqual(checking.limits_of(exercise, copy), ["sectors"])
        copy["kernel.cuh"] += "int more;\n"
        self.assertEqual(checking.limits_of(exercise, copy), [])
        self.write("exercises.toml", SHEET + OPEN)
        self.assertEqual(checking.limits_of(self.exercise, copy), ["sectors"])

    def test_what_the_sheet_refuses(self):
        first = "exercises.toml: open exercise 1"
        for old, new, message in (
            ("hints", "may_exceed = ['mma']\nhints", f"{first}: `mma` is no limit of"),
            ("sectors =", "sector =", f"{first}: `sector` is no count: must be bytes,"),
            ("1_000_000", "'few'", f"{first}: `at_most` must be a table of numbers"),
            ("minutes = 60\n", "", f"{first}: `minutes` is missing"),
            ('"How?"', "", f"{first} needs `at_most`, `hints` and an `answer`"),
            ("3 * x;", "4 * x;", f"{first}: edit 1: `from` occurs 0 times in kernel"),
            (
                "[[open.answer]]",
                "[[open.wrong]]\nname = 'a'\n[[open.answer]]",
                f"{first}: wrong answer 1: `from` is",
            ),
        ):
            with self.subTest(message):
                self.write("exercises.toml", SHEET + OPEN.replace(old, new))
                with self.assertRaises(regions.RegionError) as caught:
                    self.exercise.opens  # noqa: B018
                self.assertIn(message, str(caught.exception))

    def shown(self, result: dict) -> tuple[str, list[dict]]:
        attempts = [trials.Attempt("--rows 4", "row_per_warp", result, None)]
        out = io.StringIO()
        with mock.patch.object(trials, "run", return_value=attempts) as run:
            data = check.show_goals(console.Console(out), self.exercise, Path("p"))
        run.assert_called_once_with(Path("p"), ["--rows 4"], variant="row_per_warp")
        return out.getvalue(), data

    def test_a_goal_that_is_missed(self):
        result = fixtures.variant("row_per_warp", 3, sectors_per_pass=300_000)
        said, data = self.shown(result)
        self.assertEqual(
            said,
            "open exercise:  not reached yet. Use fewer sectors.\n"
            "   row_per_warp has 1200000 sectors, the goal is 1000000 or fewer, with --rows 4\n",
        )
        counts = {"sectors": 1_200_000, "shuffles": 0}
        task = {"task": "Use fewer sectors.", "reached": False, "counts": counts}
        self.assertEqual(data, [task])

    def test_a_goal_that_is_reached(self):
        said, data = self.shown(fixtures.variant("row_per_warp", 3, sectors_per_pass=250_000))
        self.assertEqual(said, "open exercise:  reached. Use fewer sectors.\n")
        self.assertTrue(data[0]["reached"])

    def test_bytes_of_a_tensor_that_is_free_do_not_spoil_it(self):
        result = fixtures.variant("row_per_warp", 3, sectors_per_pass=249_999)
        counted = result["traffic"]["counted"]
        y = counted["tensors"]["y"]["write_bytes"] + 4
        counted["tensors"] = counted["tensors"] | {"y": {"read_bytes": 0, "write_bytes": y}}
        said, _ = self.shown(result)
        self.assertIn("moves more bytes than the chapter allows", said)
        self.write("exercises.toml", SHEET.replace("number = 1\n", 'number = 1\nfree = ["y"]\n') + OPEN)
        said, data = self.shown(result)
        self.assertIn("reached. Use fewer sectors.", said)
        self.assertTrue(data[0]["reached"])

    def test_few_sectors_do_not_help_wrong_numbers(self):
        said, data = self.shown(fixtures.variant("row_per_warp", 3, rel_l2=1.0, sectors_per_pass=1))
        self.assertIn("not reached yet", said)
        self.assertIn("row_per_warp: a result is wrong", said)
        self.assertFalse(data[0]["reached"])

    def test_a_gpu_counts_nothing(self):
        said, data = self.shown(fixtures.variant("row_per_warp", 3, counters=False))
        self.assertIn("./learn check 01 --preset sim judges it", said)
        self.assertEqual(data, [])


class DiagnosisTest(unittest.TestCase):
    def said(self, *attempts: trials.Attempt) -> str:
        finding = diagnosis.explain(list(attempts))
        self.assertIsNotNone(finding)
        return "\n".join((f"{finding.variant}: {finding.headline}", *finding.details))

    def test_nothing_is_wrong(self):
        self.assertIsNone(diagnosis.explain([attempt()]))

    def test_the_first_wrong_element_and_the_last_tile(self):
        text = self.said(attempt(**wrong(ALL_ROWS, axis(8, 2, 6, 7, 1), 8)))
        self.assertIn("y[1, 2] is nan, should be 0.25", text)
        self.assertIn("8 of 32 elements are wrong: columns from 6 on, of 8", text)

    def test_the_names_of_all_that_is_wrong(self):
        fields = wrong(ALL_ROWS, ALL_COLS, 32)
        tensors = fields["check"]["tensors"]
        self.assertIn("v: y is wrong", self.said(attempt(**fields)))
        tensors["z"] = tensors["y"]
        self.assertIn("v: y and z are wrong", self.said(attempt(**fields)))
        tensors["w"] = tensors["y"]
        self.assertIn("v: y, z and w are wrong", self.said(attempt(**fields)))

    def test_one_row_and_every_fourth_column(self):
        text = self.said(attempt(**wrong(axis(4, 1, 3, 3), axis(16, 4, 1, 13, 4))))
        self.assertIn("row 3, the last of 4; every 4th column from 1 to 13", text)

    def test_two_rows_and_every_second_column(self):
        text = self.said(attempt(**wrong(axis(9, 2, 1, 5, 4), axis(8, 4, 0, 6, 2))))
        self.assertIn("rows 1 and 5 of 9; every second column from 0 to 6", text)

    def test_factors(self):
        text = self.said(attempt(**wrong(ALL_ROWS, ALL_COLS, 32, factor=0.5)))
        self.assertIn("off by the same factor: 0.5 times", text)
        each = self.said(attempt(**wrong(ALL_ROWS, ALL_COLS, 32, factor_per_line=True)))
        self.assertIn("each row is off by a factor of its own", each)

    def test_a_tensor_with_one_axis_has_a_number_for_each_head(self):
        of_heads = wrong(ALL_ROWS, axis(8, 3, 2, 4), 3, factor=-1)
        of_heads["check"]["tensors"]["y"]["pattern"]["axes"].pop(0)
        text = self.said(attempt(**of_heads))
        self.assertIn("heads 2 to 4 of 8", text)
        self.assertIn("all of them are off by the same factor: -1 times what they should be", text)

    def test_a_factor_of_a_single_row_is_only_that(self):
        text = self.said(attempt(**wrong(axis(4, 1, 3, 3), ALL_COLS, 8, factor=0.5)))
        self.assertIn("the wrong columns of this row are 0.5 times what they should be", text)
        self.assertNotIn("the same factor", text)

    def test_a_difference(self):
        fields = wrong(ALL_ROWS, ALL_COLS, 32, difference=1.3862944)
        self.assertIn("all of them are too large by 1.38629", self.said(attempt(**fields)))
        small = wrong(ALL_ROWS, ALL_COLS, 32, difference=-2.0)
        self.assertIn("all of them are too small by 2", self.said(attempt(**small)))
        tensors = fields["check"]["tensors"]
        tensors["lse"] = tensors.pop("y")
        self.assertIn(
            "too large by 1.38629, as if each sum were 4 times as large", self.said(attempt(**fields))
        )

    def test_ranges_of_indices(self):
        quarters = axis(32, 16, 8, 31, ranges=[[8, 15], [24, 31]])
        self.assertIn("columns 8 to 15 and 24 to 31 of 32", self.said(attempt(**wrong(ALL_ROWS, quarters))))
        single = axis(32, 6, 0, 31, ranges=[[0, 0], [8, 11], [31, 31]])
        self.assertIn("columns 0, 8 to 11 and 31 of 32", self.said(attempt(**wrong(ALL_ROWS, single))))
        repeated = axis(100, 48, 8, 95, ranges=[[8, 15]], period=16)
        self.assertIn("rows 8 to 15 of every 16", self.said(attempt(**wrong(repeated, ALL_COLS))))

    def test_the_inputs_of_the_first_wrong_element_are_told_once(self):
        fields = wrong(ALL_ROWS, ALL_COLS)
        tensors = fields["check"]["tensors"]
        tensors["y"]["first_wrong"]["inputs"] = "row 1 of x is 120.3, 2"
        tensors["z"] = tensors["y"]
        lines = self.said(attempt(**fields)).splitlines()
        self.assertEqual(lines[1:3], ["y[1, 2] is nan, should be 0.25", "row 1 of x is 120.3, 2"])
        self.assertEqual(lines.count("row 1 of x is 120.3, 2"), 1)

    def holds(self, rows: dict = ALL_ROWS, **rule: object) -> str:
        """What is said of y[0, 1] that holds the value of another element."""
        holds = {"tensor": "y", "is_input": False, "share": 1.0, "axis": 0} | rule
        holds = {"element": [0, 1], "source": [2, 1]} | holds
        return self.said(attempt(**wrong(rows, ALL_COLS, holds=holds)))

    def test_values_of_other_rows(self):
        for rule, words in (
            ({"relation": "xor", "by": 2}, "rows i and i + 2 are swapped"),
            ({"relation": "xor", "by": 1}, "rows 2 i and 2 i + 1 are swapped"),
            ({"relation": "xor", "by": 3}, "row i holds what belongs in row i ^ 3"),
            ({"relation": "shift", "by": 2}, "row i holds what belongs in row i + 2"),
            ({"relation": "shift", "by": -1}, "row i holds what belongs in row i - 1"),
            ({"relation": "fixed", "by": 2}, "every wrong row holds what belongs in row 2"),
            ({"relation": "map"}, "rows are mixed up: row 0 holds what belongs in row 2"),
            ({"relation": "transposed", "axis": -1}, "row and column are exchanged"),
            (
                {"relation": "offset", "offset": [8, -1], "axis": -1},
                "elements are swapped with those 8 rows further down and 1 column further left",
            ),
        ):
            with self.subTest(words):
                text = self.holds(**rule)
                self.assertIn(f"y[0, 1] holds what y[2, 1] should be: {words}", text)
        many = axis(64, 64, 0, 63)
        self.assertIn("rows i and i + 8 of every 16 are swapped", self.holds(many, relation="xor", by=8))
        one = self.holds(axis(4, 1, 0, 0), relation="xor", by=2)
        self.assertIn("row 0 holds what belongs in row 2", one)

    def test_values_that_most_of_the_wrong_elements_hold(self):
        text = self.holds(relation="xor", by=2, share=0.8125)
        self.assertIn("are swapped (in 81 % of the wrong elements)", text)

    def test_values_of_another_tensor(self):
        same = {"relation": "same_index", "source": [0, 1], "axis": -1}
        self.assertIn("y[0, 1] holds what z[0, 1] should be: y holds z", self.holds(**same, tensor="z"))
        self.assertIn("y[0, 1] holds x[0, 1]: y holds x", self.holds(**same, tensor="x", is_input=True))

    def test_another_problem_for_which_the_result_is_right(self):
        fields = wrong(ALL_ROWS, ALL_COLS)
        other = {"change": "with v in place of k", "outputs": ["lse", "o"]}
        fields["check"]["as_if"] = [other]
        self.assertIn("lse and o would be right with v in place of k", self.said(attempt(**fields)))
        fields["check"]["as_if"] = [other, other | {"change": "if k had rows swapped"}]
        self.assertIn("right with v in place of k or if k had rows swapped", self.said(attempt(**fields)))
        more = other["change"] + ", and zeros for a key after the last"
        fields["check"]["as_if"] = [other | {"change": more}, other]
        said = self.said(attempt(**fields))
        self.assertTrue(said.endswith("would be right with v in place of k"), said)
        fields["check"]["as_if"] = [other] * 4
        self.assertNotIn("would be right", self.said(attempt(**fields)))

    def test_evidence_comes_from_an_input_where_nothing_is_special(self):
        def tried(rows: int, cols: int, **pattern: object) -> trials.Attempt:
            axes = (axis(n, n, 0, n - 1, 1) for n in (rows, cols))
            fields = wrong(*axes, rows * cols, **pattern)
            tensors = {"x": {"shape": [rows, cols], "bytes": 4}}
            name = f"--rows {rows} --cols {cols}"
            made = attempt(name, **fields)
            return trials.Attempt(name, "v", made.result, tensors)

        one_row = tried(1, 8, factor=0.5)
        chosen = diagnosis.explain([one_row, tried(4, 8), tried(40, 80, factor_per_line=True)])
        self.assertEqual(chosen.arguments, "--rows 40 --cols 80")
        chosen = diagnosis.explain([one_row, tried(4, 8, factor=0.5), tried(40, 80, factor=0.5)])
        self.assertEqual(chosen.arguments, "--rows 4 --cols 8")
        self.assertEqual(diagnosis.explain([one_row]).arguments, "--rows 1 --cols 8")
        nothing = diagnosis.explain([one_row, tried(4, 8)])
        self.assertEqual(nothing.arguments, "--rows 4 --cols 8")

    def test_nothing_was_written(self):
        text = self.said(attempt(**wrong(ALL_ROWS, ALL_COLS, 32, unwritten=32)))
        self.assertIn("all of them were never written", text)
        one = self.said(attempt(**wrong(ALL_ROWS, ALL_COLS, 2, not_a_number=1)))
        self.assertIn("1 of the wrong ones is NaN or infinite", one)

    def test_what_the_failing_inputs_have(self):
        bad = wrong(ALL_ROWS, ALL_COLS, 32)
        causal = self.said(attempt("--seq-k 9"), attempt("--seq-k 9 --causal", **bad))
        self.assertIn("of the inputs tried, only with --causal", causal)
        tile = self.said(attempt("--seq-k 64"), attempt("--seq-k 65", **bad))
        self.assertIn("right up to --seq-k 64, wrong from 65 on", tile)
        rows = "--seq-q 9 --seq-k 5 --causal --init outliers"
        several = self.said(attempt("--seq-q 3 --seq-k 5 --causal"), attempt(rows, **bad))
        self.assertIn(
            "of the inputs tried, only with --init outliers, or with --causal and more queries than keys",
            several,
        )
        many = self.said(attempt("--a 1"), attempt("--a 1 --b --c --d", **bad))
        self.assertNotIn("only with", many)  # three causes say nothing
        either = self.said(attempt("--a 1 --b 1"), attempt("--a 2 --b 2", **bad))
        self.assertNotIn("right up to", either)

    def test_another_value_of_an_option_may_be_the_cause_as_well(self):
        bad = wrong(ALL_ROWS, ALL_COLS, 32)
        right = [attempt(f"--seq-q {n} --window {n}") for n in (2, 70)]
        scaled = attempt("--seq-q 63 --window 63 --scale 0.25", **bad)
        said = "of the inputs tried, only with --window 63, or with --scale 0.25"
        self.assertIn(said, self.said(*right, scaled))
        right = [attempt(f"--seq-q 300 --window {n}") for n in (2, 71)]
        self.assertIn(
            "right with --window 2 and 71, wrong with 63",
            self.said(*right, attempt("--seq-q 300 --window 63", **bad)),
        )
        seeds = self.said(attempt("--seq-q 3"), attempt("--seq-q 3 --dropout 0.3 --dropout-seed 4", **bad))
        self.assertIn("of the inputs tried, only with --dropout 0.3", seeds)
        self.assertNotIn("--dropout-seed", seeds)

    def test_an_option_that_only_the_failing_inputs_have_is_named_even_if_it_is_a_size(self):
        bad = wrong(ALL_ROWS, ALL_COLS, 32)
        said = self.said(attempt("--seq-q 9"), attempt("--batch 2 --seq-q 9", **bad))
        self.assertIn("of the inputs tried, only with --batch 2", said)

    def test_a_size_is_named_too_if_only_some_of_the_passing_inputs_have_another(self):
        bad = wrong(ALL_ROWS, ALL_COLS, 32)
        right = [attempt("--seq-q 9"), attempt("--batch 2 --seq-q 9")]
        said = self.said(*right, attempt("--batch 4 --seq-q 9", **bad))
        self.assertIn("of the inputs tried, only with --batch 4", said)
        self.assertNotRegex(said, r"only with\s*(\n|$)")
        windows = [attempt(f"--batch 4 --window {n}", **bad) for n in (3, 5)]
        said = self.said(attempt("--batch 2"), attempt("--seq-k 3"), *windows)
        self.assertIn("of the inputs tried, only with --batch 4", said)

    def test_two_options_that_are_wrong_together_only(self):
        bad = wrong(ALL_ROWS, ALL_COLS, 32)
        right = [attempt("--backward --window 3"), attempt("--softcap 1")]
        said = self.said(*right, attempt("--backward --softcap 3", **bad))
        self.assertIn("of the inputs tried, only with --backward and --softcap together", said)
        alone = self.said(*right, attempt("--backward --softcap 3 --alibi", **bad))
        self.assertIn("only with --softcap 3, or with --alibi", alone)

    def test_the_number_of_ranks_has_its_own_option(self):
        bad = wrong(ALL_ROWS, ALL_COLS, 32)
        said = self.said(attempt("-n 2 --seq-q 20", **bad), attempt("-n 3 --seq-q 20 --causal"))
        self.assertIn("wrong up to -n 2, right from 3 on", said)
        self.assertNotIn("-- ", said)

    def test_which_sizes_fail(self):
        bad = wrong(ALL_ROWS, ALL_COLS, 32)

        def said(right: list[int], failing: list[int]) -> str:
            tried = [attempt(f"--rows 4 --cols {n}") for n in right]
            tried += [attempt(f"--rows 4 --cols {n}", **bad) for n in failing]
            return self.said(*tried)

        multiple = "wrong unless --cols is a multiple of 32"
        self.assertIn(multiple, said([32, 96, 1024], [1, 48, 516]))
        self.assertNotIn("multiple", said([32], [1, 48]))  # one size is no evidence
        self.assertNotIn("multiple", said([32, 96], [1, 64]))
        only = "wrong only if --cols is a multiple of 4"
        self.assertIn(only, said([1, 6, 1003], [4, 516]))
        self.assertIn("right with --cols 32 and 96, wrong with 1 and 64", said([96, 32], [1, 64]))
        self.assertNotIn("right with", said([8, *range(1, 12, 2)], [*range(2, 7, 2), 16]))
        self.assertIn("wrong up to --cols 7, right from 32", said([32, 64], [1, 7]))

    def test_a_function_that_does_too_much(self):
        def words(mine: int, theirs: int) -> str:
            return diagnosis.in_vain("mask", {"mask": mine}, {"mask": theirs})

        text = "mask() does 2.5 times as much as in the chapter's kernel"
        self.assertEqual(words(250, 100), text)
        self.assertEqual(words(120, 100), "")
        self.assertEqual(words(100, 250), "")
        self.assertEqual(diagnosis.in_vain("mask", {}, {}), "")  # a GPU

    def test_the_question_of_an_exercise_is_added_to_a_defect(self):
        race = [{"kind": "race", "message": "Race", "count": 1}]
        more = {"race": "Which stage is free?"}
        finding = diagnosis.explain([attempt(defects=race)], more=more)
        self.assertEqual(finding.details, ["Race", "Which stage is free?"])
        bounds = [{"kind": "out_of_bounds", "message": "Invalid", "count": 1}]
        finding = diagnosis.explain([attempt(defects=bounds)], more=more)
        self.assertEqual(finding.details, ["Invalid"])

    def test_a_wait_that_returned_at_once_is_the_first_cause(self):
        race = {"kind": "race", "message": "Race: the wait returned at once", "count": 1}
        misuse = {"kind": "misuse", "message": "one arrival too many", "count": 1}
        first = diagnosis.explain([attempt(defects=[race, misuse])])
        self.assertEqual((first.kind, first.details), ("race", [race["message"]]))
        race["message"] = "Race: no barrier"
        self.assertEqual(diagnosis.explain([attempt(defects=[race, misuse])]).kind, "misuse")

    def test_a_declared_failure_is_none(self):
        bad = wrong(ALL_ROWS, ALL_COLS)
        bad["check"]["known_failure"] = "exp() overflows"
        self.assertIsNone(diagnosis.explain([attempt(**bad)]))

    def test_a_defect_comes_before_wrong_numbers_and_gives_its_lines(self):
        message = "Race reported .. at kernel.cuh:48 and .. at kernel.cuh:61\n    shared"
        race = {"defects": [{"kind": "race", "message": message, "count": 1}]}
        finding = diagnosis.explain([attempt(**race, **wrong(ALL_ROWS, ALL_COLS))])
        self.assertEqual((finding.kind, finding.lines), ("race", ["kernel.cuh:48", "kernel.cuh:61"]))

    def test_a_race_begins_with_its_cause_and_the_learners_access(self):
        def told(own: list[str], one: str, other: str) -> diagnosis.Finding:
            message = (
                f"Race reported between Async copy access by thread (32,0,0) at {one} and "
                f'Read access by thread (4,0,0) at {other}\n    shared memory, sK, row 4, column 0 (byte 8 of "smem") '  # noqa: E501
                "in block (0,0,0): no __syncthreads() between the two"
            )
            race = {"kind": "race", "message": message, "count": 1, "own": own}
            return diagnosis.explain([attempt(defects=[race])])

        solved = "line 2 of exercise 1's solution in load() of a.cuh"
        copy, read = (
            f"{what} access by thread ({n},0,0) at " for what, n in (("Async copy", 32), ("Read", 4))
        )
        first = [
            "no __syncthreads() between the two",
            'shared memory, sK, row 4, column 0 (byte 8 of "smem") in block (0,0,0)',
        ]
        found = told([], "a.cuh:1", "b.cuh:2")
        self.assertEqual(found.details, [*first, f"{copy}a.cuh:1", f"{read}b.cuh:2"])
        self.assertEqual(found.lines, ["a.cuh:1", "b.cuh:2"])
        found = told(["b.cuh:2"], "a.cuh:1", "b.cuh:2 (calls c.cuh:3)")
        own = f"{read}b.cuh:2 (calls c.cuh:3)"
        self.assertEqual(found.details, [*first, own, f"{copy}a.cuh:1"])
        self.assertEqual(found.lines, ["b.cuh:2", "c.cuh:3", "a.cuh:1"])
        found = told([], f"{solved} (from a.cuh:9)", "b.cuh:2")
        other = f"{copy}{solved} (from a.cuh:9)"
        self.assertEqual(found.details, [*first, f"{read}b.cuh:2", other])

    def test_threads_that_wait_are_told_line_by_line(self):
        message = (
            "Barrier error detected. .. reached __shfl_sync() at kernel.cuh:48\n"
            "    lanes 1 to 31 wait there\n"
            "    lane 0 waits in __syncthreads() at kernel.cuh:61"
        )
        defect = {"kind": "barrier_divergence", "message": message, "count": 1}
        finding = diagnosis.explain([attempt(defects=[defect])])
        self.assertEqual(
            finding.headline, "has a barrier, or an operation of a warp, that not all threads reach"
        )
        self.assertEqual(finding.details, message.splitlines())
        self.assertEqual(finding.lines, ["kernel.cuh:48", "kernel.cuh:61"])

    def test_a_deadlock(self):
        message = "Barrier error detected. Deadlock in block (0,0,0): no thread can go on"
        defect = {"kind": "barrier_divergence", "message": message, "count": 1}
        finding = diagnosis.explain([attempt(defects=[defect])])
        self.assertEqual(finding.headline, "has a deadlock")
        self.assertEqual(finding.kind, "barrier_divergence")

    def test_more_bytes_are_wrong_and_fewer_are_not(self):
        def counted(n: int) -> dict:
            predicted = attempt().result["traffic"]["predicted"]
            tensors = {"x": {"read_bytes": n, "write_bytes": 0}}
            return {"traffic": {"predicted": predicted, "counted": {"tensors": tensors}}}

        self.assertIsNone(diagnosis.explain([attempt(**counted(128))]))
        text = self.said(attempt(**counted(1024)))
        self.assertIn("you read x 8 times, the chapter reads it twice", text)

    def test_more_bytes_of_a_tensor_that_is_free_are_not(self):
        def moving(extra: int) -> trials.Attempt:
            tensors = {
                "k": {"read_bytes": 64, "write_bytes": 0},
                "counters": {"read_bytes": 8, "write_bytes": 8},
            }
            counted = {"counters": {"read_bytes": 8, "write_bytes": 8 + extra}}
            traffic = {
                "predicted": {"read_bytes": 72, "write_bytes": 8, "tensors": tensors},
                "counted": {
                    "read_bytes": 72,
                    "write_bytes": 8 + extra,
                    "tensors": tensors | counted,
                    "read_sectors": 4,
                    "write_sectors": 2 + extra // 4,
                },
            }
            return trials.Attempt("--seq-k 5", "v", {"name": "v", "traffic": traffic, "defects": []}, {})

        more, solution = moving(4), moving(0)
        self.assertEqual(diagnosis.explain([more]).kind, "traffic")
        other = diagnosis.without_excess(more, ["k"])
        self.assertEqual(diagnosis.explain([other]).kind, "traffic")
        free = diagnosis.without_excess(more, ["counters"])
        self.assertIsNone(diagnosis.explain([free], ["sectors"], [solution]))
        self.assertEqual(diagnosis.explain([more]).kind, "traffic")  # unchanged
        ended = trials.Attempt("", "v", None, None, "was ended by SIGSEGV")
        self.assertEqual(diagnosis.without_excess(ended, ["counters"]), ended)

    def test_a_fault_that_outputs_do_not_show(self):
        faulty = attempt(fault="leaves counters[3] at 2")
        self.assertEqual(self.said(faulty), "v: leaves counters[3] at 2")
        self.assertEqual(diagnosis.explain([faulty]).kind, "fault")

    def test_more_bank_conflicts_than_the_solution_are_wrong_where_it_is_asked(self):
        def conflicts(n: int, **fields) -> trials.Attempt:
            names = ("load_wavefronts", "store_wavefronts")
            shared = {f"{name}{end}": 8 for name in names for end in ("", "_ideal")}
            shared["load_wavefronts"] += n
            return attempt(shared=shared, **fields)

        limits, solution = ["conflicts"], [conflicts(2)]
        self.assertIsNone(diagnosis.explain([conflicts(9)]))
        self.assertIsNone(diagnosis.explain([conflicts(2)], limits, solution))
        self.assertIsNone(diagnosis.explain([attempt()], limits, solution))  # a GPU
        other = conflicts(9, variant="w")
        self.assertIsNone(diagnosis.explain([other], limits, solution))
        finding = diagnosis.explain([conflicts(9)], limits, solution)
        self.assertEqual(finding.kind, "conflicts")
        text = "takes 25 wavefronts where 16 would do: 9 bank conflicts, the chapter's kernel has 2"
        self.assertIn(text, finding.details[0])
        self.assertEqual(len(finding.details), 1)
        few = {"load_wavefronts": 6, "load_wavefronts_ideal": 6}
        finding = diagnosis.explain([conflicts(9)], limits, [attempt(shared=few)])
        text = "the chapter's kernel needs 6 without conflicts: you load or store more often"
        self.assertEqual(finding.details[1:], [text])
        worse = attempt(variant="w", **wrong(ALL_ROWS, ALL_COLS))
        finding = diagnosis.explain([conflicts(9), worse], limits, solution)
        self.assertEqual(finding.kind, "numbers")

    def test_more_sectors_than_the_solution_are_wrong_where_it_is_asked(self):
        def sectors(n: int) -> trials.Attempt:
            traffic = attempt().result["traffic"]
            counted = {"read_sectors": n, "write_sectors": 4, "tensors": {}}
            return attempt(traffic=traffic | {"counted": counted})

        limits, solution = ["sectors", "conflicts"], [sectors(8)]
        self.assertIsNone(diagnosis.explain([sectors(64)]))
        self.assertIsNone(diagnosis.explain([sectors(64)], ["conflicts"], solution))
        self.assertIsNone(diagnosis.explain([sectors(8)], limits, solution))
        self.assertIsNone(diagnosis.explain([attempt()], limits, solution))  # a GPU
        finding = diagnosis.explain([sectors(64)], limits, solution)
        self.assertEqual(finding.kind, "sectors")
        self.assertIn("68 sectors of 32 bytes, the chapter's 12", finding.details[0])

    def test_why_there_are_more_sectors(self):
        def reads(requests: int, sectors: int, size: int) -> trials.Attempt:
            counted = {"read_requests": requests, "read_sectors": sectors}
            counted |= {"read_bytes": requests * size, "tensors": {}}
            traffic = attempt().result["traffic"]
            return attempt(traffic=traffic | {"counted": counted})

        def said(own: trials.Attempt, solution: trials.Attempt) -> list[str]:
            return diagnosis.explain([own], ["sectors"], [solution]).details

        self.assertEqual(
            said(reads(10, 290, 128), reads(10, 45, 128)),
            [
                "your loads and stores touch 290 sectors of 32 bytes, the chapter's 45",
                (
                    "your warps execute 10 load instructions, with 29 sectors each; the chapter's 10, with "
                    "4.5 "
                    "each"
                ),
                "do neighbouring lanes access neighbouring elements?",
            ],
        )
        narrower = "each of yours moves 128 bytes, each of the chapter's 512: "
        narrower += "your loads are narrower, or fewer lanes take part in them"
        self.assertEqual(
            said(reads(40, 640, 128), reads(10, 160, 512)),
            [
                "your loads and stores touch 640 sectors of 32 bytes, the chapter's 160",
                (
                    "your warps execute 40 load instructions, with 16 sectors each; the chapter's 10, with "
                    "16 "
                    "each"
                ),
                narrower,
            ],
        )
        more = said(reads(40, 640, 256), reads(10, 160, 512))  # other loads, beside those of the chapter
        self.assertNotIn("narrower", "".join(more))
        traffic = {"write_requests": 4, "write_sectors": 64, "write_bytes": 128}
        stores = attempt(traffic={"counted": traffic})
        fewer = attempt(traffic={"counted": traffic | {"write_sectors": 16}})
        finding = diagnosis._beyond("sectors", [stores], [fewer])
        self.assertIn("4 store instructions, with 16 sectors", finding.details[1])

    def test_what_is_read_more_often(self):
        def reads(times: int) -> trials.Attempt:
            counted = {"read_requests": 10 * times, "read_sectors": 160 * times}
            counted |= {"read_bytes": 5120 * times}
            sizes = {"k": 4096 * times, "q": 1024}
            counted["tensors"] = {
                name: {"read_bytes": size, "write_bytes": 0} for name, size in sizes.items()
            }
            predicted = {"tensors": counted["tensors"]}
            return attempt(traffic={"predicted": predicted, "counted": counted})

        details = diagnosis.explain([reads(3)], ["sectors"], [reads(1)]).details
        self.assertEqual(
            details[1:],
            [
                (
                    "your warps execute 30 load instructions, with 16 sectors each; the chapter's 10, with "
                    "16 "
                    "each"
                ),
                "you read k more often: 12288 bytes, the chapter's kernel 4096",
            ],
        )

    def test_tiles_that_are_visited_for_nothing_are_named(self):
        def kinds(*rows: str, read: int = 64, of: str = "k") -> trials.Attempt:
            tiles = {"queries": 128, "keys": 64, "kinds": list(rows)}
            tensors = {of: {"read_bytes": 64, "write_bytes": 0}}
            counted = {"tensors": {of: {"read_bytes": read, "write_bytes": 0}}}
            predicted = {"tensors": tensors, "tiles": tiles}
            return attempt(traffic={"predicted": predicted, "counted": counted})

        right = kinds("pfe", "fpe", "eep")
        explain = diagnosis.explain
        self.assertIsNone(explain([right], ["tiles"], [right]))
        self.assertIsNone(explain([attempt()], ["tiles"], [attempt()]))
        finding = explain([kinds("pfp", "fpe", "eep")], ["tiles"], [right])
        headline = "is right, but takes tiles for more than they are"
        self.assertEqual((finding.kind, finding.headline), ("tiles", headline))
        self.assertEqual(
            finding.details, ["tile (0, 2) of 128 queries and 64 keys is empty, and the kernel visits it"]
        )
        finding = explain([kinds("ppf", "ppf", "ppp")], ["tiles"], [right])
        self.assertEqual(
            finding.details,
            [
                (
                    "tiles (0, 2), (1, 2), (2, 0) and 1 more of 128 queries and 64 keys are empty, and the "
                    "kernel visits them"
                ),
                (
                    "tiles (0, 1) and (1, 0) of 128 queries and 64 keys are full, and the kernel evaluates "
                    "the "
                    "mask for every score of them"
                ),
            ],
        )
        finding = explain([kinds("pfe", "fpe", "eep", read=128)])
        self.assertEqual(finding.kind, "traffic")
        self.assertEqual(
            finding.details[-1],
            "tiles (0, 2), (1, 2), (2, 0) and 1 more of 128 queries and 64 keys are empty: "
            "does the kernel visit what is empty, or a tile twice?",
        )
        finding = explain([kinds("pfe", "fpe", "eep", read=128, of="documents")])
        self.assertEqual(finding.kind, "traffic")
        self.assertNotIn("empty", "\n".join(finding.details))

    def test_a_tile_of_several_sequences_or_heads_is_named_with_them(self):
        tiles = {"queries": 128, "keys": 64, "kinds": ["p"] * 4}
        for heads, batch, whose in ((1, 2, "sequence"), (2, 1, "head")):
            tried = attempt(traffic={"predicted": {"tiles": tiles}})
            tried = dataclasses.replace(tried, tensors={"q": {"shape": [batch, heads, 200, 64]}})
            self.assertEqual(
                diagnosis._names_of(tried, [(1, 0), (2, 3)]),
                f"tiles (1, 0) of {whose} 0 and (0, 3) of {whose} 1",
            )

    def test_a_solution_that_was_stopped_sets_no_limit(self):
        traffic = {"write_requests": 4, "write_sectors": 64, "write_bytes": 128}
        own = attempt(traffic={"counted": traffic})
        stopped = dataclasses.replace(own, result=None, ended=trials.HANGS)
        self.assertIsNone(diagnosis._beyond("sectors", [own], [stopped]))

    def test_more_operations_than_the_solution_are_wrong_where_it_is_asked(self):
        def counts(**ops: int) -> trials.Attempt:
            return attempt(ops=ops)

        for name in ("mma", "barriers", "shuffles", "votes"):
            few, many = counts(**{name: 128}), counts(**{name: 624})
            self.assertIsNone(diagnosis.explain([many]))
            self.assertIsNone(diagnosis.explain([many], ["sectors"], [few]))
            self.assertIsNone(diagnosis.explain([few], [name], [many]))
            self.assertIsNone(diagnosis.explain([few], [name], [few]))
            self.assertIsNone(diagnosis.explain([attempt()], [name], [few]))  # a GPU
            finding = diagnosis.explain([many], [name], [few])
            self.assertEqual(finding.kind, name)
            headline = f"is right, but executes more {name} than the chapter's kernel"
            self.assertEqual(finding.headline, headline)
            text = f"{name}: 624, the chapter's kernel 128 (once for each warp)"
            self.assertEqual(finding.details, [text])

    def test_named_barriers_count_as_barriers(self):
        few, many = (attempt(ops={"barriers": 8, "named_barriers": n}) for n in (4, 5))
        self.assertIsNone(diagnosis.explain([few], ["barriers"], [many]))
        finding = diagnosis.explain([many], ["barriers"], [few])
        text = "barriers: 13, the chapter's kernel 12 (once for each warp)"
        self.assertEqual((finding.kind, finding.details), ("barriers", [text]))

    def test_more_wavefronts_than_the_solution_are_wrong_where_it_is_asked(self):
        def stores(wavefronts: int) -> trials.Attempt:
            shared = {"store_wavefronts": wavefronts}
            shared |= {"store_wavefronts_ideal": wavefronts}
            return attempt(shared=shared)

        self.assertIsNone(diagnosis.explain([stores(9)], ["conflicts"], [stores(8)]))
        self.assertIsNone(diagnosis.explain([stores(8)], ["wavefronts"], [stores(8)]))
        finding = diagnosis.explain([stores(9)], ["wavefronts"], [stores(8)])
        text = "shared memory takes 9 wavefronts, the chapter's kernel 8"
        self.assertEqual((finding.kind, finding.details), ("wavefronts", [text]))

    def test_groups_that_are_waited_for_too_early(self):
        early, solution = attempt(ops={"over_waited": 40}), attempt(ops={})
        finding = diagnosis.explain([early], ["over_waited"], [solution])
        self.assertEqual(finding.kind, "over_waited")
        headline = "is right, but waits earlier than necessary"
        self.assertEqual(finding.headline, headline)
        text = (
            "the wait covers a group that nobody needs yet: another one, before its "
            "first use, would be enough"
        )
        count = "over-waited groups of copies or products: 40, the chapter's kernel 0 (once for each warp)"
        self.assertEqual(finding.details, [text, count])
        waits = {"more.cuh:3": 8, "kernel.cuh:107 (calls cp_async.cuh:30)": 32}
        early = attempt(ops={"over_waited": 40}, early_waits=waits)
        finding = diagnosis.explain([early], ["over_waited"], [solution])
        start = "the wait at kernel.cuh:107 (calls cp_async.cuh:30) covers a group that "
        self.assertTrue(finding.details[0].startswith(start), finding.details)
        self.assertEqual(finding.lines, ["kernel.cuh:107", "cp_async.cuh:30"])

    def test_stages_that_are_released_late(self):
        late, solution = (attempt(ops={"arrivals_beside_products": n}) for n in (12, 8))
        self.assertIsNone(diagnosis.explain([solution], ["late_arrivals"], [late]))
        self.assertIsNone(diagnosis.explain([late], ["arrivals_beside_products"], [solution]))
        finding = diagnosis.explain([late], ["late_arrivals"], [solution])
        self.assertEqual(finding.kind, "late_arrivals")
        self.assertIn("releases more while a product is in flight", finding.headline)
        self.assertIn(": 12, the chapter's kernel 8 (once for each warp)", finding.details[0])
        late, solution = (attempt(ops={"steps_before_arrivals": n}) for n in (12, 8))
        self.assertIsNone(diagnosis.explain([solution], ["steps_before_arrivals"], [late]))
        finding = diagnosis.explain([late], ["steps_before_arrivals"], [solution])
        self.assertIn("releases a stage later after its product than the chapter's kernel", finding.headline)
        self.assertIn(": 12, the chapter's kernel 8 (once for each warp)", finding.details[0])

    def test_shared_memory_of_another_size(self):
        few, more_by_a_flag, many = (attempt(shared={"bytes_per_block": n}) for n in (1000, 1004, 2000))
        self.assertIsNone(diagnosis.explain([more_by_a_flag], ["shared_bytes"], [few]))
        self.assertIsNone(diagnosis.explain([few], ["shared_bytes"], [many]))
        self.assertIsNone(diagnosis.explain([many], ["shared_room"], [few]))
        finding = diagnosis.explain([many], ["shared_bytes", "shared_room"], [few])
        self.assertEqual(finding.kind, "shared_bytes")
        self.assertIn("block: 2000, the chapter's kernel 1000", finding.details[0])
        finding = diagnosis.explain([few], ["shared_bytes", "shared_room"], [many], {"shared_room": "Why?"})
        self.assertEqual((finding.kind, finding.details[1:]), ("shared_room", ["Why?"]))
        self.assertIn("has room for less in shared memory", finding.headline)

    def test_less_than_the_solution(self):
        for kind, says in {
            "named_barriers": "fewer named barriers than the chapter's kernel",
            "votes_beside_products": "computes less while a product is in flight",
            "accesses_beside_products": "does less while a product is in flight",
            "arrivals_beside_products": "releases less while a product is in flight",
            "kernels_beside_transfers": "overlaps fewer kernels with transfers",
        }.items():
            few, many = (attempt(ops={kind: n}) for n in (4, 5))
            self.assertIsNone(diagnosis.explain([many], [kind], [few]))
            self.assertIsNone(diagnosis.explain([many], [kind], [many]))
            finding = diagnosis.explain([few], [kind], [many], {kind: "Why?"})
            self.assertEqual(finding.kind, kind)
            self.assertIn(says, finding.headline)
            count, question = finding.details
            self.assertIn(": 4, the chapter's kernel 5", count)
            per_warp = kind != "kernels_beside_transfers"
            self.assertEqual("(once for each warp)" in count, per_warp)
            self.assertEqual(question, "Why?")

    def test_the_question_of_an_exercise_is_added_to_its_own_limit(self):
        few, many = (attempt(ops={"shuffles": n, "votes": n}) for n in (1, 2))
        more = {"votes": "Who votes?"}
        finding = diagnosis.explain([many], ["votes"], [few], more)
        self.assertEqual(finding.details[1:], ["Who votes?"])
        finding = diagnosis.explain([many], ["shuffles", "votes"], [few], more)
        self.assertEqual((finding.kind, finding.details[1:]), ("shuffles", []))

    def test_a_loop_without_end_a_crash_and_a_refusal(self):
        def ended(how: str) -> trials.Attempt:
            return trials.Attempt("--rows 1", "v", None, None, how)

        self.assertIn("did not end", self.said(ended(trials.HANGS)))
        self.assertIn("no memory (SIGSEGV)", self.said(ended("was ended by SIGSEGV")))
        self.assertIn("too many", self.said(attempt(failure="launch: too many")))
        shared = attempt(shared={"bytes_per_block": 300000})
        self.assertIn("300000 bytes of shared", self.said(shared))

    def test_the_first_variant_of_the_chapter_is_told(self):
        bad = wrong(ALL_ROWS, ALL_COLS)
        finding = diagnosis.explain([attempt(), attempt(variant="w", **bad), attempt("--rows 9", **bad)])
        self.assertEqual((finding.variant, finding.arguments), ("v", "--rows 9"))


class CompilerTest(unittest.TestCase):
    OWN = project.ROOT / "exercises/01_x/kernel.cuh"

    def test_errors_of_gcc_and_nvcc_in_the_learners_file_only(self):
        gcc = [
            "In file included from chapter.cu:3:",
            "/other/file.hpp:9:1: error: not mine",
            f"{self.OWN}:41:3: error: expected ';'",
            "   41 |   return x",
            "      |   ^",
            f"{self.OWN}:50:1: warning: unused",
        ]
        text, errors = checking.compiler_errors(gcc, [self.OWN])
        self.assertEqual(errors, [(self.OWN, 41)])
        self.assertEqual(text[0], "exercises/01_x/kernel.cuh:41:3: error: expected ';'")
        self.assertEqual(len(text), 3)
        nvcc = [f'{self.OWN}(41): error: identifier "m" is undefined']
        _, errors = checking.compiler_errors(nvcc, [self.OWN])
        self.assertEqual(errors, [(self.OWN, 41)])
        more = self.OWN.with_name("more.cuh")
        output = [f"{more}:7:1: error: no", *gcc]
        _, errors = checking.compiler_errors(output, [self.OWN, more])
        self.assertEqual(errors, [(more, 7), (self.OWN, 41)])

    def test_an_error_elsewhere_is_shown_where_there_is_no_other(self):
        output = ["build/chapter.cu:30:8: error: 'merge' was not declared", "ninja: .."]
        found = checking.compiler_errors(output, [self.OWN])
        self.assertEqual(found, (output[:1], []))

    WARNINGS = f"""\
{OWN}: In function 'void f()':
{OWN}:9:49: warning: 'm' may be used uninitialized [-Wmaybe-uninitialized]
    9 |   for (;;) l += expf(x[col] - m);
      |                      ~~~~~~~^~~
{OWN}:4:9: note: 'm' was declared here
    4 |   float m;
      |         ^
{OWN}:20:1: warning: not the learner's line [-Wshadow]
{OWN}(30): warning #549-D: variable "m" is used before its value is set
"""

    def test_warnings_are_those_about_the_learners_lines(self):
        lines = self.WARNINGS.splitlines() * 2  # two instantiations of a template
        text = checking.compiler_warnings(lines, {(self.OWN, 4), (self.OWN, 30)})
        own = "exercises/01_x/kernel.cuh"
        self.assertEqual(
            text,
            [
                f"{own}:9:49: warning: 'm' may be used uninitialized [-Wmaybe-uninitialized]",
                "    9 |   for (;;) l += expf(x[col] - m);",
                "      |                      ~~~~~~~^~~",
                f'{own}(30): warning #549-D: variable "m" is used before its value is set',
            ],
        )
        many = [f"{self.OWN}:{n}:1: warning: w" for n in range(1, 9)]
        own_lines = {(self.OWN, n) for n in range(1, 9)}
        self.assertEqual(len(checking.compiler_warnings(many, own_lines)), 3)

    def test_a_long_error_is_shown_in_full_and_code_as_it_is(self):
        out = io.StringIO()
        terminal = console.Console(out)
        terminal.width = 60
        error = f"k.cuh:1:2: error: {'no matching function ' * 4}for call"
        code = f"    1 |   {'f(); ' * 20}"
        check.show_compiler(terminal, [error, code])
        text = out.getvalue()
        self.assertEqual(" ".join(text.splitlines()[:-1]).split(), error.split())
        self.assertLessEqual(max(map(len, text.splitlines()[:-1])), 60)
        self.assertTrue(text.endswith(f"\n   {code}\n"))


class BuildTest(InAChapter):
    """Builds of the learner's program, with a stand-in for CMake."""

    def setUp(self):
        super().setUp()
        self.run_command(start, "01")
        self.build = self.root / "build"
        self.build.mkdir()
        cmake = self.root / "bin/cmake"
        cmake.parent.mkdir()
        cmake.write_text(f"#!/bin/sh\ncat {self.root}/said; exit $(cat {self.root}/status)\n")
        cmake.chmod(0o755)
        path = f"{cmake.parent}:/usr/bin:/bin"
        patch = mock.patch.dict("os.environ", {"PATH": path})
        patch.start()
        self.addCleanup(patch.stop)

    def make(self, *said: str, status: int = 0):
        """Builds, when Ninja says this. Returns what the learner sees, the verdict and the warnings."""
        (self.root / "said").write_text("\n".join(said) + "\n")
        (self.root / "status").write_text(str(status))
        out = io.StringIO()
        found = checking.build_own(console.Console(out), self.build, self.exercise)
        return out.getvalue(), *found

    def steps(self, count: int) -> list[str]:
        folder = f"{self.exercise.target}_kernels.dir"
        return [f"[{n}/{count}] Building {folder}/{n}.o" for n in range(1, count + 1)]

    def test_the_first_build_says_what_it_builds_where_there_is_no_terminal(self):
        with mock.patch.object(phases, "QUIET_SECONDS", -1):
            text, _, _ = self.make("[0/2] Re-checking", *self.steps(12))
        headline = "-- build: ch01_x_exercise and what it needs; later builds are short\n"
        self.assertTrue(text.startswith(headline), text)
        self.assertIn("s  [7/12] Building ch01_x_exercise_kernels.dir/7.o\n", text)

    def test_a_later_build_is_silent_unless_it_is_long(self):
        (self.build / "bin").mkdir()
        (self.build / "bin/ch01_x_exercise").touch()
        self.assertEqual(self.make(*self.steps(2)), ("", None, []))
        with mock.patch.object(phases, "QUIET_SECONDS", -1):
            self.assertIn("s  [2/2] Building", self.make(*self.steps(2))[0])

    def test_warnings_of_the_last_compilation_are_kept(self):
        file = self.exercise.files[0]
        text = file.read_text().replace("  if (x)\n    return x;", "  float m;")
        file.write_text(text)
        at = text.splitlines().index("  float m;") + 1
        mine = f"{file}:{at}:9: warning: m is not used"
        blank = f"{file}:{at + 1}:9: warning: no"
        shown = [f"exercises/01_x/kernel.cuh:{at}:9: warning: m is not used"]
        first, *rest = self.steps(2)
        _, failed, warnings = self.make(first, mine, blank, *rest)
        self.assertEqual((failed, warnings), (None, shown))
        self.assertEqual(self.make("ninja: no work to do.")[2], shown)
        self.assertEqual(self.make(*self.steps(2))[2], [])

    def test_a_look_comes_first_if_there_is_something_to_look_with(self):
        (self.build / "build.ninja").touch()
        error = trials.CompileError(f"{self.exercise.chapter.path}/kernel.cuh:5: error: no")
        look = mock.Mock(side_effect=error)
        bench = mock.patch.object(trials, "Workbench", return_value=mock.Mock(look=look))
        with bench, mock.patch.object(checking, "make") as make:
            failed, _ = checking.build_own(mock.Mock(), self.build, self.exercise)
        make.assert_not_called()
        self.assertEqual(failed.compiler, ["exercises/01_x/kernel.cuh:5: error: no"])
        why = console.LearnError("ninja does not know the target", 1)
        with mock.patch.object(trials, "Workbench", side_effect=why):
            self.assertEqual(self.make(*self.steps(2))[1:], (None, []))

    def test_a_build_that_fails_gives_a_verdict(self):
        error = f"{self.exercise.files[0]}:5:3: error: no"
        _, failed, warnings = self.make(*self.steps(2), error, status=1)
        self.assertEqual(failed.compiler, ["exercises/01_x/kernel.cuh:5:3: error: no"])
        self.assertEqual((failed.exercise, failed.kind, warnings), (1, "compile", []))


class PrintingTest(InAChapter):
    """Kernels that print."""

    TABLE = "01_x: X\na table\n"

    def setUp(self):
        super().setUp()
        self.run_command(start, "01")

    def program(self, script: str) -> Path:
        """A program whose kernels do this: it writes its JSON, then its table."""
        report = json.dumps({"chapter": "01_x", "variants": [{"name": "v"}]})
        path = self.root / "build/bin/ch01_x_exercise"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"""#!/bin/sh
if [ "$1" = --list ]; then printf 't: x\\n  v  V\\n'; exit; fi
words="$*"
while [ $# -gt 1 ] && [ "$1" != --json ]; do shift; done
{script}
printf '{self.TABLE}'
echo '{report}' > "$2"
"""
        )
        path.chmod(0o755)
        return path

    def check(self, script: str, **fields) -> str:
        """What `check` shows of the kernels' output."""
        program = self.program(script)
        attempts = trials.run(program, ["--rows 1", "--rows 2"])
        verdict = checking.Verdict(attempts=attempts, **fields)
        verdict.printed = checking.printed_by(program, verdict)
        out = io.StringIO()
        check.show_evidence(console.Console(out), self.exercise, verdict)
        return out.getvalue()

    def test_kernels_that_print_nothing(self):
        self.assertEqual(self.check(""), "")

    def test_the_first_lines_are_shown_and_the_rest_is_counted(self):
        text = self.check("seq 1 50")
        self.assertTrue(text.startswith("your kernels printed, with --rows 1\n   1\n"))
        end = "   20\n   and 30 more lines; to see more:\n   ./learn try 01 --rows 1\n"
        self.assertTrue(text.endswith(end), text)
        one = self.check("seq 1 21")
        self.assertIn("   20\n   and 1 more line; to see more:\n", one)
        self.assertNotIn("more", self.check("seq 1 20"))

    def test_a_line_without_an_end_is_not_the_table(self):
        text = self.check("printf 'm = 1'")
        self.assertEqual(text, "your kernels printed, with --rows 1\n   m = 1\n")

    def test_blocks_print_in_order(self):
        text = self.check('echo "threads $GPUSIM_THREADS"')
        self.assertIn("   threads 1\n", text)

    def test_the_variant_and_the_input_of_the_finding_come_first(self):
        finding = diagnosis.Finding("numbers", "b", "--rows 2", "y is wrong")
        of_b = 'case "$words" in *"t b"*) echo b;; *) echo all;; esac'
        text = self.check(of_b, finding=finding)
        expected = "your kernels printed, with --rows 2 --variant b\n   b\n"
        self.assertEqual(text, expected)
        not_b = 'case "$words" in *"t b"*) ;; *"rows 2"*) echo all;; esac'
        text = self.check(not_b, finding=finding)
        self.assertEqual(text, "your kernels printed, with --rows 2\n   all\n")

    def test_printing_may_be_why_more_bytes_move(self):
        finding = diagnosis.Finding("traffic", "v", "--rows 1", "is right, but ..")
        text = self.check("echo x", finding=finding)
        self.assertIn("   (what the arguments of printf() read counts as well)\n", text)

    def test_a_pass_shows_warnings_and_what_was_printed(self):
        said = trials.Printed("--rows 1", ["x"], 1)
        verdict = checking.Verdict(passed=True, warnings=["w: y"], printed=said)
        verdict.notes = {2: "f() does too much."}
        out = io.StringIO()
        check.show_pass(console.Console(out), self.exercise, verdict, ["counters"])
        self.assertIn("exercise 2: f() does too much.\n", out.getvalue())
        shown = "the compiler warns:\n   w: y\nyour kernels printed, with --rows 1\n   x\n"
        self.assertTrue(out.getvalue().endswith(f"counters\n{shown}"))

    def test_a_crash_leaves_what_was_printed_before(self):
        text = self.check('echo "here"; echo terminated >&2; kill -SEGV $$')
        self.assertEqual(text, "your kernels printed, with --rows 1\n   here\n")

    def try_(self, script: str, *words: str) -> str:
        """The output of ./learn try."""
        self.program(script)
        build = self.root / "build"
        with (
            mock.patch.object(setup, "prepare", return_value="sim"),
            mock.patch.object(check, "configured", return_value=build),
            mock.patch.object(checking, "build_own", return_value=(None, ["w: x"])),
        ):
            return self.run_command(try_, "01", *words)

    def test_try_says_what_is_wrong_with_the_options_and_nothing_else(self):
        with self.assertRaisesRegex(console.LearnError, "^--row: no such option$"):
            self.try_('echo "error: --row: no such option" >&2; exit 2', "--row", "3")
        self.assertEqual(self.out.getvalue(), "")

    def test_try_says_what_is_blank_also_if_the_program_crashes(self):
        with self.assertRaisesRegex(console.LearnError, "was ended by SIGSEGV"):
            self.try_("kill -SEGV $$", "--rows", "3")
        self.assertIn("exercises 1 and 2 are still blank", self.out.getvalue())

    def test_try_shows_warnings_then_what_kernels_print_then_the_table(self):
        text = self.try_('echo "$words" | cut -d" " -f-6; printf end', "--rows", "3")
        warning = "the compiler warns:\n   w: x\n"
        line = "--variant all --rows 3 --json "
        blank = "note:  exercises 1 and 2 are still blank: what needs them is wrong\n"
        self.assertIn(f"{warning}{blank}{line}", text)
        self.assertTrue(text.endswith(f"\nend\n\n{self.TABLE}"), text)
        self.assertEqual(self.status, 0)
        text = self.try_('echo "$words"', "--variant", "v")
        self.assertIn("\n--variant v --json", text)

    def test_try_wraps_reports_that_are_wider_than_the_terminal(self):
        long = " ".join(["word"] * 40)
        with mock.patch.object(self, "TABLE", f"{self.TABLE}{long}\n"):
            text = self.try_("true", "--variant", "v")
        self.assertNotIn(long, text)
        self.assertIn(long, " ".join(text.split()))
        self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_try_has_an_input_of_its_own_if_none_is_given(self):
        with mock.patch.object(sheet.Sheet, "try_input", "--rows 7"):
            text = self.try_('echo "$words"', "--variant", "v")
            self.assertIn("\n--rows 7 --variant v --json", text)
            text = self.try_('echo "$words"', "--rows=3")
            self.assertIn("\n--variant all --rows=3 --json", text)

    def test_try_shows_more_lines_than_check_and_counts_the_rest(self):
        text = self.try_("seq 1 250")
        self.assertIn(f"\n199\n200\nand 50 more lines\n\n{self.TABLE}", text)
        text = self.try_("printf '%9000s\\n' x")
        self.assertLessEqual(max(map(len, text.splitlines())), try_.SHOWN_COLUMNS)

    def test_try_stops_what_prints_for_ever(self):
        for prints, lines in (("echo x", 501), ("printf x", 16)):
            stopped = f"^stopped after {lines} lines: is there a loop"
            with (
                self.subTest(prints),
                mock.patch.object(try_, "MOST_CHARACTERS", 1000),
                mock.patch.object(phases, "LONGEST_LINE", 64),
                self.assertRaisesRegex(console.LearnError, stopped),
            ):
                self.try_(f"while :; do {prints}; done")

    def test_try_says_in_one_line_what_the_program_refuses(self):
        refuses = "echo \"error: --rows 'x': must be a whole number\" >&2; exit 2"
        with self.assertRaises(console.LearnError) as caught:
            self.try_(refuses, "--rows", "x")
        self.assertEqual(str(caught.exception), "--rows 'x': must be a whole number")
        self.assertEqual(caught.exception.status, 2)
        with self.assertRaisesRegex(console.LearnError, "^no such thing$"):
            self.try_("echo 'error: no such thing' >&2; exit 1")
        with self.assertRaisesRegex(console.LearnError, "exercise was ended by SIGSEGV: it used an address"):
            self.try_("kill -SEGV $$")


class TrialTest(unittest.TestCase):
    """Programs that end without a result."""

    def run_program(self, script: str, time_limit=0.5) -> list[trials.Attempt]:
        with tempfile.TemporaryDirectory() as name:
            program = Path(name) / "program"
            listing = 'if [ "$1" = --list ]; then printf "t: x\\n  a  A\\n  b  B\\n"; exit; fi\n'
            program.write_text(f"#!/bin/sh\n{listing}{script}\n", encoding="utf-8")
            program.chmod(0o755)
            return trials.run(program, ["--rows 1", "--rows 2"], time_limit)

    def test_a_hang_is_stopped_and_its_variant_is_found(self):
        hangs = self.run_program('case "$2" in a) exit 4;; *) sleep 60;; esac')
        self.assertEqual(
            [(a.arguments, a.variant, a.ended == trials.HANGS) for a in hangs],
            [("--rows 1", "a", False), ("--rows 1", "b", True)],
        )

    def test_a_variant_that_all_leaves_out_is_no_failure(self):
        refuses = 'echo "error: --variant a cannot run this: no mask" >&2; exit 2'
        ended = self.run_program(f'case "$2" in a) {refuses};; *) sleep 60;; esac')
        self.assertEqual([(a.variant, a.ended) for a in ended], [("b", trials.HANGS)])

    def test_a_crash_and_a_message(self):
        self.assertEqual({a.ended for a in self.run_program("kill -SEGV $$")}, {"was ended by SIGSEGV"})
        said = self.run_program('echo "error: no memory" >&2; exit 2')[0]
        self.assertEqual(said.ended, "ended with status 2: no memory")

    def test_no_device_is_not_the_kernels_fault(self):
        with self.assertRaisesRegex(console.LearnError, "no GPU") as caught:
            self.run_program('echo "error: no GPU" >&2; exit 3')
        self.assertEqual(caught.exception.status, 3)

    def test_a_program_that_prints_forever_is_stopped(self):
        self.assertEqual(
            {a.ended for a in self.run_program("exec yes", time_limit=30)}, {"was ended by SIGXFSZ"}
        )

    def test_results_are_read(self):
        report = json.dumps({"variants": [{"name": "a"}], "tensors": {}})
        script = f'while [ "$1" != --json ]; do shift; done; echo \'{report}\' > "$2"'
        attempts = self.run_program(script)
        self.assertEqual([a.variant for a in attempts], ["a", "a"])


if __name__ == "__main__":
    unittest.main()
