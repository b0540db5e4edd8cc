"""The figures of a group: for each a question, what is drawn, what it says, and its numbers.

Only what there are data for is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedrec.figures.accuracy import accuracy
from fedrec.figures.activity import activity
from fedrec.figures.convergence import X, Y, convergence
from fedrec.figures.gains import gains, gains_by_activity
from fedrec.figures.popularity import popularity
from fedrec.figures.privacy import privacy
from fedrec.figures.ranks import ranks
from fedrec.figures.sparsity import sparsity
from fedrec.report import numbers
from fedrec.report.groups import Group
from fedrec.report.people import People


@dataclass(frozen=True)
class Panel:
    """One chart of a figure. ``choice``: shown where the reader chose it."""

    key: str
    title: str
    alt: str
    chart: Any
    choice: str = ""
    own_legend: bool = False  # in a figure with one legend for its lines, a chart of something else


@dataclass(frozen=True)
class Figure:
    key: str
    title: str
    caption: str
    panels: list[Panel]
    numbers: Any
    finding: str = ""
    legend: list[str] = field(default_factory=list)  # methods by colour; else charts have their own legends
    order: list[str] = field(default_factory=list)  # of colours, where it is not the legend's
    pairs: bool = False  # charts stand two by two


def figures_of(group: Group, people: People | None) -> Iterator[Figure]:
    """All figures that results, histories and ranks are enough for."""
    methods = group.methods
    yield _accuracy(group)
    if any(case.learns for case in group.cases):
        yield _convergence(group)
    yield _ranks(group)
    if people is not None:
        yield _binned(
            group,
            "activity",
            "Does it serve those who say little?",
            "HR@10 by how many items a user trained on, in five groups of about as many users.",
            activity(found := numbers.binned_hits(group, people.active), methods),
            found,
        )
        yield _binned(
            group,
            "popularity",
            "Does it find what few know?",
            "HR@10 by how many users trained on the test item. Where only the right end is high, a method mostly "
            "recommends what is popular.",
            popularity(found := numbers.binned_hits(group, people.popular), methods),
            found,
        )
    if group.differences:
        yield _gains(group, people)
    yield from _sparsity(group)
    yield from _privacy(group)


def _accuracy(group: Group) -> Figure:
    found = numbers.accuracy_numbers(group)
    panels = [
        Panel(metric, "", _told(group, title, name, full), accuracy(found, metric, group.methods))
        for metric, title, name, full in (
            ("ndcg", "NDCG@10", "ndcg@10", False),
            ("hr", "HR@10", "hr@10", False),
            ("full_hr", "HR@10 in the whole catalogue", "hr@10", True),
        )
    ]
    several = max(len(case.entries) for case in group.cases) > 1
    spread = "; a bar is one standard deviation over seeds to either side" if several else ""
    caption = f"Test figures of the round selected on validation{spread}. Axes do not begin at zero."
    return Figure("accuracy", "How accurate is each method?", caption, panels, found)


def _convergence(group: Group) -> Figure:
    found = numbers.convergence_numbers(group)
    found = found.drop([c for c in ("sparsity",) if c in found.columns])
    measured = [y for y in Y if y in found.columns and found[y].drop_nulls().len()]
    learned = [case for case in group.cases if case.learns]
    panels = [
        Panel(
            f"{y}-{x}",
            "",
            f"{Y[y]} against {X[x]}, a line for each of {_list([c.label for c in learned])}.",
            convergence(found, y, x, group.methods),
            X[x],
        )
        for x in X
        for y in measured
    ]
    rounds = ", ".join(f"{case.label} {_rounds(case.entries)}" for case in learned)
    caption = (
        "While training, means over seeds. A dot marks a round that validation selected: it is the one that is tested. "
        "Losses of different methods have different terms; their levels cannot be compared."
    )
    return Figure(
        "convergence",
        "How fast does it learn, and at what cost?",
        caption,
        panels,
        found,
        f"Selected rounds: {rounds}.",
        [case.label for case in learned],
        group.methods,
    )


def _ranks(group: Group) -> Figure:
    found = numbers.rank_numbers(group)
    candidates = group.result["protocol_settings"]["candidates"]
    told = "share of users whose test item is among the first k"
    panels = [
        Panel(
            "sampled",
            f"Among {candidates:,} candidates and the test item",
            f"{told}, sampled candidates.",
            ranks(found, "sampled", group.methods),
        ),
        Panel(
            "full",
            f"Among all {group.result['items']:,} items",
            f"{told}, whole catalogue.",
            ranks(found, "full", group.methods),
        ),
    ]
    caption = (
        "The share of users who find their test item among the first k. At k = 10 it is HR@10. "
        "The dotted line is guessing."
    )
    return Figure("ranks", "Where does the test item come?", caption, panels, found, legend=group.methods)


def _binned(group: Group, key: str, title: str, caption: str, chart: Any, found: Any) -> Figure:
    caption += " Bars are 95% intervals over users (Wilson)."
    alt = f"{title} HR@10 of {_list(group.methods)} in {found['bin'].n_unique()} groups of users."
    return Figure(key, title, caption, [Panel(key, "", alt, chart)], found, legend=group.methods)


def _gains(group: Group, people: People | None) -> Figure:
    assert group.baseline is not None
    base = group.baseline.label
    found = numbers.gain_numbers(group)
    others = [label for label in group.methods if label in group.differences]
    panels = [
        Panel(
            "share",
            "Users by what happens to their test item",
            f"Shares of users whose test item comes further up or down than with {base}.",
            gains(found),
            own_legend=True,
        ),
    ]
    if people is not None:
        binned = numbers.binned_gains(group, people)
        alt = f"Mean difference in NDCG@10 to {base} of {_list(others)}, by activity of users."
        panels.append(Panel("activity", "By activity", alt, gains_by_activity(binned, group.methods)))
    best = {label: _share(found, label, "better") for label in others}
    finding = "; ".join(
        f"{label}: further up for {share:.0f}%, further down for {_share(found, label, 'worse'):.0f}%"
        for label, share in best.items()
    )
    caption = (
        f"Each user's rank among the candidates, averaged over common seeds, beside {base}, the baseline. "
        "By activity: the difference in NDCG@10, with 95% over users."
    )
    return Figure(
        "gains",
        f"Who gains and who loses against {base}?",
        caption,
        panels,
        found,
        f"{finding}.",
        others,
        group.methods,
    )


def _sparsity(group: Group) -> Iterator[Figure]:
    found = numbers.convergence_numbers(group)
    if "sparsity" not in found.columns or not found["sparsity"].drop_nulls().len():
        return
    found = found.select("method", "round", "sparsity").drop_nulls()
    last = found.group_by("method", maintain_order=True).last()
    finding = "; ".join(f"{m}: {s:.1f}% at the end" for m, s in last.select("method", "sparsity").iter_rows())
    yield Figure(
        "sparsity",
        "How sparse is the common table?",
        "The share of entries of the table that all clients fetch which are as good as zero (FedRAP).",
        [Panel("sparsity", "", f"Sparsity by round. {finding}.", sparsity(found, group.methods))],
        found,
        f"{finding}.",
        found["method"].unique(maintain_order=True).to_list(),
        group.methods,
    )


def _privacy(group: Group) -> Iterator[Figure]:
    found = numbers.privacy_numbers(group)
    if found.is_empty():
        return
    methods = found["method"].unique(maintain_order=True).to_list()
    order = list(
        dict.fromkeys([*group.methods, *methods])
    )  # a method is one line here, whatever its channels
    panels = [
        Panel(metric, "", f"{metric.upper()}@10 against ε.", privacy(found, metric, order))
        for metric in ("ndcg", "hr")
    ]
    yield Figure(
        "privacy",
        "What does privacy cost?",
        "Accuracy beside ε for a whole user's data. Dashed lines are methods without noise, which state no ε. "
        "These figures themselves are not private: they were measured on held-out items.",
        panels,
        found,
        legend=methods,
        order=order,
    )


def _told(group: Group, title: str, name: str, full: bool) -> str:
    values = ", ".join(f"{case.label} {case.mean(name, full):.1f}" for case in group.cases)
    return f"{title} in percent: {values}."


def _share(found: Any, label: str, change: str) -> float:
    import polars as pl

    return float(found.filter((pl.col("method") == label) & (pl.col("change") == change))["share"][0])


def _rounds(entries: Sequence[Any]) -> str:
    chosen = [entry.result["selected_round"] for entry in entries]
    played = max(entry.result["rounds"] for entry in entries)
    low, high = min(chosen), max(chosen)
    return f"{low if low == high else f'{low}–{high}'} of {played}"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else "".join(names)
