"""Page models -> HTML: one Jinja environment, autoescape on, undefined names are errors, Markdown without raw HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import quote

import jinja2
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from playbook import places
from playbook.faces.pages.blocks import Cell, Page, Plain, Ref, Web
from playbook.faces.pages.shelf import Shelf, percent
from playbook.faces.site import svg
from playbook.faces.site.code import coloured
from playbook.workflow.upkeep.origins import Origin

# Texts without these read the same as Markdown and as plain text: most of them, and escaping is far quicker.
_MARKED = re.compile(r"[*_`\[\]<>&\\#|~!\n]|^\s*(?:[-+]|\d+[.)])\s|https?:", re.MULTILINE)
HTML_LANG = {"en": "en", "zh": "zh-Hans"}
LANG_NAME = {"en": "English", "zh": "中文"}


@dataclass
class Renderer:
    """Draws the pages of one language. `languages` are those of the site, in order.

    `origins`: (kind, id) -> where an entry is written; with an `edit_url` the page links there.
    """

    shelf: Shelf
    lang: str
    languages: tuple[str, ...]
    origins: Mapping[tuple[str, str], Origin] = field(default_factory=dict)
    edit_url: str = ""
    texts: dict[str, Markup] = field(default_factory=dict)
    inlines: dict[tuple[str, str], Markup] = field(default_factory=dict)

    @cached_property
    def markdown(self) -> MarkdownIt:
        md = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
        md.add_render_rule("image", _no_image)
        md.add_render_rule("code_inline", _code)
        md.add_render_rule("link_open", _link_open)
        md.add_render_rule("heading_open", lambda *a: "<p><strong>")
        md.add_render_rule("heading_close", lambda *a: "</strong></p>")
        return md

    @cached_property
    def env(self) -> jinja2.Environment:
        env = jinja2.Environment(
            loader=jinja2.FileSystemLoader(places.site_source() / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        env.filters |= {"percent": percent, "slug": slug}
        env.tests["ref"] = lambda value: isinstance(value, Ref)
        env.globals |= {
            "w": self.shelf.w,
            "shape": svg.shape,
            "bar": svg.bar,
            "plot": svg.plot,
            "coloured": coloured,
            "trace": svg.trace,
            "kind_of": lambda block: type(block).__name__.lower(),
            "html_lang": HTML_LANG.get(self.lang, self.lang),
            "lang": self.lang,
        }
        return env

    def page(self, page: Page, root_copy: bool = False, beside: tuple[Ref | None, Ref | None] = (None, None)) -> str:
        """One page, its neighbours `beside` it. `root_copy`: the first page once more at the root of the site."""
        depth = page.path.count("/")
        up = f"{self.lang}/" if root_copy else "../" * depth
        root = "" if root_copy else "../" * (depth + 1)
        origin = self.origins.get((page.kind, page.id))
        edit = f"{self.edit_url}{quote(origin.path)}" if origin and self.edit_url else ""
        return self.draw(page.template, up, root, page=page, path=page.path, beside=beside, origin=origin, edit=edit)

    def draw(self, template: str, up: str, root: str, **values: Any) -> str:
        """A template with what every page needs: `up` leads to the language's root, `root` to the site's."""
        path = str(values["path"])
        others = [
            {
                "code": code,
                "lang": HTML_LANG.get(code, code),
                "name": LANG_NAME.get(code, code),
                "url": f"{root}{code}/{path}",
            }
            for code in self.languages
        ]
        return self.env.get_template(template).render(
            up=up,
            root=root,
            others=others,
            md=self.block,
            mdi=self._inline(up),
            cell=self._cell(up),
            href=lambda ref: up + ref.url,
            graph=lambda drawn, key: svg.graph(drawn, up, key),
            counter=Counter(),
            shelf=self.shelf,
            **values,
        )

    def block(self, text: str, up: str) -> Markup:
        """Entry text as paragraphs."""
        key = f"{up}\0{text}"
        if key not in self.texts:
            if _MARKED.search(text):
                self.texts[key] = Markup(self.markdown.render(text, self._environment(up)))
            else:
                self.texts[key] = Markup(f"<p>{escape(text.strip())}</p>\n")
        return self.texts[key]

    def _inline(self, up: str) -> Callable[[str], Markup]:
        """Entry text within a line."""

        def inline(text: str) -> Markup:
            key = (up, text)
            if key not in self.inlines:
                if _MARKED.search(text):
                    self.inlines[key] = Markup(self.markdown.renderInline(text, self._environment(up)))
                else:
                    self.inlines[key] = escape(text)
            return self.inlines[key]

        return inline

    def _environment(self, up: str) -> dict[str, Any]:
        return {"up": up, "find": self.shelf.any_ref}

    def _cell(self, up: str) -> Callable[[Cell], Markup]:
        inline = self._inline(up)

        def draw(cell: Cell) -> Markup:
            if isinstance(cell, tuple):
                return Markup("").join(draw(part) for part in cell)
            if isinstance(cell, Ref):
                return (
                    Markup('<a href="{}">{}</a>').format(up + cell.url, cell.title) if cell.url else escape(cell.title)
                )
            if isinstance(cell, Web):
                return web(cell)
            if isinstance(cell, Plain):
                text = escape(cell.text)
                return Markup(f"<code>{text}</code>") if cell.code else text
            return inline(cell)

        return draw


class Counter:
    """Numbers for the ids of one page's drawings."""

    def __init__(self) -> None:
        self.value = 0

    def __call__(self) -> str:
        self.value += 1
        return f"d{self.value}"


def web(link: Web) -> Markup:
    """A link out of the site; where the address may not be followed, only its title."""
    if not link.url:
        return escape(link.title)
    return Markup('<a class="out" href="{}" rel="noopener noreferrer external">{}</a>').format(link.url, link.title)


def slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-") or "x"


def _code(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    """Code that is the id of an entry links to it."""
    content = tokens[index].content
    ref = env["find"](content)
    code = Markup("<code>{}</code>").format(content)
    return str(Markup('<a href="{}">{}</a>').format(env["up"] + ref.url, code) if ref and ref.url else code)


def _no_image(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    """A picture would be a request to another host: its text is enough."""
    return str(escape(tokens[index].content))


def _link_open(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    url = str(tokens[index].attrGet("href") or "")
    if re.match(r"https?://", url, re.IGNORECASE):
        return str(Markup('<a class="out" href="{}" rel="noopener noreferrer external">').format(url))
    return "<a>"
