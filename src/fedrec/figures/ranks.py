"""Where the test item came: the share of users who find it among the first k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedrec.figures.theme import Chart, altair, colour, dash, methods_of

NAMES = {"sampled": "rank among the candidates, at most", "full": "rank in the whole catalogue, at most"}


def ranks(data: Any, against: str = "sampled", methods: Sequence[str] | None = None) -> Chart:
    """``data``: method, against ("sampled" or "full"), k, share in percent; ``guessing`` is the share of chance."""
    alt, methods = altair(), methods_of(data, methods)
    base = alt.Chart(data).transform_filter(f"datum.against == '{against}'")
    x = alt.X("k:Q", title=NAMES[against], scale=alt.Scale(type="log", nice=False))
    y = alt.Y("share:Q", title="share of users, %")
    told = ["method:N", "k:Q", alt.Tooltip("share:Q", format=".1f")]
    lines = base.mark_line().encode(x=x, y=y, color=colour(methods), strokeDash=dash(methods), tooltip=told)
    chance = base.mark_line(strokeDash=[2, 3], strokeWidth=1, color="#888888").encode(
        x=x, y=alt.Y("mean(guessing):Q", title="share of users, %")
    )
    return chance + lines
