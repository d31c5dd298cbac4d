"""The generator of the site and its checks, on small examples."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import textwrap
import unittest
from contextlib import redirect_stdout
from html import unescape
from io import StringIO
from pathlib import Path
from unittest import mock

from tools.docs.website import finish, layer_filter, recordings
from tools.learn import project, watching
from tools.learn.console import LearnError

from . import browse_pages, check_links, chromium

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77

try:
    from tools.docs.website import highlight, pages, search_words
except ImportError:
    # Only the distribution's Python has the distribution's packages.
    system = "/usr/bin/python3"
    if sys.executable != system and os.access(system, os.X_OK):
        os.execv(system, [system, "-m", __spec__.name, *sys.argv[1:]])
    print("markdown-it, mdit-py-plugins or pygments is not installed: skipped")
    sys.exit(SKIPPED)


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="test-website-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return path


class PagesTest(FolderTest):
    LESSON = "chapters/01_a/README.md"

    def test_further_pages_of_a_lesson(self):
        self.write("chapters/01_a/reference.md", "# Reference\n\n## B\n")
        self.write("chapters/01_a/later.md", "# Later\n")
        text = self.page("# 01. A\n\n[b](reference.md#b)\n")
        self.assertIn('href="chapter_01_a_reference.html#chapter_01_a_reference-b"', text)
        self.assertIn("- @subpage chapter_01_a_later\n- @subpage chapter_01_a_reference\n", text)
        names = [page.name for page in self.site.pages]
        self.assertEqual(names[1:], ["chapter_01_a", "chapter_01_a_later", "chapter_01_a_reference"])
        self.assertEqual(self.site.pages[-1].title, "Reference")

    def page(self, text: str) -> str:
        """Doxygen's input for a lesson."""
        self.write("README.md", "# Front\n\n## A `b` c\n")
        self.write(self.LESSON, text)
        site = pages.Site(self.root, pages.find_pages(self.root))
        lesson = next(page for page in site.pages if page.name == "chapter_01_a")
        self.site = site
        return pages.Renderer(site, lesson).render()

    def test_headings_code_formulas_and_tables(self):
        text = self.page("""
            # 01. A

            ## One `x`

            Let $a_b < c_d$ and `__x__`.

            $$\\sum_i x_i$$

            | a | |
            |---|---:|
            | `x` | 2 |

            1. one

               ```cpp
               int a;  // */
               ```

            <!-- code: x -->
            ```text
            a < b @param \\b
            ```
            <!-- end -->
            """)
        self.assertTrue(text.startswith("# 01. A {#chapter_01_a}\n"))
        self.assertIn("@section chapter_01_a-one-x One x\n", text)
        self.assertIn("\\(a_b &lt; c_d\\)", text)
        self.assertIn("<code>__x__</code>", text)
        self.assertIn("\\[\\sum_i x_i\\]", text)
        self.assertIn('<td style="text-align:right">2</td>', text)
        self.assertIn("@code{.cpp}\nint a;  // */\n@endcode", text)
        self.assertIn('<pre class="fragment">a &lt; b @param \\b</pre>', text)
        self.assertNotIn("<!--", text)

    def test_links(self):
        self.write("common/x.cuh", "")
        text = self.page("""
            # 01. A

            [front](../../README.md#a-b-c) [here](#one) [file](../../common/x.cuh) [web](https://example.org/a_b) [folder](../../common)

            ## One
            """)  # noqa: E501
        self.assertIn('href="index.html#index-a-b-c"', text)
        self.assertIn('href="chapter_01_a.html#chapter_01_a-one"', text)
        self.assertIn('href="files/common/x.cuh.txt"', text)
        self.assertIn('href="https://example.org/a_b"', text)
        self.assertIn('href="index.html">folder', text)
        self.assertEqual(list(self.site.files.values()), ["files/common/x.cuh.txt"])
        self.assertIn('<a class="prev" rel="prev" href="index.html">', text)

    def test_links_that_lead_nowhere(self):
        for link in ("x.md", "#two", "../../README.md#z"):
            with self.assertRaisesRegex(pages.PageError, f"01_a/README.md: {link}: there is no such"):
                self.page(f"# 01. A\n\n[a]({link})\n")

    def test_links_to_recorded_kernels(self):
        watching = self.write(
            "docs/pages/watching.md",
            '# Watching\n\n- <a id="view-01_1"></a>[one](#view-01_1)\n- [two](#view-01_2)\n',
        )
        self.page("# 01. A\n\n[one](../../docs/pages/watching.md#view-01_1)\n")

        def of(views: dict[str, Path], path: Path) -> str:
            site = pages.Site(self.root, pages.find_pages(self.root), views)
            return pages.Renderer(site, site.by_path[path]).render()

        lesson, made = self.root / self.LESSON, {"01_1": Path("/x/01_1.html")}
        self.assertIn('<a href="watch/01_1.html">one</a>', of(made, lesson))
        self.assertIn('<a href="watch/01_1.html">one</a>', of(made, watching))
        self.assertIn('<a href="watching.html#view-01_2">two</a>', of(made, watching))
        self.assertNotIn("has no recordings", of(made, watching))
        self.assertIn('<a href="watching.html#view-01_1">one</a>', of({}, lesson))
        self.assertIn("This site has no recordings", of({}, watching))
        self.assertNotIn("has no recordings", of({}, lesson))

    def test_a_drawing_becomes_part_of_the_page(self):
        svg = '<svg width="9" fill="#7d8590" role="img">\n<title>T</title>\n<text>a</text>\n</svg>\n'
        self.write("chapters/01_a/d.svg", svg)
        text = self.page('# 01. A\n\n![What "it" shows](d.svg)\n')
        self.assertIn(
            '<svg width="9" fill="currentColor" role="img" aria-label="What &quot;it&quot; shows">', text
        )
        self.assertNotIn("<title>", text)

    def test_a_page_without_a_title(self):
        with self.assertRaisesRegex(pages.PageError, "does not begin with a heading"):
            self.page("text\n")


class RecordingsTest(FolderTest):
    WATCH = """
        options = "--rows 3"

        [[view]]
        title = "A wait"
        variant = "mine"
        on = "wait"
        show = "timeline"
        see = "It waits."
        """

    def setUp(self):
        super().setUp()
        self.patch(project, "ROOT", self.root)
        self.write("chapters/01_a/README.md", "# 01. A\n")
        self.write("chapters/01_a/watch.toml", self.WATCH)
        self.folder = self.root / "made"

    def patch(self, where: object, name: str, value: object) -> None:
        patched = mock.patch.object(where, name, value)
        patched.start()
        self.addCleanup(patched.stop)

    def build(self) -> None:
        self.write("build/sim/bin/ch01_a", "a program").chmod(0o755)

    def make(self, write_view) -> tuple[list[str], str]:
        """The names of the pages, and what is printed."""
        self.patch(watching, "write_view", write_view)
        with redirect_stdout(StringIO()) as said:
            pages_made = recordings.make(self.folder)
        for name, page in pages_made.items():
            self.assertEqual(page, self.folder / f"{name}.html")
        return list(pages_made), said.getvalue()

    def test_pages_are_made_until_nothing_changes(self):
        made = []

        def write_view(console, view, program, folder, path):
            made.append((view.name, program.name))
            path.write_text("page")

        self.build()
        self.write("made/01_7.html", "of a view that is gone")
        self.assertEqual(self.make(write_view), (["01_1"], "1 recordings of kernels, 0.0 MB\n"))
        self.assertEqual(made, [("01_1", "ch01_a")])
        self.assertFalse((self.folder / "01_7.html").exists())
        self.make(write_view)
        self.assertEqual(len(made), 1)
        for changed in ("build/sim/bin/ch01_a", "chapters/01_a/watch.toml"):
            path = self.root / changed
            path.write_text(path.read_text() + "\n")
            self.make(write_view)
            self.make(write_view)
        self.assertEqual(len(made), 3)

    def test_without_programs(self):
        said = "no recordings of kernels: 01 not built; ./learn run builds them\n"
        self.assertEqual(self.make(None), ([], said))

    def test_programs_that_cannot_record(self):
        self.build()
        old = LearnError("ch01_a is older than the recorder: build it again", 3)
        said = f"no recordings of kernels: {old}\n"
        self.assertEqual(self.make(mock.Mock(side_effect=old)), ([], said))

    def test_a_view_that_cannot_be_made(self):
        self.build()
        wrong = LearnError("--seq-z: unknown", 2)
        with self.assertRaisesRegex(LearnError, "view 01_1: --seq-z: unknown"):
            self.make(mock.Mock(side_effect=wrong))


class NotebooksTest(FolderTest):
    NAME = "01_a.ipynb"
    CODE = "print('<b>')  # \\(x"

    def write_notebook(self, where: str, *cells: dict) -> None:
        title = {"cell_type": "markdown", "source": ["# 1. A\n", "\n", "$x < y$"]}
        notebook = {"cells": [title, *cells]}
        self.write(f"{where}/{self.NAME}", json.dumps(notebook))

    def cell(self, *outputs: dict) -> dict:
        return {"cell_type": "code", "source": self.CODE, "outputs": list(outputs)}

    def rendered(self, *executed: dict) -> str:
        """The page of a notebook, if a copy with these cells was run."""
        self.write("README.md", "# Front\n\n[n](notebooks/01_a.ipynb)\n")
        self.write("notebooks/README.md", "# Notebooks\n\n[1](01_a.ipynb)\n")
        link = {"cell_type": "markdown", "source": "## B\n\n[up](README.md)"}
        self.write_notebook("notebooks", link, self.cell())
        if executed:
            self.write_notebook(pages.notebooks.RESULTS, link, *executed)
        self.site = pages.stage(self.root, self.root / "staged")
        (file,) = self.root.glob("staged/*_notebook_01_a.md")
        return file.read_text(encoding="utf-8")

    def test_without_results(self):
        text = self.rendered()
        self.assertTrue(text.startswith("# Notebook 1. A {#notebook_01_a}\n"))
        self.assertIn("without results: <code>./learn notebooks 01</code>", text)
        self.assertIn('href="files/notebooks/01_a.ipynb">notebooks/01_a.ipynb', text)
        self.assertIn("\\(x &lt; y\\)", text)
        self.assertIn('href="notebooks.html">up', text)
        self.assertIn('rel="prev" href="notebooks.html"', text)
        self.assertNotIn('class="output"', text)
        above = (self.root / "staged/01_notebooks.md").read_text(encoding="utf-8")
        self.assertIn('href="notebook_01_a.html">1</a>', above)
        self.assertIn("- @subpage notebook_01_a\n", above)

    def test_with_results(self):
        stream = {"output_type": "stream", "name": "stdout"}
        show = {"output_type": "display_data"}
        picture = '<img src="data:image/png;base64,UE5H" alt="b">'
        text = self.rendered(
            self.cell(
                {**stream, "text": ["a <\n"]},
                {**stream, "text": "b\n"},
                {**show, "data": {"text/html": [picture], "text/plain": "no"}},
                {**show, "data": {"text/markdown": "|t|\n|-|\n|`u`|"}},
                {**show, "data": {"text/plain": "plain"}},
            )
        )
        self.assertIn("with the results of <code>./learn notebooks 01</code>", text)
        self.assertIn('<div class="output">\n<pre>a &lt;\nb</pre>\n', text)
        shown = '<img src="notebook_01_a_1.png" alt="b">'
        self.assertIn(f'<div class="drawing" tabindex="0">{shown}</div>', text)
        self.assertEqual(self.site.pictures, {"notebook_01_a_1.png": b"PNG"})
        self.assertIn("<td><code>u</code></td>", text)
        self.assertIn("<pre>plain</pre>", text)
        self.assertNotIn("no</pre>", text)

    def test_results_of_another_source_are_not_shown(self):
        shown = {"output_type": "stream", "text": "old"}
        old = {**self.cell(shown), "source": "print(1)"}
        text = self.rendered(old)
        self.assertIn("without results", text)
        self.assertNotIn("old", text)

    def test_a_picture_without_a_text(self):
        data = {"image/png": "abc", "text/plain": "<Figure>"}
        shown = {"output_type": "display_data", "data": data}
        words = "notebooks/01_a.ipynb: the site cannot show image/png"
        with self.assertRaisesRegex(pages.PageError, words):
            self.rendered(self.cell(shown))


class HighlightTest(unittest.TestCase):
    def test_every_character_stays(self):
        source = 'def f(x):\n\n    """a\n    <b>"""\n    return f"{x}{{y}}"  # c'
        html = highlight.python(source)
        lines = re.findall('<div class="line">(.*)</div>', html)
        text = "\n".join(unescape(re.sub("<[^>]*>", "", line)) for line in lines)
        self.assertEqual(text.removesuffix("</div>").replace("\n \n", "\n\n"), source)
        self.assertIn('<span class="keyword">def</span> f(x):</div>', html)
        self.assertIn('<span class="keyword">return</span> ', html)
        self.assertIn('<span class="stringliteral">    &lt;b&gt;"""</span>', html)
        self.assertIn('<span class="comment"># c</span>', html)


class SearchTest(FolderTest):
    def test_words_of_titles_headings_and_the_glossary_are_found(self):
        self.write("README.md", "# Front\n")
        self.write("chapters/01_a/README.md", "# 01. A\n\n## Why three *barriers*\n")
        self.write("docs/pages/glossary.md", "# Glossary\n\n| word | is |\n|---|---|\n| Br, tile | x |\n")
        site = pages.Site(self.root, pages.find_pages(self.root))
        words = search_words.words_of(site)
        url = "../chapter_01_a.html#chapter_01_a-why-three-barriers"
        self.assertEqual(words["barriers"], {url: "01. A: Why three barriers"})
        self.assertEqual(words["br"], {"../glossary.html": "Glossary: Br, tile"})
        self.assertNotIn("why", words)

        self.write("html/search/searchdata.js", 'var x =\n{\n  0: "ab",\n};\n')
        index = self.write("html/search/all_1.js", "var searchData=\n[\n  ['bank_0',['bank']]\n];\n")
        self.assertEqual(search_words.add(self.root / "html", words), 1)
        text = index.read_text(encoding="utf-8")
        self.assertIn("['bank_0',['bank']],\n", text)
        self.assertIn('["barriers_word", ["barriers", ["../chapter_01_a.html#', text)
        self.assertTrue(text.endswith("]\n];\n"))


class FilterTest(unittest.TestCase):
    def test_members_of_namespaces_are_in_the_group_and_lines_stay(self):
        source = "/// @file\n/// A thing.\n#pragma once\nnamespace fa {\nint x;\n}  // namespace fa\n"
        lines = layer_filter.grouped(source, "device").split("\n")
        self.assertEqual(lines[1], "/// A thing. @ingroup device")
        self.assertEqual(lines[3], "namespace fa { /** @addtogroup device */ /** @{ */")
        self.assertEqual(lines[4:6], ["int x;", "/** @} */ }  // namespace fa"])

    def test_a_chapter_keeps_its_own_namespace(self):
        source = "#pragma once\nnamespace fa::ch04 {\n}  // namespace fa::ch04\n"
        lines = layer_filter.grouped(source, "kernels_04").split("\n")
        self.assertTrue(lines[1].startswith("namespace fa::ch04 { /**"))

    def test_a_namespace_without_a_mark_at_its_end_is_left_alone(self):
        source = (
            "#pragma once\nnamespace fa {\nnamespace a = b;\n}\nnamespace fa::a {\n}  // namespace fa::a\n"
        )
        lines = layer_filter.grouped(source, "device").split("\n")
        self.assertEqual(lines[1:4], ["namespace fa {", "namespace a = b;", "}"])
        self.assertEqual(lines[5], "/** @} */ }  // namespace fa::a")

    def test_folders(self):
        for path, group in {
            "common/gpusim/gpusim.hpp": "gpusim",
            "common/gpusim/runtime/block.hpp": "gpusim_runtime",
            "common/device/tile.cuh": "device",
            "chapters/05_loop_swapped_v2/kernel.cuh": "kernels_05",
        }.items():
            self.assertEqual(layer_filter.group_of(ROOT / path), group)


class FinishTest(unittest.TestCase):
    def test_headings(self):
        page = '<div class="title">T</div><div class="contents"><div class="toc"><h3>Table of Contents</h3></div>'  # noqa: E501
        page += "<h1>A</h1><h2>B</h2>"
        text = finish.finished(page)
        self.assertIn('<h1 class="title">T</h1>', text)
        self.assertIn("<h2>On this page</h2>", text)
        self.assertIn("<h2>A</h2><h3>B</h3>", text)

    def test_the_title_of_a_group_in_a_group(self):
        page = '<div class="title">T<div class="ingroups">G</div></div></div>'
        text = finish.finished(page)
        self.assertEqual(text, '<h1 class="title">T</h1><div class="ingroups">G</div></div>')


class LinksTest(FolderTest):
    def complaints(self, body: str) -> list[str]:
        self.write("index.html", f"<html><body id='top'>{body}</body></html>")
        self.write("other.html", "<a id='here'></a>")
        found, _ = check_links.complaints(self.root)
        return found

    def test_right(self):
        self.assertEqual(
            self.complaints("<a href='other.html#here'>a</a><a href='#top'>b</a><a href='https://x.y'>c</a>"),
            [],
        )

    def test_wrong(self):
        for body, words in {
            "<a href='none.html'>a</a>": "there is no none.html",
            "<a href='other.html#there'>a</a>": "there is no such place",
            "<img src='none.png' alt=''>": "there is no none.png",
            "<img src='other.html'>": "no alternative text",
            "<script src='https://x.y/z.js'></script>": "is loaded from a network",
            "<div><h1>a</div></h1>": "</div> ends <h1>",
            # A part of the menu, which is loaded when it is opened.
            "": "other.js: there is no gone.html#x",
        }.items():
            self.write("other.js", "" if body else 'var other = [["A", "gone.html#x"]]')
            found = self.complaints(body)
            self.assertEqual(len(found), 1, body)
            self.assertIn(words, found[0])


class BrowseTest(FolderTest):
    def test_pages(self):
        page = self.write("index.html", "")
        self.assertEqual(browse_pages.pages_of([self.root]), [page])
        self.assertEqual(browse_pages.pages_of([page]), [page])
        self.assertEqual(browse_pages.pages_of([self.root / "not_built"]), [])

    def test_skips_a_site_that_was_not_built(self):
        status = browse_pages.main([str(self.root / "not_built")])
        self.assertEqual(status, SKIPPED)


@unittest.skipUnless(chromium.program(), "there is no Chromium")
class AuditTest(FolderTest):
    def test_sees_what_is_wrong(self):
        page = self.write(
            "bad.html",
            """
            <html><body style="background: white"><h1>A</h1><h3>B</h3>
            <p style="color: #999">pale</p>
            <img src="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/%3E">
            <div style="width: 800px">wide</div>
            <nav>menu</nav><div id="code" style="overflow: auto"><p style="width: 800px">long</p></div>
            <script>console.error("oh"); nothing();</script>
            <script src="none.js"></script>
            </body></html>
            """,
        )
        with chromium.Browser() as browser:
            found = "\n".join(browse_pages.complaints_about(browser, page, None))
        for words in (
            "at 1280 pixels: heading of level 3 after 1: B",
            "at 1280 pixels: no alternative text",
            "at 1280 pixels: no language",
            "at 390 pixels: wider than the window",
            "on paper: wider than the window",
            "on paper: printed: nav#",
            "on paper: cut off: div#code",
            'contrast 2.85, light: p. "pale"',
            "console: oh",
            "nothing is not defined",
            "none.js",
        ):
            self.assertIn(words, found)

    def test_has_nothing_to_say_about_a_good_page(self):
        page = self.write(
            "good.html",
            """
            <html lang="en"><style>
              html { color-scheme: light dark }
              @media print { html { color-scheme: light } div { width: auto !important; overflow: visible !important } }
            </style><body><h1>A</h1><h2>B</h2><p>text</p><div style="overflow-x: auto"><div style="width: 800px">wide</div></div>
            </body></html>
            """,  # noqa: E501
        )
        with chromium.Browser() as browser:
            self.assertEqual(browse_pages.complaints_about(browser, page, None), [])


if __name__ == "__main__":
    unittest.main()
