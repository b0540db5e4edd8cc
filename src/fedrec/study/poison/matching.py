"""Gradient matching: made-up people are honest, but chosen such that what they ask of the target goes the wanted way.

The idea of Geiping et al., "Witches' Brew" (ICLR 2021), with histories in place of pictures: of many made-up histories
those are taken whose upload for the target agrees best with what a crowd of mainstream people would ask of it. Every
upload is one that an honest device could send: norms and rows are as usual.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedrec.clients.clients import Clients
from fedrec.core.messages import Broadcast
from fedrec.core.upload import Upload
from fedrec.study.poison import popular
from fedrec.study.poison.forger import PASSES

NAME = "matching"
POOL = 4  # made-up histories for each device that lies


@dataclass
class Forger(popular.Forger):
    pool: Clients | None = field(init=False, default=None)

    def uploads(self, told: Broadcast) -> Upload:
        self.watch(told)
        if self.watched < popular.WATCHED:
            return self.honestly(told)
        if self.pool is None:
            assert self.moved is not None
            liked = np.argsort(-self.moved, kind="stable")[: max(round(popular.MINED * len(self.moved)), 10)]
            self.pool = self.devices([self.fillers(liked) for _ in range(POOL * self.count)])
            self.pool.join(told, PASSES)
        sent = self.sent(self.pool, told)
        asked = self.asked(sent)
        wanted = asked.mean(axis=0)
        kept = np.zeros(sent.clients, np.bool_)
        kept[np.argsort(-(asked @ wanted), kind="stable")[: self.count]] = True
        return sent.only(kept)

    def asked(self, sent: Upload) -> np.ndarray:
        """The target's row in each upload, all tables side by side."""
        owner = np.repeat(np.arange(sent.clients), np.diff(sent.items.indptr))
        at = sent.items.items == self.target
        rows = [v[at].reshape(int(at.sum()), int(np.prod(v.shape[1:]))) for v in sent.rows.values()]
        found = np.zeros((sent.clients, sum(r.shape[1] for r in rows)))
        found[owner[at]] = np.concatenate(rows, axis=1)
        return found
