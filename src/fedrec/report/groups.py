"""Runs that may stand in one table: the same data and protocol, so the same users and held-out items.

A group has cases (a method with its settings and options), and a case has a run for each seed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError, nearest
from fedrec.report.entries import Entry
from fedrec.study.paired import holm

K = 10
CERTAIN = 0.05
OPTIONS = ("rounds", "clients", "epsilon", "channel", "view", "start", "eval_every", "patience", "local")


@dataclass(eq=False)
class Case:
    """A method with its settings, and its runs by seed."""

    label: str
    entries: list[Entry]

    @property
    def first(self) -> Entry:
        return self.entries[0]

    @property
    def seeds(self) -> list[int]:
        return [entry.config.seed for entry in self.entries]

    @property
    def central(self) -> bool:
        """A yardstick that sees everyone's data."""
        return bool(self.first.result["view"] is None)

    @property
    def learns(self) -> bool:
        """Whether it was trained in rounds."""
        return self.first.result["rounds"] is not None

    def values(self, name: str, full: bool = False, part: str = "test") -> NDArray[np.float64]:
        """A figure in each seed, in percent."""
        found = [e.result[part]["full"] if full else e.result[part] for e in self.entries]
        return np.array([100 * test[name] for test in found])

    def mean(self, name: str, full: bool = False, part: str = "test") -> float:
        return float(self.values(name, full, part).mean())

    def std(self, name: str, full: bool = False) -> float | None:
        values = self.values(name, full)
        return float(values.std(ddof=1)) if len(values) > 1 else None

    @cached_property
    def _ranks(self) -> dict[int, NDArray[np.int64]]:
        return {e.config.seed: e.ranks["test_rank"].to_numpy().astype(np.int64) for e in self.entries}

    def ranks(self, seed: int) -> NDArray[np.int64]:
        """Each user's rank among the candidates, from 0."""
        return self._ranks[seed]

    def gains(self, seeds: Sequence[int]) -> NDArray[np.float64]:
        """Each user's NDCG@10 in points, averaged over seeds."""
        per = [(r < K) / np.log2(r + 2.0) for r in (self.ranks(seed) for seed in seeds)]
        return np.asarray(100 * np.mean(per, axis=0))


@dataclass(frozen=True)
class Difference:
    """To the baseline in NDCG@10, paired over users: mean, corrected p, and what it rests on."""

    mean: float
    p: float
    users: int
    seeds: int

    @property
    def certain(self) -> bool:
        return self.p < CERTAIN


@dataclass(eq=False)
class Group:
    """Cases on one data set under one protocol, the best in NDCG@10 first."""

    data: str
    protocol: str
    cases: list[Case]
    baseline: Case | None = None
    notes: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)  # of the page's methods: one has one colour in all groups

    @property
    def name(self) -> str:
        return f"{self.data}, protocol {self.protocol}"

    @property
    def result(self) -> dict[str, Any]:
        """What all its runs have in common: users, items, controls of a seed."""
        return self.cases[0].first.result

    @property
    def counter(self) -> dict[str, Any]:
        """The negative counter of the run that it says most of: it counts a run's negatives, so runs differ."""
        found = [entry.result["controls"]["counter"] for entry in self.entries]
        return max(found, key=lambda counter: counter["auc"] or 0)

    @property
    def methods(self) -> list[str]:
        """In the order that gives them their colours."""
        here = [case.label for case in self.cases]
        return [label for label in self.order if label in here] or here

    @property
    def entries(self) -> list[Entry]:
        return [entry for case in self.cases for entry in case.entries]

    @cached_property
    def differences(self) -> dict[str, Difference]:
        """By label, for all that share a seed with the baseline; p-values corrected within the group (Holm)."""
        from scipy.stats import wilcoxon

        base, found = self.baseline, {}
        for case in self.cases if base else []:
            seeds = sorted(set(case.seeds) & set(base.seeds)) if base and case is not base else []
            if seeds and base:
                gap = case.gains(seeds) - base.gains(seeds)
                p = float(wilcoxon(gap).pvalue) if gap.any() else 1.0
                found[case.label] = Difference(float(gap.mean()), p, len(gap), len(seeds))
        corrected = holm([one.p for one in found.values()])
        return {
            label: Difference(one.mean, p, one.users, one.seeds)
            for (label, one), p in zip(found.items(), corrected, strict=True)
        }


def groups_of(entries: Sequence[Entry], baseline: str | None = None, else_: str | None = None) -> list[Group]:
    """All runs by data and protocol; those that cannot stand in one table are refused.

    Without a ``baseline`` (a label) it is ``else_`` where that is among them, and otherwise what was given first.
    """
    by_place: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        by_place.setdefault((entry.config.data, entry.config.protocol.name), []).append(entry)
    groups = [_group(data, protocol, some) for (data, protocol), some in by_place.items()]
    groups.sort(key=lambda group: bool(group.counter["leaks"]))  # honest figures first
    known = list(dict.fromkeys(case.label for group in groups for case in group.cases))
    if baseline is not None and baseline not in known:
        raise FedrecError(f"no run of the report is the baseline '{baseline}': {nearest(baseline, known)}")
    for group in groups:
        group.order = known
        some = group.cases if len(group.cases) > 1 else []
        if baseline is not None:
            group.baseline = next((case for case in some if case.label == baseline), None)
        else:
            group.baseline = next((case for case in some if case.label == else_), group.baseline)
    return groups


def _group(data: str, protocol: str, entries: Sequence[Entry]) -> Group:
    first = entries[0]
    for other in entries[1:]:
        for what, mine, theirs in (
            ("data", first.config.fingerprint, other.config.fingerprint),
            ("protocols", first.config.protocol, other.config.protocol),
            ("users", first.result["users"], other.result["users"]),
        ):
            if mine != theirs:
                raise FedrecError(
                    f"{first.path} and {other.path} cannot stand in one table: both say {data}, {protocol}, but their "
                    f"{what} differ, so that they were measured on different splits; report them apart"
                )
    cases = _cases(entries)
    best_first = sorted(cases, key=lambda case: -case.mean("ndcg@10"))
    return Group(data, protocol, best_first, cases[0] if len(cases) > 1 else None)


def _cases(entries: Sequence[Entry]) -> list[Case]:
    """Runs that differ in nothing but the seed, named by what tells them from the others."""
    by_what: dict[str, dict[int, Entry]] = {}
    for entry in entries:
        seeds = by_what.setdefault(json.dumps(_what(entry), sort_keys=True, default=str), {})
        seeds.setdefault(entry.config.seed, entry)  # the same run twice says nothing new
    lots = [[seeds[s] for s in sorted(seeds)] for seeds in by_what.values()]
    return [Case(_label(lot[0], [other[0] for other in lots]), lot) for lot in lots]


def _what(entry: Entry) -> dict[str, Any]:
    config = entry.config.model_dump(mode="json")
    options = {name: config[name] for name in OPTIONS}
    return {"method": config["method"], **options, **config["settings"]}


def _label(entry: Entry, others: Sequence[Entry]) -> str:
    """The method's name; where several cases have it, also what this one has different from another."""
    name = _name(entry)
    same = [_what(other) for other in others if other is not entry and _name(other) == name]
    mine = _what(entry)
    differs = [key for key in mine if any(other.get(key) != mine[key] for other in same)]
    said = ", ".join(f"{key.rpartition('.')[2]}={_short(mine[key])}" for key in differs)
    return f"{name} ({said})" if said else name


def _name(entry: Entry) -> str:
    method = "+".join(part.rpartition("/")[2] for part in str(entry.result["method"]).split("+"))
    return f"{method}, local only" if entry.config.local else method


def _short(value: Any) -> str:
    return "+".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)
