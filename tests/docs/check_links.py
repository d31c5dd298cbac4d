"""Checks every link and every picture of the site: python3 -m tests.docs.check_links [SITE] (default
build/docs/html).

Elements must be properly nested. A link must lead to a file of the site and to an id in it; a picture must
exist and have an alternative text. Nothing may be loaded from a network; only links that a reader follows may
lead elsewhere. It also checks the links of the menu and of the search.
Skipped (77) if there is no site.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77
LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("object", "data"), ("iframe", "src")}
NESTED = {"div", "table", "details", "nav", "h1", "h2", "h3", "h4", "h5", "h6"}
IN_SEARCH = re.compile(r"""["'](\.\./[\w.-]+\.html(?:#[\w.-]+)?)["']""")
IN_MENU = re.compile(r'"([\w.-]+\.html(?:#[\w.-]+)?)"')


class Page(HTMLParser):
    """The references of a page, and the targets in it."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: list[tuple[int, str]] = []  # line, target
        self.loads: list[tuple[int, str]] = []
        self.pictures = 0
        self.without_text: list[tuple[int, str]] = []
        self.ids: set[str] = set()
        self.open: list[str] = []
        self.crossed: list[tuple[int, str]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        line = self.getpos()[0]
        for name in ("id", "name"):
            if attributes.get(name):
                self.ids.add(attributes[name])
        if tag == "a" and "href" in attributes:
            self.links.append((line, attributes["href"] or ""))
        for name, value in attributes.items():
            if (tag, name) in LOADED and value:
                self.loads.append((line, value))
        is_drawing = tag == "svg" and attributes.get("role") == "img"
        if tag == "img" or is_drawing:
            self.pictures += 1
            text = attributes.get("aria-label") if is_drawing else attributes.get("alt")
            if text is None:
                self.without_text.append((line, attributes.get("src") or "a drawing"))

        if tag in NESTED:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in NESTED:
            return
        last = self.open.pop() if self.open else "nothing"
        if last != tag:
            self.crossed.append((self.getpos()[0], f"</{tag}> ends <{last}>"))


def complaints(site: Path) -> tuple[list[str], dict[str, int]]:
    """What is wrong, and how much was checked."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if "mathjax" not in path.parts}
    found: list[str] = []
    counts = {"pages": 0, "links": 0, "pictures": 0, "elsewhere": 0}

    def follow(where: str, path: Path, target: str) -> None:
        parts = urlsplit(target)
        file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not file.is_file():
            found.append(f"{where}: there is no {target}")
        elif parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].ids:
            found.append(f"{where}: {target}: there is no such place")

    for path, page in pages.items():
        counts["pages"] += 1
        counts["pictures"] += page.pictures
        name = path.relative_to(site)
        for line, target in page.links:
            counts["links"] += 1
            scheme = urlsplit(target).scheme
            if scheme in ("http", "https"):
                counts["elsewhere"] += 1
            elif scheme not in ("javascript", "mailto", "data"):
                follow(f"{name}:{line}", path, target)
        for line, target in page.loads:
            if urlsplit(target).scheme in ("http", "https") or target.startswith("//"):
                found.append(f"{name}:{line}: {target} is loaded from a network")
            elif urlsplit(target).scheme not in ("data", "javascript"):
                follow(f"{name}:{line}", path, target)
        found += [f"{name}:{line}: {what} has no alternative text" for line, what in page.without_text]
        found += [f"{name}:{line}: {what}" for line, what in page.crossed[:1]]
    menus = [*site.glob("navtree*.js"), *site.glob("menudata.js")]
    menus += [path for path in site.glob("*.js") if path.with_suffix(".html") in pages]
    listed = [(script, IN_MENU) for script in menus]
    listed += [(script, IN_SEARCH) for script in site.glob("search/*.js")]
    for script, pattern in listed:
        targets = pattern.findall(script.read_text(encoding="utf-8"))
        for target in dict.fromkeys(targets):
            counts["links"] += 1
            follow(script.name, script, target)
    return found, counts


def main(arguments: list[str]) -> int:
    site = Path(arguments[0] if arguments else ROOT / "build/docs/html").resolve()
    if not (site / "index.html").is_file():
        print("check_links: there is no site (./learn docs makes it): skipped")
        return SKIPPED
    found, counts = complaints(site)
    print("\n".join(found + [", ".join(f"{number} {what}" for what, number in counts.items())]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
