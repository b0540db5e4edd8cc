"""What leaves clients: declared beforehand, one by one as an ``Upload``, added up as a ``Total``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError
from fedrec.core.ragged import Ids, Ragged, run_ends
from fedrec.core.slots import Array, Arrays, Slot

Implied = Callable[
    [Ragged, Arrays], tuple[Arrays, Arrays]
]  # (items, told) -> rows, dense; as an ``Upload`` has them
Leaving = Callable[["Upload", NDArray[np.int64], int, NDArray[np.uint64]], "Upload"]


@dataclass(frozen=True)
class Uploads:
    """The declaration: nothing else leaves a client."""

    arrays: dict[str, Slot]
    weight: Literal["client", "samples"] = "client"  # what a client counts by; its samples are an upload too
    moved_rows: bool = False  # rows that are zero are left out
    leaving: Leaving | None = None  # what devices do to their uploads as part of the method:
    #                     (uploads, samples of each, items of the catalogue, random key of each) -> uploads
    wire: dict[str, Slot] | None = (
        None  # what crosses the network where the arrays stand for something larger
    )
    turns: int = 1  # random groups that a round's clients send in; the server steps after each
    norms: Mapping[str, float] = field(
        default_factory=dict
    )  # what an array counts in an upload's norm, if not 1
    shares: Callable[[int], float] | None = (
        None  # of a privacy budget: what a round may use beside the others
    )
    implied: Implied | None = None  # what a device must send whose rows these are; None: rows do not tell
    share: float = 1.0  # that of this round
    clients: int = 1  # who are expected to send in it
    told: Arrays = field(default_factory=dict)  # the shared arrays that devices were sent

    def at(self, round: int, clients: int = 1, told: Arrays | None = None) -> Uploads:
        """As they are in a round, to which so many clients are expected."""
        share = self.shares(round) if self.shares else 1.0
        return replace(self, share=share, clients=clients, told=told or {})

    def norm(self, name: str) -> float:
        """How much an array counts in the norm of an upload."""
        return self.norms.get(name, 1.0)

    @property
    def on_wire(self) -> dict[str, Slot]:
        return self.arrays if self.wire is None else self.wire


@dataclass(frozen=True)
class Upload:
    """What leaves some clients: of tables the touched rows, other arrays whole."""

    items: Ragged  # whose rows each client sends
    rows: Arrays  # (rows of all clients, …)
    dense: Arrays  # (clients, …)
    weights: Array

    @property
    def clients(self) -> int:
        return len(self.weights)

    def only(self, kept: NDArray[np.bool_]) -> Upload:
        """Without the clients that are not kept."""
        if kept.all():
            return self
        there = np.repeat(kept, np.diff(self.items.indptr))
        return replace(
            self,
            items=self.items.take(np.flatnonzero(kept)),
            rows={n: v[there] for n, v in self.rows.items()},
            dense={n: v[kept] for n, v in self.dense.items()},
            weights=self.weights[kept],
        )

    def one(self, client: int) -> Upload:
        """The upload of one client by itself."""
        run = slice(self.items.indptr[client], self.items.indptr[client + 1])
        items = self.items.items[run]
        return Upload(
            Ragged(np.array([0, len(items)]), items),
            {n: v[run] for n, v in self.rows.items()},
            {n: v[client : client + 1] for n, v in self.dense.items()},
            self.weights[client : client + 1],
        )

    def moved(self) -> Upload:
        """Without rows that are zero everywhere."""
        there = np.zeros(len(self.items.items), np.bool_)
        for values in self.rows.values():
            there |= values.any(axis=tuple(range(1, values.ndim))) if values.ndim > 1 else values != 0
        before = np.concatenate([[0], np.cumsum(there)])
        items = Ragged(before[self.items.indptr].astype(np.int64), self.items.items[there])
        return replace(self, items=items, rows={n: v[there] for n, v in self.rows.items()})

    def without_items(self) -> Upload:
        """Where no row is sent, nothing says which were touched."""
        return replace(
            self, items=Ragged(np.zeros(self.clients + 1, np.int64), self.items.items[:0]), rows={}
        )

    def finite(self) -> NDArray[np.bool_]:
        """Which clients sent nothing but finite numbers."""
        owner = np.repeat(np.arange(self.clients), np.diff(self.items.indptr))
        found = np.isfinite(self.weights)
        for values in self.rows.values():
            bad = ~np.isfinite(values.reshape(len(values), int(np.prod(values.shape[1:])))).all(axis=1)
            found &= np.bincount(owner[bad], minlength=self.clients) == 0
        for values in self.dense.values():
            found &= np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
        return found

    def whole(self, uploads: Uploads) -> Upload:
        """One client's upload with a row for every item, zero where it touched none."""
        rows = {}
        n_items = 0
        for name, values in self.rows.items():
            n_items = uploads.arrays[name].shape[0]
            rows[name] = np.zeros((n_items, *values.shape[1:]), np.float32)
            rows[name][self.items.items] = values
        return replace(
            self, items=Ragged(np.array([0, n_items]), np.arange(n_items, dtype=np.int32)), rows=rows
        )

    def without(self, name: str) -> Upload:
        """All arrays but one."""
        return replace(self, dense={n: v for n, v in self.dense.items() if n != name})


def joined(uploads: Sequence[Upload]) -> Upload:
    """Uploads of single clients side by side."""
    first = uploads[0]
    items = Ragged(
        run_ends(np.array([len(u.items.items) for u in uploads])),
        np.concatenate([u.items.items for u in uploads]),
    )
    return Upload(
        items,
        {n: np.concatenate([u.rows[n] for u in uploads]) for n in first.rows},
        {n: np.concatenate([u.dense[n] for u in uploads]) for n in first.dense},
        np.concatenate([u.weights for u in uploads]),
    )


@dataclass
class Total:
    """What the server sees of some clients: sums, and what is told to it (or a third party) by each of them."""

    sums: Arrays
    weight: float = 0.0
    clients: int = 0
    told: dict[str, list[tuple[Ids, Array]]] = field(default_factory=dict)  # by whom, what

    @classmethod
    def empty(cls, declared: dict[str, Slot]) -> Total:
        return cls({n: np.zeros(s.shape, np.float32) for n, s in declared.items()})

    def add(self, other: Total) -> None:
        """Called block by block in a fixed order: the same bits for any number of threads."""
        for name, values in other.sums.items():
            if self.clients:
                self.sums[name] += values
            else:  # the first are taken as they are
                self.sums[name] = values
        for name, parts in other.told.items():
            self.told.setdefault(name, []).extend(parts)
        self.weight += other.weight
        self.clients += other.clients


def summed(upload: Upload, declared: dict[str, Slot]) -> Total:
    """The sum of some clients' uploads, each times its weight, in the order of the clients."""
    total = Total.empty(declared)
    items, counts = upload.items.items, np.diff(upload.items.indptr)
    weights = np.repeat(upload.weights, counts)
    for name, values in upload.rows.items():
        table = total.sums[name]
        width = int(np.prod(table.shape[1:]))
        flat = np.ascontiguousarray(values, np.float32).reshape(len(values), width)
        _add_rows(table.reshape(len(table), width), items, flat, weights)
    for name, values in upload.dense.items():
        total.sums[name] += np.tensordot(upload.weights, values, axes=1)
    total.weight = float(upload.weights.sum(dtype=np.float64))
    total.clients = upload.clients
    return total


@nb.njit(cache=True, nogil=True)
def _add_rows(table: Array, items: NDArray[np.int32], values: Array, weights: Array) -> None:
    for k in range(len(items)):
        row, weight = items[k], weights[k]
        for j in range(values.shape[1]):
            table[row, j] += values[k, j] * weight


def check_sent(label: str, sent: Upload | Total, slots: dict[str, Slot], declared: dict[str, Slot]) -> None:
    """The only way out of a client: refuses private slots, what is not declared, other shapes, and silence."""
    names = sent.sums.keys() if isinstance(sent, Total) else sent.rows.keys() | sent.dense.keys()
    if missing := declared.keys() - names:
        raise FedrecError(f"'{min(missing)}' is declared in the uploads of {label} and was not sent")
    if isinstance(sent, Total):
        for name, values in sent.sums.items():
            check_name(label, name, slots, declared)
            check_shape(label, name, values.shape, declared[name].shape)
        return
    for name, values in sent.rows.items():
        check_name(label, name, slots, declared)
        check_shape(label, name, values.shape, (len(sent.items.items), *declared[name].shape[1:]))
    for name, values in sent.dense.items():
        check_name(label, name, slots, declared)
        check_shape(label, name, values.shape, (sent.clients, *declared[name].shape))


def check_name(label: str, name: str, slots: dict[str, Slot], declared: dict[str, Slot]) -> None:
    """Whether an array of this name may leave a client."""
    if name in slots and slots[name].owner != "shared":
        raise FedrecError(f"'{name}' is a {slots[name].owner} slot of {label}: it may not leave a client")
    if name not in declared:
        raise FedrecError(f"'{name}' is not declared in the uploads of {label}: it may not leave a client")


def check_shape(label: str, name: str, found: tuple[int, ...], declared: tuple[int, ...]) -> None:
    if tuple(found) != tuple(declared):
        raise FedrecError(
            f"'{name}' of {label} has shape {tuple(found)} after local training and {tuple(declared)} was "
            "declared: mend 'fit', or the declaration"
        )
