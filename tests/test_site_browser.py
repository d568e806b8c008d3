"""The built site in headless Chromium, from a folder and offline: accessibility, widths, policy, search, diagnosis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from playbook.engine.tables import compile_book
from playbook.faces.site.build import Edition, build
from playbook.faces.words import words
from playbook.knowledge.loader import Book
from playbook.knowledge.overlay import translate
from playbook.workflow.session import Session
from tests.browser_kit import axe, chromium, needs_browser, tab
from tests.site_kit import hostile_incident, incident
from tests.test_site_engine import TOLERANCE, moments

pytestmark = [pytest.mark.slow, needs_browser]
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}

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
    editions = [Edition(code, words(code), translate(real_book, code)) for code in ("en", "zh")]
    build(out, editions, (incident(), hostile_incident()))
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_accessible_and_in_bounds(browser: Any, site: Path, scheme: str, width: int) -> None:
    """WCAG 2.2 A and AA by axe: nothing at all; no sideways scrolling; no error on the console; no request outside."""
    wrong = []
    with tab(browser, site, color_scheme=scheme, viewport={"width": width, "height": 800}) as opened:
        for name in PAGES:
            page = opened.go(name)
            page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
            wide = page.evaluate("document.documentElement.scrollWidth")
            wrong += [f"{name}: {wide} px wide in {width}"] if wide > width else []
            wrong += [f"{name} {scheme} {width}: {said}" for said in axe(page)]
    assert wrong + opened.faults == []


def test_axe_sees_what_it_is_there_to_see(browser: Any, site: Path) -> None:
    """Three faults planted in a good page: grey on grey, a field without a name, a picture without one."""
    planted = "<p style='color:#888;background:#999'>grey on grey</p><input><svg role='img'><path d='M0 0'/></svg>"
    with tab(browser, site) as opened:
        page = opened.go("en/about.html")
        page.evaluate("html => document.querySelector('main').insertAdjacentHTML('beforeend', html)", planted)
        page.evaluate("document.querySelector('main p[style]').style.cssText = 'color:#888;background:#999'")
        assert {said.partition(" ")[0] for said in axe(page)} == {"color-contrast", "label", "svg-img-alt"}


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_first_aid_stands_in_the_first_screen_of_a_phone(browser: Any, site: Path, real_book: Book, lang: str) -> None:
    """Its heading and the first step at the least to read without a touch, on every symptom's page."""
    out_of_sight = []
    with tab(browser, site, **PHONE) as opened:
        for name in real_book.symptoms:
            page = opened.go(f"{lang}/symptoms/{name}.html")
            if page.query_selector("#first-aid") is None:
                assert name == "healthy"
                continue
            bottom = page.evaluate(
                "document.querySelector('#first-aid .steps li:nth-child(2)').getBoundingClientRect().bottom"
            )
            out_of_sight += [(name, bottom)] if bottom > PHONE["viewport"]["height"] else []  # type: ignore[index]
    assert out_of_sight == []


def test_same_posterior_in_the_browser(browser: Any, real_book: Book, site: Path) -> None:
    """The page's own tables and engine, on every tenth moment of every walk."""
    states, said, names = moments(real_book)
    script = """(moments) => {
      const tables = window.PlaybookEngine.compile(window.PLAYBOOK_TABLES);
      return moments.map((m) => {
        const d = window.PlaybookEngine.diagnose(tables, m.evidence, new Set(m.closed), m.size, new Set(m.clusters));
        return { marginal: d.belief.marginal, unknown: d.belief.unknown, next: d.next ? d.next.signal : null };
      });
    }"""
    with tab(browser, site) as opened:
        answers = opened.go("en/diagnose.html").evaluate(script, states[::10])
    assert opened.faults == []
    assert len(compile_book(real_book).causes) == len(answers[0]["marginal"])
    for name, expected, got in zip(names[::10], said[::10], answers, strict=True):
        apart = [abs(a - b) for a, b in zip(expected.belief.marginal, got["marginal"], strict=True)]
        assert max(apart) < TOLERANCE, name
        assert abs(expected.belief.unknown - got["unknown"]) < TOLERANCE, name


def test_a_repair_better_tried_is_offered_and_undone(browser: Any, site: Path, real_book: Book) -> None:
    """From the address of a moment at which the engine says so: it did not help, undo, it mended it."""
    ours = repairs_to_try(real_book)
    assert ours, "nowhere is a repair better tried"
    with tab(browser, site) as opened:
        for moment, expected in ours[:: len(ours) // 6 + 1]:
            page = opened.go(f"en/diagnose.html#{moment}")
            page.reload()
            where = page.evaluate("location.hash")
            fix = page.get_attribute(".dg-try a", "href")
            assert f"/{expected}.html" in fix, moment
            page.click(".dg-try button:nth-child(2)")
            assert "tried=" in page.evaluate("location.hash")
            again = page.query_selector(".dg-try a")
            assert again is None or again.get_attribute("href") != fix
            page.keyboard.press("u")
            assert page.evaluate("location.hash") == where
            page.click(".dg-try button:nth-child(1)")
            assert page.query_selector(".dg-ask .notice a") is not None
    assert opened.faults == []


def repairs_to_try(book: Book) -> list[tuple[str, str]]:
    """(address, fix) of the moments of the cases at which a repair is better tried that is also an experiment.

    As the page judges them: every answer is a person's, and the run has the usual size.
    """
    tables = compile_book(book)
    found = []
    for state, said in zip(*moments(book)[:2], strict=True):
        if said.trial is None:
            continue
        session = Session(book, tables)
        for item in state["evidence"]:
            session.answer(item["signal"], item["state"])
        trial = session.diagnosis().trial
        if trial is not None and book.fixes[trial.fix].tests:
            found.append(("&".join(f"{e['signal']}={e['state']}" for e in state["evidence"]), trial.fix))
    return found


def test_search_by_keys_with_a_typing_error(browser: Any, site: Path) -> None:
    with tab(browser, site) as opened:
        page = opened.go("index.html")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "q"
        page.keyboard.type("checkpiont")
        page.wait_for_selector(".hits a")
        links = [row.get_attribute("href") for row in page.query_selector_all(".hits a")]
        assert any("checkpoint" in link for link in links)
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url: not url.endswith("/index.html"))
        assert opened.where.partition("#")[0] == links[0].partition("?")[0]
        assert page.query_selector("main mark") is not None
    assert opened.faults == []


def test_a_hit_leads_to_the_section_that_says_it(browser: Any, site: Path) -> None:
    """The words are marked in the excerpt and on the page; the address to share is without them."""
    with tab(browser, site) as opened:
        page = opened.go("en/search.html?q=65504")
        row = page.wait_for_selector("#results li:has(a[href*='#'])")
        assert "65504" in [mark.inner_text() for mark in row.query_selector_all("mark")]
        anchor = row.query_selector("a").get_attribute("href").partition("#")[2]
        row.query_selector("a").click()
        page.wait_for_selector(f"#{anchor} mark")
        assert "?" not in opened.where
        assert opened.where.endswith(f"#{anchor}")
    assert opened.faults == []


def test_the_list_of_sections_follows_the_reader(browser: Any, site: Path) -> None:
    with tab(browser, site, viewport={"width": 1440, "height": 900}) as opened:
        page = opened.go("en/causes/fp16-attention-overflow.html")
        current = "document.querySelector('.toc [aria-current]').getAttribute('href')"
        first = page.evaluate(current)
        page.evaluate("document.querySelector('#fix').scrollIntoView({ behavior: 'instant' })")
        page.wait_for_function(f"{current} === '#fix'")
        assert first != "#fix"
    assert opened.faults == []


def test_search_in_chinese(browser: Any, site: Path) -> None:
    with tab(browser, site) as opened:
        page = opened.go("zh/search.html?q=学习率")
        page.wait_for_selector("#results li")
        assert len(page.query_selector_all("#results li")) > 3
    assert opened.faults == []


def test_the_guided_diagnosis_by_keys(browser: Any, site: Path) -> None:
    with tab(browser, site) as opened:
        page = opened.go("en/diagnose.html")
        assert page.is_hidden("#diagnosis")
        page.click(".card a")
        page.wait_for_selector(".dg-card")
        page.keyboard.press("1")
        assert "#loss-shape=" in opened.where
        assert "&" in opened.where
        page.keyboard.press("u")
        assert "&" not in opened.where
    assert opened.faults == []


def test_everything_is_reached_by_tab_and_shows_it(browser: Any, site: Path) -> None:
    """The skip link first; every link, button and fold of a page in turn, each with an outline."""
    with tab(browser, site, viewport={"width": 1280, "height": 800}) as opened:
        page = opened.go("en/symptoms/persistent-spike.html")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        seen = """() => {
          const at = document.activeElement;
          const all = [...document.querySelectorAll("a[href], button, input, summary, [tabindex='0']")];
          return [all.indexOf(at), getComputedStyle(at).outlineStyle, at.outerHTML.slice(0, 80)];
        }"""
        places, bare = [], []
        for _ in range(60):
            place, outline, html = page.evaluate(seen)
            places.append(place)
            bare += [] if outline not in ("none", "") else [html]
            page.keyboard.press("Tab")
        assert places == sorted(places)
        assert len(set(places)) == 60
        assert bare == []


def test_the_policy_stops_what_is_not_ours(browser: Any, site: Path) -> None:
    """A script, a style or a picture that got into a page all the same does nothing."""
    with tab(browser, site) as opened:
        page = opened.go("en/about.html")
        page.evaluate("""() => {
          const add = (tag, more) => document.body.append(Object.assign(document.createElement(tag), more));
          add("script", { textContent: "window.ran = true" });
          add("script", { src: "https://example.org/x.js" });
          add("img", { src: "https://example.org/x.png" });
          add("style", { textContent: "body { display: none }" });
          document.body.setAttribute("onclick", "window.clicked = true");
          document.body.click();
        }""")
        page.wait_for_timeout(100)
        assert page.evaluate("[window.ran, window.clicked, getComputedStyle(document.body).display]") == [
            None, None, "block",
        ]  # fmt: skip
    assert sum("Content Security Policy" in fault for fault in opened.faults) >= 5


def test_theme_is_kept(browser: Any, site: Path) -> None:
    with tab(browser, site) as opened:
        page = opened.go("en/about.html")
        page.click(".theme")
        page.click(".theme")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.reload()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert opened.faults == []


def test_readable_without_a_script(browser: Any, site: Path) -> None:
    with tab(browser, site, java_script_enabled=False) as opened:
        page = opened.go("en/symptoms/instant-nan.html")
        text = page.inner_text("main")
        assert len(text) > 2000
        assert "First aid" in text


def test_print_holds_everything(browser: Any, site: Path) -> None:
    """Folds open, what is only for the screen gone."""
    with tab(browser, site) as opened:
        page = opened.go("en/symptoms/persistent-spike.html")
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.query_selector("details:not([open])") is None
        assert page.is_hidden(".top")
        assert page.is_hidden(".copy")
        assert page.is_visible("#confirm .outcomes")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.query_selector("details:not([open])") is not None
