"""What clients rank with: their own rows, the global table, another client's rows (Figure 3 of PFedRec)."""

from __future__ import annotations

from typing import Any

from fedrec.figures.theme import Chart, altair

NAMES = {"hr": "HR@10, %", "ndcg": "NDCG@10, %"}
ORDER = ["own", "global", "random"]


def views(data: Any, metric: str = "hr") -> Chart:
    """``data``: method, view, and hr and ndcg in percent with ``_low`` and ``_high`` (95% over users)."""
    alt = altair()
    base = alt.Chart(data).encode(
        y=alt.Y("method:N", title=None, sort=None),
        yOffset=alt.YOffset("view:N", scale=alt.Scale(domain=ORDER)),
    )
    told = ["method:N", "view:N", alt.Tooltip(f"{metric}:Q", format=".2f")]
    bars = base.mark_bar().encode(
        x=alt.X(f"{metric}:Q", title=NAMES[metric]),
        color=alt.Color("view:N", title=None, legend=alt.Legend(columns=3), scale=alt.Scale(domain=ORDER)),
        tooltip=told,
    )
    spread = base.mark_rule().encode(x=alt.X(f"{metric}_low:Q", title=NAMES[metric]), x2=f"{metric}_high:Q")
    return (bars + spread).properties(height=16 * len(data) + 12)
