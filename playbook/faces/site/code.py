"""Commands and settings in colour: comments, strings, words of the language and numbers; the text stays as it is."""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from typing import Any

from markupsafe import Markup, escape

# Kinds of tokens, the narrower ones first, and the class of the page's style that they get.
_CLASSES = (
    ("Comment", "hc"),
    ("Literal.String", "hs"),
    ("Literal.Number", "hn"),
    ("Keyword", "hk"),
    ("Operator.Word", "hk"),
    ("Name.Builtin", "hk"),
)


@lru_cache(maxsize=8)
def _lexer(language: str) -> Any:
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return None


@lru_cache(maxsize=4096)
def coloured(text: str, language: str) -> Markup:
    """The text as HTML. A language that nobody knows is left plain."""
    lexer = _lexer(language)
    if lexer is None:
        return Markup(escape(text))
    found = list(lexer.get_tokens(text))
    if found and not text.endswith("\n"):  # the lexers want a line to end: a comment is none without
        found[-1] = (found[-1][0], found[-1][1][:-1])
    tokens = ((_class_of(str(kind)) if value.strip() else "", value) for kind, value in found if value)
    parts = []
    for css, run in groupby(tokens, key=lambda token: token[0]):
        shown = escape("".join(value for _, value in run))
        parts.append(f'<span class="{css}">{shown}</span>' if css else str(shown))
    return Markup("".join(parts))


def _class_of(kind: str) -> str:
    name = kind.removeprefix("Token.")
    return next((css for prefix, css in _CLASSES if name.startswith(prefix)), "")
