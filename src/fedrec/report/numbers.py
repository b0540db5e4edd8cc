"""The numbers behind the figures of a group, as small tables: per-user arrays are binned here.

All in percent, rounded to what a figure can show: a page of twenty runs stays small.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.report.groups import Case, Group, K
from fedrec.report.people import Bins, People

POINTS = 150  # of a line
Z95 = 1.96


def accuracy_numbers(group: Group) -> Any:
    """Mean and one standard deviation of the test figures."""
    rows = []
    for case in group.cases:
        row: dict[str, Any] = {"method": case.label, "seeds": len(case.entries)}
        for name, metric, full in (
            ("hr", "hr@10", False),
            ("ndcg", "ndcg@10", False),
            ("full_hr", "hr@10", True),
        ):
            mean, std = case.mean(metric, full), case.std(metric, full) or 0.0
            row |= {name: mean, f"{name}_low": mean - std, f"{name}_high": mean + std}
        rows.append(row)
    return _frame(rows)


def convergence_numbers(group: Group) -> Any:
    """Means over seeds, round by round, as far as all seeds went."""
    rows: list[dict[str, Any]] = []
    for case in (case for case in group.cases if case.learns):
        lines = [_cumulated(entry.history, entry.result) for entry in case.entries]
        length = min(map(len, lines))
        chosen = {entry.result["selected_round"] for entry in case.entries}
        kept = _thinned(length, {r - 1 for r in chosen if r})
        for at in kept:
            some = [line[at] for line in lines]
            row = {"method": case.label, "round": some[0]["round"]}
            row |= {
                name: _mean([line.get(name) for line in some])
                for name in ("seconds", "megabytes", "loss", "fall", "hr", "ndcg", "sparsity")
            }
            rows.append({**row, "selected": some[0]["round"] in chosen})
    return _frame(rows)


def _cumulated(history: list[dict[str, Any]], result: dict[str, Any]) -> list[dict[str, Any]]:
    """What was spent up to each round."""
    seconds = moved = 0.0
    lines = []
    first = history[0].get("loss") if history else None
    for line in history:
        seconds += line["fit_seconds"]
        moved += (line["bytes_up"] + line["bytes_down"]) / max(result["users"], 1) / 1e6
        valid = line.get("validation") or {}
        found = {name: 100 * valid[f"{name}@10"] for name in ("hr", "ndcg") if f"{name}@10" in valid}
        if first:  # losses of methods have scales of their own
            found["fall"] = 100 * line["loss"] / first
        if "sparsity" in line:
            found["sparsity"] = 100 * line["sparsity"]
        lines.append(
            {
                "round": line["round"],
                "loss": line.get("loss"),
                "seconds": seconds,
                "megabytes": moved,
                **found,
            }
        )
    return lines


def _thinned(length: int, always: set[int]) -> list[int]:
    evenly = np.linspace(0, length - 1, min(length, POINTS)).round()
    return sorted({*map(int, evenly), *(at for at in always if at < length)})


def rank_numbers(group: Group) -> Any:
    """The share of users whose test item is among the first k, over all seeds."""
    rows = []
    for against, column, most in (
        ("sampled", "test", group.result["protocol_settings"]["candidates"] + 1),
        ("full", "test_full", group.result["items"]),
    ):
        ks = np.unique([*np.geomspace(1, most, 40).round().astype(int), min(K, most)])
        for case in group.cases:
            ranks = np.sort(np.concatenate([e.ranks[f"{column}_rank"].to_numpy() for e in case.entries]))
            shares = 100 * np.searchsorted(ranks, ks, side="left") / len(ranks)
            rows += [
                {
                    "method": case.label,
                    "against": against,
                    "k": int(k),
                    "share": s,
                    "guessing": 100 * k / most,
                }
                for k, s in zip(ks, shares, strict=True)
            ]
    return _frame(rows)


def binned_hits(group: Group, values: dict[int, NDArray[np.int64]]) -> Any:
    """HR@10 by bins of a number of each user, with 95% (Wilson) of what chance leaves."""
    everyone = np.concatenate(list(values.values()))
    bins = Bins.of(everyone)
    names, rows = bins.names(everyone), []
    for case in group.cases:
        at = np.concatenate([bins.place(values[seed]) for seed in case.seeds])
        hit = np.concatenate([case.ranks(seed) < K for seed in case.seeds])
        for b, name in enumerate(names):
            some = hit[at == b]
            if len(some) == 0:
                continue
            # Seeds ask the same users again: the interval counts a user once.
            low, high = wilson(float(some.mean()), len(some) / len(case.seeds))
            row = {"method": case.label, "at": b, "bin": name, "users": round(len(some) / len(case.seeds))}
            rows.append({**row, "hr": 100 * some.mean(), "hr_low": 100 * low, "hr_high": 100 * high})
    return _frame(rows)


def gain_numbers(group: Group) -> Any:
    """For each method the share of users whose test item comes further up or down than with the baseline."""
    rows = []
    for case, seeds in _against(group):
        assert group.baseline is not None
        mine = np.mean([case.ranks(seed) for seed in seeds], axis=0)
        theirs = np.mean([group.baseline.ranks(seed) for seed in seeds], axis=0)
        for change, share in (
            ("worse", (mine > theirs).mean()),
            ("same", (mine == theirs).mean()),
            ("better", (mine < theirs).mean()),
        ):
            rows.append({"method": case.label, "change": change, "share": 100 * float(share)})
    return _frame(rows)


def binned_gains(group: Group, people: People) -> Any:
    """The mean difference in NDCG@10 to the baseline by activity, with 95% over users."""
    rows = []
    for case, seeds in _against(group):
        assert group.baseline is not None
        gap = case.gains(seeds) - group.baseline.gains(seeds)
        values = people.active[seeds[0]]
        bins = Bins.of(values)
        at = bins.place(values)
        for b, name in enumerate(bins.names(values)):
            some = gap[at == b]
            mean = float(some.mean())
            error = Z95 * float(some.std(ddof=1)) / math.sqrt(len(some)) if len(some) > 1 else 0.0
            row = {"method": case.label, "at": b, "bin": name, "users": len(some)}
            rows.append({**row, "gain": mean, "gain_low": mean - error, "gain_high": mean + error})
    return _frame(rows)


def _against(group: Group) -> list[tuple[Case, list[int]]]:
    base = group.baseline
    pairs = [(c, sorted(set(c.seeds) & set(base.seeds))) for c in group.cases if base and c is not base]
    return [(case, seeds) for case, seeds in pairs if seeds]


def privacy_numbers(group: Group) -> Any:
    """Accuracy and ε of every case; empty where no run states one."""
    rows = []
    for case in group.cases:
        stated = epsilon_of(case.first.result)
        row = {
            "method": case.first.result["method"],
            "epsilon": stated and stated[0],
            "delta": stated and stated[1],
        }
        rows.append({**row, "hr": case.mean("hr@10"), "ndcg": case.mean("ndcg@10")})
    return _frame(rows if any(row["epsilon"] is not None for row in rows) else [])


def epsilon_of(result: dict[str, Any]) -> tuple[float, float | None] | None:
    """ε and δ of a whole user's data, where a run states them."""
    stated = result.get("privacy")
    if not isinstance(stated, dict) or stated.get("epsilon") is None:
        return None
    return float(stated["epsilon"]), stated.get("delta")


def wilson(share: float, n: float) -> tuple[float, float]:
    """95% interval of a share of n (Wilson, 1927): stays within 0 and 1."""
    z2 = Z95**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def _mean(values: list[float | None]) -> float | None:
    found = [v for v in values if v is not None and math.isfinite(v)]
    return float(np.mean(found)) if found else None


def _frame(rows: list[dict[str, Any]]) -> Any:
    import polars as pl

    frame = pl.DataFrame(rows, infer_schema_length=None)
    return frame.with_columns(pl.col(pl.Float64).round_sig_figs(6))
