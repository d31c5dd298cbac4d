"""The prepared views of the chapters' kernels as pages: what ./learn watch NN --view K makes, for all of
them.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ...learn import machine, project, views, watching
from ...learn.console import Console, LearnError

__all__ = ["LearnError", "make"]

PRESET = "sim"
# What a page depends on besides the program and the chapter's folder.
MAKERS = ("tools/watch", "tools/learn")


def _digest(chapter: project.Chapter) -> str:
    """A hash of everything that the pages of a chapter are made from."""
    files = [project.executable(chapter, PRESET)]
    for folder in (chapter.path, *(project.ROOT / name for name in MAKERS)):
        files += sorted(path for path in folder.rglob("*.*") if path.is_file())
    total = hashlib.sha256()
    for path in files:
        if "__pycache__" not in path.parts:
            total.update(f"{path} {path.stat().st_size}:".encode())
            total.update(path.read_bytes())
    return total.hexdigest()


def _write(view: views.View, page: Path, digest: str) -> None:
    """Writes the page of a view, unless the one that is there is still right."""
    mark = page.with_suffix(".made")
    if page.is_file() and mark.is_file() and mark.read_text() == digest:
        return
    program = project.executable(view.chapter, PRESET)
    with tempfile.TemporaryDirectory(prefix="learn-watch-") as name:
        watching.write_view(Console(io.StringIO()), view, program, Path(name), page)
    mark.write_text(digest)


def make(folder: Path) -> dict[str, Path]:
    """Makes the pages of all chapters, and removes old ones. Returns them by the view's name.

    None, if not all of the chapters have been built for the simulator: this is said in a line.
    """
    chapters = project.chapters()
    # What needs several processes is left out where there is no MPI.
    chapters = [c for c in chapters if project.built(c, PRESET) or not c.has_ranks]
    missing = [c.number for c in chapters if not project.built(c, PRESET)]
    if missing:
        print(f"no recordings of kernels: {', '.join(missing)} not built; ./learn run builds them")
        return {}
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {view.name: view for chapter in chapters for view in views.of(chapter).views}
    pages = {name: folder / f"{name}.html" for name in wanted}
    for old in folder.iterdir():
        if old.stem not in pages:
            old.unlink()
    digests = {chapter: _digest(chapter) for chapter in chapters}
    with ThreadPoolExecutor(machine.cores()) as pool:
        for name, done in [
            (name, pool.submit(_write, view, pages[name], digests[view.chapter]))
            for name, view in wanted.items()
        ]:
            try:
                done.result()
            except LearnError as error:
                if error.status == 3:
                    print(f"no recordings of kernels: {error}")
                    return {}
                raise LearnError(f"view {name}: {error}", error.status) from error
    size = sum(os.path.getsize(page) for page in pages.values())
    print(f"{len(pages)} recordings of kernels, {size / 1e6:.1f} MB")
    return pages
