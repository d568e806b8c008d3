"""The English sentences that the source makes below the faces, as patterns: f-strings with their holes emptied."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

# name of a call -> place of its first argument that is a sentence (what comes before says where)
CALLS = {"PlaybookError": 1, "Problem": 2, "problem": 1, "_problem": 0, "_note": 0, "_fault": 0, "_refused": 0,
         "UsageError": 0, "fail": 0, "QueryError": 0, "say": 0, "reason": 0}  # fmt: skip


def template(node: ast.AST) -> str | None:
    """`f"step {k} of {n}"` -> "step {} of {}"; None where it is no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)
    return None


def texts(node: ast.AST) -> Iterator[str]:
    """Every text in an expression, f-strings as a whole."""
    found = template(node)
    if found is not None:
        yield found
        return
    for child in ast.iter_child_nodes(node):
        yield from texts(child)


def said(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of what is handed to the calls that speak."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in CALLS:
                for argument in (*node.args[CALLS[name] :], *(k.value for k in node.keywords)):
                    yield from ((node.lineno, text) for text in texts(argument))
