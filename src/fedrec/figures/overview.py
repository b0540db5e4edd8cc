"""Several data sets at a glance: what each method gains over the baseline, a dot for each data set, a bar at the mean.

What may be luck is pale.
"""

from __future__ import annotations

from typing import Any

from fedrec.figures.theme import Chart, altair

CERTAIN, LUCK = "larger than luck", "may be luck"


def overview(data: Any, baseline: str) -> Chart:
    """``data``: method, data, gain (in points) and whether that is certain; in the order of the lines."""
    import polars as pl

    alt = altair()
    said = pl.when("certain").then(pl.lit(CERTAIN)).otherwise(pl.lit(LUCK)).alias("difference")
    data = data.with_columns(said)
    methods, sets = (data[name].unique(maintain_order=True).to_list() for name in ("method", "data"))
    base = alt.Chart(data).encode(y=alt.Y("method:N", sort=methods, title=None))
    title = [f"NDCG@10 less that of {baseline}, points", "(pale: may be luck; bar: the mean)"]
    dots = base.mark_point().encode(
        x=alt.X("gain:Q", title=title),
        color=alt.Color("data:N", scale=alt.Scale(domain=sets), legend=alt.Legend(title=None)),
        opacity=alt.Opacity(
            "difference:N",
            scale=alt.Scale(domain=[CERTAIN, LUCK], range=[1, 0.3]),
            legend=None,
        ),
        tooltip=["method:N", "data:N", alt.Tooltip("gain:Q", format="+.2f"), "difference:N"],
    )
    means = base.mark_tick(thickness=1.5, color="#777777").encode(x="mean(gain):Q")
    none = alt.Chart(data).mark_rule().encode(x=alt.datum(0))
    return (none + means + dots).properties(height=20 * len(methods))
