"""A figure of groups of users, with the interval that chance leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedrec.figures.theme import Chart, altair, colour, dash, methods_of


def by_bins(
    data: Any, x: str, y: str = "hr", title: str = "HR@10, %", methods: Sequence[str] | None = None
) -> Chart:
    """``data``: method, at (the bin's place), bin (its name), users, and y with ``_low`` and ``_high``."""
    alt, methods = altair(), methods_of(data, methods)
    base = alt.Chart(data).encode(
        x=alt.X(
            "bin:O",
            sort=alt.EncodingSortField(field="at"),
            title=x,
            axis=alt.Axis(labelAngle=0),
            scale=alt.Scale(padding=0.3),
        ),
        color=colour(methods),
        # Intervals stand beside each other.
        xOffset=alt.XOffset("method:N", scale=alt.Scale(domain=list(methods))),
    )
    told = ["method:N", alt.Tooltip("bin:O", title=x), "users:Q", alt.Tooltip(f"{y}:Q", format=".2f")]
    rules = base.mark_rule().encode(y=alt.Y(f"{y}_low:Q", title=title), y2=f"{y}_high:Q")
    dots = base.mark_point().encode(y=alt.Y(f"{y}:Q", title=title, scale=alt.Scale(zero=False)), tooltip=told)
    lines = base.mark_line(strokeWidth=1, opacity=0.6).encode(y=f"{y}:Q", strokeDash=dash(methods))
    return lines + rules + dots
