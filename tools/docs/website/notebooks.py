"""The notebooks as tokens of Markdown: code becomes a fence, and the output of a cell comes between
output_open and output_close.

`./learn notebooks` leaves copies with results in build/notebooks. A copy is used if it has the same cells as
the notebook.
"""

from __future__ import annotations

import json
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

RESULTS = "build/notebooks"


class NotebookError(Exception):
    """A notebook cannot be shown."""


def _text(lines: str | list[str]) -> str:
    """A text, which notebooks store in one piece or line by line."""
    return lines if isinstance(lines, str) else "".join(lines)


def _cells(path: Path) -> list[dict]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (ValueError, KeyError) as error:
        raise NotebookError(f"it is not a notebook: {error}") from error


def _sources(cells: list[dict]) -> list[tuple[str, str]]:
    return [(cell["cell_type"], _text(cell["source"])) for cell in cells]


def _shown(output: dict, parser: MarkdownIt) -> list[Token]:
    """An output: text, a picture or another piece of HTML, or Markdown."""
    if output["output_type"] == "stream":
        return [Token("output_text", "", 0, content=_text(output["text"]))]
    data = output.get("data", {})
    if "text/html" in data:
        return [Token("output_html", "", 0, content=_text(data["text/html"]))]
    if "text/markdown" in data:
        return parser.parse(_text(data["text/markdown"]))
    if set(data) == {"text/plain"}:
        return [Token("output_text", "", 0, content=_text(data["text/plain"]))]
    what = ", ".join(data) or output["output_type"]
    raise NotebookError(f"the site cannot show {what}: fa.show() shows pictures")


def _one_piece(outputs: list[dict]) -> list[dict]:
    """Joins text that was printed in several pieces."""
    pieces: list[dict] = []
    for output in outputs:
        last = pieces[-1] if pieces else {}
        if output["output_type"] == last.get("output_type") == "stream":
            text = _text(last["text"]) + _text(output["text"])
            pieces[-1] = {**last, "text": text}
        else:
            pieces.append(output)
    return pieces


def tokens(root: Path, path: Path, parser: MarkdownIt) -> tuple[list[Token], bool]:
    """The tokens of a notebook, and whether they include results."""
    cells = _cells(path)
    copy = root / RESULTS / path.name
    executed = _cells(copy) if copy.is_file() else []
    has_results = _sources(executed) == _sources(cells)
    found: list[Token] = []
    for cell in executed if has_results else cells:
        source = _text(cell["source"])
        if cell["cell_type"] == "markdown":
            found += parser.parse(source)
            continue
        found.append(Token("fence", "code", 0, info="python", content=source))
        outputs = _one_piece(cell["outputs"]) if has_results else []
        if outputs:
            found.append(Token("output_open", "div", 1))
            for output in outputs:
                found += _shown(output, parser)
            found.append(Token("output_close", "div", -1))
    return found, has_results
