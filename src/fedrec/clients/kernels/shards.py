"""Clients cut into shards for compiled code: runs with about the same work each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec.core.ragged import Ids

SHARDS = 16  # fixed: sums are made shard by shard, so results do not depend on the number of threads


def shards(users: Ids, work: NDArray[np.int64], count: int = SHARDS) -> list[Ids]:
    done = np.cumsum(work)
    cuts = np.searchsorted(done, done[-1] * np.arange(1, count) / count)
    return [part for part in np.split(users, cuts) if len(part)]
