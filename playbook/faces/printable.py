"""A page to print, as HTML or as Markdown, from one list of blocks: no script, no outside file, nothing that moves.

The ending of the file decides: `.md` is Markdown, anything else HTML. The same blocks give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TypeAlias

from playbook.errors import PlaybookError, only_file, reason


@dataclass(frozen=True, slots=True)
class Heading:
    text: str
    level: int = 2
    new_page: bool = False


@dataclass(frozen=True, slots=True)
class Para:
    text: str
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Items:
    """A list; with `ticks` each item has a box: True ticked, False empty."""

    items: tuple[str, ...]
    numbered: bool = False
    ticks: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: head, rows of texts."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Image:
    """An SVG drawing, written into the page itself."""

    svg: str
    alt: str


@dataclass(frozen=True, slots=True)
class Lines:
    """Empty lines to write on."""

    count: int


_DONE = {True: ' class="done"', False: ""}

Block: TypeAlias = "Heading | Para | Items | Grid | Image | Lines"

_STYLE = """
body{font:15px/1.5 system-ui,-apple-system,"Segoe UI","Noto Sans","Noto Sans CJK SC",sans-serif;color:#1f2328;
background:#fff;max-width:52rem;margin:2rem auto;padding:0 1.2rem}
h1{font-size:1.6rem;line-height:1.25}h2{font-size:1.25rem;margin-top:2rem;border-bottom:1px solid #d0d7de}
h3{font-size:1.05rem;margin-bottom:.3rem}p{margin:.5rem 0}.quiet{color:#57606a;font-size:.9rem}
table{border-collapse:collapse;width:100%;margin:.8rem 0;font-size:.92rem}
th,td{border:1px solid #d0d7de;padding:.3rem .5rem;text-align:left;vertical-align:top}th{background:#f6f8fa}
svg{max-width:100%;height:auto;border:1px solid #d0d7de}ul.ticks{list-style:none;padding-left:0}
ul.ticks li{padding-left:1.7rem;text-indent:-1.7rem}ul.ticks li::before{content:"\\2610";display:inline-block;
width:1.7rem;text-indent:0}ul.ticks li.done::before{content:"\\2611"}
.line{border-bottom:1px solid #8c959f;height:1.9rem}
@media print{body{margin:0;max-width:none;font-size:11pt}h2,h3{break-after:avoid}tr,li,svg{break-inside:avoid}
.new-page{break-before:page}}
"""


def write(path: Path, title: str, blocks: Sequence[Block], language: str = "en") -> None:
    """Write the page. Raises `PlaybookError` where the file cannot be written."""
    text = (
        as_markdown(title, blocks) if path.suffix.lower() in (".md", ".markdown") else as_html(title, blocks, language)
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        only_file(path).write_text(text, "utf-8")
    except OSError as error:
        raise PlaybookError(str(path), f"cannot be written: {reason(error)}", "name another file") from None


def as_html(title: str, blocks: Sequence[Block], language: str = "en") -> str:
    body = "\n".join(_html(block) for block in blocks)
    return (
        f'<!doctype html>\n<html lang="{escape(language)}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{escape(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        mark = ' class="new-page"' if block.new_page else ""
        return f"<h{block.level}{mark}>{escape(block.text)}</h{block.level}>"
    if isinstance(block, Para):
        mark = ' class="quiet"' if block.quiet else ""
        return f"<p{mark}>{_breaks(block.text)}</p>"
    if isinstance(block, Items):
        tag = "ol" if block.numbered else "ul"
        if block.ticks:
            inner = "".join(
                f"<li{_DONE[done]}>{_breaks(item)}</li>" for item, done in zip(block.items, block.ticks, strict=True)
            )
            return f'<ul class="ticks">{inner}</ul>'
        return f"<{tag}>{''.join(f'<li>{_breaks(item)}</li>' for item in block.items)}</{tag}>"
    if isinstance(block, Grid):
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in block.head)
        rows = "".join("<tr>" + "".join(f"<td>{_breaks(c)}</td>" for c in row) + "</tr>" for row in block.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    if isinstance(block, Image):
        return block.svg
    return "".join('<div class="line"></div>' for _ in range(block.count))


def _breaks(text: str) -> str:
    return escape(text).replace("\n", "<br>")


def as_markdown(title: str, blocks: Sequence[Block]) -> str:
    return f"# {_flat(title)}\n\n" + "\n\n".join(_markdown(block) for block in blocks) + "\n"


def _markdown(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_flat(block.text)}"
    if isinstance(block, Para):
        text = "  \n".join(_safe(line) for line in block.text.splitlines())
        return f"*{text}*" if block.quiet and "\n" not in text else text
    if isinstance(block, Items):
        if block.ticks:
            marked = zip(block.items, block.ticks, strict=True)
            return "\n".join(f"- [{'x' if done else ' '}] {_flat(item)}" for item, done in marked)
        return "\n".join(f"{f'{n}.' if block.numbered else '-'} {_flat(item)}" for n, item in enumerate(block.items, 1))
    if isinstance(block, Grid):
        rows = [block.head, tuple("---" for _ in block.head), *block.rows]
        return "\n".join("| " + " | ".join(_flat(c).replace("|", "\\|") for c in row) + " |" for row in rows)
    if isinstance(block, Image):
        return f"*[{_flat(block.alt)}]*"
    return "\n\n".join("_" * 60 for _ in range(block.count))


def _flat(text: str) -> str:
    return _safe(" ".join(text.split()))


def _safe(text: str) -> str:
    """Markdown holds no tags of ours; what looks like one is text."""
    return text.replace("<", "&lt;")
