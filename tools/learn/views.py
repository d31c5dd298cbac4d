"""A chapter's watch.toml: what `./learn watch` shows of it. docs/authoring.md explains the fields."""

from __future__ import annotations

import shlex
import tomllib
from dataclasses import dataclass, field

from ..watch.page import VIEWS
from . import moments, sheet
from .console import LearnError
from .project import Chapter, shown
from .regions import RegionError

NAME = "watch.toml"

OF_FILE = {"options": sheet.STRING, "another?": sheet.STRING, "view": sheet.TABLES}
OF_VIEW = {
    "title": sheet.STRING,
    "variant": sheet.STRING,
    "options?": sheet.STRING,
    "block?": sheet.STRING,
    "kernel?": sheet.STRING,
    "on": sheet.STRING,
    "line?": sheet.STRING,
    "of?": sheet.STRING,
    "warp?": sheet.NUMBER,
    "nth?": sheet.NUMBER,
    "show": sheet.STRING,
    "see": sheet.STRING,
}
SEARCHED = ("on", "line", "of", "warp", "nth")


@dataclass(frozen=True)
class View:
    """A prepared view: a run of a kernel, the moment at which its page opens, and what to see there."""

    chapter: Chapter
    number: int  # in the chapter, from 1
    title: str
    variant: str
    options: str  # of the program
    search: moments.Search  # the moment
    show: str  # one of VIEWS
    see: str
    block: str | None = None
    kernel: str = ""  # the only one that is recorded; "": all that the variant launches

    @property
    def name(self) -> str:
        """ "07_2" """
        return f"{self.chapter.number}_{self.number}"

    @property
    def command(self) -> str:
        return f"./learn watch {self.chapter.number} --view {self.number}"


@dataclass(frozen=True)
class Sheet:
    """The contents of a chapter's watch.toml; without that file, no view."""

    options: list[str] = field(default_factory=list)  # of the program, unless others are given
    another: str = ""  # input that the lesson proposes
    views: list[View] = field(default_factory=list)


def of(chapter: Chapter) -> Sheet:
    """LearnError if the file makes no sense."""
    path = chapter.path / NAME
    if not path.is_file():
        return Sheet()
    where = shown(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        sheet.check(table, OF_FILE, where)
        views = [
            _view(chapter, table["options"], entry, number, f"{where}: view {number}")
            for number, entry in enumerate(table["view"], 1)
        ]
        return Sheet(shlex.split(table["options"]), table.get("another", ""), views)
    except RegionError:
        raise
    except (OSError, ValueError) as error:
        raise LearnError(f"{where}: {error}", 2) from error


def _view(chapter: Chapter, options: str, entry: dict, number: int, where: str) -> View:
    sheet.check(entry, OF_VIEW, where)
    if entry["on"] not in moments.SEARCHES:
        known = ", ".join(moments.SEARCHES)
        raise RegionError(f"{where}: `on` must be one of {known}")
    if entry["show"] not in VIEWS:
        raise RegionError(f"{where}: `show` must be one of {', '.join(VIEWS)}")
    search = {key: entry[key] for key in SEARCHED if key in entry}
    rest = {key: value for key, value in entry.items() if key not in SEARCHED}
    return View(chapter, number, search=moments.Search(**search), **{"options": options, **rest})


def select(chapter: Chapter, number: int) -> View:
    """A view of a chapter, by its number. LearnError if there is none."""
    views = of(chapter).views
    if not 0 < number <= len(views):
        last = len(views)
        which = f"must be 1 to {last}" if last else "it has none"
        raise LearnError(f"there is no view {number} of chapter {chapter.number}: {which}", 2)
    return views[number - 1]
