"""The files of docs/results/: their form, and that something uses each of them."""

import json
import re
import unittest

from tools import results
from tools.docs import measured
from tools.profile import hopper_results

ROOT = results.FOLDER.parents[1]
READERS = ("README.md", "docs/pages", "chapters", "common", "notebooks", "python")
READERS += ("tests", "tools")
SUFFIXES = {".md", ".py", ".cpp", ".hpp", ".cu", ".cuh", ".ipynb"}


def texts(*names: str) -> str:
    """All texts in files and folders."""
    found = []
    for name in names:
        path = ROOT / name
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.suffix in SUFFIXES:
                found.append(file.read_text(encoding="utf-8"))
    return "\n".join(found)


class FilesTest(unittest.TestCase):
    FILES = tuple(sorted(results.FOLDER.iterdir()))

    def test_each_has_the_form_in_which_the_tools_write(self):
        for file in self.FILES:
            text = file.read_text(encoding="utf-8")
            self.assertTrue(
                text == results.text_of(json.loads(text)),
                f"python3 -m tools.results docs/results/{file.name}",
            )

    def test_each_is_quoted_or_read(self):
        readers = texts(*READERS)
        by_pattern = tuple(f"{name}_" for _, name, _ in hopper_results.CHAPTERS.values())
        unused = [file.name for file in self.FILES if file.name not in readers]
        # tests/profile reads those of a chapter by pattern
        unused = [name for name in unused if not name.startswith(by_pattern)]
        self.assertEqual(unused, [])

    def test_of_each_the_command_that_made_it_is_recorded(self):
        commands = texts("docs/README.md")
        names = [file.name for file in self.FILES]
        self.assertEqual([name for name in names if f"`{name}`" not in commands], [])

    def test_all_together_they_stay_readable(self):
        lines = sum(file.read_text().count("\n") for file in self.FILES)
        self.assertLess(lines, 20_000)


def row(problem: int, kernel: str, time: str, value: float, right: bool = True) -> dict:
    return {"seq_q": problem, "kernel": kernel, time: value, "right": right}


def ring_run(options: list[str], **peer: float) -> dict:
    variants = [{"name": "overlapped", "time_ms": {"median": 2.0}}]
    return {"options": options, "result": {"variants": variants}, "peers": {"all-gather, cuDNN": peer}}


MASKS = [{"ms": {"compressed": 2.0, "FlexAttention": 4.0}}, {"ms": {"FlexAttention": 1.0}}]
LARGE = [
    row(1, "12 final", "median_ms", 1.0),
    row(1, "memory-efficient", "median_ms", 3.0),
    row(2, "12 final", "median_ms", 1.0, right=False),
    row(2, "memory-efficient", "median_ms", 9.0),
]
RING = [ring_run([], forward=4.0, both=1.0), ring_run(["--backward"], forward=1.0, both=16.0)]
DECODING = [row(1, "paged", "us", 4.0), row(1, "FlashAttention-3", "us", 5.0)]


class ChaptersTest(unittest.TestCase):
    """The figures of chapters 11 to 14 in the README's table."""

    def test_are_geometric_means_over_the_problems_that_both_kernels_ran(self):
        pairs = {folder: pair for folder, *_, pair in measured.CHAPTERS}
        files = {
            "11_masks": ({"rows": MASKS}, 2.0),
            "12_large_heads": ({"timings": LARGE}, 3.0),
            "13_ring": ({"runs": RING}, 4.0),
            "14_decoding": ({"timings": DECODING}, 1.25),
        }
        for folder, (data, speed) in files.items():
            self.assertAlmostEqual(measured._mean_speed(data, folder, *pairs[folder]), speed, msg=folder)
            others = [other for name, (other, _) in files.items() if name != folder]
            for other in others:  # each file serves one chapter
                self.assertIsNone(measured._mean_speed(other, folder, *pairs[folder]), folder)

    def test_none_is_missing(self):
        table = texts("README.md").split(" chapters -->")[1].split("<!-- end -->")[0]
        rows = [line for line in table.splitlines() if line.startswith("| [")]
        self.assertEqual([row for row in rows if not re.search(r"\| \d\.\d\d x [\w. ]+ \|$", row)], [])


class FormTest(unittest.TestCase):
    def test_a_row_has_a_line_with_all_that_belongs_to_it(self):
        value = {"device": {"name": "H"}, "rows": [{"a": [1, {"b": 2}]}, {"a": []}]}
        text = results.text_of(value)
        self.assertEqual(
            text, '{\n "device": {"name": "H"},\n "rows": [\n  {"a": [1, {"b": 2}]},\n  {"a": []}\n ]\n}\n'
        )
        self.assertEqual(json.loads(text), value)

    def test_a_long_object_is_opened_but_numbers_and_texts_are_not(self):
        numbers, long = list(range(1000)), "x" * 2000
        text = results.text_of({"numbers": numbers, "long": long})
        self.assertEqual(text.count("\n"), 4)
        self.assertEqual(json.loads(text), {"numbers": numbers, "long": long})


if __name__ == "__main__":
    unittest.main()
