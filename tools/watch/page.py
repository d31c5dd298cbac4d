"""Writes a recording as one self-contained HTML page."""

from __future__ import annotations

import json
import math
import os
import tempfile
from html import escape
from pathlib import Path

from .packing import pack_events, sources_of
from .recording import NONE, Recording, WatchError, read

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
VIEWS = ("timeline", "source", "instruction", "shared", "tensors", "defects")
# One script, in this order: each file uses only those before it, except inside functions.
SCRIPTS = (
    "recording.js",
    "addresses.js",
    "analysis.js",
    "races.js",
    "replay.js",
    "words.js",
    "cursor.js",
    "drawing.js",
    "summary_view.js",
    "timeline_view.js",
    "source_view.js",
    "instruction_view.js",
    "fragments_view.js",
    "shared_view.js",
    "tensors_view.js",
    "defects_view.js",
    "controls.js",
    "main.js",
)


def _with_shape(array: dict, tensors: dict) -> dict:
    known = tensors.get(array.get("name"))
    if not known or array.get("space") != "global" or array.get("shape"):
        return array
    shape = [int(length) for length in known["shape"]]
    elements = math.prod(shape)
    size = known.get("bytes", array.get("bytes", 0))
    if not elements or size % elements:
        return array
    return {"element_bytes": size // elements} | array | {"shape": shape}


def page_of(
    recording: Recording,
    *,
    title: str,
    sources: Path = ROOT,
    note: str = "",
    start: dict | None = None,
    tensors: dict | None = None,
) -> str:
    """The page. @param note  a sentence above the views, for a page that was prepared to show something
    @param start  what it shows first, unless its address says something else: keys of the address (t: step,
        w: warp, v: view, s: section, d: defect, e: event)
    @param tensors  {name: {shape, bytes}} of arrays in global memory whose shape the recording does not
    have"""
    header = dict(recording.header)
    files, header["sites"] = sources_of(recording.header, sources)
    header["built_in"] = [site.get("built_in", "") for site in recording.header["sites"]]
    header["arrays"] = [_with_shape(array, tensors or {}) for array in header["arrays"]]
    data = {"header": header, "count": recording.count, "files": files, "none": NONE, "start": start or {}}
    template = (FOLDER / "page.html").read_text(encoding="utf-8")
    scripts = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS)
    parts = {
        "TITLE": escape(title),
        "NOTE": f'<p class="note">{escape(note)}</p>' if note else "",
        "STYLE": (FOLDER / "page.css").read_text(encoding="utf-8"),
        "DATA": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        "EVENTS": pack_events(recording),
        "SCRIPT": f'"use strict";\n(() => {{\n{scripts}\n}})();',
    }
    pieces = template.split("@@")
    return "".join(parts[piece] if number % 2 else piece for number, piece in enumerate(pieces))


def write_page(recording: Path, page: Path, *, title: str | None = None, **options: object) -> None:
    """Turns the recording into the page, or raises a WatchError of one line and leaves the page as it was.

    @param options  those of page_of
    """
    read_recording = read(recording)
    if title is None:
        title = str(read_recording.header.get("program") or recording.stem)
    text = page_of(read_recording, title=title, **options)
    name = None
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{page.name}.", dir=page.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, page)
    except OSError as error:
        if name:
            Path(name).unlink(missing_ok=True)
        raise WatchError(f"{page}: {error.strerror or error}") from None
