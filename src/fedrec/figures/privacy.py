"""Accuracy beside the privacy that it was had with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedrec.figures.theme import Chart, altair, colour, methods_of


def privacy(data: Any, metric: str = "ndcg", methods: Sequence[str] | None = None) -> Chart:
    """``data``: method, epsilon (none: without noise), and hr and ndcg in percent.

    A method without an epsilon is a dashed line across: what privacy is paid from.
    """
    alt, methods = altair(), methods_of(data, methods)
    title = {"hr": "HR@10, %", "ndcg": "NDCG@10, %"}[metric]
    y = alt.Y(f"{metric}:Q", title=title, scale=alt.Scale(zero=False))
    base = alt.Chart(data).encode(color=colour(methods))
    some = base.transform_filter("isValid(datum.epsilon)")
    dots = some.mark_line(point={"size": 60}).encode(
        x=alt.X("epsilon:Q", title="ε of a whole user's data (smaller is more private)", scale=alt.Scale(type="log")),
        y=y,
        tooltip=["method:N", "epsilon:Q", "delta:Q", alt.Tooltip(f"{metric}:Q", format=".2f")],
    )  # fmt: skip
    without = base.transform_filter("!isValid(datum.epsilon)").mark_rule(strokeDash=[5, 3])
    return without.encode(y=y, tooltip=["method:N", alt.Tooltip(f"{metric}:Q", format=".2f")]) + dots
