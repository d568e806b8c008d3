"""The terminal in the browser, on this machine only: textual-serve with a page of our own that asks no other host.

There is no login, so it listens on 127.0.0.1, and a request that names another host or comes from another page is
refused: without that any web site could drive a terminal that reads files.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playbook.errors import PlaybookError
from playbook.faces.tui import Options

HOST = "127.0.0.1"
PORT = 8617
_TEMPLATES = Path(__file__).with_name("serve_page")


def command(options: Options) -> str:
    """The command that runs once for every visitor."""
    parts = [sys.executable, "-m", "playbook", "tui"]
    for pack in options.packs:
        parts += ["--knowledge", str(pack)]
    for name, value in (("--lang", options.lang), ("--db", options.db), ("--theme", options.theme)):
        parts += [name, value] if value else []
    parts += ["--watch"] if options.follow else []
    return shlex.join([*parts, "--", *options.paths])


def serve(options: Options, port: int = PORT) -> int:
    """Serve until interrupted. Raises `PlaybookError` where the extra is not installed."""
    server(options, port).serve()
    return 0


def server(options: Options, port: int = PORT) -> Any:
    try:
        from aiohttp import web
        from textual_serve.server import Server
    except ImportError:
        raise PlaybookError("playbook --serve", "needs textual-serve", "pip install 'playbook[serve]'") from None

    class Local(Server):
        """Refuses what does not come from its own page."""

        async def _make_app(self) -> Any:
            app = await super()._make_app()
            app.middlewares.append(web.middleware(_own_page_only))
            return app

        def initialize_logging(self) -> None:
            """No log handler: what a visitor does is nobody's business."""

        async def on_startup(self, app: Any) -> None:
            print(f"playbook: {self.public_url}  (Ctrl+C ends it)", file=sys.stderr, flush=True)

    async def _own_page_only(request: Any, handler: Any) -> Any:
        if not allowed(request.headers.get("Host", ""), request.headers.get("Origin"), port):
            raise web.HTTPForbidden(text="this terminal answers only its own page")
        return await handler(request)

    return Local(command(options), host=HOST, port=port, title="playbook", templates_path=str(_TEMPLATES))


def allowed(host: str, origin: str | None, port: int) -> bool:
    """Whether a request is one of our own page's: the address of this machine by name, and no other page behind it."""
    names = {f"{name}:{port}" for name in (HOST, "localhost")}
    return host in names and (origin is None or urlsplit(origin).netloc in names)
