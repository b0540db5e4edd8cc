"""Test figures of all methods, a dot each with its spread over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedrec.figures.theme import Chart, altair, colour, methods_of

NAMES = {"hr": "HR@10, %", "ndcg": "NDCG@10, %", "full_hr": "HR@10, whole catalogue, %"}


def accuracy(data: Any, metric: str = "hr", methods: Sequence[str] | None = None) -> Chart:
    """``data``: method, and for a metric its mean, ``_low`` and ``_high`` (one standard deviation), in percent."""
    alt, methods = altair(), methods_of(data, methods)
    y = alt.Y("method:N", sort=alt.EncodingSortField(field=metric, order="descending"), title=None)
    base = alt.Chart(data).encode(y=y, color=colour(methods, legend=None))
    x = alt.X(f"{metric}:Q", title=NAMES[metric], scale=alt.Scale(zero=False, nice=True, padding=12))
    spread = base.mark_rule(strokeWidth=2).encode(
        x=alt.X(f"{metric}_low:Q", title=NAMES[metric]), x2=f"{metric}_high:Q"
    )
    told = [
        alt.Tooltip("method:N"),
        *(alt.Tooltip(f"{metric}{part}:Q", format=".2f") for part in ("", "_low", "_high")),
    ]
    dots = base.mark_point(size=80).encode(x=x, tooltip=told)
    return (spread + dots).properties(height=24 * len(methods) + 6)
