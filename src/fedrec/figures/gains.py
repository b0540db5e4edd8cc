"""Who gains and who loses against a baseline: users whose test item comes further up, or further down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedrec.figures.bins import by_bins
from fedrec.figures.theme import Chart, altair

SIDES = ["#BF812D", "#9AA1AB", "#35978F"]  # told apart by colour-blind readers, and no method's colours


def gains(data: Any) -> Chart:
    """``data``: method, change ("better", "worse", "same") and the share of users in percent."""
    alt = altair()
    sides = ["worse", "same", "better"]
    y = alt.Y("method:N", title=None, sort=None)
    bars = (
        alt.Chart(data)
        .transform_calculate(place="indexof(['worse', 'same', 'better'], datum.change)")
        .mark_bar()
        .encode(
            y=y,
            x=alt.X(
                "share:Q", stack="normalize", title="share of users", axis=alt.Axis(format="%", tickCount=5)
            ),
            color=alt.Color(
                "change:N",
                title=None,
                legend=alt.Legend(columns=3),
                scale=alt.Scale(domain=sides, range=SIDES),
            ),
            order="place:Q",
            tooltip=["method:N", "change:N", alt.Tooltip("share:Q", format=".1f")],
        )
    )
    return bars.properties(height=26 * data["method"].n_unique() + 6)


def gains_by_activity(data: Any, methods: Sequence[str] | None = None) -> Chart:
    """``data`` as ``by_bins`` takes it, of the difference in NDCG@10 to the baseline."""
    return by_bins(
        data, "training items of a user", "gain", "NDCG@10 beside the baseline, points", methods=methods
    )
