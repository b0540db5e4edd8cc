"""What clients rank with: their own rows, the global table, another client's rows (Figure 3 of PFedRec)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedrec.figures.theme import Chart, altair, colour, methods_of

NAMES = {"hr": "HR@10, %", "ndcg": "NDCG@10, %"}
ORDER = ["own", "global", "random"]
SHADES = [1.0, 0.55, 0.25]  # of the method's colour
GREY = "#888888"  # of the legend: seen on light and on dark


def views(data: Any, metric: str = "hr", methods: Sequence[str] | None = None) -> Chart:
    """``data``: method, view, and hr and ndcg in percent with ``_low`` and ``_high`` (95% over users)."""
    alt, methods = altair(), methods_of(data, methods)
    shades = alt.Scale(domain=ORDER, range=SHADES)
    key = alt.Legend(columns=3, symbolFillColor=GREY, symbolStrokeColor=GREY)
    base = alt.Chart(data).encode(
        y=alt.Y("method:N", title=None, sort=None),
        yOffset=alt.YOffset("view:N", scale=alt.Scale(domain=ORDER)),
    )
    told = ["method:N", "view:N", alt.Tooltip(f"{metric}:Q", format=".2f")]
    bars = base.mark_bar().encode(
        x=alt.X(f"{metric}:Q", title=NAMES[metric]),
        color=colour(methods, legend=None),
        # In an order: Vega-Lite warns of shades for mere names.
        opacity=alt.Opacity("view:O", title=None, sort=ORDER, scale=shades, legend=key),
        tooltip=told,
    )
    spread = base.mark_rule().encode(x=alt.X(f"{metric}_low:Q", title=NAMES[metric]), x2=f"{metric}_high:Q")
    return (bars + spread).properties(height=16 * len(data) + 12)
