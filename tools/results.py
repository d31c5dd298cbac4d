"""The files of docs/results/: JSON with one row on each line.

    python3 -m tools.results FILE...    rewrites files; - : standard input, to standard output

A row is an object in a list, with all that belongs to it. What has rows in it is opened: each of its members
begins a line. So is an object that is longer than LONGEST.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "results"
LONGEST = 1000  # characters on a line, unless they are a list of numbers or a text


def text_of(value: object) -> str:
    """The text of a file."""
    return _lines(value, "") + "\n"


def _lines(value: object, indent: str) -> str:
    text = json.dumps(value)
    if not _is_opened(value, text):
        return text
    inner = indent + " "
    if isinstance(value, dict):
        members = [f"{json.dumps(name)}: {_lines(member, inner)}" for name, member in value.items()]
    else:
        members = [_lines(member, inner) for member in value]
    joined = f",\n{inner}".join(members)
    return f"{text[0]}\n{inner}{joined}\n{indent}{text[-1]}"


def _is_opened(value: object, text: str) -> bool:
    if isinstance(value, dict):
        return len(text) > LONGEST or any(_has_rows(v) for v in value.values())
    if isinstance(value, list):
        nested = any(isinstance(member, dict | list) for member in value)
        return nested and (len(text) > LONGEST or _has_rows(value))
    return False


def _has_rows(value: object) -> bool:
    """Whether there is a list of several objects in a value."""
    if isinstance(value, dict):
        return any(_has_rows(member) for member in value.values())
    if isinstance(value, list):
        return sum(isinstance(member, dict) for member in value) > 1 or any(
            _has_rows(member) for member in value
        )
    return False


def write(path: Path, value: object) -> None:
    """Writes a file: whole, or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(text_of(value), encoding="utf-8")
    partial.replace(path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        if name == "-":
            sys.stdout.write(text_of(json.load(sys.stdin)))
        else:
            write(Path(name), json.loads(Path(name).read_text(encoding="utf-8")))
