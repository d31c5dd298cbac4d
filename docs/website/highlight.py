"""Python's source as Doxygen shows code. Doxygen itself takes names for those of the headers: print() is in harness/."""

from __future__ import annotations

import io
import keyword
import re
import tokenize
from html import escape
from itertools import accumulate

FLOW = re.compile(
    "assert|async|await|break|continue|elif|else|except|finally|for|if|pass|raise|return|try|while|with|yield"
)
KINDS = {
    "COMMENT": "comment",
    "STRING": "stringliteral",
    # An f-string, from Python 3.12 on.
    "FSTRING_START": "stringliteral",
    "FSTRING_MIDDLE": "stringliteral",
    "FSTRING_END": "stringliteral",
}


def _kind(token: tokenize.TokenInfo) -> str | None:
    """The class that Doxygen gives it."""
    if keyword.iskeyword(token.string):
        return "keywordflow" if FLOW.fullmatch(token.string) else "keyword"
    return KINDS.get(tokenize.tok_name[token.type])


def python(source: str) -> str:
    """Source as HTML. @raises ValueError  it is not Python"""
    lengths = [len(line) + 1 for line in source.split("\n")]
    starts = [0, 0, *accumulate(lengths)]  # by number of the line, from 1
    pieces = []  # text and its class
    done = 0
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (SyntaxError, tokenize.TokenError) as error:
        raise ValueError(f"code that is not Python: {error.args[0]}") from None
    for token in tokens:
        kind = _kind(token)
        if kind:
            start, end = (starts[line] + col for line, col in (token.start, token.end))
            pieces += [(source[done:start], None), (source[start:end], kind)]
            done = end
    pieces.append((source[done:], None))
    html = []
    for text, kind in pieces:
        # Each line is an element of its own: what goes on in the next begins there again.
        for number, part in enumerate(text.split("\n")):
            html.append('</div>\n<div class="line">' if number else "")
            shown = escape(part, quote=False)
            html.append(
                f'<span class="{kind}">{shown}</span>' if kind and part else shown
            )
    lines = f'<div class="line">{"".join(html)}</div>'
    # An empty line would have no height.
    lines = lines.replace('<div class="line"></div>', '<div class="line"> </div>')
    return f'<div class="fragment tex2jax_ignore">{lines}</div>\n'
