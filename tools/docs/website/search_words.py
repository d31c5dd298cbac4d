"""Adds the words of titles, headings and the glossary to Doxygen's search, which knows only names and the
first words of titles.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from .pages import Page, Site

WORD = re.compile(r"[A-Za-z][\w.]*\w")
COMMON = re.compile(r"a|an|and|at|by|for|from|how|in|is|it|its|of|on|or|that|the|to|what|where|who|why|with")


def _targets(page: Page) -> list[tuple[str, str, str]]:
    """Searchable text, address, and the text that shows the target."""
    url = f"../{page.name}.html"
    found = [(page.title, url, page.title)]
    for at, token in enumerate(page.tokens):
        text = (
            "".join(child.content for child in page.tokens[at + 1].children or ())
            if token.nesting == 1
            else ""
        )
        if token.type == "heading_open" and "anchor" in token.meta:
            found.append((text, f"{url}#{token.meta['anchor']}", f"{page.title}: {text}"))
        if page.name == "glossary" and token.type == "tr_open" and at + 2 < len(page.tokens):
            term = page.tokens[at + 2]  # tr, td, its text
            words = "".join(child.content for child in term.children or ())
            if page.tokens[at + 1].type == "td_open":
                found.append((words, url, f"{page.title}: {words}"))
    return found


def words_of(site: Site) -> dict[str, dict[str, str]]:
    """For each word, the addresses and the texts that show them."""
    words: dict[str, dict[str, str]] = {}
    for page in site.pages:
        for text, url, shown in _targets(page):
            for word in WORD.findall(text):
                if not COMMON.fullmatch(word.lower()):
                    words.setdefault(word.lower(), {}).setdefault(url, shown)
    return words


def add(html: Path, words: dict[str, dict[str, str]]) -> int:
    """Adds the words to the index of a site. Returns the number of letters in the index that have words."""
    search = html / "search"
    index = (search / "searchdata.js").read_text(encoding="utf-8")
    letters = re.search(r'0: "([^"]*)"', index)[1]
    changed = 0
    for number, letter in enumerate(letters):
        entries = []
        for word, targets in sorted(words.items()):
            if word[0] == letter:
                shown = [[url, 1, text] for url, text in targets.items()]
                key = re.sub(r"\W", "_", word)
                entries.append(json.dumps([f"{key}_word", [word, *shown]]))
        path = search / f"all_{number:x}.js"
        if not entries or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8").rstrip().removesuffix("];").rstrip()
        path.write_text(text + ",\n  " + ",\n  ".join(entries) + "\n];\n", encoding="utf-8")
        changed += 1
    return changed
