"""The Markdown files and the notebooks as pages of Doxygen.

markdown-it reads GitHub's Markdown. Doxygen receives only what its own Markdown reader leaves alone: headings
and code as commands, everything else as HTML. Relative links lead to pages of the site, or to copies of the
files that they name.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

from . import highlight, notebooks

# The pages other than chapters: file and name, in the order of the menu. The front page is README.md.
PAGES_BEFORE = {"README.md": "index"}
PAGES_AFTER = {
    "docs/pages/using.md": "using",
    "docs/pages/watching.md": "watching",
    "docs/pages/debugging.md": "debugging",
    "docs/pages/numerics.md": "numerics",
    "docs/pages/results.md": "results",
    "docs/pages/training.md": "training",
    "docs/pages/triton.md": "triton",
    "python/README.md": "pytorch",
    "common/gpusim/README.md": "simulator",
    "data/README.md": "data",
    "notebooks/README.md": "notebooks",
    "docs/pages/glossary.md": "glossary",
    "docs/pages/references.md": "references",
    "CONTRIBUTING.md": "contributing",
    "docs/pages/journey.md": "journey",
    "docs/authoring.md": "authoring",
    "docs/README.md": "maintaining",
}
GREY = "#7d8590"  # of the text in drawings: tools/docs/drawings.py
INSIDE = re.compile(r'src="data:image/(png|jpeg);base64,([^"]*)"')  # a picture
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:")


VIEW = "view-"  # begins the anchor of a recorded kernel on the page that lists them


class PageError(Exception):
    """A page cannot be made; the text begins with the file."""


@dataclass
class Page:
    """A Markdown file of the tree, or a notebook."""

    path: Path
    name: str  # of the HTML file, without .html
    under: str = ""  # name of its parent page in the menu
    has_results: bool = False  # of a notebook
    title: str = ""
    anchors: dict[str, str] = field(default_factory=dict)  # GitHub's anchor: the site's anchor
    tokens: list[Token] = field(default_factory=list)


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _parser() -> MarkdownIt:
    # dollarmath: $a$ and $$a$$, as on GitHub.
    return MarkdownIt("commonmark").enable("table").use(dollarmath_plugin)


def _plain(inline: Token) -> str:
    """A heading without its markup."""
    return "".join(child.content for child in inline.children or ())


def _read(root: Path, page: Page) -> None:
    if page.path.suffix == ".ipynb":
        try:
            read = notebooks.tokens(root, page.path, _parser())
        except notebooks.NotebookError as error:
            raise PageError(f"{page.path.relative_to(root)}: {error}") from None
        page.tokens, page.has_results = read
    else:
        page.tokens = _parser().parse(page.path.read_text(encoding="utf-8"))
    for at, token in enumerate(page.tokens):
        if token.type != "heading_open":
            continue
        text = _plain(page.tokens[at + 1])
        if token.tag == "h1":
            page.title = page.title or text
            continue
        base = anchor = slug(text)
        count = 0
        while anchor in page.anchors:
            count += 1
            anchor = f"{base}-{count}"
        page.anchors[anchor] = f"{page.name}-{anchor}"
        token.meta["anchor"] = page.anchors[anchor]


def find_pages(root: Path) -> list[Page]:
    """The pages of the tree, in order, without those whose file does not exist yet."""
    lessons = sorted(root.glob("chapters/[0-9][0-9]_*/README.md"))
    names = {root / file: name for file, name in PAGES_BEFORE.items()}
    further = {}  # a lesson's other pages, and the lesson
    for path in lessons:
        names[path] = f"chapter_{path.parent.name}"
        for other in sorted(path.parent.glob("*.md")):
            if other != path:
                names[other] = f"{names[path]}_{other.stem}"
                further[other] = names[path]
    names |= {root / file: name for file, name in PAGES_AFTER.items()}
    pages = []
    for path, name in names.items():
        if not path.is_file():
            continue
        pages.append(Page(path, name, further.get(path, "")))
        if name == "notebooks":
            files = sorted(path.parent.glob("[0-9][0-9]_*.ipynb"))
            pages += [Page(file, f"notebook_{file.stem}", name) for file in files]
    for page in pages:
        _read(root, page)
        if not page.title:
            raise PageError(f"{page.path.relative_to(root)}: does not begin with a heading")
        if page.path.suffix == ".ipynb":
            page.title = f"Notebook {page.title}"
    return pages


class Site:
    """All pages, and the files that they refer to.

    @param views  the pages of recorded kernels that were made, by name: "07_1"
    """

    def __init__(self, root: Path, pages: list[Page], views: Mapping[str, Path] = {}):
        self.root, self.pages = root, pages
        self.views = {f"{VIEW}{name}": f"watch/{path.name}" for name, path in views.items()}
        self.by_path = {page.path.resolve(): page for page in pages}
        self.files: dict[Path, str] = {}  # files to copy, and their places in the site
        self.pictures: dict[str, bytes] = {}  # of notebooks, by name

    def url(self, page: Page, target: str) -> str:
        """The target in the site of a link on a page."""
        if ELSEWHERE.match(target):
            return target
        file, _, anchor = target.partition("#")
        path = (page.path.parent / file).resolve() if file else page.path.resolve()
        if path.is_dir() and path.is_relative_to(self.root):
            # A folder is represented by its README, or else by that of the folder above.
            folders = (path, *path.parents)
            path = next(f for f in folders if (f / "README.md").is_file()) / "README.md"
        where = page.path.relative_to(self.root)
        other = self.by_path.get(path)
        if other:
            if anchor.startswith(VIEW):
                return self.views.get(anchor, f"{other.name}.html#{anchor}")
            if anchor and anchor not in other.anchors:
                raise PageError(f"{where}: {target}: there is no such heading")
            return f"{other.name}.html" + (f"#{other.anchors[anchor]}" if anchor else "")
        if not path.is_file():
            raise PageError(f"{where}: {target}: there is no such file")
        return self.copy(path)

    def copy(self, path: Path) -> str:
        """Plans to copy a file into the site. Sources are shown as text; pictures go next to the pages."""
        shown = path.relative_to(self.root)
        if path.suffix in {".svg", ".png"}:
            name = f"{shown.parent.name}_{path.name}"
        else:
            name = f"files/{shown}" + ("" if path.suffix in {".json", ".ipynb"} else ".txt")
        self.files[path] = name
        return name


class Renderer:
    """Converts a page to Doxygen's input."""

    def __init__(self, site: Site, page: Page):
        self.site, self.page = site, page
        self.parts: list[str] = []  # commands of Doxygen, and pieces of HTML
        self.html: list[str] = []

    def _flush(self) -> None:
        html = "".join(self.html).strip("\n")
        if html.strip():
            self.parts.append(f"@htmlonly[block]\n{html}\n@endhtmlonly\n")
        self.html = []

    def _command(self, text: str) -> None:
        self._flush()
        self.parts.append(text)

    def inline(self, token: Token) -> str:
        """Text with its markup."""
        out = []
        for t in token.children or ():
            match t.type:
                case "text":
                    out.append(escape(t.content, quote=False))
                case "code_inline":
                    out.append(f"<code>{escape(t.content, quote=False)}</code>")
                case "math_inline":
                    out.append(f"\\({escape(t.content, quote=False)}\\)")
                case "math_inline_double":
                    out.append(f"\\[{escape(t.content, quote=False)}\\]")
                case "softbreak":
                    out.append("\n")
                case "hardbreak":
                    out.append("<br>\n")
                case "html_inline":
                    out.append(t.content)
                case "link_open":
                    url = self.site.url(self.page, t.attrs["href"])
                    out.append(f'<a href="{escape(url)}">')
                case "image":
                    out.append(self._image(t))
                case _ if t.tag:
                    out.append(f"<{t.tag}>" if t.nesting >= 0 else f"</{t.tag}>")
                case _:
                    raise PageError(f"{self.page.path}: {t.type} is not known")
        return "".join(out)

    def _image(self, token: Token) -> str:
        source = token.attrs["src"]
        alt = escape("".join(child.content for child in token.children or ()))
        path = self.page.path.parent / source
        if path.suffix == ".svg" and path.is_file():
            # Inline, so that its text has the colour of the page's text.
            svg = path.read_text(encoding="utf-8").replace(f'fill="{GREY}"', 'fill="currentColor"', 1)
            svg = re.sub(r"\n\s*<title>.*?</title>", "", svg, count=1)
            picture = svg.replace(' role="img"', f' role="img" aria-label="{alt}"', 1).strip()
        else:
            picture = f'<img src="{escape(self.site.url(self.page, source))}" alt="{alt}">'
        return f'<span class="drawing" tabindex="0">{picture}</span>'

    def _picture(self, inside: re.Match) -> str:
        """Moves a picture into a file: Doxygen cannot read hundreds of kilobytes of text in one piece."""
        name = f"{self.page.name}_{len(self.site.pictures) + 1}.{inside[1]}"
        self.site.pictures[name] = base64.b64decode(inside[2])
        return f'src="{name}"'

    def _fence(self, token: Token) -> None:
        language = token.info.strip()
        text = token.content.rstrip("\n")
        if language == "cpp":
            self._command(f"@code{{.cpp}}\n{text}\n@endcode\n")
        elif language == "python":
            self.html.append(highlight.python(text))
        else:
            self.html.append(f'<pre class="fragment">{escape(text, quote=False)}</pre>\n')

    def _heading(self, at: int) -> None:
        token, text = self.page.tokens[at], _plain(self.page.tokens[at + 1])
        level = int(token.tag[1])
        if level > 3:
            raise PageError(f"{self.page.path}: {text}: headings below ### are not supported")
        anchor = token.meta["anchor"]
        if self.page.name == "index":  # whose sections would appear in the menu between the chapters
            self.html.append(f'<h{level} id="{anchor}">{self.inline(self.page.tokens[at + 1])}</h{level}>\n')
        else:
            command = {2: "@section", 3: "@subsection"}[level]
            self._command(f"{command} {anchor} {text}\n")

    def _block(self, at: int) -> int:
        """Writes a token. Returns how many of the following tokens it included."""
        token = self.page.tokens[at]
        match token.type:
            case "heading_open":
                if token.tag != "h1":
                    self._heading(at)
                return 2
            case "inline":
                self.html.append(self.inline(token))
            case "fence" | "code_block":
                self._fence(token)
            case "math_block":
                self.html.append(f"<p>\\[{escape(token.content, quote=False)}\\]</p>\n")
            case "html_block":
                self.html.append(re.sub(r"<!--.*?-->\n?", "", token.content, flags=re.DOTALL))
            case "hr":
                self.html.append("<hr>\n")
            case "paragraph_open" | "paragraph_close" if token.hidden:
                pass
            case "table_open":
                self.html.append('<div class="scroll"><table class="lesson">\n')
            case "table_close":
                self.html.append("</table></div>\n")
            case "output_open":
                self.html.append('<div class="output">\n')
            case "output_text":
                text = escape(token.content.rstrip("\n"), quote=False)
                self.html.append(f"<pre>{text}</pre>\n")
            case "output_html":
                html = INSIDE.sub(self._picture, token.content)
                self.html.append(f'<div class="drawing" tabindex="0">{html}</div>\n')
            case _ if token.tag:
                slash = "/" if token.nesting < 0 else ""
                style = token.attrs.get("style", "") if token.attrs else ""
                attributes = f' style="{style}"' if style else ""
                start = token.attrs.get("start") if token.attrs else None
                attributes += f' start="{start}"' if start else ""
                self.html.append(f"<{slash}{token.tag}{attributes}>" + ("\n" if slash else ""))
            case _:
                raise PageError(f"{self.page.path}: {token.type} is not known")
        return 0

    def _about_notebook(self) -> str:
        """A line with the notebook's file and how to run it."""
        number = self.page.path.name[:2]
        file = self.page.path.relative_to(self.site.root)
        link = f'<a href="{self.site.copy(self.page.path)}">{file}</a>'
        command = f"<code>./learn notebooks {number}</code>"
        if self.page.has_results:
            return f'<p class="about">{link}, with the results of {command}</p>\n'
        again = "<code>./learn docs</code>"
        return f'<p class="about">{link}, without results: {command} and then {again} add them</p>\n'

    def _about_views(self) -> str:
        """A line that says why the links lead to no page, if they do not."""
        if self.site.views:
            return ""
        return (
            '<p class="about">This site has no recordings, because the kernels were not built for the simulator: '  # noqa: E501
            "<code>./learn run</code> and then <code>./learn docs</code> add them</p>\n"
        )

    def _menu(self) -> None:
        """Puts pages below this one in the menu; the text has its own links to them."""
        below = [page.name for page in self.site.pages if page.under == self.page.name]
        if below:
            self.html.append("<div hidden>\n")
            self._command("".join(f"- @subpage {name}\n" for name in below))
            self.html.append("</div>\n")

    def _around(self) -> str:
        """Links to the pages before and after."""
        pages = self.site.pages
        at = pages.index(self.page)
        links = []
        if at > 0:
            links.append(("prev", "Previous", pages[at - 1]))
        if at + 1 < len(pages):
            links.append(("next", "Next", pages[at + 1]))
        items = "".join(
            f'<a class="{rel}" rel="{rel}" href="{page.name}.html"><span>{word}</span> {escape(page.title)}</a>'  # noqa: E501
            for rel, word, page in links
        )
        return f'<nav class="around" aria-label="Previous and next page">{items}</nav>\n'

    def render(self) -> str:
        """The page."""
        name, title = self.page.name, self.page.title
        self._command(f"@mainpage {title}\n" if name == "index" else f"# {title} {{#{name}}}\n")
        if name != "index" and len(self.page.anchors) > 2:
            self._command("@tableofcontents{HTML:2}\n")
        if self.page.path.suffix == ".ipynb":
            self.html.append(self._about_notebook())
        if name == "watching":
            self.html.append(self._about_views())
        at = 0
        while at < len(self.page.tokens):
            at += 1 + self._block(at)
        self._menu()
        self.html.append(self._around())
        self._flush()
        return "\n".join(self.parts)


def stage(root: Path, target: Path, views: Mapping[str, Path] = {}) -> Site:
    """Writes Doxygen's input into a folder. Returns the site; its files still have to be copied.

    @param views  pages of recorded kernels, by name
    """
    site = Site(root, find_pages(root), views)
    target.mkdir(parents=True, exist_ok=True)
    for old in target.iterdir():
        old.unlink()
    for number, page in enumerate(site.pages):
        text = Renderer(site, page).render()
        (target / f"{number:02}_{page.name}.md").write_text(text, encoding="utf-8")
    kernels = []
    for folder in sorted(root.glob("chapters/[0-9][0-9]_*")):
        lesson = site.by_path.get((folder / "README.md").resolve())
        about = f"Their lesson: @ref {lesson.name}" if lesson else ""
        digits = folder.name[:2]
        kernels.append(
            f"@defgroup kernels_{digits} Kernels of chapter {digits}\n@ingroup kernels\n\n{about}\n"
        )
    groups = "/**\n" + "\n".join(kernels) + "*/\n"
    (target / "kernels.dox").write_text(groups, encoding="utf-8")
    return site
