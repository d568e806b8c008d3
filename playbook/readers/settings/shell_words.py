"""A shell script -> commands as words with their lines, variables put in where the script itself sets them.

Nothing is run. What only a running shell would know (`$1`, `$(date)`, a variable of the environment) stays as `$`, and
so does a variable that the branches of an `if` set differently: a value that may be another one is none.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Word = tuple[str, int]  # text, line

_ASSIGN = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_SUM = re.compile(r"\$\(\(([^()]*(?:\([^()]*\)[^()]*)*)\)\)")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?:\[[@*]\])?(?::?[-=]([^{}]*))?\}|([A-Za-z_]\w*))")
_RAW = "\0"  # stands for a `$` between single quotes
_OPENS = frozenset(("if", "case", "for", "while", "until"))
_CLOSES = frozenset(("fi", "esac", "done"))
_BEFORE = frozenset(("export", "local", "declare", "readonly", "then", "else", "do"))
_LONG = 5_000  # words of one variable
_WORK = 1_000_000
_MOST = 50_000  # words of one script
_UNKNOWN = "$"
_SIGNS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


@dataclass(slots=True)
class Script:
    """Commands in order, and the documents that the script writes (`cat <<EOF > file`): (text, line of its first)."""

    commands: list[list[Word]] = field(default_factory=list)
    documents: list[tuple[str, int]] = field(default_factory=list)
    variables: dict[str, list[Word]] = field(default_factory=dict)
    work: int = 0  # words that variables were given: a variable that doubles itself must end


def parse(text: str) -> Script:
    """All commands of a script with their variables put in."""
    script = Script()
    depth = 0
    for words in _commands(text, script):
        first = words[0][0]
        while words and words[0][0] in (*_BEFORE, *_OPENS, *_CLOSES, "elif", "{", "}"):
            depth += (words[0][0] in _OPENS) - (words[0][0] in _CLOSES)
            words = words[1:]
        if script.work > _WORK:
            break
        if not words or first in ("if", "elif", "case", "for", "while", "until"):
            continue
        while words and (hit := _ASSIGN.fullmatch(words[0][0])):
            _assign(script, hit, words, depth > 0)
            words = words[1:]
        if words:
            script.commands.append(expand(words, script.variables))
    return script


def _assign(script: Script, hit: re.Match[str], words: list[Word], unsure: bool) -> None:
    name, line = hit[1], words[0][1]
    value = expand(list(_split(hit[3], line)), script.variables)
    old = script.variables.get(name)
    if hit[2]:
        value = (old or []) + value
    if unsure and old is not None and value != old:
        value = old if {text for text, _ in old} <= {text for text, _ in value} else [(_UNKNOWN, line)]
    script.variables[name] = value[:_LONG]
    script.work += len(value)


def expand(words: list[Word], variables: dict[str, list[Word]]) -> list[Word]:
    """Words with variables put in; a word that is one variable becomes as many words as the variable has."""
    found: list[Word] = []
    for text, line in words:
        if len(found) > _MOST:
            break
        whole = _VARIABLE.fullmatch(text)
        name = (whole[1] or whole[3]) if whole else ""
        if whole and name in variables:
            found += variables[name]
            continue
        filled = text
        for _ in range(4):
            before = filled
            filled = _SUM.sub(lambda hit: _sum(hit, variables), filled)
            filled = _VARIABLE.sub(lambda hit: _value(hit, variables), filled)
            if filled == before or len(filled) > 100_000:
                break
        if filled != text or " --" in filled:
            found += _split(filled, line) if " --" in filled or "\n" in filled else [(filled, line)]
        else:
            found.append((text, line))
    return found


def _value(hit: re.Match[str], variables: dict[str, list[Word]]) -> str:
    name = hit[1] or hit[3]
    if name in variables:
        return " ".join(text for text, _ in variables[name])
    return hit[2].strip("\"'") if hit[2] else _RAW + name  # the environment may say otherwise, the script says this


def _sum(hit: re.Match[str], variables: dict[str, list[Word]]) -> str:
    """`$((A * B))` where all parts are known whole numbers."""
    shown = re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", lambda name: " ".join(t for t, _ in variables.get(name[1], [])), hit[1])
    try:
        return str(_number(ast.parse(shown.strip(), mode="eval").body))
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return _RAW


def _number(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 10**15:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        return _SIGNS[type(node.op)](_number(node.left), _number(node.right))
    raise ValueError("no sum of whole numbers")


def known(text: str) -> str | None:
    """A word as the script will see it; None where only the running shell knows it."""
    return None if "$" in text or "`" in text or _RAW in text else text


def _split(text: str, line: int) -> Iterator[Word]:
    """The words of a value that was one quoted text, each with its own line."""
    for hit in re.finditer(r"'[^']*'|[^\s'\\]+|\\.|'", text):
        if not hit[0].startswith("\\"):
            yield hit[0].strip("'"), line + text.count("\n", 0, hit.start())


def _commands(text: str, script: Script) -> Iterator[list[Word]]:
    """The commands of a script: words without quotes; an array `X=(a b)` is the one word `X=a b`."""
    lines = text.replace("\r\n", "\n").split("\n")
    body, held = "", []
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        body += line + "\n"
        hit = _HEREDOC.search(line.split("#")[0])
        if hit is None:
            continue
        start, kept = number, []
        while number < len(lines) and lines[number].strip() != hit[2]:
            kept.append(lines[number])
            number += 1
        number += 1
        document = "\n".join(kept)
        body += "\n" * (len(kept) + 1)
        reader = re.match(r"\s*(?:IFS=\S*\s+)?read\s.*?([A-Za-z_]\w*)\s*<<", line)
        if reader:
            held.append((reader[1], document, start + 1))
        else:
            held.append(("", document, start + 1))
    for name, document, start in held:
        if name:
            script.variables[name] = list(_split(document.replace("\\\n", " \n"), start))
        else:
            script.documents.append((document, start))
    yield from _scan(body)


def _scan(text: str) -> Iterator[list[Word]]:
    words: list[Word] = []
    word: list[str] = []
    begun, line, at, count = 0, 1, 0, 0
    array = False
    size = len(text)

    def close() -> None:
        if word:
            words.append(("".join(word), begun))
            word.clear()

    while at < size and count < _MOST:
        sign = text[at]
        at += 1
        if not word:
            begun = line
        if sign == "\n":
            line += 1
        if sign == "\\" and at < size:
            if text[at] == "\n":
                line += 1
                if word and array:
                    word.append(" \n")
                elif word:
                    close()
            else:
                word.append(text[at])
            at += 1
        elif sign in "'\"":
            end = at
            while end < size and text[end] != sign:
                end += 2 if text[end] == "\\" and sign == '"' else 1
            inner = text[at:end]
            line += inner.count("\n")
            at = end + 1
            word.append(
                inner.replace("$", _RAW)
                if sign == "'"
                else inner.replace("\\\n", " \n").replace('\\"', '"').replace("\\$", _RAW)
            )
            if not inner:
                word.append("")
        elif sign == "#" and (not word or (array and word[-1].endswith((" ", "\n", "=")))):
            end = text.find("\n", at)
            at = size if end < 0 else end
        elif sign == "(" and word and word[-1].endswith("=") and not array:
            array = True
        elif sign == ")" and array:
            array = False
            close()
        elif array:
            word.append(sign)
        elif sign == "$" and text[at : at + 1] in "({":
            end = _matching(text, at)
            line += text.count("\n", at, end)
            word.append(sign + text[at:end])
            at = end
        elif sign in " \t":
            close()
        elif sign in "\n;&|":
            close()
            if words:
                count += len(words)
                yield words
                words = []
        else:
            word.append(sign)
    close()
    if words:
        yield words


def _matching(text: str, at: int) -> int:
    """The place after the bracket that closes the one at `at`."""
    opens, closes = text[at], {"(": ")", "{": "}"}[text[at]]
    depth = 0
    for place in range(at, min(len(text), at + 5_000)):
        depth += (text[place] == opens) - (text[place] == closes)
        if depth == 0:
            return place + 1
    return at + 1
