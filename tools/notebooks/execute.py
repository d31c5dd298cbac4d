"""execute.py FOLDER NOTEBOOK.ipynb..: runs notebooks from scratch and writes FOLDER/NAME.html and
FOLDER/NAME.ipynb.

It reports every event to its caller as a line of JSON:

    {"notebook": "02_tiling_in_numpy", "cell": 5, "of": 14, "id": "test"}                    a cell begins
    {"notebook": "02_tiling_in_numpy", "seconds": 4.2, "html": "..."}                        the notebook is
    done {"notebook": "02_tiling_in_numpy", "seconds": 4.2, "html": "...", "cell": 5, "id": "test", "error":
    "..."}

If a notebook fails, its page shows the cells up to the error, and the others still run. The .ipynb, which the
site shows, is written only if all cells succeed.
Exit status: 1 a notebook failed, 4 this Python lacks a package.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

LACKS_A_PACKAGE = 4
LONGEST_CELL = 600  # seconds
LONGEST_ERROR = 300  # characters

try:
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellControlSignal, DeadKernelError
    from nbconvert import HTMLExporter
except ImportError as missing:
    print(f"{sys.executable}: {missing}", file=sys.stderr)
    sys.exit(LACKS_A_PACKAGE)


def tell(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


class Client(NotebookClient):
    """Reports each cell before it runs."""

    at = 0, ""  # number of the cell, from 1, and its id
    name = ""

    async def async_execute_cell(self, cell, cell_index, **options):
        self.at = cell_index + 1, cell.get("id", "")
        if cell.cell_type == "code":
            tell(notebook=self.name, cell=self.at[0], of=len(self.nb.cells), id=self.at[1])
        return await super().async_execute_cell(cell, cell_index, **options)


def own_kernel(folder: Path) -> str:
    """Sets up a kernel that is this very Python, whatever kernels are installed. Returns its name."""
    name = "this-python"
    spec = folder / "kernels" / name
    spec.mkdir(parents=True)
    words = [sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher"]
    kernel = {"argv": [*words, "-f", "{connection_file}"], "display_name": name, "language": "python"}
    (spec / "kernel.json").write_text(json.dumps(kernel), encoding="utf-8")
    os.environ["JUPYTER_PATH"] = str(folder)
    os.environ["IPYTHONDIR"] = str(folder / "ipython")  # ignore the user's startup files
    return name


def error_of(notebook: nbformat.NotebookNode) -> str | None:
    """The error of the failed cell in one line: with its message, or else with the line that raised it."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                what = " ".join(output.evalue.split())
                if not what:
                    plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(output.traceback))
                    arrow = re.search(r"^-+> *\d+ (.*)$", plain, re.MULTILINE)
                    what = arrow[1].strip() if arrow else ""
                return f"{output.ename}: {what}"[:LONGEST_ERROR]
    return None


def follow_links(notebook: nbformat.NotebookNode) -> None:
    """Adapts the links for a page in build/notebooks: to the pages next to it, and to the tree two folders
    up.
    """
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            text = re.sub(r"\]\((\d\d_\w+)\.ipynb", r"](\1.html", cell.source)
            cell.source = text.replace("](../", "](../../")


def execute(path: Path, folder: Path, kernel: str) -> bool:
    """Runs a notebook. Returns whether it finished."""
    started = time.monotonic()
    notebook = nbformat.read(path, as_version=4)
    client = Client(
        notebook,
        timeout=LONGEST_CELL,
        kernel_name=kernel,
        allow_errors=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.name = path.stem
    error = {}
    try:
        client.execute()
    except (CellControlSignal, DeadKernelError) as failure:
        what = error_of(notebook) or str(failure).strip().splitlines()[0]
        error = {"cell": client.at[0], "id": client.at[1], "error": what}
    seconds = time.monotonic() - started

    copy = folder / path.name
    copy.unlink(missing_ok=True)
    if not error:
        nbformat.write(notebook, copy)
    follow_links(notebook)
    text, _ = HTMLExporter().from_notebook_node(notebook, resources={"metadata": {"name": path.stem}})
    page = folder / f"{path.stem}.html"
    page.write_text(text, encoding="utf-8")
    tell(notebook=path.stem, seconds=round(seconds, 1), html=str(page), **error)
    return not error


def main(words: list[str]) -> int:
    folder, *notebooks = map(Path, words)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="learn-notebooks-") as name:
        kernel = own_kernel(Path(name))
        well = [execute(path, folder, kernel) for path in notebooks]
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
