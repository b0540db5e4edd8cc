"""Popularity mining, after PIECK (Zhang et al., "Preventing the Popular Item Embedding Based Attack in Federated
Recommendations", ICDE 2024).

Rows of popular items move most from one broadcast to the next: that finds them without any knowledge of people. People
are then approximated by histories of popular things, and what those ask of the target is sent, lengthened.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.clients import Clients
from fedrec.core.messages import Broadcast
from fedrec.core.upload import Upload
from fedrec.study.poison import random
from fedrec.study.poison.forger import PASSES

NAME = "popular"
WATCHED = 2  # moves of the table that are watched
MINED = 0.1  # of the catalogue: what is called popular


@dataclass
class Forger(random.Forger):
    moved: NDArray[np.float64] | None = None  # how far each row has moved
    before: NDArray[np.float64] | None = None
    watched: int = 0
    mined: Clients | None = field(init=False, default=None)

    def uploads(self, told: Broadcast) -> Upload:
        self.watch(told)
        if self.watched < WATCHED:
            return self.honestly(told)
        if self.mined is None:
            assert self.moved is not None
            popular = np.argsort(-self.moved, kind="stable")[: max(round(MINED * len(self.moved)), 10)]
            self.mined = self.devices([self.fillers(popular) for _ in range(self.count)])
            self.mined.join(told, PASSES)
        return self.lengthened(self.sent(self.mined, told))

    def watch(self, told: Broadcast) -> None:
        """The table of item vectors, the widest that is shared."""
        slots = self.method.slots(self.catalog)
        tables = [v for n, v in told.shared.items() if slots[n].rows and v.ndim > 1]
        if not tables or self.watched >= WATCHED:
            return
        now = max(tables, key=lambda table: table.shape[1]).astype(np.float64)
        if self.before is not None:
            step = np.linalg.norm(now - self.before, axis=1)
            self.moved = step if self.moved is None else self.moved + step
            self.watched += 1
        self.before = now
