"""Checks every page of the site in headless Chromium: no errors, nothing missing, readable for everyone.

    python3 -m tests.docs.browse_pages [SITE...] [--shots DIR] [--passed DIR]

SITE: folders with pages, or pages; default build/docs/html. Each page is viewed 1280 pixels wide in light
colours, 390 pixels wide in dark ones, and in print: without the menu, and with nothing cut off. On some
pages, the switch between light and dark is pressed as well. It fails on errors in the console, on anything
fetched from a network, on text that overflows, on headings that skip a level, on pictures without alternative
text, and on a contrast below 4.5 : 1. Skipped (77) if there is no Chromium or no page.

--shots DIR: keeps pictures of the pages that have complaints.
--passed DIR: skips pages that had no complaints before and have not changed since, including all styles,
scripts, pictures and packages. DIR stores which these are.
FA_PAGES=K/N in the environment: only every N-th page, from the K-th on.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests import parts, unchanged

from . import chromium

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77
AUDIT = (Path(__file__).resolve().parent / "audit.js").read_text(encoding="utf-8")
# Formulas are set, and pictures of the menu load, after the page itself.
READY = """new Promise(done => {
    const wait = tries => tries && [...document.images].some(image => !image.complete)
        ? setTimeout(wait, 20, tries - 1) : requestAnimationFrame(() => done(true));
    window.MathJax && MathJax.Hub ? MathJax.Hub.Queue(() => wait(200)) : wait(200);
})"""
VIEWS = ((1280, "light"), (390, "dark"))  # both widths, both schemes
PAPER = 680  # A4 without its margins
PRINTED = """(() => {
    const shown = element => element.checkVisibility() && element.getClientRects().length > 0;
    const name = element => `${element.tagName.toLowerCase()}#${element.id}.${element.className}`;
    const menu = [...document.querySelectorAll("#top, #side-nav, #nav-path, nav, button, .toc")].filter(shown);
    const cut = [...document.querySelectorAll("body *")].filter(element => shown(element) &&
        element.scrollWidth > element.clientWidth + 1 && !["visible", "clip"].includes(getComputedStyle(element).overflowX));
    return [...menu.map(element => `printed: ${name(element)}`), ...cut.map(element => `cut off: ${name(element)}`)];
})()"""  # noqa: E501


def trouble_in(browser: chromium.Browser) -> list[str]:
    """Errors since the page was opened, and requests to a network."""
    local = ("file:", "data:", "about:", "blob:")
    return [f"console: {text}" for text in browser.complaints()] + [
        f"network: {url}" for url in browser.requests() if not url.startswith(local)
    ]


def complaints_about(browser: chromium.Browser, page: Path, shots: Path | None) -> list[str]:
    """What is wrong with a page, without repetitions."""
    found: dict[str, None] = {}
    trouble: dict[str, None] = {}  # before it was opened again
    for number, (width, scheme) in enumerate(VIEWS):
        browser.resize(width)
        browser.media(scheme)
        if number == 0:
            browser.open(page.as_uri())
        elif browser.run("Boolean(window.MathJax)"):  # formulas are broken into lines once
            trouble |= dict.fromkeys(trouble_in(browser))
            browser.open(page.as_uri())
        browser.run(READY)
        new = [f"at {width} pixels: {text}" for text in browser.run(AUDIT)]
        if new and shots:
            shots.mkdir(parents=True, exist_ok=True)
            browser.screenshot(shots / f"{page.stem}_{width}_{scheme}.png")
        found |= dict.fromkeys(new)
    browser.resize(PAPER)
    browser.media("dark", "print")
    printed = [*browser.run(PRINTED), *browser.run(AUDIT)]
    found |= dict.fromkeys(f"on paper: {text}" for text in printed)
    return list(found | trouble | dict.fromkeys(trouble_in(browser)))


def complaints_about_switch(browser: chromium.Browser, page: Path) -> list[str]:
    """What is wrong after the reader switches to the other colour scheme; nothing if there is no switch."""
    switch = "document.querySelector('doxygen-awesome-dark-mode-toggle')"
    found = []
    browser.resize(1280)
    for scheme in ("light", "dark"):
        browser.media(scheme)
        browser.open(page.as_uri())
        browser.run(READY)
        if browser.run(f"Boolean({switch})"):
            browser.run(f"{switch}.click()")
            found += [f"{scheme}, switched: {text}" for text in browser.run(AUDIT)]
            browser.run(f"{switch}.click()")  # switch back: the choice is stored
    return found


def pages_of(places: Iterable[Path]) -> list[Path]:
    """The pages of some folders, and pages that were named. A folder that does not exist has none."""
    pages = []
    for place in places:
        pages += [place] if place.suffix == ".html" else sorted(place.glob("*.html"))
    return pages


REFERENCE = re.compile(r'\b(?:src|href|data)="([^"#?:]+)')


@functools.cache
def _looks(site: Path) -> str:
    """A hash of what all pages of a folder share: styles and scripts, the browser, this test."""
    own = [Path(__file__).with_name(name) for name in ("audit.js", "chromium.py")]
    shared = [p for p in unchanged.files_of(site) if p.suffix in (".css", ".js")]
    return unchanged.digest_of(unchanged.contents([Path(__file__), *own, *shared]))


def state_of(page: Path) -> str:
    """A hash of everything that a page shows."""
    text = page.read_text(encoding="utf-8", errors="replace")
    named = {page.parent / name for name in REFERENCE.findall(text)}
    shown = sorted(p for p in named if p.suffix != ".html" and p.is_file())
    return unchanged.digest_of([_looks(page.parent).encode(), *unchanged.contents([page, *shown])])


class Memory:
    """Remembers which pages had no complaints, and their state then. @param folder  None: remember nothing"""

    def __init__(self, folder: Path | None):
        self._folder = folder if not os.environ.get("FA_TEST_AGAIN") else None

    def knows(self, page: Path) -> bool:
        if not self._folder:
            return False
        kept = self._folder / page.name
        return kept.is_file() and kept.read_text() == f"{page} {state_of(page)}"

    def keep(self, pages: Iterable[Path]) -> None:
        if self._folder:
            self._folder.mkdir(parents=True, exist_ok=True)
            for page in pages:
                (self._folder / page.name).write_text(f"{page} {state_of(page)}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Looks at every page in headless Chromium.")
    parser.add_argument("places", nargs="*", type=Path, default=[ROOT / "build/docs/html"], metavar="SITE")
    parser.add_argument("--shots", type=Path, metavar="DIR")
    parser.add_argument("--passed", type=Path, metavar="DIR")
    args = parser.parse_args(arguments)
    if not chromium.program():
        print("browse_pages: there is no Chromium: skipped")
        return SKIPPED
    pages = [page.resolve() for page in pages_of(args.places)]
    if not pages:
        print("browse_pages: there is no page (./learn docs makes them): skipped")
        return SKIPPED
    pages = parts.chosen(pages, "FA_PAGES")
    start, count = time.monotonic(), 0
    memory = Memory(args.passed)
    whole, pages = len(pages), [page for page in pages if not memory.knows(page)]

    def browse(some: list[Path]) -> list[str]:
        with chromium.Browser() as browser:
            found = {page: complaints_about(browser, page, args.shots) for page in some}
            last = some[-1]
            switched = complaints_about_switch(browser, last)
        if not switched:
            memory.keep(page for page, complaints in found.items() if not complaints)
        found[last] += switched
        return [f"{page.name}: {text}" for page in some for text in found[page]]

    browsers = min(len(pages), os.cpu_count() or 1, 4) or 1
    with ThreadPoolExecutor(browsers) as pool:
        for lines in pool.map(browse, [pages[n::browsers] for n in range(browsers) if pages]):
            count += len(lines)
            print("\n".join(lines))
    if whole > len(pages):
        print(f"{whole - len(pages)} pages have not changed since they passed")
    print(f"{len(pages)} pages, {count} complaints, {time.monotonic() - start:.0f} s")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
