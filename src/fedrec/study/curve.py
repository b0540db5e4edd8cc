"""What privacy costs: accuracy against ε, for some data sets and numbers of users, as runs that are found again.

Beside a method at each ε stand private popularity at the same ε and the method without noise: what is to be beaten,
and what is paid from. With fewer users the same noise drowns more: those are drawn at random, the catalogue stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedrec.channel.budget import check_numbers
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.core.rng import generator
from fedrec.data.interactions import Interactions
from fedrec.runs import border
from fedrec.study.case import Case, loaded_once
from fedrec.study.compare import Changed, compare_cases
from fedrec.study.grid import settings_by_method

OUT = Path("runs/curve")
EPSILONS = (1.0, 2.0, 5.0, 10.0, 20.0)
POPULARITY, ITS_FORM = "private popularity", "private-fedals"  # of one round, without columns: counts alone
PATIENCE = 3  # validations without a better one, where nothing is private
LEAST = 10  # users


@dataclass(frozen=True)
class Curve:
    """Points: means over seeds, in percent."""

    rows: list[dict[str, Any]]
    folder: Path
    played: int  # runs that had to be made

    @property
    def frame(self) -> Any:
        import polars as pl

        found = pl.DataFrame(self.rows, infer_schema_length=None)
        return found.with_columns(pl.col(pl.Float64).round_sig_figs(6))


def curve(
    method: str = "fedals",
    data: Any = "demo",
    epsilons: Sequence[float | str] = EPSILONS,
    users: Sequence[int | str] = ("all",),
    protocol: str = "strict",
    seeds: int = 3,
    *,
    settings: Mapping[str, Any] | None = None,
    out: str | Path = OUT,
    jobs: int | None = None,
    threads: int | None = None,
    changed: Changed = lambda board, said: None,
) -> Curve:
    """Run what is missing of data × users × ε × seeds; a mistake is an error before anything runs."""
    folder, seeds = border.path_of("out", out), border.whole("--seeds", seeds, 1)
    if not isinstance(border.method_of(method), Federated):
        raise FedrecError(f"a curve does not apply to {method}: it is not federated, nothing is sent")
    chosen = [border.number("--epsilon", each) for each in epsilons]
    mine = settings_by_method([method], border.settings_of(settings))[method]
    cases = []
    for name in dict.fromkeys(border.several(data)):
        whole = loaded_once(name)
        for count in dict.fromkeys(users):
            cases += _cases(method, mine, some_users(whole, count), protocol, chosen)
    found = compare_cases(
        cases, folder, seeds, jobs=jobs, threads=threads, changed=changed, tables=False,
    )  # fmt: skip
    for line in found.lines:
        if line.failed:
            raise FedrecError(f"{line.case.name} on {line.case.data_name}: {line.failed}")
    return Curve([_point(line) for line in found.lines], folder, found.played)


def some_users(data: Interactions, count: int | str) -> Interactions:
    """So many of its users, drawn once for all seeds, with the whole catalogue; a larger draw has the smaller in it."""
    if count == "all":
        return data
    n = border.whole("--users", count, LEAST)
    if n > data.n_users:
        raise FedrecError(
            f"--users {n} is more than the {data.n_users} of {data.name}: ask for fewer, or all"
        )
    kept = np.zeros(data.n_users, np.bool_)
    kept[generator(0, "users of a curve").permutation(data.n_users)[:n]] = True
    rows = np.repeat(kept, data.counts)
    return replace(
        data,
        name=f"{data.name}-{n}-users",
        indptr=np.concatenate([[0], np.cumsum(data.counts[kept])]).astype(np.int64),
        items=data.items[rows],
        times=None if data.times is None else data.times[rows],
        user_ids=data.user_ids[kept],
    )


def _cases(
    method: str, settings: dict[str, Any], data: Interactions, protocol: str, epsilons: Sequence[float]
) -> list[Case]:
    found = [Case(method, data, protocol, settings, {"patience": PATIENCE}, "without ε")]
    for epsilon in dict.fromkeys(epsilons):
        check_numbers(epsilon, None, data.n_users)
        options = {"epsilon": epsilon}
        found.append(Case(method, data, protocol, settings, options, f"{method} at ε={epsilon:g}"))
        counts = {**options, "rounds": 1}
        found.append(
            Case(ITS_FORM, data, protocol, {"features": 0}, counts, f"{POPULARITY} at ε={epsilon:g}")
        )
    return found


def _point(line: Any) -> dict[str, Any]:
    """A row of numbers; ``method`` is what a line of the figure is called."""
    case, first = line.case, line.results[0]
    stated, private = first["privacy"], case.options.get("epsilon") is not None
    called = POPULARITY if case.name.startswith(POPULARITY) else case.method
    base, n = case.data_name.removesuffix(f"-{first['users']}-users"), first["users"]
    point = {"data": base, "users": n, "method": called if private else f"{case.method} without ε"}
    point |= {name: stated[name] if private else None for name in ("epsilon", "delta")}
    for name in ("hr", "ndcg"):
        spread = line.std(f"{name}@10")
        point |= {
            name: 100 * line.mean(f"{name}@10"),
            f"{name}_std": None if spread is None else 100 * spread,
        }
    return {**point, "seeds": len(line.results)}
