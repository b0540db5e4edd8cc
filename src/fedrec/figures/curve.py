"""What privacy costs: accuracy against ε, a colour for every number of users."""

from __future__ import annotations

from typing import Any

from fedrec.figures.theme import Chart, altair

DASHES = ([1, 0], [2, 2], [5, 3])  # with ε, what is to be beaten, without ε


def curve(data: Any, metric: str = "ndcg") -> Chart:
    """``data``: users, method (one of three, see ``DASHES``), epsilon (none: without noise), hr and ndcg in percent."""
    alt = altair()
    title = {"hr": "HR@10, %", "ndcg": "NDCG@10, %"}[metric]
    methods = data["method"].unique(maintain_order=True).to_list()
    private = set(data.drop_nulls("epsilon")["method"])
    methods.sort(key=lambda name: (name not in private, name.startswith("private")))
    epsilons = sorted({round(x, 3) for x in data["epsilon"].drop_nulls()})
    users = sorted(data["users"].unique(), reverse=True)
    base = alt.Chart(data).encode(
        y=alt.Y(f"{metric}:Q", title=title, scale=alt.Scale(zero=False)),
        color=alt.Color(
            "users:N", scale=alt.Scale(domain=users), legend=alt.Legend(title="users", format=",")
        ),
        strokeDash=alt.StrokeDash(
            "method:N",
            scale=alt.Scale(domain=methods, range=[list(one) for one in DASHES[: len(methods)]]),
            legend=alt.Legend(title=None, columns=1, symbolType="stroke"),
        ),
        tooltip=["method:N", "users:Q", "epsilon:Q", "delta:Q", alt.Tooltip(f"{metric}:Q", format=".2f")],
    )
    lines = base.transform_filter("isValid(datum.epsilon)").encode(
        x=alt.X(
            "epsilon:Q",
            title="ε of a whole user's data (smaller is more private)",
            scale=alt.Scale(type="log", domain=[epsilons[0] / 1.1, epsilons[-1] * 1.1], nice=False),
            axis=alt.Axis(values=epsilons, format="~g"),
        )
    )
    without = base.transform_filter("!isValid(datum.epsilon)").mark_rule()
    return without + lines.mark_line() + lines.mark_point(strokeDash=[1, 0])
