"""Several data sets at a glance: what each method gains over the baseline, a dot for each data set, a bar at the mean.

What may be luck is pale. Who lacks some of the data has no bar: means over different data do not compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedrec.figures.theme import LIGHT, Chart, altair

CERTAIN, LUCK = "larger than luck", "may be luck"
SHAPES = ("circle", "square", "triangle-up", "diamond")  # beyond seven data sets colours come again


def overview(data: Any, baseline: str, sets: Sequence[str]) -> Chart:
    """``data``: method, data, gain (in points) and whether that is certain; in the order of the lines.

    ``sets`` are all data sets, in the order that gives them their colours.
    """
    import polars as pl

    alt = altair()
    said = pl.when("certain").then(pl.lit(CERTAIN)).otherwise(pl.lit(LUCK)).alias("difference")
    data = data.with_columns(said)
    methods = data["method"].unique(maintain_order=True).to_list()
    shapes = [SHAPES[(at // len(LIGHT)) % len(SHAPES)] for at in range(len(sets))]
    title = [f"NDCG@10 less that of {baseline}, points", "(pale: may be luck; bar: the mean)"]
    x, y = alt.X("gain:Q", title=title), alt.Y("method:N", sort=methods, title=None)
    dots = (
        alt.Chart(data)
        .mark_point()
        .encode(
            x=x,
            y=y,
            color=alt.Color("data:N", scale=alt.Scale(domain=list(sets)), legend=alt.Legend(title=None)),
            shape=alt.Shape(
                "data:N", scale=alt.Scale(domain=list(sets), range=shapes), legend=alt.Legend(title=None)
            ),
            opacity=alt.Opacity(
                "difference:N", scale=alt.Scale(domain=[CERTAIN, LUCK], range=[1, 0.3]), legend=None
            ),
            tooltip=["method:N", "data:N", alt.Tooltip("gain:Q", format="+.2f"), "difference:N"],
        )
    )
    everywhere = data.filter(pl.col("data").n_unique().over("method") == len(sets))
    means = alt.Chart(everywhere).mark_tick(thickness=1.5, color="#777777")
    means = means.encode(x=alt.X("mean(gain):Q", title=title), y=y)
    none = alt.Chart(pl.DataFrame({"zero": [0]})).mark_rule().encode(x="zero:Q")
    return (none + means + dots).properties(height=20 * len(methods))
