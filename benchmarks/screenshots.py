"""Pictures for the documentation: a report (a wide screen, figures in the dark, a phone), and the page of a run.

    python benchmarks/screenshots.py                    # of the newest report that `make demo` left
    python benchmarks/screenshots.py report.html --out docs/images

The page is that of FedALS on the made data `demo`.

Needs the extra `browser` and a chromium of the system.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from playwright.sync_api import sync_playwright

import fedrec

QUIET = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
MOST = 450_000  # bytes of all pictures together: they are part of every clone
# Name: width, height, light or dark, and the part of the page that is at the top.
SHOTS = {
    "report": (1000, 850, "light", None),
    "report-convergence": (1000, 480, "dark", "figure[id$=-convergence]"),
    "report-phone": (390, 800, "dark", "figure[id$=-activity]"),
}
# The same of the page; its first recommendation is opened.
PAGES = {"page": (1000, 880, "light"), "page-phone": (390, 800, "dark")}
LIKES = 3  # of what is offered to begin with


def newest() -> Path:
    found = sorted(Path("runs").glob("demo-*/report.html"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise typer.BadParameter("there is no runs/demo-*/report.html: run make demo first, or name a report")
    return found[-1]


def shoot(browser: Any, page: Path, file: Path, width: int, height: int, mode: str, part: str | None) -> None:
    tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=mode)
    tab.goto(page.resolve().as_uri())
    tab.wait_for_selector("html[data-ready=yes]", state="attached", timeout=240_000)
    if part is not None:
        tab.evaluate("part => document.querySelector(part).scrollIntoView()", part)
    tab.screenshot(path=file)
    tab.close()


def visit(browser: Any, page: Path, file: Path, width: int, height: int, mode: str) -> None:
    """Somebody likes a few things, and asks why."""
    tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=mode)
    tab.goto(page.resolve().as_uri())
    ready = "html[data-ready=yes]"
    for like in range(LIKES):
        tab.wait_for_selector(ready, state="attached", timeout=60_000)
        tab.locator(".chip").nth(2 * like).click()
    tab.wait_for_selector(ready, state="attached", timeout=60_000)
    tab.locator("#best summary").first.click()
    if width < 500:
        tab.evaluate("document.querySelector('#found').scrollIntoView()")
    tab.wait_for_timeout(500)
    tab.screenshot(path=file)
    tab.close()


def main(
    page: Annotated[Path | None, typer.Argument(help="A report; the newest of make demo if none.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the pictures.")] = Path("docs/images"),
) -> None:
    """Write the pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise typer.BadParameter("there is no chromium on this machine: install your system's package of it")
    shown = page or newest()
    out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as api:
        browser = api.chromium.launch(executable_path=chromium, args=QUIET)
        for name, shot in SHOTS.items():
            shoot(browser, shown, out / f"{name}.png", *shot)
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "page.html"
            fedrec.run("fedals", "demo").page(made)
            for name, (width, height, mode) in PAGES.items():
                visit(browser, made, out / f"{name}.png", width, height, mode)
        browser.close()
    names = [*SHOTS, *PAGES]
    size = sum((out / f"{name}.png").stat().st_size for name in names)
    print(f"{len(names)} pictures in {out}, {size / 1e3:.0f} kB; reports from {shown}")
    if size > MOST:
        raise SystemExit(f"they have more than {MOST / 1e3:.0f} kB: take fewer or smaller ones")


if __name__ == "__main__":
    typer.run(main)
