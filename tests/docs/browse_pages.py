"""Every page of the site in headless Chromium: no error, nothing missing, readable by everyone.

    python3 tests/docs/browse_pages.py [SITE...] [--shots DIR]

SITE: folders with pages, or pages; default build/docs/html. Each page is seen 1280 and 390 pixels wide, light and dark. It fails
on an error of the console, on anything fetched from a network, on text that sticks out, on a heading that skips a level,
on a picture without alternative text, and on a contrast below 4.5 : 1. Skipped (77) where there is no Chromium.

--shots DIR: keeps pictures of the pages that have complaints.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import chromium

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77
AUDIT = (Path(__file__).resolve().parent / "audit.js").read_text(encoding="utf-8")
# Formulas are set after loading; the menu comes after that as well.
READY = """new Promise(done => window.MathJax && MathJax.Hub
    ? MathJax.Hub.Queue(() => requestAnimationFrame(() => done(true))) : requestAnimationFrame(() => done(true)))"""
DESKTOP, PHONE = 1280, 390


def complaints_about(browser: chromium.Browser, page: Path, shots: Path | None) -> list[str]:
    """What is wrong with a page, each once."""
    found: dict[str, None] = {}
    browser.resize(DESKTOP)
    browser.media("light")
    browser.open(page.as_uri())
    browser.run(READY)
    for width, scheme in ((DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "dark"), (PHONE, "light")):
        browser.resize(width)
        browser.media(scheme)
        browser.run("new Promise(done => requestAnimationFrame(() => done(true)))")
        new = [f"at {width} pixels: {text}" for text in browser.run(AUDIT)]
        if new and shots:
            shots.mkdir(parents=True, exist_ok=True)
            browser.screenshot(shots / f"{page.stem}_{width}_{scheme}.png")
        found |= dict.fromkeys(new)
    for text in browser.complaints():
        found[f"console: {text}"] = None
    for url in browser.requests():
        if not url.startswith(("file:", "data:", "about:", "blob:")):
            found[f"network: {url}"] = None
    return list(found)


def pages_of(places: Iterable[Path]) -> list[Path]:
    pages = []
    for place in places:
        pages += sorted(place.glob("*.html")) if place.is_dir() else [place]
    return pages


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Looks at every page in headless Chromium.")
    parser.add_argument("places", nargs="*", type=Path, default=[ROOT / "build/docs/html"], metavar="SITE")
    parser.add_argument("--shots", type=Path, metavar="DIR")
    args = parser.parse_args(arguments)
    if not chromium.program():
        print("browse_pages: there is no Chromium: skipped")
        return SKIPPED
    pages = [page.resolve() for page in pages_of(args.places)]
    if not pages:
        print(f"browse_pages: no page in {args.places[0]}: ./learn docs makes them", file=sys.stderr)
        return 1
    start, count = time.monotonic(), 0
    with chromium.Browser() as browser:
        for page in pages:
            for text in complaints_about(browser, page, args.shots):
                count += 1
                print(f"{page.name}: {text}")
    print(f"{len(pages)} pages, {count} complaints, {time.monotonic() - start:.0f} s")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
