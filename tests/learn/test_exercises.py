"""Tests of what ./learn knows about exercises, without a compiler: python3 test_exercises.py."""

from __future__ import annotations

import json
import re
import tempfile
import unittest
from pathlib import Path

from tools.learn import (
    checking,
    console,
    diagnosis,
    exercises,
    project,
    regions,
    trials,
)

from . import fakes

KERNEL = """\
int twice(int x) {
  // EXERCISE 1: Make 2 x of x.
  // HINT 1: Add.
  // HINT 1: x + x
  const int y = x + x;
  return y;
  // STUB:   if (x)
  // STUB:     return x;
  // STUB:   return 0;
}
int thrice(int x) {
    // EXERCISE 2: Make 3 x of x.
    return 3 * x;
    // STUB: return x;
}
"""


def parsed(text: str = KERNEL) -> list[regions.Region]:
    return regions.parse(text, "k.cuh")


def copy_of(contents: dict[int, tuple[str, ...]] | None = None) -> str:
    return regions.blank_copy(KERNEL, "k.cuh", "01_x", contents or {})


class ParserTest(unittest.TestCase):
    def test_a_region_has_task_hints_solution_and_stub(self):
        first, second = parsed()
        self.assertEqual((first.number, first.task), (1, "Make 2 x of x."))
        self.assertEqual(first.hints, ("Add.", "x + x"))
        self.assertEqual(first.solution, ("  const int y = x + x;", "  return y;"))
        self.assertEqual(first.stub, ("  if (x)", "    return x;", "  return 0;"))
        self.assertEqual((first.begin, first.end), (1, 9))
        self.assertEqual(second.stub, ("    return x;",))

    def test_a_text_without_marks_has_no_regions(self):
        self.assertEqual(parsed("int f();\n"), [])

    def test_malformed_regions_are_told_with_file_and_line(self):
        task, stub = "// EXERCISE 1: do\n", "// STUB: x;\n"
        cases = {
            "// HINT 1: so\n": "k.cuh:1: HINT 1 before its EXERCISE",
            f"\n{stub}": "k.cuh:2: STUB before its EXERCISE",
            f"{task}x;\n": "k.cuh:1: EXERCISE 1 has no STUB",
            f"{task}{task}": "k.cuh:2: EXERCISE 1 is there twice",
            f"{task}{stub}{task}{stub}": "k.cuh:3: EXERCISE 1 is there twice",
            f"{task}x;\n// EXERCISE 2: do\n{stub}": "k.cuh:1: EXERCISE 1 has no STUB",
            "// EXERCISE 2: do\nx;\n// STUB: x;\n": "k.cuh:1: EXERCISE 2 must be EXERCISE 1",
            f"{task}// HINT 2: so\n{stub}": "k.cuh:2: HINT 2 in EXERCISE 1: must be HINT 1",
            f"// EXERCISE 1: \n{stub}": "k.cuh:1: EXERCISE 1 says no task",
        }
        for text, message in cases.items():
            with self.subTest(text), self.assertRaises(regions.RegionError) as caught:
                parsed(text)
            self.assertEqual(str(caught.exception), message)

    def test_the_chapters_are_well_formed(self):
        for path in sorted(fakes.SOURCE.glob("chapters/*/kernel.cuh")):
            found = regions.parse(path.read_text(encoding="utf-8"), str(path))
            for region in found:
                self.assertTrue(region.solution and region.stub, path)


class CopyTest(unittest.TestCase):
    def test_blanks_stand_between_marks_and_hints_are_left_out(self):
        copy = copy_of()
        self.assertIn("./learn check 01", copy.splitlines()[0])
        self.assertIn(
            "  // EXERCISE 1: Make 2 x of x.\n  if (x)\n    return x;\n  return 0;\n  // END 1\n",
            copy,
        )
        for hidden in ("HINT", "STUB", "x + x", "3 * x"):
            self.assertNotIn(hidden, copy)

    def test_places_are_found_again_after_an_edit(self):
        copy = copy_of({1: ("  // mine", "  return x << 1;")})
        where = regions.places(copy, parsed(), "own")
        self.assertEqual(where[1].lines, ("  // mine", "  return x << 1;"))
        self.assertEqual(where[2].lines, ("    return x;",))

    def test_lost_and_doubled_marks_are_told(self):
        lost = copy_of().replace("  // END 1\n", "")
        with self.assertRaisesRegex(
            regions.RegionError, r"own:\d+: EXERCISE 2 is out of"
        ):
            regions.places(lost, parsed(), "own")
        gone = re.sub(r".*// (EXERCISE|END) 2.*\n", "", copy_of())
        with self.assertRaisesRegex(regions.RegionError, "EXERCISE 2: .* are gone"):
            regions.places(gone, parsed(), "own")

    def test_alone_solves_the_others_and_knows_the_learners_lines(self):
        copy = copy_of({1: ("  return 1;",), 2: ("    int z = x;", "    return z;")})
        alone = regions.alone(copy, parsed(), "own", 2)
        self.assertIn("const int y = x + x;", alone.text)
        self.assertNotIn("return 1;", alone.text)
        line = alone.text.splitlines().index("    return z;")
        self.assertEqual(
            copy.splitlines()[alone.lines[line] - 1], "    return z;", alone
        )
        solved = alone.text.splitlines().index("  return y;")
        self.assertIsNone(alone.lines[solved])

    def test_alone_does_not_depend_on_what_the_others_hold(self):
        one = copy_of({1: ("  return 1;",), 2: ("    return 7;",)})
        other = copy_of({1: ("  int a;", "  int b;"), 2: ("    return 7;",)})
        texts = {regions.alone(copy, parsed(), "own", 2).text for copy in (one, other)}
        self.assertEqual(len(texts), 1)

    def test_a_comment_does_not_fill_a_blank(self):
        self.assertTrue(regions.same_code(("  return x;",), ("return x;  // mine",)))
        self.assertFalse(regions.same_code(("return x;",), ("return y;",)))

    def test_brackets(self):
        self.assertFalse(regions.unbalanced(("if (x) {  // }", '  f(")");', "}")))
        self.assertTrue(regions.unbalanced(("if (x) {",)))
        self.assertTrue(regions.unbalanced(("f(x;",)))


class MutantsTest(unittest.TestCase):
    def test_every_entry_changes_its_solution_and_names_a_kind(self):
        for chapter in project.chapters():
            exercise = exercises.Exercise(chapter)
            if not exercise.exists:
                continue
            for mutant in exercise.mutants():
                solution = exercise.region(mutant.exercise).solution
                self.assertNotEqual(mutant.solution, solution, mutant.name)
                self.assertIn(mutant.caught_by, diagnosis.KINDS, mutant.name)
                self.assertTrue(mutant.says, mutant.name)


# --- diagnosis ------------------------------------------------------------------------------------

SHAPE = (4, 8)  # of y in these attempts


def axis(length: int, count: int, first: int, last: int, step: int = 0) -> dict:
    return {
        "length": length,
        "count": count,
        "first": first,
        "last": last,
        "step": step,
    }


def attempt(arguments: str = "--rows 4 --cols 8", variant: str = "v", **fields):
    """An attempt that passes, but for these fields of its result."""
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
        self.assertIn("off by one factor: 0.5 times", text)
        each = self.said(attempt(**wrong(ALL_ROWS, ALL_COLS, 32, factor_per_line=True)))
        self.assertIn("each row is off by one factor", each)

    def test_nothing_was_written(self):
        text = self.said(attempt(**wrong(ALL_ROWS, ALL_COLS, 32, unwritten=32)))
        self.assertIn("all of them were never written", text)
        one = self.said(attempt(**wrong(ALL_ROWS, ALL_COLS, 2, not_a_number=1)))
        self.assertIn("1 of the wrong ones is NaN or infinite", one)

    def test_what_the_failing_inputs_have(self):
        bad = wrong(ALL_ROWS, ALL_COLS, 32)
        causal = self.said(attempt("--seq-k 9"), attempt("--seq-k 9 --causal", **bad))
        self.assertIn("only with --causal", causal)
        tile = self.said(attempt("--seq-k 64"), attempt("--seq-k 65", **bad))
        self.assertIn("right up to --seq-k 64, wrong from 65 on", tile)
        rows = "--seq-q 9 --seq-k 5 --causal --init outliers"
        several = self.said(
            attempt("--seq-q 3 --seq-k 5 --causal"), attempt(rows, **bad)
        )
        self.assertIn(
            "only with --init outliers, or with --causal and more queries than keys",
            several,
        )
        either = self.said(attempt("--a 1 --b 1"), attempt("--a 2 --b 2", **bad))
        self.assertNotIn("right up to", either)

    def test_a_declared_failure_is_none(self):
        bad = wrong(ALL_ROWS, ALL_COLS)
        bad["check"]["known_failure"] = "exp() overflows"
        self.assertIsNone(diagnosis.explain([attempt(**bad)]))

    def test_a_defect_comes_before_wrong_numbers_and_gives_its_lines(self):
        message = (
            "Race reported .. at kernel.cuh:48 and .. at kernel.cuh:61\n    shared"
        )
        race = {"defects": [{"kind": "race", "message": message, "count": 1}]}
        finding = diagnosis.explain([attempt(**race, **wrong(ALL_ROWS, ALL_COLS))])
        self.assertEqual((finding.kind, finding.lines), ("race", [48, 61]))

    def test_more_bytes_are_wrong_and_fewer_are_not(self):
        def counted(n: int) -> dict:
            predicted = attempt().result["traffic"]["predicted"]
            tensors = {"x": {"read_bytes": n, "write_bytes": 0}}
            return {
                "traffic": {"predicted": predicted, "counted": {"tensors": tensors}}
            }

        self.assertIsNone(diagnosis.explain([attempt(**counted(128))]))
        text = self.said(attempt(**counted(1024)))
        self.assertIn("you read x 8 times, the chapter reads it twice", text)

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
        text = (
            "takes 25 wavefronts where 16 would do: 9 bank conflicts, the chapter has 2"
        )
        self.assertIn(text, finding.details[0])
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
        finding = diagnosis.explain(
            [
                attempt(),
                attempt(variant="w", **bad),
                attempt("--rows 9", **bad),
            ]
        )
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
        text, lines = checking.compiler_errors(gcc, self.OWN)
        self.assertEqual(lines, [41])
        self.assertEqual(text[0], "exercises/01_x/kernel.cuh:41:3: error: expected ';'")
        self.assertEqual(len(text), 3)
        nvcc = [f'{self.OWN}(41): error: identifier "m" is undefined']
        self.assertEqual(checking.compiler_errors(nvcc, self.OWN)[1], [41])

    def test_an_error_elsewhere_is_shown_where_there_is_no_other(self):
        output = ["build/chapter.cu:30:8: error: 'merge' was not declared", "ninja: .."]
        text, lines = checking.compiler_errors(output, self.OWN)
        self.assertEqual((text, lines), (output[:1], []))


class TrialTest(unittest.TestCase):
    """Programs that end in other ways than with a result."""

    def run_program(self, script: str) -> list[trials.Attempt]:
        with tempfile.TemporaryDirectory() as name:
            program = Path(name) / "program"
            listing = 'if [ "$1" = --list ]; then printf "t: x\\n  a  A\\n  b  B\\n"; exit; fi\n'
            program.write_text(f"#!/bin/sh\n{listing}{script}\n", encoding="utf-8")
            program.chmod(0o755)
            return trials.run(program, ["--rows 1", "--rows 2"], time_limit=0.5)

    def test_a_hang_is_stopped_and_its_variant_is_found(self):
        hangs = self.run_program('case "$2" in a) exit 4;; *) sleep 60;; esac')
        self.assertEqual(
            [(a.arguments, a.variant, a.ended == trials.HANGS) for a in hangs],
            [("--rows 1", "a", False), ("--rows 1", "b", True)],
        )

    def test_a_crash_and_a_message(self):
        self.assertEqual(
            {a.ended for a in self.run_program("kill -SEGV $$")},
            {"was ended by SIGSEGV"},
        )
        said = self.run_program('echo "error: no memory" >&2; exit 2')[0]
        self.assertEqual(said.ended, "ended with status 2: no memory")

    def test_no_device_is_not_the_kernels_fault(self):
        with self.assertRaisesRegex(console.LearnError, "no GPU") as caught:
            self.run_program('echo "error: no GPU" >&2; exit 3')
        self.assertEqual(caught.exception.status, 3)

    def test_results_are_read(self):
        report = json.dumps({"variants": [{"name": "a"}], "tensors": {}})
        script = f'while [ "$1" != --json ]; do shift; done; echo \'{report}\' > "$2"'
        attempts = self.run_program(script)
        self.assertEqual([a.variant for a in attempts], ["a", "a"])


if __name__ == "__main__":
    unittest.main()
