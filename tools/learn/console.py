"""The terminal: colour where it has any, a line that updates itself, one-line errors."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from typing import TextIO

MAX_WIDTH = 100
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


class LearnError(Exception):
    """Ends the command with one line on stderr.

    @param status  1: something failed; 2: the request is unusable; 3: the machine lacks something
    """

    def __init__(self, message: str, status: int):
        super().__init__(message)
        self.status = status


class Console:
    """All output that a learner reads."""

    def __init__(self, stream: TextIO = sys.stdout):
        self._stream = stream
        self.live = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._colour = self.live and not os.environ.get("NO_COLOR")
        self._updating = False
        self.width = min(MAX_WIDTH, shutil.get_terminal_size((MAX_WIDTH, 24)).columns)

    def paint(self, text: str, style: str) -> str:
        """The text in a style of _CODES, if colour is wanted."""
        if not self._colour or style not in _CODES:
            return text
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m"

    def say(self, text: str = "", style: str = "plain") -> None:
        """Prints one line or several."""
        self.clear()
        print(self.paint(text, style), file=self._stream, flush=True)

    def wrap(self, text: str, first: str = "", *, style: str = "plain") -> None:
        """Prints a paragraph in lines that fit. @param first  the beginning of its first line"""
        indent = " " * len(first)
        self.say(
            textwrap.fill(
                text,
                self.width,
                initial_indent=first,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            ),
            style,
        )

    def update(self, text: str) -> None:
        """Replaces the line that the last update() printed. Does nothing if the output is not a terminal."""
        if self.live:
            self._stream.write(f"\r{text[: self.width - 1]}\x1b[K")
            self._stream.flush()
            self._updating = True

    def step(self, text: str) -> None:
        """Says what takes a while: for as long as it does on a terminal, in a line elsewhere."""
        self.update(text) if self.live else self.say(text)

    def clear(self) -> None:
        """Removes the updating line."""
        if self._updating:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._updating = False
