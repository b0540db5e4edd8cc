"""What devices are asked afterwards: held-out items among candidates. No part of training ever holds one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedrec.core.ragged import Ids, Ragged
from fedrec.data.clients import sorted_distinct
from fedrec.data.split import Candidates, Split
from fedrec.evaluate.metrics import Ranks

Which = Literal["valid", "test"]


@dataclass(frozen=True, eq=False)
class Exam:
    """Validation and test items, and what each is ranked against: drawn when first asked for."""

    split: Split

    @property
    def valid(self) -> NDArray[np.int32]:
        return self.split.valid

    @property
    def test(self) -> NDArray[np.int32]:
        return self.split.test

    @property
    def selects(self) -> Which:
        """Which items' figure selects the round."""
        return "test" if self.split.protocol.select_by == "test" else "valid"

    @property
    def candidates(self) -> Candidates:
        return self.split.candidates

    @property
    def known(self) -> Ragged | None:
        """Histories that the test item is ranked from, where they hold more than was trained on."""
        return self.split.known if self.split.protocol.known == "validation" else None

    @cached_property
    def seen(self) -> Ragged:
        """What a device does not offer its user when the test item is ranked: what it knows."""
        return self.split.trained if self.known is None else self.known_before

    @property
    def n_items(self) -> int:
        return self.split.n_items

    @property
    def n_users(self) -> int:
        return self.split.n_users

    def held(self, which: Which) -> Ragged:
        return self.split.valid_items if which == "valid" else self.split.test_items

    @cached_property
    def one_each(self) -> bool:
        """One item per user, so that an item's place is its user's number."""
        single = np.arange(self.n_users + 1)
        return all(np.array_equal(h.indptr, single) for h in (self.split.valid_items, self.split.test_items))

    def places(self, which: Which, users: Ids) -> Ids:
        """Where the held-out items of some users stand among all of them."""
        return users if self.one_each else self.held(which).places(users)

    def unranked(self, which: Which) -> Ranks:
        """A place for every held-out item."""
        held = self.held(which)
        owners = None if self.one_each else np.repeat(np.arange(self.n_users), np.diff(held.indptr))
        return Ranks.none(len(held.items), owners)

    def left_out(self, which: Which) -> Ragged:
        """What takes no part where the whole catalogue is ranked, unless it is the item that is asked for."""
        return self.split.met if which == "test" else self.known_before

    @cached_property
    def known_before(self) -> Ragged:
        """Training items and those for validation, sorted and distinct."""
        return sorted_distinct(*self.split.known)

    def lines(self, which: Which, users: Ids) -> NDArray[np.int32]:
        """A line per user: the held-out items, padded with -1, then the candidates."""
        candidates = self.candidates.valid if which == "valid" else self.candidates.test
        held, items = self.held(which), self.held(which).items
        if self.one_each:
            return np.column_stack([items[users], candidates[users]])
        counts = held.counts(users)
        most = int(counts.max(initial=1))
        lines = np.full((len(users), most + candidates.shape[1]), -1, np.int32)
        lines[:, most:] = candidates[users]
        lines[:, :most][np.arange(most) < counts[:, None]] = items[held.places(users)]
        return lines
