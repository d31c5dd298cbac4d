"""Checks the pages of recorded kernels that are part of the site in headless Chromium.

    python3 -m tests.docs.browse_views [SITE] [--passed DIR]

SITE: default build/docs/html. Each page must be ready after two seconds of work, open at the event that its
view names, follow the keys, and look right. They share their program, so each is viewed at one of the widths
and in one of the colour schemes, and the first one in all of them and in print. Skipped (77) if there is no
Chromium, or the site has no such page.

--passed DIR: skips pages that had no complaints before and have not changed since. DIR stores which these
are.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.watch import test_page as watched

from . import browse_pages, chromium

SKIPPED = 77
LARGEST_PAGE = 400_000  # bytes; all of them are a part of the site
LOOKS = ((1920, "light"), (390, "dark"), (768, "light"), (1280, "dark"))
STEP = "document.getElementById('step-text').textContent"
FOCUSED = "Boolean(document.querySelector('section.focused'))"


def busy(browser: chromium.Browser) -> float:
    """Milliseconds that the page's thread has worked. The clock's depend on what else the machine does."""
    metrics = browser.call("Performance.getMetrics")["metrics"]
    return 1000 * next(m["value"] for m in metrics if m["name"] == "TaskDuration")


def complaints_about(browser: chromium.Browser, page: Path, width: int, scheme: str) -> list[str]:
    """What is wrong with a page."""
    found = []
    if (size := page.stat().st_size) > LARGEST_PAGE:
        found.append(f"{size} bytes; must be {LARGEST_PAGE} or fewer")
    browser.resize(width)
    browser.media(scheme)
    browser.open("about:blank")
    before = busy(browser)
    browser.open(page.as_uri())
    browser.run(watched.READY)
    after = busy(browser)
    took = after - before if after > before else after  # another process counts from 0
    if took > watched.LOAD_MS:
        found.append(f"takes {took:.0f} ms to load; must be {watched.LOAD_MS} or fewer")
    if not browser.run(FOCUSED):
        found.append("opens at no view: its watch.toml names an event that is not there")
    found += [f"at {width} pixels: {text}" for text in browser.run(browse_pages.AUDIT)]
    steps = []
    for key in ("Home", "ArrowRight", "End", "ArrowLeft"):
        browser.run(f"{watched.PRESS}({key!r}, false)")
        steps.append(browser.run(STEP))
    if len(set(steps)) < len(steps):
        found.append(f"the keys move the cursor to {', '.join(steps)}")
    return found + browse_pages.trouble_in(browser)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Looks at every recorded kernel.")
    site = browse_pages.ROOT / "build/docs/html"
    parser.add_argument("site", nargs="?", type=Path, default=site, metavar="SITE")
    parser.add_argument("--passed", type=Path, metavar="DIR")
    args = parser.parse_args(arguments)
    every = sorted((args.site / "watch").resolve().glob("*.html"))
    if not chromium.program() or not every:
        print("browse_views: there is no Chromium, or no recording: skipped")
        return SKIPPED
    memory = browse_pages.Memory(args.passed)
    pages = [page for page in every if not memory.knows(page)]
    start = time.monotonic()

    def browse(some: list[Path]) -> list[str]:
        with chromium.Browser() as browser:
            browser.call("Emulation.setFocusEmulationEnabled", enabled=True)
            browser.call("Performance.enable", timeDomain="threadTicks")
            found = {page: complaints_about(browser, page, *LOOKS[every.index(page) % 4]) for page in some}
            if every[0] in found:
                whole = browse_pages.complaints_about(browser, every[0], None)
                found[every[0]] += whole
        memory.keep(page for page, complaints in found.items() if not complaints)
        return [f"{page.name}: {text}" for page in some for text in found[page]]

    with ThreadPoolExecutor(2) as pool:
        halves = [half for half in (pages[::2], pages[1::2]) if half]
        found = [line for lines in pool.map(browse, halves) for line in lines]
    print("\n".join(found))
    took = time.monotonic() - start
    print(f"{len(pages)} of {len(every)} pages, {len(found)} complaints, {took:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
