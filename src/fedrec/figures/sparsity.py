"""How much of the common item table is zero, round by round (FedRAP's sparse table)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedrec.figures.theme import Chart, altair, colour, dash, methods_of


def sparsity(data: Any, methods: Sequence[str] | None = None) -> Chart:
    """``data``: method, round, sparsity in percent."""
    alt, methods = altair(), methods_of(data, methods)
    return (
        alt.Chart(data)
        .mark_line()
        .encode(
            x=alt.X("round:Q", title="round", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("sparsity:Q", title="zeros in the common table, %"),
            color=colour(methods),
            strokeDash=dash(methods),
            tooltip=["method:N", "round:Q", alt.Tooltip("sparsity:Q", format=".1f")],
        )
    )
