"""`playbook knowledge`: check the book, look things up, see what it covers, teach it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from playbook.errors import PlaybookError, reason
from playbook.faces.cli import common, completing, knowledge_fit, knowledge_learn
from playbook.faces.cli.speech import current, say

if TYPE_CHECKING:
    from playbook.knowledge.loader import Book


@click.group(cls=common.Group, short_help="The book: lint, show, graph, coverage, schema, learn, fit.")
@common.lang_option
def knowledge() -> None:
    """The knowledge base: symptoms, signals, causes, fixes, cases, questions; one YAML file per entry."""


@knowledge.command()
@common.lang_option
@common.json_option
@common.knowledge_option
def lint(as_json: bool, packs: tuple[Path, ...]) -> int:
    """Check every promise of the book; exit 1 when one is broken."""
    from playbook.workflow.book import open_book
    from playbook.workflow.upkeep.lint import lint_book

    library = open_book(packs, strict=False)
    problems = lint_book(library)
    if as_json:
        rows = [{"file": p.where, "line": p.line, "what": p.what, "hint": p.hint, "code": p.code} for p in problems]
        common.emit({"entries": _sizes(library.book), "problems": rows})
    else:
        for problem in problems:
            click.echo(current().problem(problem))
        sizes = ", ".join(f"{n} {kind}" for kind, n in _sizes(library.book).items())
        say(f"{sizes}: {len(problems)} problems" if problems else f"{sizes}: all promises kept")
    return 1 if problems else 0


def _sizes(book: Book) -> dict[str, int]:
    return {kind: len(entries) for kind, entries in book.entries.items()}


@knowledge.command()
@click.argument("entry_id", metavar="[ID]", required=False, shell_complete=completing.entries)
@click.option("--kind", shell_complete=completing.kinds, help="Only entries of this kind (causes, signals, ...).")
@click.option("--lang", metavar="CODE", help="Language: en or zh.")
@common.json_option
@common.knowledge_option
def show(entry_id: str | None, kind: str | None, lang: str | None, as_json: bool, packs: tuple[Path, ...]) -> int:
    """Show an entry; without ID, list all."""
    from playbook.faces.words import words
    from playbook.knowledge.graph import kind_of
    from playbook.workflow.book import open_book
    from playbook.workflow.session import did_you_mean

    book = open_book(packs, lang=words(lang).code).book
    if kind is not None and kind not in book.entries:
        raise PlaybookError(f"--kind {kind}", "no such kind", f"one of {', '.join(book.entries)}")
    if entry_id is None:
        chosen = {k: entries for k, entries in book.entries.items() if kind in (None, k)}
        if as_json:
            common.emit({k: {e.id: e.title for e in entries.values()} for k, entries in chosen.items()})
        else:
            for name, entries in chosen.items():
                for entry in entries.values():
                    click.echo(f"{name:10} {entry.id:42} {entry.title}")
        return 0
    found = kind or kind_of(book, entry_id)
    if found is None or entry_id not in book.entries[found]:
        every = [i for entries in book.entries.values() for i in entries]
        raise PlaybookError(entry_id, "is no entry of the book", did_you_mean(entry_id, every))
    data = book.entries[found][entry_id].model_dump(by_alias=True, exclude_defaults=True)
    if as_json:
        common.emit({"kind": found, **data})
    else:
        import yaml

        click.echo(f"# {book.files[found, entry_id]}")
        click.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100), nl=False)
    return 0


@knowledge.command(short_help="The graph of the book, or what is around an entry.")
@click.argument("entry_id", metavar="[ID]", required=False, shell_complete=completing.entries)
@click.option("--hops", default=1, type=click.IntRange(1, 3), show_default=True, help="How far around ID.")
@common.lang_option
@common.json_option
@common.knowledge_option
def graph(entry_id: str | None, hops: int, as_json: bool, packs: tuple[Path, ...]) -> int:
    """The graph as JSON or in the dot language: whole, or the neighbourhood of ID."""
    from playbook.knowledge.graph import kind_of, links, neighbourhood, network
    from playbook.workflow.book import open_book
    from playbook.workflow.session import did_you_mean

    book = open_book(packs).book
    nodes = set(network(book).nodes)
    if entry_id is not None:
        kind = kind_of(book, entry_id)
        if kind is None:
            every = [i for entries in book.entries.values() for i in entries]
            raise PlaybookError(entry_id, "is no entry of the book", did_you_mean(entry_id, every))
        nodes = set(neighbourhood(book, kind, entry_id, hops))
    chosen = [x for x in links(book) if x.start in nodes and x.end in nodes]
    if as_json:
        rows = [{"kind": x.kind, "from": "/".join(x.start), "to": "/".join(x.end), "label": x.label} for x in chosen]
        common.emit({"nodes": sorted("/".join(n) for n in nodes), "links": rows})
    else:
        click.echo("digraph book {\n  rankdir=LR;")
        for node in sorted(nodes):
            click.echo(f'  "{"/".join(node)}";')
        for x in chosen:
            click.echo(f'  "{"/".join(x.start)}" -> "{"/".join(x.end)}" [label="{x.kind}"];')
        click.echo("}")
    return 0


@knowledge.command(short_help="Which rows of the source documents nothing cites?")
@common.lang_option
@common.json_option
@common.knowledge_option
def coverage(as_json: bool, packs: tuple[Path, ...]) -> int:
    """List the rows of the source documents that no entry cites; exit 1 when there are any."""
    from playbook.workflow.book import open_book
    from playbook.workflow.upkeep import lint as use_case

    held, missing = use_case.coverage(open_book(packs).book)
    share = len(held) / max(1, len(held) + len(missing))
    if as_json:
        common.emit({"rows": len(held) + len(missing), "held": len(held), "share": round(share, 4), "missing": missing})
    else:
        for row in missing:
            say(f"nothing cites {row}")
        say(f"{len(held)} of {len(held) + len(missing)} ledger rows are held: {share:.0%}")
    return 1 if missing else 0


@knowledge.command(short_help="What a language lacks: missing and stale texts.")
@click.argument("code", metavar="LANG")
@click.option("--template", is_flag=True, help="Print the English texts of what is missing or stale, to be translated.")
@click.option("--kind", help="Only entries of this kind.")
@common.lang_option
@common.json_option
@common.knowledge_option
def translation(code: str, template: bool, kind: str | None, as_json: bool, packs: tuple[Path, ...]) -> int:
    """What a language lacks: missing and stale texts; exit 1 when there are any."""
    from playbook.knowledge import overlay
    from playbook.workflow.book import open_book

    book = open_book(packs).book
    if kind is not None and kind not in overlay.TEXTS:
        raise PlaybookError(f"--kind {kind}", "no such kind", f"one of {', '.join(overlay.TEXTS)}")
    problems = [p for p in overlay.check(book, code) if kind is None or f"/{kind}/" in p.where]
    if template:
        import yaml

        wanted = {tuple(p.where.split("/")[-2:]) for p in problems}
        texts = {i: overlay.template(k, book.entries[k][i]) for k, i in sorted(wanted) if i in book.entries.get(k, {})}
        click.echo(yaml.safe_dump(texts, sort_keys=False, allow_unicode=True, width=110), nl=False)
    elif as_json:
        common.emit(
            {"language": code, "problems": [{"where": p.where, "what": p.what, "code": p.code} for p in problems]}
        )
    else:
        for problem in problems:
            click.echo(current().problem(problem))
        say(f"{code}: {len(problems)} problems" if problems else f"{code}: complete")
    return 1 if problems else 0


@knowledge.command(short_help="Which changed links would nobody notice?")
@common.lang_option
@common.json_option
@common.knowledge_option
def mutate(as_json: bool, packs: tuple[Path, ...]) -> int:
    """Drop and invert every link in turn: which changes would no case and no promise notice? Takes a minute or two."""
    from playbook.workflow.book import open_book
    from playbook.workflow.upkeep.mutation import mutants

    library = open_book(packs)
    found = list(mutants(library.book, library.tables, common.narrator(as_json)))
    common.hush()
    silent = [m for m in found if not m.by]
    share = 1 - len(silent) / max(1, len(found))
    if as_json:
        rows = [{"cause": m.cause, "signal": m.signal, "change": m.change} for m in silent]
        common.emit(
            {"mutants": len(found), "noticed": len(found) - len(silent), "share": round(share, 4), "silent": rows}
        )
    else:
        for m in silent[:40]:
            say(f"nobody notices {m.cause} / {m.signal} {m.change}")
        say(f"{len(found) - len(silent)} of {len(found)} changed links are noticed: {share:.1%}")
    return 0


@knowledge.command(short_help="A template of an entry, to be filled in.")
@click.argument("kind", metavar="KIND", shell_complete=completing.kinds)
@click.argument("entry_id", metavar="ID")
@click.option("--out", type=click.Path(path_type=Path), help="Knowledge folder to write into (default: print).")
@common.lang_option
def new(kind: str, entry_id: str, out: Path | None) -> int:
    """A filled-in template of an entry: `playbook knowledge new causes my-cause --out my-pack`.

    For a cause write the layer too: `data/my-cause`.
    """
    from playbook.workflow.upkeep.template import place_of, template

    text = template(kind, entry_id)
    if out is None:
        click.echo(text, nl=False)
        return 0
    path = place_of(out, kind, entry_id)
    if path.exists():
        raise PlaybookError(str(path), "is there already", "choose another id")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except OSError as error:
        raise PlaybookError(str(path), f"cannot be written: {reason(error)}", "name another --out") from None
    click.echo(str(path))
    return 0


@knowledge.command(short_help="JSON Schema of the entries, for editors.")
@click.argument("kind", required=False, shell_complete=completing.kinds)
@common.lang_option
def schema(kind: str | None) -> int:
    """JSON Schema of an entry kind, for editors (all kinds without KIND)."""
    from playbook.knowledge.entries import KINDS

    if kind is not None and kind not in KINDS:
        raise PlaybookError(kind, "no such kind", f"one of {', '.join(KINDS)}")
    documents: dict[str, Any] = {name: model.model_json_schema(by_alias=True) for name, model in KINDS.items()}
    common.emit(documents[kind] if kind else documents)
    return 0


for _command in (knowledge_fit.fit, knowledge_learn.learn, knowledge_learn.search):
    knowledge.add_command(_command)
