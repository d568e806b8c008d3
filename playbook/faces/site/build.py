"""Book, incidents and words -> a folder of files. Built aside and swapped in whole; same input, same bytes."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playbook import places
from playbook.errors import PlaybookError
from playbook.faces.pages.blocks import Cards, Page, Ref
from playbook.faces.pages.book import pages, version_of
from playbook.faces.pages.numbers import Numbers, WalkNumbers
from playbook.faces.pages.shelf import Shelf
from playbook.faces.site import feeds, search, tables
from playbook.faces.site.parallel import spread
from playbook.faces.site.render import Renderer
from playbook.faces.words import ENGLISH, Words
from playbook.findings import Evidence
from playbook.knowledge.loader import Book
from playbook.workflow.records.published import Published, Strip, case_strips
from playbook.workflow.upkeep.origins import Origin

MARKER = ".playbook-site"  # lies in every folder that we have built: only such a one is replaced
BASE_URL = "http://127.0.0.1:8000/"  # where `site serve` puts it


@dataclass(frozen=True)
class Edition:
    """One language: its words, and the book in it."""

    lang: str
    words: Words
    book: Book


@dataclass(frozen=True, slots=True)
class Written:
    """Where entries are written, and the address that leads to such a file for editing ("" where there is none)."""

    origins: Mapping[tuple[str, str], Origin]
    edit_url: str


@dataclass(frozen=True, slots=True)
class Built:
    """What was written."""

    out: Path
    pages: int
    files: int
    bytes: int


def build(
    out: Path,
    editions: Sequence[Edition],
    incidents: Sequence[Published] = (),
    base_url: str = BASE_URL,
    progress: Callable[[str], None] | None = None,
    origins: Mapping[tuple[str, str], Origin] | None = None,
    edit_url: str = "",
) -> Built:
    """Write the site of `editions` (the first one is also the front door) into `out`.

    `origins` name the file of each entry at the foot of its page; `edit_url` is put before them to edit it.
    Raises `PlaybookError` where `out` holds something else, or cannot be written.
    """
    _may_replace(out)
    say = progress or (lambda text: None)
    written = Written(origins or {}, edit_url if edit_url.endswith("/") or not edit_url else edit_url + "/")
    base_url = base_url if base_url.endswith("/") else base_url + "/"
    files = dict(_files(editions, tuple(incidents), base_url, written, say))
    _no_twins(files)
    say("writing")
    size = _swap_in(out, files)
    return Built(out, sum(name.endswith(".html") for name in files), len(files), size)


def _files(
    editions: Sequence[Edition],
    incidents: tuple[Published, ...],
    base_url: str,
    written: Written,
    say: Callable[[str], None],
) -> Iterator[tuple[str, bytes]]:
    """(path, bytes) of every file of the site."""
    english = next((e.book for e in editions if e.lang == ENGLISH), None)
    source = english or editions[0].book
    version = version_of(source)
    numbers = Numbers(source)
    numbers.prepare()
    say(f"walking {len(source.cases)} cases")
    walks, curves = _cases(numbers)
    languages = tuple(e.lang for e in editions)
    shelves = {e.lang: Shelf(e.book, numbers, e.words, incidents, english) for e in editions}

    def edition(lang: str) -> list[tuple[str, bytes]]:
        renderer = Renderer(shelves[lang], lang, languages, written.origins, written.edit_url)
        return list(_edition(renderer, version, walks, curves, base_url))

    say(f"drawing {', '.join(languages)}")
    made = [file for files in spread(edition, languages) for file in files]
    yield from made
    yield "data/tables.js", _script("PLAYBOOK_TABLES", tables.numbers(source, numbers.tables))
    yield "runbooks.json", _json(feeds.runbooks(shelves, base_url, version), indent=1)
    paths = [path for path, _ in made if path.endswith(".html") and "/" in path]
    yield "sitemap.xml", feeds.sitemap(paths, base_url).encode()
    yield MARKER, b"Built by `playbook site build`; the next build replaces this folder whole.\n"
    for asset in sorted((places.site_source() / "assets").iterdir()):
        yield f"assets/{asset.name}", asset.read_bytes()


def _edition(
    renderer: Renderer,
    version: str,
    walks: Mapping[str, WalkNumbers],
    curves: Mapping[str, tuple[Strip, ...]],
    base_url: str,
) -> Iterator[tuple[str, bytes]]:
    """The files of one language; the first one brings the front door too."""
    lang, shelf = renderer.lang, renderer.shelf
    front = lang == renderer.languages[0]
    made = list(pages(shelf, version, walks, curves))
    for page, before, after in zip(made, [None, *made], [*made[1:], None], strict=False):
        beside = (_neighbour(page, before), _neighbour(page, after))
        yield f"{lang}/{page.path}", renderer.page(page, beside=beside).encode()
    if front:
        yield "index.html", renderer.page(made[0], root_copy=True).encode()
        yield "404.html", _not_found(renderer, base_url).encode()
    for path, text in _special(renderer, made[0]):
        yield f"{lang}/{path}", text.encode()
    yield f"data/search.{lang}.js", _script("PLAYBOOK_SEARCH", search.documents(shelf, made))
    yield f"data/texts.{lang}.js", _script("PLAYBOOK_TEXTS", tables.texts(shelf))
    yield f"{lang}/incidents/feed.xml", feeds.feed(shelf, lang, base_url).encode()


def _neighbour(page: Page, other: Page | None) -> Ref | None:
    """The page before or after in the same list, where there is one."""
    if other is None or other.kind != page.kind or not page.id or not other.id:
        return None
    return Ref(other.path, other.title, other.kind, other.id)


def _cases(numbers: Numbers) -> tuple[Mapping[str, WalkNumbers], Mapping[str, tuple[Strip, ...]]]:
    """Walk and curves of every case. A case whose files are broken has neither: its page is still worth having."""
    cases = list(numbers.book.cases.values())
    curves: dict[str, tuple[Strip, ...]] = {}
    seen: dict[str, list[Evidence]] = {}
    for case in cases:
        try:
            curves[case.id], seen[case.id] = case_strips(numbers.book, case)
        except PlaybookError:
            curves[case.id] = ()
    whole = [case for case in cases if case.id in seen]
    walks = spread(lambda case: numbers.walk(case, seen), whole)
    return {case.id: walk for case, walk in zip(whole, walks, strict=True)}, curves


def _special(renderer: Renderer, home: Page) -> Iterator[tuple[str, str]]:
    """Pages that live from a script."""
    shelf = renderer.shelf
    w = shelf.w
    doors = [shelf.index(kind) for kind in ("symptoms", "causes", "signals", "fixes", "cases")]
    lead = w("Say what you see. Each answer moves the causes; the next question tells most for its price.")
    diagnose = _bare("diagnose", w("Guided diagnosis"), lead)
    cards = next(block for section in home.sections for block in section.blocks if isinstance(block, Cards))
    yield "diagnose.html", renderer.draw("diagnose.html", "", "../", page=diagnose, path="diagnose.html", cards=cards)
    found = _bare("search", w("Search"), w("Words, ids, or a line of a log. Misspelt words are found too."))
    yield "search.html", renderer.draw("search.html", "", "../", page=found, path="search.html", lists=doors)


def _bare(kind: str, title: str, lead: str) -> Page:
    return Page(f"{kind}.html", kind, "", title, lead, ())


def _not_found(renderer: Renderer, base_url: str) -> str:
    """A server shows it at any depth, so its links begin at the root of the host."""
    w = renderer.shelf.w
    root = "/" + base_url.split("://", 1)[-1].partition("/")[2]
    page = _bare(
        "404",
        w("No such page"),
        w("Ids do not change; perhaps the address was cut off. Search, or start from one of the lists."),
    )
    refs = [renderer.shelf.index(kind) for kind in ("symptoms", "causes", "signals", "fixes", "cases")]
    return renderer.draw("404.html", f"{root}{renderer.lang}/", root, page=page, path="index.html", lists=refs)


def _script(name: str, document: Any) -> bytes:
    """JSON as a plain script: a page opened from a file may load scripts, but may not fetch."""
    return b"window." + name.encode() + b"=" + _json(document) + b";\n"


def _json(document: Any, indent: int | None = None) -> bytes:
    separators = (",", ":") if indent is None else None
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)
    # U+2028 and U+2029 end a line in old scripts; `</` would end a script element if this were ever put inline.
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("</", "<\\/").encode()


def _no_twins(files: Mapping[str, bytes]) -> None:
    """Two paths that differ only in case are one file on some disks."""
    seen: dict[str, str] = {}
    for name in files:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise PlaybookError(name, f"and {other} differ only in case", "rename one of the two entries")


def _may_replace(out: Path) -> None:
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise PlaybookError(str(out), "is no folder", "name a folder that the site may fill")
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).is_file():
        raise PlaybookError(str(out), "holds files that no site build has made", "name an empty or a new folder")


def _swap_in(out: Path, files: Mapping[str, bytes]) -> int:
    """Write beside `out`, then exchange the two by renames; what was there is removed last."""
    out = out.absolute()
    fresh: Path | None = None
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        for folder in sorted({Path(name).parent for name in files}):
            (fresh / folder).mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (fresh / name).write_bytes(data)
        fresh.chmod(0o777 & ~_umask())
        old = fresh.with_name(fresh.name + ".old")
        if out.exists():
            out.rename(old)
        fresh.rename(out)
        fresh = None
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise PlaybookError(str(out), f"cannot be written: {error.strerror or error}", "name another --out") from None
    finally:
        if fresh is not None:
            shutil.rmtree(fresh, ignore_errors=True)
    return sum(len(data) for data in files.values())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
