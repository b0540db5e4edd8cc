"""The page of a run: what it holds, and what it does in a browser that has no network."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import fedrec
from fedrec.cli.main import app
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.serve.export import Export
from fedrec.serve.host import host
from fedrec.serve.page import page, write_page

LIKES = [16, 4, 23, 8]
METHODS: dict[str, dict[str, Any]] = {
    "fedals": {"dim": 4, "recency": 2.0},
    "fedmf": {"dim": 4},
    "fednext": {"dim": 4, "weight": 0.7},
    "fcf": {"dim": 4},
    "fedncf": {"dim": 4, "hidden": (6, 3)},
    "ease": {},
}
WILD = "<img src=x onerror=document.title='hurt'> & \"Co\" </script>"


# -- without a browser -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fedpergnn", "metamf", "mf"])
def test_what_cannot_be_joined_in_a_browser_is_refused(
    method: str, tastes: Interactions, tmp_path: Path
) -> None:
    run = fedrec.run(method, tastes, rounds=1)
    with pytest.raises(FedrecError, match=r"no page can be made of this run|cannot be exported") as said:
        run.page(tmp_path / "page.html")
    assert "\n" not in str(said.value)
    assert list(tmp_path.iterdir()) == []


def test_a_page_is_not_replaced_unless_asked(tastes: Interactions, tmp_path: Path) -> None:
    run, file = fedrec.run("popularity", tastes), tmp_path / "page.html"
    run.page(file)
    with pytest.raises(FedrecError, match="exists already"):
        run.page(file)
    run.page(file, force=True)
    with pytest.raises(FedrecError, match="is a file"):
        write_page(Path(shutil.copy(file, tmp_path / "site")), run.page())
    run.page(tmp_path / "www")
    assert sorted(p.name for p in (tmp_path / "www").iterdir()) == ["index.html", "worker.js"]


def test_a_port_in_use_is_said(tastes: Interactions) -> None:
    made = fedrec.run("popularity", tastes).page()
    with host(made, 0) as first, pytest.raises(FedrecError, match=r"cannot listen on 127\.0\.0\.1"):
        host(made, first.server_port)


def test_tables_of_half_the_size(tastes: Interactions) -> None:
    run = fedrec.run("fedals", tastes, rounds=1, settings={"dim": 4})
    assert len(run.page(half=True).html) < len(run.page().html)


def test_what_no_browser_opens_is_refused(tastes: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedrec.serve.page.MOST", 1000)
    with pytest.raises(FedrecError, match="more than browsers open"):
        fedrec.run("popularity", tastes).page()


# -- in a browser ----------------------------------------------------------------------------------

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, the extra 'browser'")
    with playwright.sync_playwright() as api:
        found = api.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def made(tastes: Interactions, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of runs, each with its page."""
    titles = tuple(WILD if i == 30 else f"Tale {i} of Zoë" for i in range(tastes.n_items))
    folder, data = tmp_path_factory.mktemp("runs"), replace(tastes, titles=titles)
    for method, settings in METHODS.items():
        rounds = {} if method == "ease" else {"rounds": 2}
        run = fedrec.run(method, data, settings=settings, **rounds)
        run.save(folder / method)
        run.page(folder / method / "page.html")
    return {method: folder / method for method in METHODS}


def opened(browser: Any, address: str, width: int = 1280, mode: str = "light") -> tuple[Any, list[str]]:
    """The page when it is ready, and everything it complained of or asked for."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=mode)
    if address.startswith("file:"):
        context.set_offline(True)
    tab, said = context.new_page(), []
    tab.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    tab.on("pageerror", lambda error: said.append(f"error: {error}"))
    tab.on(
        "request", lambda r: None if r.url.startswith(("data:", address)) else said.append(f"asked: {r.url}")
    )
    tab.goto(address)
    ready(tab)
    return tab, said


def ready(tab: Any) -> None:
    tab.wait_for_selector("html[data-ready=yes]", state="attached", timeout=120_000)


def until(tab: Any, expression: str) -> None:
    """Asked from here: the page's own policy lets nobody compile text inside of it."""
    for _ in range(600):
        if tab.evaluate(expression):
            return
        tab.wait_for_timeout(50)
    raise AssertionError(expression)


def pick(tab: Any, *words: Any) -> None:
    for word in words:
        tab.fill("#search", f"tale {word} of" if isinstance(word, int) else word)
        tab.wait_for_selector("#options li")
        tab.press("#search", "Enter")
        ready(tab)


def listed(tab: Any) -> list[tuple[int, float]]:
    lines = "[...document.querySelectorAll('#best > li')].map(l => [Number(l.dataset.item), Number(l.dataset.score)])"
    return [(int(item), float(score)) for item, score in tab.evaluate(lines)]


@needs_browser
@pytest.mark.parametrize("method", METHODS)
def test_lists_and_scores_are_those_of_fedrec_recommend(
    method: str, browser: Any, made: dict[str, Path]
) -> None:
    """As ``fedrec recommend RUN --like …`` prints them, to 1e-4; and the parts of each score add up to it."""
    words = ["recommend", str(made[method]), *(w for i in LIKES for w in ("--like", str(i))), "--json"]
    expected = json.loads(CliRunner().invoke(app, words, catch_exceptions=False).stdout)["recommended"]
    tab, said = opened(browser, (made[method] / "page.html").as_uri())
    pick(tab, *LIKES)
    found = listed(tab)
    np.testing.assert_allclose(
        [s for _, s in found], [row["score"] for row in expected], rtol=1e-4, atol=1e-4
    )
    at = {row["item"]: row["score"] for row in expected}
    for item, score in found:  # equal scores may stand in any order
        assert at.get(item, expected[-1]["score"]) == pytest.approx(score, abs=2e-4)
    for at_line in (0, 9):
        line = tab.locator("#best > li").nth(at_line)
        line.locator("summary").click()
        line.locator("table").wait_for()
        shares = line.locator("tr[data-share]").evaluate_all("rows => rows.map(r => Number(r.dataset.share))")
        assert len(shares) >= len(LIKES)
        assert sum(shares) == pytest.approx(found[at_line][1], abs=1e-6)
    assert said == []
    tab.context.close()


@needs_browser
def test_likes_stay_until_they_are_forgotten(browser: Any, made: dict[str, Path]) -> None:
    tab, said = opened(browser, (made["fedals"] / "page.html").as_uri())
    names = "indexedDB.databases().then(all => all.map(d => d.name))"
    pick(tab, 16, 4, 23)
    before = listed(tab)
    tab.reload()
    ready(tab)
    assert listed(tab) == before, "the order of likes is kept, too"
    assert "3 likes" in tab.inner_text("#stored")
    tab.click("#newer-4")
    ready(tab)
    assert listed(tab) != before, "the newest counts most"
    assert tab.evaluate("document.activeElement.closest('li').dataset.item") == "4"
    tab.click("#forget")
    tab.click("#really")
    until(tab, "document.querySelectorAll('#liked li').length === 0")
    ready(tab)
    assert tab.evaluate("document.querySelector('#said').textContent").startswith("Everything is forgotten")
    assert json.loads(tab.evaluate("document.querySelector('#record').textContent"))["likes"] == []
    tab.reload()
    ready(tab)
    assert "0 likes" in tab.inner_text("#stored")
    assert tab.evaluate(names) == ["fedrec two-tastes"]
    assert said == []
    tab.context.close()


@needs_browser
def test_the_keyboard_is_enough(browser: Any, made: dict[str, Path]) -> None:
    tab, _ = opened(browser, (made["fedmf"] / "page.html").as_uri())
    focused = "document.activeElement.id || document.activeElement.className"
    tab.keyboard.press("Tab")
    assert tab.evaluate(focused) == "skip"
    tab.keyboard.press("Tab")
    assert tab.evaluate(focused) == "search"
    tab.keyboard.type("ZOE")
    assert "found" in tab.inner_text("#hits")
    second = tab.locator("#options li").nth(1).locator("span").inner_text()
    tab.keyboard.press("ArrowDown")
    assert tab.get_attribute("#search", "aria-activedescendant") == "option-1"
    tab.keyboard.press("Enter")
    ready(tab)
    assert tab.locator("#liked .title").all_inner_texts() == [second]
    assert tab.evaluate(focused) == "search"
    tab.keyboard.type("nothing like it")
    assert tab.inner_text("#hits") == "nothing is called that"
    tab.keyboard.press("Escape")
    first = tab.locator("#best > li").first
    first.locator(".add").focus()
    tab.keyboard.press("Enter")
    until(tab, "document.querySelectorAll('#liked li').length === 2")
    ready(tab)
    assert tab.evaluate("document.activeElement.dataset.rank") == "0", "focus is not lost"
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    tab.locator("#best > li").first.locator("table").wait_for()
    tab.context.close()


@needs_browser
@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_and_is_open_to_everyone(browser: Any, made: dict[str, Path], width: int, mode: str) -> None:
    """Nothing is cut at any width, and no rule of axe-core at level A or AA is broken."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="needs axe, the extra 'browser'"
    )
    tab, said = opened(browser, (made["fedals"] / "page.html").as_uri(), width, mode)
    wanted = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}}
    for likes in ((), LIKES):
        pick(tab, *likes)
        for summary in tab.locator("summary").all()[:1]:
            summary.click()
        tab.click("#forget")
        tab.fill("#search", "tale 1")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert said == []
        tab.wait_for_timeout(250)  # colours settle
        found = axe.Axe().run(tab, options=wanted).response
        assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found["violations"]] == []
        assert len(found["passes"]) > 10
        tab.click("#keep")
    assert (tab.evaluate("getComputedStyle(document.body).color") == "rgb(25, 28, 38)") == (mode == "light")
    tab.context.close()


@needs_browser
def test_titles_are_text_and_nothing_can_be_sent(browser: Any, made: dict[str, Path]) -> None:
    tab, said = opened(browser, (made["fedals"] / "page.html").as_uri())
    pick(tab, "onerror")
    assert tab.locator("#liked .title").inner_text() == WILD
    assert tab.title() != "hurt"
    assert tab.locator("#liked img").count() == 0
    assert said == []
    tab.context.set_offline(False)
    for way in ("fetch('https://127.0.0.1:9/')", "fetch('data:,x')"):
        assert tab.evaluate(f"{way}.then(() => 'sent', () => 'refused')") == "refused"
    assert any("connect-src" in line for line in said), "the page's own policy says no"
    tab.context.close()


@needs_browser
def test_from_a_server_it_opens_again_without_it(browser: Any, tastes: Interactions) -> None:
    run = fedrec.run("fedals", tastes, rounds=1, settings={"dim": 4})
    server = host(run.page(), 0)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    tab, said = opened(browser, f"http://127.0.0.1:{server.server_port}/")
    tab.evaluate("navigator.serviceWorker.ready.then(() => 1)")
    until(tab, "caches.open('fedrec page').then(c => c.keys()).then(k => k.length > 0)")
    tab.fill("#search", "3")
    tab.press("#search", "Enter")
    ready(tab)
    before = listed(tab)
    server.shutdown()
    server.server_close()
    tab.reload()
    ready(tab)
    assert listed(tab) == before
    assert [line for line in said if not line.startswith("asked: http://127.0.0.1")] == []
    tab.context.close()


@needs_browser
@pytest.mark.slow
def test_a_large_catalogue_stays_usable(browser: Any, tmp_path: Path) -> None:
    """100 thousand items × 64: what is typed is found, and all is ranked, without the page standing still."""
    n, d, rng = 100_000, 64, np.random.default_rng(0)
    table = rng.normal(0, 0.1, (n, d)).astype(np.float32)
    arrays = {"items": table, "gram": table.T @ table, "prior": np.zeros(d, np.float32)}
    arrays["popularity"] = rng.integers(0, 1000, n).astype(np.int32)
    names = {"items": "items", "gram": "gram", "vector": "user", "prior": "prior"}
    how = {**names, "how": "solve", "alpha": 10.0, "lam": 1.0, "scale": 1.0, "recency": None, "next": None}
    recipe = {"words": [], "private": how, "score": ["linear", "user", None, ["rows", "items"]]}
    about = {"round": "1", "items": json.dumps(list(range(n))), "recipe": json.dumps(recipe)}
    about["titles"] = json.dumps([f"Title {i} of a large catalogue" for i in range(n)])
    export = Export(arrays, recipe, about, n)
    write_page(file := tmp_path / "page.html", page(export, "large", "fedals", half=True))
    tab, said = opened(browser, file.as_uri())
    pick(tab, "4242", "77")  # by their ids
    own = table[[4242, 77]].astype(np.float16).astype(np.float64)
    a = arrays["gram"] + 10 * own.T @ own + 2 * np.eye(d)
    scores = table.astype(np.float16) @ np.linalg.solve(a, 11 * own.sum(axis=0))
    scores[[4242, 77]] = -np.inf
    best = np.argsort(-scores)[:10]
    assert [item for item, _ in listed(tab)] == best.tolist()
    np.testing.assert_allclose([score for _, score in listed(tab)], scores[best], rtol=1e-4, atol=1e-4)
    assert tab.locator("#best > li").count() == 10
    longest = tab.evaluate(
        """async () => { let most = 0; const input = document.querySelector("#search");
        for (const word of ["t", "ti", "title 9", "large cat"]) { const began = performance.now(); input.value = word;
          input.dispatchEvent(new Event("input")); most = Math.max(most, performance.now() - began); } return most; }"""
    )
    assert longest < 1000, "milliseconds for one letter, on a busy machine"
    print(f"{file.stat().st_size / 2**20:.1f} MB; search {longest:.0f} ms; {tab.inner_text('#took')}")
    assert said == []
    tab.context.close()
