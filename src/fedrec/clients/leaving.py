"""What devices do to their uploads as part of the method itself, each with randomness of its own."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.clients.engine import Setting
from fedrec.core.ragged import Ids
from fedrec.core.rng import client_key, stream
from fedrec.core.upload import Upload

LEAVING = "leaving"  # name of the random stream


def left(setting: Setting, upload: Upload, round: int, users: Ids, samples: NDArray[np.int64]) -> Upload:
    """Uploads of some clients as they leave their devices."""
    leaving = setting.uploads.leaving
    if leaving is None or upload.clients == 0 or not setting.uploads.arrays:
        return upload
    keys = _keys(np.uint64(stream(setting.secret, LEAVING, round)), setting.data.keys[users])
    return leaving(upload, samples, setting.data.n_items, keys)


@nb.njit(cache=True, nogil=True)
def _keys(key: Any, clients: Any) -> Any:
    out = np.empty(len(clients), np.uint64)
    for c in range(len(clients)):
        out[c] = client_key(key, clients[c])
    return out
