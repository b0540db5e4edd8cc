"""Charts as files for a paper: SVG, PNG and PDF, a column wide, on white."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedrec.core.errors import FedrecError
from fedrec.core.files import replacing, write
from fedrec.figures.theme import COLUMN, altair, config
from fedrec.report.drawn import Panel
from fedrec.report.html import slug
from fedrec.report.page import Part

SCALE = 4  # of a PNG: 72 points an inch become 288 dots
SMALLER = 0.58  # than on a page, as letters are


def write_figures(
    parts: Sequence[Part], folder: Path, say: Callable[[str], None] = lambda text: None
) -> list[Path]:
    """Each chart as ``DATA-PROTOCOL-FIGURE-CHART.{svg,png,pdf}``, and each figure's numbers as CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for part in parts:
        for one in part.figures:
            say(f"files of {one.key}")
            name = f"{part.key}-{one.key}"
            written.append(folder / f"{name}.csv")
            write(written[-1], one.numbers.write_csv())
            for panel in one.panels:
                written += write_panel(
                    panel, folder, f"{name}-{slug(panel.key)}" if len(one.panels) > 1 else name
                )
    return written


def paper(panel: Panel) -> dict[str, Any]:
    """A chart as Vega-Lite in a paper's size."""
    alt = altair()
    with alt.data_transformers.enable("default", max_rows=None):
        spec: dict[str, Any] = panel.chart.to_dict()
    if isinstance(spec.get("height"), int | float):
        spec["height"] = round(SMALLER * spec["height"])
    return {
        **spec,
        "width": COLUMN,
        "config": config("paper"),
        "autosize": {"type": "fit-x", "contains": "padding"},
    }


def drawing() -> Any:
    """The library that makes files of charts; a sentence where it, or the one that draws, is not installed."""
    altair()
    try:
        import vl_convert
    except ImportError:
        raise FedrecError(
            "files of figures need vl-convert-python, which is not installed: pip install 'fedrec[report]'"
        ) from None
    return vl_convert


def write_panel(panel: Panel, folder: Path, name: str) -> list[Path]:
    """One chart as SVG, PNG and PDF."""
    vl_convert = drawing()
    text = json.dumps(paper(panel))
    svg = vl_convert.vegalite_to_svg(text)
    write(folder / f"{name}.svg", svg)
    for kind, content in (
        ("png", vl_convert.svg_to_png(svg, scale=SCALE)),
        ("pdf", vl_convert.svg_to_pdf(svg)),
    ):
        with replacing(folder / f"{name}.{kind}") as file:
            file.write(content)
    return [folder / f"{name}.{kind}" for kind in ("svg", "png", "pdf")]
