"""Singular values of item tables: how many directions a model really uses (PLGC's dimensional collapse)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedrec.figures.theme import Chart, altair, colour, methods_of

TABLES = ["global", "own", "global, same items"]


def spectrum(data: Any, methods: Sequence[str] | None = None) -> Chart:
    """``data``: method, table (see ``TABLES``), index from 1, share of the largest singular value."""
    alt, methods = altair(), methods_of(data, methods)
    dashes = alt.Scale(domain=TABLES, range=[[1, 0], [5, 3], [2, 2]])
    narrow = alt.Legend(columns=1)  # beside the methods, on a phone too
    return (
        alt.Chart(data)
        .mark_line(point=False)
        .encode(
            x=alt.X("index:Q", title="singular value, largest first", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("share:Q", title="share of the largest"),
            color=colour(methods),
            strokeDash=alt.StrokeDash("table:N", title=None, scale=dashes, legend=narrow),
            detail="slot:N",
            tooltip=["method:N", "table:N", "slot:N", "index:Q", alt.Tooltip("share:Q", format=".3f")],
        )
    )
