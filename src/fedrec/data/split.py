"""What is held out: each user's newest interactions and those before them, or all after two points of time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import DataError
from fedrec.core.protocol import STRICT, Protocol, protocol
from fedrec.core.ragged import Ids, Ragged, run_ends
from fedrec.core.rng import client_key, shuffle, stream
from fedrec.core.slots import Catalog
from fedrec.data.clients import ClientData, sorted_distinct
from fedrec.data.features import item_features
from fedrec.data.interactions import Interactions
from fedrec.data.negatives import CANDIDATES, draw_distinct, make_free

TIES = "time-ties"


class Candidates(NamedTuple):
    """The items a held-out one is ranked against, a row per user, padded with -1."""

    valid: NDArray[np.int32]
    test: NDArray[np.int32]
    short: int  # users with fewer than the protocol asks for


@dataclass(frozen=True, eq=False)
class Split:
    """The users that could be split, what they train on and what is held out. Items keep the data's codes."""

    data: Interactions
    protocol: Protocol
    seed: int
    users: NDArray[np.int64]  # index into the data's users
    train: Ragged  # oldest first
    valid_items: Ragged  # held out, oldest first; under ``temporal`` users may have none
    test_items: Ragged
    dropped: int  # users with too few interactions
    held_out: bool = True  # without: everything is trained on, nothing can be measured

    @property
    def valid(self) -> NDArray[np.int32]:
        """The items of ``valid_items`` alone: where one is held out per user, item u is user u's."""
        return self.valid_items.items

    @property
    def test(self) -> NDArray[np.int32]:
        return self.test_items.items

    @property
    def n_users(self) -> int:
        return len(self.users)

    @property
    def n_items(self) -> int:
        return self.data.n_items

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """What each user's random streams hang on."""
        return self.data.user_keys[self.users]

    @cached_property
    def trained(self) -> Ragged:
        """Each user's training items, sorted and distinct."""
        return sorted_distinct(self.train.indptr, self.train.items)

    @cached_property
    def met_by(self) -> NDArray[np.int64]:
        """How many users trained on each item."""
        return np.bincount(self.trained.items, minlength=self.n_items)

    @cached_property
    def met(self) -> Ragged:
        """Each user's items, held-out ones included, sorted and distinct."""
        return sorted_distinct(*self.known.followed_by(self.test_items)) if self.held_out else self.trained

    @cached_property
    def known(self) -> Ragged:
        """What a user has met before its test items, oldest first: training items, then those for validation."""
        return self.train.followed_by(self.valid_items) if self.held_out else self.train

    @property
    def forbidden(self) -> Ragged:
        """The items that may not be drawn as training negatives, under this protocol."""
        return self.met if self.protocol.leaks else self.trained

    @property
    def catalog(self) -> Catalog:
        """What a server may know of these clients."""
        positives = len(self.trained.items) / self.n_users
        ordered = self.data.ordered and self.protocol.split != "random"
        return Catalog(self.n_users, self.n_items, positives, ordered, self.features)

    @cached_property
    def features(self) -> NDArray[np.float32] | None:
        """What is publicly known of the items."""
        return item_features(self.data)

    def clients(self, users: Ids | None = None) -> ClientData:
        """What the devices of some users (all, if none are named) know: nothing that is held out.

        Under a protocol that leaks, the items that training spares are told to them: that is the leak.
        """
        negatives = self.protocol.negatives_per_positive
        known = ClientData(self.keys, self.train, self.trained, self.forbidden, self.n_items, negatives)
        return known if users is None else known.take(users)

    def between(self, first: int, end: int) -> Split:
        """The data's users from ``first`` up to ``end`` alone, numbered anew; items keep their codes."""
        a, b = np.searchsorted(self.users, [first, end])
        rows = slice(self.data.indptr[first], self.data.indptr[end])
        data = replace(
            self.data,
            indptr=self.data.indptr[first : end + 1] - self.data.indptr[first],
            items=self.data.items[rows],
            times=None if self.data.times is None else self.data.times[rows],
            user_ids=self.data.user_ids[first:end],
        )
        mine = np.arange(a, b)
        train, valid, test = (r.take(mine) for r in (self.train, self.valid_items, self.test_items))
        users = self.users[a:b] - first
        return replace(
            self,
            data=data,
            users=users,
            train=train,
            valid_items=valid,
            test_items=test,
            dropped=int(end - first - len(users)),
        )

    @cached_property
    def candidates(self) -> Candidates:
        """Never-interacted items, drawn once; those for validation and those for test do not overlap."""
        wanted = self.protocol.candidates
        pairs = np.full((self.n_users, 2, wanted), -1, dtype=np.int32)
        key = np.uint64(stream(self.seed, CANDIDATES))
        met = self.met
        short = _fill_candidates(key, self.keys, met.indptr, met.items, self.n_items, pairs)
        pairs.setflags(write=False)
        return Candidates(pairs[:, 0], pairs[:, 1], int(short))


def split(
    data: Interactions,
    how: str | Protocol = STRICT,
    seed: int = 0,
    hold_out: bool = True,
    nobody: bool = False,
) -> Split:
    """Split as the protocol says. By leave-out, what a user gets depends on (seed, user) only, not on other users.

    Without ``hold_out`` everything is for training: for people, once it is known how well a method does. Of a part of
    the data it is no error if ``nobody`` has enough.
    """
    how = protocol(how)
    # Without time stamps every order is a guess: a seeded shuffle, whatever the protocol says of ties.
    shuffled = how.time_ties == "shuffle" or data.times is None
    shuffled |= how.split == "random"  # then no row is newer than another
    unordered = data.times is None or how.split == "random"
    times = np.zeros(len(data), np.int64) if unordered else data.times
    cuts = hold_out and how.split == "temporal"
    if cuts and data.times is None:
        raise DataError(
            f"{data.name} has no times, and protocol '{how.name}' cuts at a point of time: use split=leave-out"
        )
    items, when = np.empty_like(data.items), np.empty(len(data) if cuts else 0, np.int64)
    counts = _arrange(
        data.indptr,
        data.items,
        times,
        data.user_keys,
        np.uint64(stream(seed, TIES)),
        shuffled,
        how.deduplicate,
        data.n_items,
        items,
        when,
    )
    users = np.flatnonzero(counts >= (how.least if hold_out else 1))
    if len(users) == 0 and not nobody:
        raise DataError(
            f"no user of {data.name} has the {how.least} interactions that protocol '{how.name}' "
            f"needs (the most is {int(counts.max(initial=0))}): use data with longer histories"
        )
    starts = data.indptr[1:] - counts  # _arrange leaves each user's rows at the end of its run
    if cuts:
        users, tested, validated = _after(how, data.name, when, users, starts, counts)
    else:
        tested = validated = np.full(len(users), how.held_out if hold_out else 0)
    older = counts[users] - tested
    both = hold_out and how.known == "validation-trained"  # then items for validation are trained on as well
    sizes = (older if both else older - validated, validated, tested)
    firsts = (starts[users], starts[users] + older - validated, starts[users] + older)
    train, valid, test = (
        Ragged(run_ends(size), items[_rows(first, size)]) for first, size in zip(firsts, sizes, strict=True)
    )
    return Split(data, how, seed, users, train, valid, test, data.n_users - len(users), hold_out)


def _rows(firsts: Ids, counts: Ids) -> Ids:
    """So many rows from each of these, one after another."""
    ends = run_ends(counts)
    return np.arange(ends[-1]) + np.repeat(firsts - ends[:-1], counts)


def _after(how: Protocol, name: str, when: Ids, users: Ids, starts: Ids, counts: Ids) -> tuple[Ids, Ids, Ids]:
    """Users with something to train on, and how many of their rows come after the points of time that cut.

    Rows of one time stay together, with the older ones: a share is at most what was asked for.
    """
    ends = run_ends(counts[users])
    times = when[_rows(starts[users], counts[users])]
    shares = (how.test_share, how.test_share + how.valid_share)
    last = [len(times) - 1 - int(len(times) * share) for share in shares]
    cut = np.partition(times, last)[last]  # the newest times before the cuts
    late = [np.add.reduceat((times > time).astype(np.int64), ends[:-1]) for time in cut]
    tested, validated = late[0], late[1] - late[0]
    trains = late[1] < counts[users]
    for what, found in (("test", tested[trains]), ("validation", validated[trains])):
        if not found.any():
            raise DataError(
                f"protocol '{how.name}' leaves no user of {name} with training and {what} items: "
                "few were there before and after its points of time, so use split=leave-out or other shares"
            )
    return users[trains], tested[trains], validated[trains]


@nb.njit(cache=True, nogil=True)
def _arrange(
    indptr: Any,
    items: Any,
    times: Any,
    keys: Any,
    tie_stream: Any,
    shuffled: bool,
    distinct: bool,
    n_items: int,
    out: Any,
    when: Any,
) -> Any:
    """Order each user's rows with ties resolved, optionally keep the newest row of each item.

    A user's kept rows stand at the end of its run in ``out``, newest last, their times in ``when`` unless
    that is empty; returns how many there are.
    """
    counts = np.empty(len(indptr) - 1, np.int64)
    mark = np.full(n_items, -1, np.int64)
    for u in range(len(indptr) - 1):
        start, end = indptr[u], indptr[u + 1]
        rows = items[start:end].copy()
        a = 0
        while a < len(rows):
            b = a + 1
            while b < len(rows) and times[start + b] == times[start + a]:
                b += 1
            if b - a > 1:
                if shuffled:
                    shuffle(client_key(client_key(tie_stream, keys[u]), np.uint64(a)), rows[a:b])
                else:  # the row that comes first in the file counts as newest
                    for i in range((b - a) // 2):
                        rows[a + i], rows[b - 1 - i] = rows[b - 1 - i], rows[a + i]
            a = b
        at = end
        for i in range(len(rows) - 1, -1, -1):
            if distinct:
                if mark[rows[i]] == u:
                    continue
                mark[rows[i]] = u
            at -= 1
            out[at] = rows[i]
            if len(when):
                when[at] = times[start + i]  # rows of one time changed places among themselves
        counts[u] = end - at
    return counts


@nb.njit(cache=True, nogil=True)
def _fill_candidates(key: Any, keys: Any, indptr: Any, met: Any, n_items: int, pairs: Any) -> int:
    """Draw for validation and test at once; where too few exist, both get the same number."""
    wanted = pairs.shape[2]
    free = make_free(n_items)
    drawn = np.empty(2 * wanted, np.int32)
    short = 0
    for u in range(len(keys)):
        count = draw_distinct(client_key(key, keys[u]), met[indptr[u] : indptr[u + 1]], n_items, free, drawn)
        if count < 2 * wanted:
            short += 1
        half = count // 2
        for i in range(count):
            which, at = (0, i) if i < half else (1, i - half)
            pairs[u, which, at] = drawn[i]
    return short
