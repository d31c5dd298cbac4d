"""Hashes of what tests depend on differ if a file, a package or the environment does, and only then."""

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tests import unchanged
from tests.docs import browse_pages


class Hashes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.write("a.txt", "a")
        self.write("below/b.txt", "b")
        patch = mock.patch.object(unchanged, "ROOT", self.root)
        patch.start()
        self.addCleanup(patch.stop)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def digest(self) -> str:
        return unchanged.digest_of([*unchanged.environment(), *unchanged.contents([self.root])])

    def test_any_change_of_the_tree_counts(self):
        seen = {self.digest()}
        for change in (
            lambda: self.write("a.txt", "other"),
            lambda: self.write("below/c.txt", ""),
            lambda: (self.root / "below/c.txt").rename(self.root / "d.txt"),
            lambda: self.write(".ci/run", "true"),
        ):
            change()
            self.assertNotIn(self.digest(), seen)
            seen.add(self.digest())

    def test_what_git_ignores_does_not_count(self):
        before = self.digest()
        for name in ("build/x", "exercises/x", ".git/x", "below/__pycache__/x"):
            self.write(name, "x")
            self.assertEqual(self.digest(), before, name)

    def test_the_environment_counts(self):
        before = self.digest()
        for name in ("FA_WERROR", "GPUSIM_THREADS", "PATH"):
            with mock.patch.dict(os.environ, {name: "/usr/bin:/bin"}):
                self.assertNotEqual(self.digest(), before)
        self.assertEqual(self.digest(), before)

    def test_a_package_counts(self):
        packages = self.root / ".packages"
        with mock.patch.object(unchanged, "PACKAGES", packages):
            before = self.digest()
            packages.write_text("Package: doxygen")
            unchanged.installed.cache_clear()
            self.assertNotEqual(self.digest(), before)


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.site = Path(folder.name).resolve() / "html"
        self.site.mkdir()
        self.page = self.site / "a.html"
        self.page.write_text('<img src="a.png"><a href="b.html">')
        for name in ("a.png", "b.html", "b.png", "style.css", "search/menu.js"):
            (self.site / name).parent.mkdir(exist_ok=True)
            (self.site / name).write_text(name)
        self.memory = browse_pages.Memory(self.site.parent / "passed")

    def knows(self) -> bool:
        browse_pages._looks.cache_clear()
        return self.memory.knows(self.page)

    def test_a_page_and_what_it_shows(self):
        self.assertFalse(self.knows())
        for name in ("a.html", "a.png", "style.css", "search/menu.js"):
            with (self.site / name).open("a") as file:
                file.write(" ")
            self.assertFalse(self.knows(), name)
            self.memory.keep([self.page])
            self.assertTrue(self.knows(), name)
        for name in ("b.html", "b.png"):  # other pages, and what they show
            (self.site / name).write_text("other")
            self.assertTrue(self.knows(), name)

    def test_no_folder_is_no_memory(self):
        memory = browse_pages.Memory(None)
        memory.keep([self.page])
        self.assertFalse(memory.knows(self.page))


if __name__ == "__main__":
    unittest.main()
