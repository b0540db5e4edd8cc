"""Uploads of a block of clients, and the sums that the server makes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrec.core.federated import Total
from fedrec.core.slots import Array, Slot
from fedrec.data.split import Ragged


@dataclass(frozen=True)
class Upload:
    """What leaves the clients of a block: for tables the touched rows, other slots whole."""

    held: Ragged  # the items whose rows each client sends
    rows: dict[str, Array]  # (rows of all clients, …)
    dense: dict[str, Array]  # (clients, …)
    weights: Array

    @property
    def clients(self) -> int:
        return len(self.weights)

    def only(self, kept: NDArray[np.bool_]) -> Upload:
        """Without the clients that are not kept."""
        if kept.all():
            return self
        counts = np.diff(self.held.indptr)
        rows = np.repeat(kept, counts)
        indptr = np.concatenate([[0], np.cumsum(counts[kept])]).astype(np.int64)
        return replace(
            self,
            held=Ragged(indptr, self.held.items[rows]),
            rows={n: v[rows] for n, v in self.rows.items()},
            dense={n: v[kept] for n, v in self.dense.items()},
            weights=self.weights[kept],
        )

    def moved(self) -> Upload:
        """Without rows that are zero everywhere."""
        there = np.zeros(len(self.held.items), np.bool_)
        for values in self.rows.values():
            there |= values.reshape(len(values), -1).any(axis=1)
        before = np.concatenate([[0], np.cumsum(there)])
        held = Ragged(before[self.held.indptr].astype(np.int64), self.held.items[there])
        return replace(self, held=held, rows={n: v[there] for n, v in self.rows.items()})


def empty_total(declared: dict[str, Slot]) -> Total:
    return Total(
        sums={n: np.zeros(s.shape, np.float32) for n, s in declared.items()},
        counts={n: np.zeros(s.shape[0], np.float32) for n, s in declared.items() if s.rows},
    )


def summed(upload: Upload, declared: dict[str, Slot]) -> Total:
    """The sum of a block's uploads, in the order of its clients."""
    import torch

    total = empty_total(declared)
    items = torch.from_numpy(upload.held.items.astype(np.int64))
    weights = torch.from_numpy(np.repeat(upload.weights, np.diff(upload.held.indptr)))
    for name, values in upload.rows.items():
        rows = torch.from_numpy(values)
        weighted = rows * weights.reshape(-1, *([1] * (rows.dim() - 1)))
        torch.from_numpy(total.sums[name]).index_add_(0, items, weighted)
        total.counts[name] += np.bincount(upload.held.items, minlength=len(total.counts[name]))
    for name, values in upload.dense.items():
        total.sums[name] += np.tensordot(upload.weights, values, axes=1)
    total.weight = float(upload.weights.sum(dtype=np.float64))
    total.clients = upload.clients
    return total


def add(total: Total, block: Total) -> None:
    """Add a block's sums. Called block by block in a fixed order: the same bits for any number of threads."""
    for name, values in block.sums.items():
        total.sums[name] += values
    for name, values in block.counts.items():
        total.counts[name] += values
    total.weight += block.weight
    total.clients += block.clients
