"""Turns a recording of the simulator into a page: python3 -m tools.watch RECORDING PAGE."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .page import ROOT, VIEWS, write_page
from .recording import WatchError


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.watch", description=__doc__)
    parser.add_argument("recording", type=Path, help="made with GPUSIM_RECORD=FILE")
    parser.add_argument("page", type=Path, help="the HTML file to write")
    parser.add_argument("--title", help="the page's heading")
    parser.add_argument("--note", default="", help="a sentence on what to look at")
    parser.add_argument(
        "--sources", type=Path, default=ROOT, help="the folder that source files are named relative to"
    )
    for key, name, words in (
        ("t", "--start", "the step shown first"),
        ("w", "--warp", "the warp selected first"),
        ("s", "--section", "the block shown first, by its number in the recording"),
    ):
        parser.add_argument(name, dest=key, type=int, help=words)
    parser.add_argument("--view", dest="v", choices=VIEWS, help="the view shown first")
    options = vars(parser.parse_args(arguments))
    recording, page = options.pop("recording"), options.pop("page")
    start = {key: options.pop(key) for key in ("t", "w", "s", "v")}
    options["start"] = {k: value for k, value in start.items() if value is not None}
    try:
        write_page(recording, page, **options)
    except WatchError as error:
        print(f"watch: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
