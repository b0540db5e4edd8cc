"""The page in a browser without a network: drawn whole, at any width, in both modes, and open to everyone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, the extra 'browser'")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")

# Texts of a chart that reach beyond it, or lie on each other.
CROWDED = """() => [...document.querySelectorAll(".panel:not([hidden]) .chart")].flatMap((chart) => {
  const box = chart.getBoundingClientRect(), found = [];
  const texts = [...chart.querySelectorAll("svg text")].filter((t) => t.textContent.trim() &&
    getComputedStyle(t).opacity !== "0" && t.getAttribute("opacity") !== "0");
  const boxes = texts.map((t) => [t.textContent, t.getBoundingClientRect()]);
  boxes.forEach(([text, b], i) => {
    if (b.left < box.left - 1 || b.right > box.right + 1 || b.bottom > box.bottom + 1) found.push(`cut: ${text}`);
    boxes.slice(i + 1).forEach(([other, o]) => {
      const wide = Math.min(b.right, o.right) - Math.max(b.left, o.left);
      const high = Math.min(b.bottom, o.bottom) - Math.max(b.top, o.top);
      if (wide > 2 && high > 3) found.push(`${text} over ${other}`);
    });
  });
  return found.map((what) => `${chart.getAttribute("aria-label").slice(0, 40)}: ${what}`);
})"""
# Words of the page itself that are wider than what holds them; tables scroll.
WIDE = """() => [...document.querySelectorAll("h1, h2, h3, h4, p, li, dt, dd, figcaption, label, button, summary, pre")]
  .filter((one) => !one.closest(".scroll") && one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 1)
  .filter((one) => getComputedStyle(one).display !== "inline").map((one) => one.textContent.slice(0, 60))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as api:
        found = api.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def opened(browser: Any, page: Path, width: int = 1440, mode: str = "light") -> tuple[Any, list[str]]:
    """The page when all is drawn, and everything it complained of or asked for."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=mode, offline=True)
    tab, said = context.new_page(), []
    tab.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    tab.on("pageerror", lambda error: said.append(f"error: {error}"))
    tab.on(
        "request",
        lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else said.append(f"asked: {r.url}"),
    )
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-ready=yes]", state="attached", timeout=240_000)
    return tab, said


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 800, 1440])
def test_everything_is_drawn_and_nothing_is_cut(browser: Any, page: Path, width: int, mode: str) -> None:
    tab, said = opened(browser, page, width, mode)
    assert said == []
    charts = "[...document.querySelectorAll('.panel:not([hidden]) .chart')]"
    assert tab.evaluate(f"{charts}.filter((chart) => !chart.querySelector('svg path')).length") == 0
    said_of = tab.evaluate(
        "[...document.querySelectorAll('.chart')].map((chart) => chart.getAttribute('aria-label'))"
    )
    assert "Vega visualization" not in said_of, "every chart is described by what it shows"
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate(CROWDED) == []
    assert tab.evaluate(WIDE) == []
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (mode == "light")
    tab.context.close()


def test_charts_follow_the_mode(browser: Any, page: Path) -> None:
    tab, _ = opened(browser, page)
    first = "document.querySelector('.chart svg text').getAttribute('fill')"
    before = tab.evaluate(first)
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function(f"{first} !== '{before}'")
    tab.context.close()


def test_choices_tables_and_downloads(browser: Any, page: Path) -> None:
    tab, said = opened(browser, page)
    figure = tab.locator("figure[id$=-convergence]")
    figure.get_by_role("radio", name="seconds of training").check()
    tab.wait_for_selector("figure[id$=-convergence] .panel[data-choice='seconds of training'] svg")
    assert figure.locator(".panel:visible").count() == 3
    # A heading sorts up and down; controls stay below.
    rows = "[...document.querySelector('table.sorts').tBodies[0].rows]"
    values = f"{rows}.map((row) => parseFloat(row.cells[2].dataset.value))"
    head = tab.locator("table.sorts").first.locator("thead th").nth(2)
    head.get_by_role("button").click()
    assert tab.evaluate(values) == sorted(tab.evaluate(values), reverse=True)
    head.get_by_role("button").press("Enter")
    assert tab.evaluate(values) == sorted(tab.evaluate(values))
    assert head.get_attribute("aria-sort") == "ascending"
    for kind, begins in (("svg", b"<svg"), ("png", b"\x89PNG"), ("csv", b"method,"), ("table", b"method,")):
        with tab.expect_download() as found:
            tab.locator(f"button[data-save={kind}]:visible").first.click()
        assert Path(found.value.path()).read_bytes().startswith(begins)
    tab.locator("details summary").first.click()
    assert tab.locator("details table tbody tr").count() > 1
    assert said == []
    tab.context.close()


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_it_is_open_to_everyone(browser: Any, page: Path, mode: str) -> None:
    """No rule of axe-core at level A or AA is broken."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="needs axe, the extra 'browser'"
    )
    tab, _ = opened(browser, page, mode=mode)
    wanted = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}}
    found = axe.Axe().run(tab, options=wanted).response
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found["violations"]] == []
    assert len(found["passes"]) > 10
    tab.context.close()
