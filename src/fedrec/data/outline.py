"""What the driver of a cluster knows of data that its workers hold: names, sizes and sums, no interactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError
from fedrec.core.protocol import Protocol
from fedrec.core.ragged import Ids, run_ends
from fedrec.core.slots import Catalog
from fedrec.data.features import item_features
from fedrec.data.interactions import Interactions, Origin
from fedrec.data.split import Split
from fedrec.data.sums import digest, ids_text, joined_sums


@dataclass(frozen=True, eq=False)
class Piece:
    """What one worker tells of its users."""

    names: Interactions  # of these users, and of all items; without rows
    origin: Origin
    dropped: int
    positives: int  # training items, distinct by user
    ordered: bool
    met_by: NDArray[np.int64]  # how many of its users trained on each item
    cells: Ids  # users of each of its cells
    sums: tuple[str, ...]  # of the whole data, or of each cell's rows
    public: str  # sum over what all workers must agree on: items, and where cells begin


def piece_of(part: Split, cells: Ids, sums: tuple[str, ...], borders: Ids, origin: Origin) -> Piece:
    return Piece(
        without_rows(part.data, part.data.user_ids[part.users]),
        origin,
        part.dropped,
        len(part.trained.items),
        part.data.ordered,
        part.met_by,
        cells,
        sums,
        digest(borders.tobytes(), ids_text(part.data.item_ids)),
    )


@dataclass(frozen=True, eq=False)
class Outline:
    """All pieces side by side; it answers to the names of a split as far as no interaction is asked for."""

    data: Interactions  # without rows: the users that take part, and all items
    protocol: Protocol
    seed: int
    held_out: bool
    dropped: int
    positives: int
    ordered: bool
    met_by: NDArray[np.int64]
    cells: Ids  # where cells begin and end, by the numbers of users that take part
    fingerprint: str

    @property
    def n_users(self) -> int:
        return self.data.n_users

    @property
    def n_items(self) -> int:
        return self.data.n_items

    @property
    def users(self) -> Ids:
        return np.arange(self.n_users)

    @property
    def catalog(self) -> Catalog:
        return Catalog(self.n_users, self.n_items, self.positives / self.n_users, self.ordered, self.features)

    @cached_property
    def features(self) -> NDArray[np.float32] | None:
        return item_features(self.data)

    def __getattr__(self, name: str) -> Any:
        if name in Split.__dataclass_fields__ or (not name.startswith("_") and hasattr(Split, name)):
            raise FedrecError(
                f"'{name}' of these data is with workers: open the run's folder without workers first"
            )
        raise AttributeError(name)

    @classmethod
    def joined(cls, pieces: Sequence[Piece], protocol: Protocol, seed: int, held_out: bool) -> Outline:
        first = pieces[0]
        users = np.concatenate([piece.names.user_ids for piece in pieces])
        return cls(
            without_rows(first.names, users).loaded_from(first.origin),
            protocol,
            seed,
            held_out,
            sum(piece.dropped for piece in pieces),
            sum(piece.positives for piece in pieces),
            any(piece.ordered for piece in pieces),
            np.sum([piece.met_by for piece in pieces], axis=0),
            run_ends(np.concatenate([piece.cells for piece in pieces])),
            joined_sums([piece.sums for piece in pieces], first.names.item_ids),
        )


def without_rows(data: Interactions, user_ids: Any) -> Interactions:
    nothing = np.zeros(0, np.int32)
    ends = np.zeros(len(user_ids) + 1, np.int64)
    return Interactions(
        data.name, ends, nothing, None, user_ids, data.item_ids, data.titles, data.genres, data.notes
    )
