"""How figures look: colours that colour-blind readers tell apart, on light and on dark, on screen and on paper.

Colours are those of Okabe and Ito, "Color Universal Design" (2008), the dark ones lightened; a test
simulates three kinds of colour blindness. Charts name no colour: they take them from the configuration,
so that one chart serves a page in either mode and a paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from fedrec.core.errors import FedrecError

Chart = Any  # of altair, which is an extra
Mode = Literal["light", "dark", "paper"]

LIGHT = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#555555")
DARK = ("#3E9BDB", "#F0702A", "#00B886", "#D98BBB", "#8CCBF2", "#F2B632", "#FFFFFF")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])  # beyond seven methods colours come again, dashed
FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"
INK = {"light": ("#1d2430", "#5b6472", "#dfe3e8"), "dark": ("#e8eaed", "#a6adb8", "#343a44")}
COLUMN = 240  # points: the width of a column of a paper


def altair() -> Any:
    """The library that draws; a sentence where it is not installed."""
    try:
        import altair
    except ImportError:
        raise FedrecError(
            "figures are drawn with altair, which is not installed: pip install 'fedrec[report]'"
        ) from None
    return altair


def config(mode: Mode = "light") -> dict[str, Any]:
    """The configuration of Vega-Lite that every chart is drawn with."""
    text, quiet, line = INK["dark" if mode == "dark" else "light"]
    size = 8 if mode == "paper" else 12
    colours = list(DARK if mode == "dark" else LIGHT)
    return {
        "font": FONT,
        "background": "#ffffff" if mode == "paper" else "transparent",
        "padding": {"left": 10, "right": 10, "top": 5, "bottom": 5},
        "view": {
            "stroke": None,
            "continuousWidth": COLUMN if mode == "paper" else 420,
            "continuousHeight": 150 if mode == "paper" else 260,
            "discreteWidth": COLUMN if mode == "paper" else 420,
        },
        "axis": {
            "labelColor": quiet, "titleColor": text, "labelFontSize": size - 1, "titleFontSize": size,
            "titleFontWeight": "normal", "gridColor": line, "domainColor": line, "tickColor": line,
            "titlePadding": size / 2, "labelLimit": 0,
        },
        "legend": {
            "labelColor": text, "titleColor": text, "labelFontSize": size - 1, "titleFontSize": size,
            "titleFontWeight": "normal", "labelLimit": 0, "orient": "bottom", "columns": 2,
            "symbolStrokeWidth": 2,
        },
        "title": {"color": text, "fontSize": size + 1, "fontWeight": "normal", "anchor": "start"},
        "text": {"color": text, "fontSize": size - 1},
        "rule": {"color": quiet},
        "line": {"strokeWidth": 1.2 if mode == "paper" else 2},
        "point": {"size": 20 if mode == "paper" else 60, "filled": True, "opacity": 1},
        "bar": {"color": colours[0]},
        "range": {"category": colours, "ramp": {"scheme": "viridis"}, "heatmap": {"scheme": "viridis"}},
        "aria": False,  # the page describes a figure as a whole, and has its numbers as a table
    }  # fmt: skip


def shown(chart: Chart, mode: Mode = "light") -> Chart:
    """A chart with its configuration, for a notebook."""
    return chart.properties(config=config(mode)) if hasattr(chart, "properties") else chart


def methods_of(data: Any, methods: Sequence[str] | None) -> list[str]:
    """The methods in the order that gives them their colours."""
    return list(methods or data["method"].unique(maintain_order=True).to_list())


def colour(methods: Sequence[str], **more: Any) -> Any:
    """A method's colour: the same in all figures that are given the same methods."""
    alt = altair()
    return alt.Color("method:N", scale=alt.Scale(domain=list(methods)), title=None, **more)


def dash(methods: Sequence[str]) -> Any:
    alt = altair()
    cycles = [DASHES[(i // len(LIGHT)) % len(DASHES)] for i in range(len(methods))]
    scale = alt.Scale(domain=list(methods), range=cycles)
    return alt.StrokeDash("method:N", scale=scale, title=None)
