"""Who the users of a group are: how active, and how popular their test item is. Needs the data of the runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.data.split import split
from fedrec.report.groups import Group
from fedrec.runs.data import data_of

BINS = 5


@dataclass(frozen=True)
class People:
    """Per seed, each user's training items and the training interactions of its test item."""

    active: dict[int, NDArray[np.int64]]
    popular: dict[int, NDArray[np.int64]]


def data_for(group: Group) -> Interactions:
    """The data that its runs were made on."""
    entry = group.entries[0]
    return data_of(entry.config, None, str(entry.path))


def people_of(group: Group, data: Interactions) -> People:
    active, popular = {}, {}
    for seed in sorted({entry.config.seed for entry in group.entries}):
        entry = next(e for e in group.entries if e.config.seed == seed)
        parts = split(data, entry.config.protocol, seed)
        if parts.n_users != len(entry.ranks):
            raise FedrecError(
                f"{entry.path}/ranks.parquet has {len(entry.ranks)} users and the data have {parts.n_users}"
            )
        active[seed] = np.diff(parts.trained.indptr).astype(np.int64)
        counts = np.bincount(parts.trained.items, minlength=parts.n_items)
        popular[seed] = counts[parts.test].astype(np.int64)
    return People(active, popular)


@dataclass(frozen=True)
class Bins:
    """Ranges that hold about as many users each."""

    edges: NDArray[np.int64]  # the first value of each but the first bin

    @classmethod
    def of(cls, values: NDArray[np.int64], bins: int = BINS) -> Bins:
        cuts = np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1], method="higher")
        return cls(np.unique(cuts[cuts > values.min()]))

    def place(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self.edges, values, side="right")

    def names(self, values: NDArray[np.int64]) -> list[str]:
        low = [int(values.min()), *self.edges.tolist()]
        high = [*(self.edges - 1).tolist(), int(values.max())]
        return [f"{a}" if a == b else f"{a}–{b}" for a, b in zip(low, high, strict=True)]
