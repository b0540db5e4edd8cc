"""Factor models: score = user vector · item row (+ biases). Compiled, without the interpreter lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.core.sums import dot


@dataclass(frozen=True, eq=False)
class Factors:
    """A scorer made of two tables. A score depends on its own two rows alone: ``some`` and ``all`` agree."""

    users: NDArray[np.float32]
    items: NDArray[np.float32]
    user_bias: NDArray[np.float32] | None = None
    item_bias: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        for name in ("users", "items", "user_bias", "item_bias"):
            table = getattr(self, name)
            if table is None:
                table = np.zeros(len(self.users if name == "user_bias" else self.items), np.float32)
            object.__setattr__(self, name, np.ascontiguousarray(table, dtype=np.float32))

    def some(self, users: NDArray[np.int64], items: NDArray[np.int32]) -> NDArray[np.float32]:
        out = np.empty(items.shape, np.float32)
        _some(self.users, self.items, self.user_bias, self.item_bias, users, items, out)
        return out

    def all(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        out = np.empty((len(users), len(self.items)), np.float32)
        _all(self.users, self.items, self.user_bias, self.item_bias, users, out)
        return out


@nb.njit(cache=True, nogil=True)
def _some(w: Any, v: Any, w_bias: Any, v_bias: Any, users: Any, items: Any, out: Any) -> None:
    for row, u in enumerate(users):
        for c, i in enumerate(items[row]):
            out[row, c] = dot(w[u], v[i]) + v_bias[i] + w_bias[u] if i >= 0 else np.float32(0)


@nb.njit(cache=True, nogil=True)
def _all(w: Any, v: Any, w_bias: Any, v_bias: Any, users: Any, out: Any) -> None:
    for row, u in enumerate(users):
        for i in range(len(v)):
            out[row, i] = dot(w[u], v[i]) + v_bias[i] + w_bias[u]
