"""Item rows as one client sees them, in two dimensions (Figure 2 of PFedRec, Zhang et al., IJCAI 2023)."""

from __future__ import annotations

from typing import Any

from fedrec.figures.theme import Chart, altair


def tsne(data: Any, method: str, view: str) -> Chart:
    """``data``: method, view, x, y, item (its title), kind ("positive" or "other")."""
    alt = altair()
    kinds = ["other", "positive"]
    base = alt.Chart(data).transform_filter(f"datum.method == {method!r} && datum.view == {view!r}")
    return (
        base.mark_point(strokeWidth=0)
        .encode(
            x=alt.X("x:Q", axis=None, scale=alt.Scale(zero=False)),
            y=alt.Y("y:Q", axis=None, scale=alt.Scale(zero=False)),
            color=alt.Color(
                "kind:N", title=None, scale=alt.Scale(domain=kinds, range=["#9aa1ab", "#D55E00"])
            ),
            shape=alt.Shape(
                "kind:N", title=None, scale=alt.Scale(domain=kinds, range=["circle", "triangle-up"])
            ),
            size=alt.condition("datum.kind == 'positive'", alt.value(45), alt.value(14)),
            opacity=alt.condition("datum.kind == 'positive'", alt.value(0.95), alt.value(0.5)),
            tooltip=["item:N", "kind:N"],
        )
        .properties(height=300)
    )
