"""Builds the site: python3 -m tools.docs.website.build [--out DIR] (default build/docs). It is
DIR/html/index.html.

Needs doxygen, doxygen-awesome-css, libjs-mathjax, python3-markdown-it, python3-mdit-py-plugins and
python3-pygments of Debian 12, Ubuntu 24.04 or newer. Exit status: 1 a page or a comment is wrong, 3 something
is not installed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SHARE = Path("/usr/share/doxygen-awesome-css")
MATHJAX = Path("/usr/share/javascript/mathjax")
# The part of its 54 MB that turns TeX into SVG.
MATHJAX_PARTS = (
    *("MathJax.js", "extensions/tex2jax.js", "extensions/AssistiveMML.js", "extensions/MathEvents.js"),
    *("extensions/MathMenu.js", "extensions/MathZoom.js", "extensions/toMathML.js", "extensions/TeX"),
    *("extensions/a11y", "jax/element", "jax/input/TeX", "jax/output/SVG/jax.js", "jax/output/SVG/config.js"),
    *("jax/output/SVG/autoload", "jax/output/SVG/fonts/TeX"),
)


class SiteError(Exception):
    """Ends the build with one line. @param status  the program's exit status"""

    def __init__(self, message: str, status: int = 1):
        super().__init__(message)
        self.status = status


def require_tools() -> None:
    missing = [] if shutil.which("doxygen") else ["doxygen"]
    for path, package in ((SHARE, "doxygen-awesome-css"), (MATHJAX, "libjs-mathjax")):
        missing += [] if path.is_dir() else [package]
    try:
        import markdown_it  # noqa: F401
        import mdit_py_plugins  # noqa: F401
        import pygments  # noqa: F401
    except ImportError:
        missing += ["python3-markdown-it", "python3-mdit-py-plugins", "python3-pygments"]
    if missing:
        raise SiteError(f"not installed: {', '.join(missing)}: ./learn docs installs them", 3)


UNUSED_LISTS = ("classindex", "hierarchy", "classmembers", "namespacemembers", "globals", "concepts")


def write_layout(out: Path) -> None:
    """Writes Doxygen's own layout, without the lists that repeat what the groups show."""
    subprocess.run(["doxygen", "-l", "layout.xml"], cwd=out, check=True)
    path = out / "layout.xml"
    layout = path.read_text(encoding="utf-8")
    for name in UNUSED_LISTS:
        layout = re.sub(rf'(<tab type="{name}" visible=)"[^"]*"', r'\1"no"', layout)
    groups = r'(<tab type="(?:modules|topics)" visible="[^"]*" title=)""'
    path.write_text(re.sub(groups, r'\1"API by layer"', layout), encoding="utf-8")


def write_header(out: Path) -> None:
    """Writes Doxygen's own header, with a switch between light and dark."""
    names = ["header.html", "footer.html", "default.css"]
    subprocess.run(["doxygen", "-w", "html", *names], cwd=out, check=True)
    path = out / "header.html"
    header = path.read_text(encoding="utf-8")
    script = (
        '<script type="text/javascript" src="$relpath^doxygen-awesome-darkmode-toggle.js"></script>\n'
        '<script type="text/javascript">DoxygenAwesomeDarkModeToggle.init()</script>\n</head>'
    )
    path.write_text(header.replace("</head>", script, 1), encoding="utf-8")


def configuration() -> str:
    """docs/Doxyfile, plus options that only newer versions of Doxygen know."""
    words = "@INCLUDE = docs/Doxyfile\n"
    known = subprocess.run(["doxygen", "-s", "-g", "-"], capture_output=True, text=True, check=True)
    if "\nHTML_COLORSTYLE " in known.stdout:
        # Since 1.9.5, it has a dark style of its own, which ignores the switch.
        words += "HTML_COLORSTYLE = LIGHT\n"
    return words


def run_doxygen(out: Path) -> None:
    settings = {"FA_DOCS": str(out), "FA_SHARE": str(SHARE), "FA_PYTHON": sys.executable}
    done = subprocess.run(
        ["doxygen", "-"],
        input=configuration(),
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    if done.returncode != 0 or "warning:" in said or "error:" in said:
        sys.stderr.write(said)
        raise SiteError("Doxygen has warnings: see above")


def copy_mathjax(html: Path) -> None:
    for part in MATHJAX_PARTS:
        source, target = MATHJAX / part, html / "mathjax" / part
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def build(out: Path) -> Path:
    """Makes the site. Returns its first page."""
    require_tools()
    from . import finish, pages, recordings, search_words

    html = out / "html"
    out.mkdir(parents=True, exist_ok=True)
    try:
        views = recordings.make(out / "watch")
        site = pages.stage(ROOT, out / "pages", views)
    except (pages.PageError, recordings.LearnError) as error:
        raise SiteError(str(error)) from None
    shutil.rmtree(html, ignore_errors=True)
    write_layout(out)
    write_header(out)
    run_doxygen(out)
    copy_mathjax(html)
    for source, name in site.files.items():
        target = html / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    for name, picture in site.pictures.items():
        (html / name).write_bytes(picture)
    for path in views.values():
        (html / "watch").mkdir(exist_ok=True)
        shutil.copy(path, html / "watch")
    finish.finish(html)
    search_words.add(html, search_words.words_of(site))
    return html / "index.html"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Builds the site.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "docs", metavar="DIR")
    args = parser.parse_args(arguments)
    try:
        index = build(args.out.resolve())
    except SiteError as error:
        print(f"docs: {error}", file=sys.stderr)
        return error.status
    print(index)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
