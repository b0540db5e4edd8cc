"""Interactions: who met what, when. Immutable, compact, one run of items per user in time order."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import DataError

Ids = NDArray[np.int64] | NDArray[np.object_]


@dataclass(frozen=True)
class Origin:
    """What data were loaded from, and with which options of ``fedrec.load``: enough to load them again."""

    source: str
    options: Mapping[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Interactions:
    """A data set as arrays: user ``u`` met ``items[indptr[u]:indptr[u + 1]]``, oldest first.

    Rows of equal time keep the order of the file. ``times`` is None where the source has none.
    """

    name: str
    indptr: NDArray[np.int64]
    items: NDArray[np.int32]
    times: NDArray[np.int64] | None
    user_ids: Ids
    item_ids: Ids
    titles: tuple[str, ...] | None = None
    genres: tuple[tuple[str, ...], ...] | None = None
    notes: tuple[str, ...] = field(default=())
    # Not copied by ``replace``: data that were changed are no longer what was loaded.
    origin: Origin | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        for array in (self.indptr, self.items, self.times, self.user_ids, self.item_ids):
            if array is not None:
                array.setflags(write=False)

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return (
            f"Interactions({self.name!r}: {len(self):,} rows, {self.n_users:,} users, {self.n_items:,} items)"
        )

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Rows per user."""
        return np.diff(self.indptr)

    @cached_property
    def ordered(self) -> bool:
        """Whether it is known of any user what came first: there are times, and not all are equal."""
        if self.times is None:
            return False
        same_user = np.ones(max(len(self) - 1, 0), np.bool_)
        same_user[self.indptr[1:-1][(self.indptr[1:-1] > 0) & (self.indptr[1:-1] < len(self))] - 1] = False
        return bool((np.diff(self.times) != 0)[same_user].any())

    @cached_property
    def user_keys(self) -> NDArray[np.uint64]:
        """A number per user made from its original id alone: what a user's random streams hang on."""
        if self.user_ids.dtype != object:
            return self.user_ids.astype(np.int64).view(np.uint64)
        digests = (hashlib.blake2b(str(u).encode(), digest_size=8).digest() for u in self.user_ids)
        return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)

    def items_of(self, user: int) -> NDArray[np.int32]:
        """The items of one user (by index), oldest first."""
        return self.items[self.indptr[user] : self.indptr[user + 1]]

    def title(self, item: int) -> str:
        """A name for an item: its title where known, else its original id."""
        return self.titles[item] if self.titles is not None else str(self.item_ids[item])

    def at_least(self, minimum: int) -> Interactions:
        """Only users with at least ``minimum`` rows, and only the items those users met."""
        keep = self.counts >= minimum
        if not keep.any():
            raise DataError(
                f"no user of {self.name} has {minimum} interactions (the most is "
                f"{int(self.counts.max(initial=0))}): ask for a smaller minimum"
            )
        return self.only(np.repeat(keep, self.counts))

    def loaded_from(self, origin: Origin) -> Interactions:
        """The same data, knowing what they were loaded from."""
        data = replace(self)
        object.__setattr__(data, "origin", origin)
        return data

    def only(self, rows: NDArray[np.bool_]) -> Interactions:
        """Only these rows, and only the users and items that occur in them."""
        items = self.items[rows]
        before = np.concatenate([[0], np.cumsum(rows)])
        counts = np.diff(before[self.indptr])
        keep = counts > 0
        seen = np.zeros(self.n_items, dtype=bool)
        seen[items] = True
        renumber = (np.cumsum(seen) - 1).astype(np.int32)
        chosen = np.flatnonzero(seen)
        return replace(
            self,
            indptr=np.concatenate([[0], np.cumsum(counts[keep])]).astype(np.int64),
            items=renumber[items],
            times=None if self.times is None else self.times[rows],
            user_ids=self.user_ids[keep],
            item_ids=self.item_ids[chosen],
            titles=None if self.titles is None else tuple(self.titles[i] for i in chosen),
            genres=None if self.genres is None else tuple(self.genres[i] for i in chosen),
        )


def from_codes(
    name: str,
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    times: NDArray[np.int64] | None,
    user_ids: Ids,
    item_ids: Ids,
    titles: Sequence[str] | None = None,
    genres: Sequence[Sequence[str]] | None = None,
    notes: Sequence[str] = (),
) -> Interactions:
    """Build from parallel columns of codes in file order: grouped by user, sorted by time, stably."""
    if len(users) == 0:
        raise DataError(f"{name} holds no interactions: give a file with at least one row")
    order = np.argsort(users, kind="stable") if times is None else np.lexsort((times, users))
    counts = np.bincount(users, minlength=len(user_ids))
    return Interactions(
        name=name,
        indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        items=items[order].astype(np.int32, copy=False),
        times=None if times is None else times[order],
        user_ids=user_ids,
        item_ids=item_ids,
        titles=None if titles is None else tuple(titles),
        genres=None if genres is None else tuple(tuple(g) for g in genres),
        notes=tuple(notes),
    )
