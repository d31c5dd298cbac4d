"""The files of docs/results/: their form, and that something uses each of them."""

import json
import unittest

from tools import results
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
