"""`playbook site`: build the static site, or serve a built one on this machine."""

from __future__ import annotations

import time
from pathlib import Path

import click

from playbook.errors import PlaybookError
from playbook.faces.cli import common
from playbook.faces.cli.speech import say
from playbook.faces.words import number


@click.group(cls=common.Group, short_help="Build or serve the static site of playbooks.")
@common.lang_option
def site() -> None:
    """The on-call site: works from a server, from a folder and without a network; reads without a script."""


@site.command()
@click.option("--out", default="out/site", show_default=True, type=click.Path(path_type=Path), help="Folder to fill.")
@click.option(
    "--lang", "languages", default="en,zh", show_default=True, help="Languages; the first one opens at the root."
)
@click.option(
    "--base-url",
    default="http://127.0.0.1:8000/",
    show_default=True,
    metavar="URL",
    help="Where the site will be served: for the feed, the sitemap, runbooks.json and the 404 page.",
)
@click.option(
    "--edit-url",
    default="",
    metavar="URL",
    help="Where the knowledge folder can be edited: each page links to its file there.",
)
@click.option("--no-incidents", is_flag=True, help="Leave the recorded incidents out.")
@common.json_option
@common.knowledge_option
@common.db_option
def build(
    out: Path,
    languages: str,
    base_url: str,
    edit_url: str,
    no_incidents: bool,
    as_json: bool,
    packs: tuple[Path, ...],
    db: str | None,
) -> int:
    """Build the site of the book and of the recorded incidents.

    It is built aside and swapped in whole; the same book and incidents give the same bytes.
    """
    from playbook.faces.site.build import Edition
    from playbook.faces.site.build import build as build_site
    from playbook.faces.words import words
    from playbook.knowledge.overlay import translate
    from playbook.workflow.book import open_book
    from playbook.workflow.records.published import published
    from playbook.workflow.upkeep.origins import origins

    codes = [code.strip() for code in languages.split(",") if code.strip()]
    if not codes or len(set(codes)) != len(codes):
        raise PlaybookError(f"--lang {languages}", "names no language, or one twice", "write for example --lang en,zh")
    for option, url in (("--base-url", base_url), ("--edit-url", edit_url)):
        if not url.startswith(("http://", "https://")) and (url or option == "--base-url"):
            raise PlaybookError(f"{option} {url}", "is no web address", "it begins with http:// or https://")
    began = time.monotonic()
    book = open_book(packs).book
    editions = [Edition(code, words(code), translate(book, code)) for code in codes]
    incidents = () if no_incidents else published(db)
    built = build_site(out, editions, incidents, base_url, common.narrator(as_json), origins(book), edit_url)
    common.hush()
    seconds = time.monotonic() - began
    if as_json:
        common.emit(
            {
                "out": str(built.out),
                "index": str(built.out / "index.html"),
                "languages": codes,
                "pages": built.pages,
                "files": built.files,
                "bytes": built.bytes,
                "incidents": len(incidents),
                "seconds": round(seconds, 2),
            }
        )
    else:
        size = built.bytes / 1e6
        say(f"{number(built.pages, 'page')}, {number(len(incidents), 'incident')}, {size:.1f} MB in {seconds:.1f} s")
        say(f"open {built.out / 'index.html'}")
    return 0


@site.command()
@click.option(
    "--dir", "folder", default="out/site", show_default=True, type=click.Path(path_type=Path), help="A built site."
)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0 picks a free port.")
@common.lang_option
def serve(folder: Path, port: int) -> int:
    """Serve a built site on this machine, until Ctrl+C."""
    from playbook.faces.site.serve import serve as serve_site

    serve_site(folder, port, say)
    return 0
