"""A small server for a built site: this machine only, with the headers that a real host should send."""

from __future__ import annotations

import functools
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playbook.errors import PlaybookError
from playbook.faces.site.build import MARKER

HOST = "127.0.0.1"
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "frame-ancestors 'none'",
}


class Handler(SimpleHTTPRequestHandler):
    """Files of the site; what is not there gets the site's own 404 page."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".json": "application/json; charset=utf-8",
        ".xml": "application/xml; charset=utf-8",
    }

    def end_headers(self) -> None:
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def list_directory(self, path: Any) -> None:
        self.send_error(404)
        return

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        page = Path(self.directory) / "404.html"
        if code != 404 or not page.is_file():
            super().send_error(code, message, explain)
            return
        data = page.read_bytes()
        self.send_response(404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Quiet: standard error is for what the user must know."""


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server bound to `port`, not yet serving. Raises `PlaybookError`."""
    if not (folder / MARKER).is_file():
        raise PlaybookError(str(folder), "holds no built site", "run `playbook site build --out DIR` first")
    try:
        return ThreadingHTTPServer((HOST, port), functools.partial(Handler, directory=str(folder)))
    except OSError as error:
        raise PlaybookError(
            f"--port {port}", f"cannot be used: {error.strerror or error}", "name another port"
        ) from None


def serve(folder: Path, port: int, say: Callable[[str], None]) -> None:
    """Serve until interrupted."""
    running = server(folder, port)
    say(f"serving {folder} on http://{HOST}:{running.server_address[1]}/  (Ctrl+C ends it)")
    try:
        running.serve_forever()
    except KeyboardInterrupt:
        say("stopped")
    finally:
        running.server_close()
