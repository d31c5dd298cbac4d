"""Python source in the style of Doxygen's code. Doxygen itself would link names to the headers: print() to
harness/.
"""

from __future__ import annotations

from html import escape

from pygments.lexers import PythonLexer
from pygments.token import Comment, Keyword, Operator, String

CLASSES = {Comment: "comment", Keyword: "keyword", Operator.Word: "keyword", String: "stringliteral"}


def python(source: str) -> str:
    """Source as HTML."""
    html = []
    for token, text in PythonLexer(stripnl=False, ensurenl=False).get_tokens(source):
        name = next((name for kind, name in CLASSES.items() if token in kind), None)
        # Each line is an element of its own, so a token that spans lines is opened again in each.
        for number, part in enumerate(text.split("\n")):
            html.append('</div>\n<div class="line">' if number else "")
            shown = escape(part, quote=False)
            html.append(f'<span class="{name}">{shown}</span>' if name and part else shown)
    lines = f'<div class="line">{"".join(html)}</div>'
    # An empty line would have no height.
    lines = lines.replace('<div class="line"></div>', '<div class="line"> </div>')
    return f'<div class="fragment tex2jax_ignore">{lines}</div>\n'
