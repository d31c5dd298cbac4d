"""Completes Doxygen's HTML: a language, headings in order, no list that repeats the groups, and the script
for formulas only on pages that have some.
"""

from __future__ import annotations

import re
from pathlib import Path

REPEATING = re.compile(
    r"(functions|namespacemembers|globals|hierarchy|classes)[_a-z0-9]*\.html|.*-members\.html"
)
MATHJAX = re.compile(
    r'<script type="text/x-mathjax-config">.*?</script>\s*<script[^>]*MathJax\.js"></script>\s*', re.DOTALL
)
ALL_MEMBERS = re.compile(r'(?:&#124;\s*)?<a href="[^"]*-members\.html">List of all members</a>')
NESTED = re.compile(r'<a href="#nested-classes">Classes</a>(?:\s*&#124;)?\s*')
# The title of a group names the group that contains it.
TITLE = re.compile(r'<div class="title">(.*?)(<div class="ingroups">.*?</div>)?</div>', re.DOTALL)


def _headings(page: str) -> str:
    """Makes the title <h1>, and moves sections, which Doxygen also makes <h1>, one level down."""
    page = TITLE.sub(r'<h1 class="title">\1</h1>\2', page, count=1)
    head, mark, contents = page.partition('<div class="contents">')
    if "<h1>" in contents:
        contents = re.sub(r"<(/?)h([1-4])>", lambda tag: f"<{tag[1]}h{int(tag[2]) + 1}>", contents)
    contents = re.sub(
        r'(<div class="toc">)<h\d>Table of Contents</h\d>', r"\1<h2>On this page</h2>", contents
    )
    return head + mark + contents


def finished(page: str) -> str:
    """The page to publish."""
    page = page.replace("<html xmlns=", '<html lang="en" xmlns=', 1)
    page = ALL_MEMBERS.sub("", page)
    if 'name="nested-classes"' not in page:  # they are shown in their group
        page = NESTED.sub("", page)
    if "\\(" not in page and "\\[" not in page:
        page = MATHJAX.sub("", page)
    return _headings(page)


def finish(html: Path) -> None:
    """Finishes every page of a folder."""
    menu = html / "navtree.js"  # whose picture for the button has only a title
    script = menu.read_text(encoding="utf-8")
    menu.write_text(script.replace("""title="'+SYNC""", """alt="" title="'+SYNC"""), encoding="utf-8")
    for path in sorted(html.glob("*.html")):
        if REPEATING.fullmatch(path.name):
            path.unlink()
        else:
            path.write_text(finished(path.read_text(encoding="utf-8")), encoding="utf-8")
