"""What ways to lie have in common: made-up histories that real devices are trained on, and one item to promote."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrec.channel.clip import norms_of
from fedrec.channel.robust import side_by_side
from fedrec.clients.clients import Ask, Clients
from fedrec.core.federated import Federated
from fedrec.core.messages import Broadcast
from fedrec.core.ragged import Ragged, run_ends
from fedrec.core.slots import Catalog
from fedrec.core.upload import Upload, Uploads
from fedrec.data.clients import ClientData, sorted_distinct

PASSES = 3  # over a made-up history before it is first used, where devices keep something to themselves
BOOST = 10.0  # a lengthened row is so many times as long as an honest upload as a whole


@dataclass
class Forger(ABC):
    """Makes the uploads of devices that lie. All it knows is what every device knows."""

    method: Federated
    catalog: Catalog
    target: int  # the item to promote
    count: int  # devices that lie
    seed: int
    negatives: int  # sampled for a positive, as the protocol has it

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([self.seed, 77])

    @abstractmethod
    def uploads(self, told: Broadcast) -> Upload | None:
        """What the devices that lie send after a broadcast, if they do."""

    @property
    def declared(self) -> Uploads:
        return self.method.uploads(self.catalog)

    def fillers(self, among: NDArray[np.int64] | None = None) -> NDArray[np.int32]:
        """A made-up history: the target, and as much else as people meet on average, of these items or of any."""
        others = np.setdiff1d(np.arange(self.catalog.n_items) if among is None else among, [self.target])
        length = min(max(round(self.catalog.positives), 5), len(others))
        # The target comes first, and is never the newest thing, which some methods hold back.
        return np.append(self.target, self.rng.choice(others, length, replace=False)).astype(np.int32)

    def devices(self, histories: list[NDArray[np.int32]]) -> Clients:
        """Real devices of made-up people."""
        train = Ragged(run_ends(np.array([len(h) for h in histories])), np.concatenate(histories))
        met = sorted_distinct(*train)
        keys = self.rng.integers(1, 2**63, len(histories)).astype(np.uint64)
        data = ClientData(keys, train, met, met, self.catalog.n_items, self.negatives)
        return Clients(self.method, data, self.catalog, self.seed, secret=self.seed + 1)

    def sent(self, devices: Clients, told: Broadcast) -> Upload:
        """What they would send if they were honest: the method's own code, and no stage of the channel."""
        parts = []
        for answer in devices.fit(told, devices.everyone, Ask(single=True)):
            assert isinstance(answer.reply.sent, Upload)
            parts.append(answer.reply.sent)
        devices.keep()
        return side_by_side(parts)

    def lengthened(self, upload: Upload) -> Upload:
        """Nothing but the target's row, ``BOOST`` times as long as the whole upload was."""
        norms = norms_of(upload, self.declared)
        owner = np.repeat(np.arange(upload.clients), np.diff(upload.items.indptr))
        kept = upload.items.items == self.target
        items = Ragged(run_ends(np.bincount(owner[kept], minlength=upload.clients)), upload.items.items[kept])
        alone = replace(upload, items=items, rows={n: v[kept] for n, v in upload.rows.items()})
        lengths = np.maximum(norms_of(replace(alone, dense={}), self.declared), 1e-12)
        scale = (BOOST * norms / lengths)[owner[kept]].astype(np.float32)
        rows = {n: v * scale.reshape(-1, *[1] * (v.ndim - 1)) for n, v in alone.rows.items()}
        return replace(alone, rows=rows)
