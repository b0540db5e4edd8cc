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

Which = Literal["valid", "test"]


@dataclass(frozen=True, eq=False)
class Exam:
    """A validation and a test item per user, and what each is ranked against: drawn when first asked for."""

    split: Split

    @property
    def valid(self) -> NDArray[np.int32]:
        return self.split.valid

    @property
    def test(self) -> NDArray[np.int32]:
        return self.split.test

    @property
    def candidates(self) -> Candidates:
        return self.split.candidates

    @property
    def trained(self) -> Ragged:
        """Left out where the whole catalogue is ranked."""
        return self.split.trained

    @property
    def known(self) -> Ragged | None:
        """Histories that the test item is ranked from, where they hold more than was trained on."""
        return self.split.known if self.split.protocol.known == "validation" else None

    @cached_property
    def seen(self) -> Ragged:
        """What a device does not offer its user when the test item is ranked: what it knows."""
        return self.trained if self.known is None else sorted_distinct(*self.known)

    @property
    def n_items(self) -> int:
        return self.split.n_items

    @property
    def n_users(self) -> int:
        return len(self.split.valid)

    def positives(self, which: Which) -> NDArray[np.int32]:
        return self.valid if which == "valid" else self.test

    def lines(self, which: Which, users: Ids) -> NDArray[np.int32]:
        """A line per user: the held-out item, then its candidates."""
        candidates = self.candidates.valid if which == "valid" else self.candidates.test
        return np.column_stack([self.positives(which)[users], candidates[users]])
