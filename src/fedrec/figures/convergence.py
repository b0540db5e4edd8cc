"""Loss and validation figures while training: against rounds, seconds or bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedrec.figures.theme import Chart, altair, colour, dash, methods_of

Y = {
    "fall": "training loss, share of the first round's, %",
    "hr": "validation HR@10, %",
    "ndcg": "validation NDCG@10, %",
}
X = {
    "round": "round",
    "seconds": "seconds of training",
    "megabytes": "megabytes to and from a client, in all",
}


def convergence(data: Any, y: str = "ndcg", x: str = "round", methods: Sequence[str] | None = None) -> Chart:
    """``data``: method, round, seconds, megabytes, fall, hr, ndcg, selected; a line is the mean over seeds."""
    alt, methods = altair(), methods_of(data, methods)
    base = alt.Chart(data).encode(
        x=alt.X(f"{x}:Q", title=X[x], axis=alt.Axis(tickCount=6)),
        y=alt.Y(f"{y}:Q", title=Y[y], scale=alt.Scale(zero=False)),
        color=colour(methods),
    )
    told = ["method:N", "round:Q", *(alt.Tooltip(f"{name}:Q", format=".4~g") for name in (x, y))]
    # A method that was validated every few rounds has no figure in between.
    lines = base.transform_filter(f"isValid(datum['{y}'])").mark_line().encode(strokeDash=dash(methods))
    marks = (
        base.transform_filter(f"datum.selected && isValid(datum['{y}'])").mark_point().encode(tooltip=told)
    )
    return lines + marks
