"""The terminal: colour where there is one, a line that updates itself, errors of one line."""

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

    @param status  2: what was asked for is unusable; 3: the machine lacks something; 1: a failure
    """

    def __init__(self, message: str, status: int):
        super().__init__(message)
        self.status = status


class Console:
    """Where everything that a learner reads goes."""

    def __init__(self, stream: TextIO = sys.stdout):
        self._stream = stream
        self.live = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._colour = self.live and not os.environ.get("NO_COLOR")
        self._updating = False
        self.width = min(MAX_WIDTH, shutil.get_terminal_size((MAX_WIDTH, 24)).columns)

    def paint(self, text: str, style: str) -> str:
        """The text in a style of _CODES, where colour is wanted."""
        if not self._colour or style not in _CODES:
            return text
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m"

    def say(self, text: str = "", style: str = "plain") -> None:
        """A line, or several."""
        self.clear()
        print(self.paint(text, style), file=self._stream, flush=True)

    def wrap(self, text: str, first: str = "", *, style: str = "plain") -> None:
        """A text of one paragraph, in lines that fit. @param first  what its first line begins with"""
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
        """Replaces the last line that was given to update(); only on a terminal."""
        if self.live:
            self._stream.write(f"\r{text[: self.width - 1]}\x1b[K")
            self._stream.flush()
            self._updating = True

    def clear(self) -> None:
        """Takes the updating line away."""
        if self._updating:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._updating = False
