"""./learn docs: builds the site from the lessons and the headers."""

from __future__ import annotations

import argparse
import importlib.util
import sys

from .. import packages, phases, project
from ..console import Console, LearnError
from ..packages import Package

HELP = "build the site: the lessons in order, the API, the results"
BUILDER = "tools.docs.website.build"
SITE = project.ROOT / "build" / "docs" / "html" / "index.html"

PACKAGES = (
    Package("doxygen", "makes the site", program="doxygen"),
    Package("doxygen-awesome-css", "style of the site"),
    Package("libjs-mathjax", "formulas, without a network connection"),
    Package("python3-markdown-it", "reads the lessons", module="markdown_it"),
    Package("python3-mdit-py-plugins", "formulas in the lessons", module="mdit_py_plugins"),
    Package("python3-pygments", "syntax colours in the notebooks", module="pygments"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-install", action="store_true", help="do not install missing packages: build with what is there"
    )


def python() -> str:
    """This Python if it has markdown-it, or else the system's, which has the distribution's packages."""
    here = importlib.util.find_spec("markdown_it") is not None
    return sys.executable if here else "/usr/bin/python3"


def main(console: Console, args: argparse.Namespace) -> int:
    """Installs what is missing, builds the site, and prints where it is."""
    if not args.no_install:
        packages.ensure(console, PACKAGES)
    command = [python(), "-m", BUILDER]
    status, phase = phases.execute(console, "docs", command, phases.Phase.activity)
    if status != 0:
        *before, last = phase.output or ["it gave no reason"]
        if before:
            console.say("\n".join(before[-40:]))
        reason = last.removeprefix("docs: ")
        raise LearnError(f"the site was not made: {reason}", 3 if status == 3 else 1)
    console.say(f"site:   {project.shown(SITE)}")
    return 0
