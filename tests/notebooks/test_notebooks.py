"""The notebooks are committed as they should be, and the program that runs them reports failures.

./learn notebooks runs them. These tests need only the standard library; those that need the notebooks'
packages are skipped if no Python has them.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from tools.learn import packages
from tools.learn.commands import notebooks as command

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NUMBER_OF_NOTEBOOKS = 7
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
CHAPTER = re.compile(r"""\b(?:run|is_built)\(\s*"(\d\d)\"""")
VALIDATE = """
import sys, nbformat
for path in sys.argv[1:]:
    nbformat.validate(nbformat.read(path, as_version=nbformat.NO_CONVERT))
"""
EXECUTE = ROOT / "tools" / "notebooks" / "execute.py"

PYTHON = command.find_python()
needs_packages = unittest.skipUnless(PYTHON, "no Python here has the packages")


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def source(cell: dict) -> str:
    return "".join(cell["source"])


def with_results(notebook: dict) -> list[str]:
    """The ids of the cells that contain results."""
    return [
        cell["id"]
        for cell in notebook["cells"]
        if cell.get("outputs") or cell.get("execution_count") is not None
    ]


class NotebooksTest(unittest.TestCase):
    def test_they_are_numbered_from_1(self):
        numbers = [path.name[:3] for path in NOTEBOOKS]
        expected = [f"{n:02}_" for n in range(1, NUMBER_OF_NOTEBOOKS + 1)]
        self.assertEqual(numbers, expected)

    def test_no_results_are_committed(self):
        how = "jupyter nbconvert --clear-output --inplace notebooks/*.ipynb"
        for path in NOTEBOOKS:
            with self.subTest(path.name):
                notebook = read(path)
                found = with_results(notebook)
                self.assertEqual(found, [], f"{path.name} holds results: {how}")
                self.assertNotIn("widgets", notebook["metadata"])

    def test_results_are_found(self):
        clean = {"id": "a", "outputs": [], "execution_count": None}
        shown = {"id": "b", "outputs": [{"name": "stdout"}], "execution_count": None}
        run = {"id": "c", "outputs": [], "execution_count": 1}
        text = {"id": "d"}
        cells = [clean, shown, run, text]
        self.assertEqual(with_results({"cells": cells}), ["b", "c"])

    def test_ids_are_names_that_stay(self):
        for path in NOTEBOOKS:
            with self.subTest(path.name):
                notebook = read(path)
                self.assertEqual((notebook["nbformat"], notebook["nbformat_minor"]), (4, 5))
                ids = [cell["id"] for cell in notebook["cells"]]
                self.assertEqual(len(ids), len(set(ids)))
                for name in ids:
                    self.assertRegex(name, r"^[a-z][a-z0-9-]{1,40}$")

    @needs_packages
    def test_nbformat_finds_them_valid(self):
        done = subprocess.run(
            [PYTHON, "-c", VALIDATE, *NOTEBOOKS], capture_output=True, text=True, check=False
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_distribution_and_pip_install_the_same(self):
        text = command.REQUIREMENTS.read_text(encoding="utf-8")
        names = re.findall(r"^([a-z]+)>=\d", text, re.MULTILINE)
        modules = [package.module for package in packages.NOTEBOOK_PACKAGES]
        self.assertEqual(sorted(names), sorted(modules))
        page = (FOLDER / "README.md").read_text(encoding="utf-8")
        for package in packages.NOTEBOOK_PACKAGES:
            self.assertIn(package.name, page)

    def test_programs_that_they_run_are_in_their_metadata(self):
        for path in NOTEBOOKS:
            with self.subTest(path.name):
                notebook = read(path)
                code = "\n".join(source(cell) for cell in notebook["cells"] if cell["cell_type"] == "code")
                named = set(CHAPTER.findall(code))
                known = set(notebook["metadata"]["chapters"])
                self.assertLessEqual(named, known)
                for number in known:
                    self.assertTrue(list(ROOT.glob(f"chapters/{number}_*")), number)

    def test_links_lead_somewhere(self):
        for path in NOTEBOOKS:
            with self.subTest(path.name):
                notebook = read(path)
                for cell in notebook["cells"]:
                    if cell["cell_type"] == "markdown":
                        for link in LINK.findall(source(cell)):
                            self.assertTrue((path.parent / link).exists(), link)

    def test_they_are_told_in_small_steps(self):
        for path in NOTEBOOKS:
            with self.subTest(path.name):
                notebook = read(path)
                kinds = [cell["cell_type"] for cell in notebook["cells"]]
                self.assertEqual(kinds[0], "markdown")
                code, text = kinds.count("code"), kinds.count("markdown")
                self.assertGreaterEqual(text, code)
                whole = "\n".join(map(source, notebook["cells"]))
                self.assertGreaterEqual(whole.count("**Predict"), 3)
                self.assertIn("assert", whole)
                for cell in notebook["cells"]:
                    if cell["cell_type"] == "markdown":
                        self.assertLessEqual(len(source(cell).splitlines()), 25)


@needs_packages
class ExecuteTest(unittest.TestCase):
    """The output of execute.py for notebooks made here."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="test-notebooks-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name: str, *cells: str) -> Path:
        """A notebook with a heading and cells of code that are called one, two .."""
        heading = {"cell_type": "markdown", "id": "title", "metadata": {}}
        made = [heading | {"source": "[next](02_b.ipynb), [up](../README.md)"}]
        for identity, code in zip(("one", "two", "three"), cells, strict=False):
            made.append(
                {
                    "cell_type": "code",
                    "id": identity,
                    "metadata": {},
                    "source": code,
                    "outputs": [],
                    "execution_count": None,
                }
            )
        path = self.folder / name
        notebook = {"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        path.write_text(json.dumps(notebook), encoding="utf-8")
        return path

    def run_them(self, *paths: Path) -> tuple[int, list[dict]]:
        """Exit status, and the lines about how each ended."""
        done = subprocess.run(
            [PYTHON, EXECUTE, self.folder / "pages", *paths],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=300,
            check=False,
        )
        events = [json.loads(line) for line in done.stdout.splitlines() if line]
        return done.returncode, [event for event in events if "seconds" in event]

    def test_what_failed_is_named_and_the_others_run(self):
        second_notebook = self.write("02_b.ipynb", "print(6 * 7, 'fine')")
        pages = self.folder / "pages"
        pages.mkdir()
        (pages / "01_a.ipynb").write_text("of an earlier run", encoding="utf-8")
        status, events = self.run_them(
            self.write("01_a.ipynb", "x = 3", "assert x == 4"),
            second_notebook,
            self.write("03_c.ipynb", "raise ValueError('two\\nlines')"),
        )
        self.assertEqual(status, 1)
        first, second, third = events
        self.assertEqual((first["cell"], first["id"]), (3, "two"))
        self.assertEqual(first["error"], "AssertionError: assert x == 4")
        self.assertNotIn("error", second)
        self.assertEqual(third["error"], "ValueError: two lines")
        page = (pages / "02_b.html").read_text(encoding="utf-8")
        self.assertIn("42 fine", page)
        self.assertIn('href="02_b.html"', page)
        self.assertIn('href="../../README.md"', page)
        failed = (pages / "01_a.html").read_text(encoding="utf-8")
        self.assertIn("AssertionError", failed)
        kept = sorted(path.name for path in pages.glob("*.ipynb"))
        self.assertEqual(kept, ["02_b.ipynb"])
        copy, made = read(pages / "02_b.ipynb"), read(second_notebook)
        sources = [list(map(source, n["cells"])) for n in (copy, made)]
        self.assertEqual(*sources)
        self.assertEqual(with_results(copy), ["one"])

    def test_a_program_that_is_not_built_is_one_line(self):
        code = f"import os; os.chdir({str(FOLDER)!r})\nimport fa_notebook as fa"
        missing = "fa.ROOT = fa.ROOT / 'chapters' / '..'; fa.preset = lambda: 'none'"
        status, (event,) = self.run_them(self.write("01_a.ipynb", code, missing, "fa.run('01')"))
        self.assertEqual((status, event["id"]), (1, "three"))
        self.assertIn("ch01_safe_softmax is not built", event["error"])
        self.assertIn("`./learn run --preset none 01` builds it", event["error"])


if __name__ == "__main__":
    unittest.main()
