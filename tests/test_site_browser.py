"""The built site in headless Chromium, from a folder and offline: accessibility, widths, policy, search, diagnosis.

Skipped where Node, Chromium or the two Node packages are missing: `npm install --prefix tests/browser` brings the
packages (or name a folder of theirs by PLAYBOOK_NODE_MODULES), Debian's `chromium` the browser.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from playbook.engine.tables import compile_book
from playbook.faces.site.build import Edition, build
from playbook.faces.words import words
from playbook.knowledge.loader import Book
from tests.site_kit import hostile_incident, incident
from tests.test_site_engine import TOLERANCE, moments

HERE = Path(__file__).parent / "browser"
MODULES = Path(os.environ.get("PLAYBOOK_NODE_MODULES") or HERE / "node_modules")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
_MISSING = [
    *([] if shutil.which("node") else ["node"]),
    *([] if CHROMIUM else ["chromium"]),
    *(f"the Node package {name}" for name in ("playwright-core", "axe-core") if not (MODULES / name).is_dir()),
]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(_MISSING), reason=f"no browser test: {', '.join(_MISSING)} missing (see the head of the file)"
    ),
]

# One of every kind of page, those with the most in them.
PAGES = (
    "index.html",
    "en/symptoms/persistent-spike.html",
    "en/causes/fp16-attention-overflow.html",
    "en/causes/index.html",
    "en/signals/grad-norm-before.html",
    "en/fixes/lower-peak-lr.html",
    "en/cases/lr-peak-hard-samples-7b.html",
    "en/incidents/index.html",
    "en/incidents/20260304-aaaaaa.html",
    "en/incidents/20260304-hostil.html",
    "en/map.html",
    "en/checklists/before-a-run.html",
    "en/glossary.html",
    "en/sources.html",
    "en/about.html",
    "en/search.html?q=nan",
    "en/diagnose.html#loss-shape=instant-nan",
    "zh/index.html",
    "zh/symptoms/instant-nan.html",
)


@pytest.fixture(scope="module")
def site(real_book: Book, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("browser") / "site"
    incidents = (incident(), hostile_incident())
    build(out, [Edition(code, words(code), real_book) for code in ("en", "zh")], incidents)
    return out


def in_browser(work: str, site: Path, **more: Any) -> Any:
    document = json.dumps({"work": work, "base": f"file://{site}/", **more})
    done = subprocess.run(
        ["node", str(HERE / "look.js"), str(MODULES), CHROMIUM],
        input=document, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_accessible_and_in_bounds(site: Path, scheme: str, width: int) -> None:
    """WCAG 2.2 A and AA by axe: nothing at all; no sideways scrolling; no error on the console; no request outside."""
    assert in_browser("look", site, pages=PAGES, schemes=[scheme], widths=[width]) == []


def test_same_posterior_in_the_browser(real_book: Book, site: Path) -> None:
    """The page's own tables and engine, on every tenth moment of every walk."""
    states, said, names = moments(real_book)
    result = in_browser("diagnose", site, moments=states[::10])
    assert result["faults"] == []
    assert len(compile_book(real_book).causes) == len(result["answers"][0]["marginal"])
    for name, expected, got in zip(names[::10], said[::10], result["answers"], strict=True):
        apart = [abs(a - b) for a, b in zip(expected.belief.marginal, got["marginal"], strict=True)]
        assert max(apart) < TOLERANCE, name
        assert abs(expected.belief.unknown - got["unknown"]) < TOLERANCE, name


def test_a_reader_gets_through(site: Path) -> None:
    result = in_browser("use", site, typo="checkpiont", chinese="先止损", symptom="symptoms/instant-nan.html")
    said = result["said"]
    assert result["faults"] == []
    assert said["focused"] == "q"
    assert any("checkpoint" in link for link in said["typo"])
    assert said["arrived"] == said["typo"][0]
    assert said["hiddenFirst"] is True
    assert said["address"].startswith("#loss-shape=")
    assert "&" in said["address"]
    assert "&" not in said["undone"]
    assert (said["theme"], said["kept"]) == ("dark", "dark")
    assert said["bare"] > 2000  # without a script the page is all there
