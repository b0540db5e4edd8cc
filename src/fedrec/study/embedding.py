"""Item rows as one client sees them: under the global table, and under its own view.

Figure 2 of PFedRec (Zhang et al., IJCAI 2023) lays them out in two dimensions with t-SNE (van der Maaten and
Hinton, 2008) and marks the client's positives. A picture of a cloud is easily over-read, so that beside it stands a
number from the rows themselves: how many of a positive's nearest rows are positives too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.store import fetched
from fedrec.core.blocks import single_threaded_blas
from fedrec.core.errors import FedrecError
from fedrec.core.federated import View
from fedrec.core.rng import generator
from fedrec.core.slots import Array
from fedrec.runs.run import Run
from fedrec.simulate.simulation import Simulation
from fedrec.study.collapse import simulation_of

EMBEDDING = "embedding"
NEAREST = 10
LEAST = 5  # rows that can be laid out


@dataclass(frozen=True)
class Seen:
    """The same items under one view of one client."""

    view: View
    items: NDArray[np.int64]
    rows: Array
    positive: NDArray[np.bool_]

    @property
    def nearness(self) -> float:
        """The share of positives among a positive's nearest rows (by cosine), on average."""
        norms = np.linalg.norm(self.rows, axis=1, keepdims=True)
        unit = self.rows / np.maximum(norms, 1e-12)
        like = unit[self.positive] @ unit.T
        like[np.arange(len(like)), np.flatnonzero(self.positive)] = -np.inf
        near = np.argpartition(-like, NEAREST, axis=1)[:, :NEAREST]
        return float(self.positive[near].mean())

    @property
    def chance(self) -> float:
        """The same if rows said nothing."""
        return float((self.positive.sum() - 1) / (len(self.rows) - 1))

    def places(self, seed: int = 0) -> Array:
        """Where t-SNE puts the rows, on one thread: the same for any number of them."""
        try:
            from sklearn.manifold import TSNE
        except ImportError:
            raise FedrecError(
                "t-SNE comes from scikit-learn, which is not installed: pip install 'fedrec[report]'"
            ) from None
        perplexity = min(30.0, (len(self.rows) - 1) / 3)
        made = TSNE(perplexity=perplexity, init="pca", random_state=seed, n_jobs=1)
        with single_threaded_blas():
            return np.asarray(made.fit_transform(self.rows.astype(np.float32)))


def client_for(run: Run, seed: int = 0) -> int:
    """A client to look at: drawn from the more active half, the same for all runs on the same split."""
    counts = np.diff(run.split.trained.indptr)
    some = np.flatnonzero(counts >= np.median(counts))
    return int(generator(seed, EMBEDDING).choice(some))


def embedding(run: Run, client: int | None = None, most: int = 1000, seed: int = 0) -> list[Seen]:
    """Rows of the round that a federated run selected, under each of its views but ``random``.

    Up to ``most`` items: the client's positives first, then others that it holds rows of, then any.
    """
    simulation = simulation_of(run, "an embedding")
    assert simulation.selected is not None
    if most < LEAST:
        raise FedrecError(f"most={most} rows are too few to lay out: give at least {LEAST}")
    client = client_for(run, seed) if client is None else client
    if not 0 <= client < run.split.n_users:
        raise FedrecError(f"there is no client {client}: they run from 0 to {run.split.n_users - 1}")
    views: list[View] = [view for view in simulation.views if view != "random"]
    parts = {view: _rows(simulation, view, client) for view in views}
    held = next((holds for _, holds in parts.values() if len(holds)), np.zeros(0, np.int64))
    positives = run.split.trained.of(client).astype(np.int64)
    items = _chosen(positives, held, run.split.n_items, most, seed)
    marked = np.isin(items, positives)
    return [Seen(view, items, table[items], marked) for view, (table, _) in parts.items()]


def _chosen(positives: Any, held: Any, n_items: int, most: int, seed: int) -> NDArray[np.int64]:
    rng = generator(seed, f"{EMBEDDING} items")
    order = [positives, np.setdiff1d(held, positives)]
    order.append(np.setdiff1d(np.arange(n_items), np.concatenate(order)))
    # At most half are positives, so that there is something to tell them from.
    order[0] = rng.permutation(order[0])[: most // 2]
    return np.sort(np.concatenate([order[0], *map(rng.permutation, order[1:])])[:most]).astype(np.int64)


def _rows(simulation: Simulation, view: View, client: int) -> tuple[Array, NDArray[np.int64]]:
    """One flat row per item as the client has it, and the items whose rows are its own.

    Private rows that stand beside a shared table (FedRAP, PLGC) are columns of their own.
    """
    assert simulation.selected is not None
    ready = simulation.scorer(simulation.selected.moment, view).ready(np.array([client]))
    slots, n_items = simulation.clients.slots, simulation.split.n_items
    tables = {n: v.reshape(n_items, -1).copy() for n, v in ready.shared.items() if slots[n].rows}
    holds = []
    for name, own in ready.part.rows.items() if view == "own" else ():
        rows = fetched(own)
        width = math.prod(slots[name].shape[1:])  # a client that never took part holds no row to tell it
        values = rows.values.reshape(-1, width)
        if name not in tables:
            tables[name] = np.zeros((n_items, width), np.float32)
        tables[name][rows.items.items] = np.nan_to_num(values)  # not a number: an item it has not met so far
        holds.append(rows.items.items)
    if not tables:
        raise FedrecError(f"{simulation.method.label} keeps no item rows to look at")
    held = np.unique(np.concatenate(holds)) if holds else np.zeros(0)
    return np.concatenate(list(tables.values()), axis=1), held.astype(np.int64)
