"""MF: centralised matrix factorisation, what federated factor models are measured against.

Koren, Bell & Volinsky, "Matrix Factorization Techniques for Recommender Systems", Computer 2009, with the
loss, the dimension and the very samples of FedMF: cross-entropy on positives and sampled negatives.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numba as nb
import numpy as np
from pydantic import Field

from fedrec.core.compiled import part
from fedrec.core.entropy import STEADY
from fedrec.core.factors import Factors
from fedrec.core.ragged import Ragged
from fedrec.core.settings import Search
from fedrec.core.slots import Arrays, Catalog, Slot, normal, server, zeros
from fedrec.core.sums import dot
from fedrec.data.passes import Pass
from fedrec.methods.central.base import CentralInRounds

TABLES = ("users", "items")
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class MF(CentralInRounds):
    """logit = w_u · v_i + b_u; Adam (Kingma & Ba, ICLR 2015) on the rows that a batch touches."""

    name: ClassVar[str] = "mf"
    citation: ClassVar[str] = "Koren, Bell, Volinsky, Computer 2009; cross-entropy on sampled negatives"
    use_when: ClassVar[str] = "you want FedMF's model without the federation, as its yardstick"

    dim: Annotated[int, Search(8, 128, log=True)] = Field(
        32, ge=1, le=4096, description="length of user and item vectors"
    )
    lr: Annotated[float, Search(0.0001, 0.01, log=True)] = Field(
        0.001, gt=0, description="learning rate of Adam; found on validation"
    )
    l2: Annotated[float, Search(1e-07, 0.01, log=True)] = Field(
        0.0, ge=0, description="weight decay of the rows of a batch"
    )
    std: float = Field(0.1, gt=0, description="spread of the first vectors")
    batch_size: int = Field(256, ge=1, description="samples per step")

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        users, items = (catalog.n_users, self.dim + 1), (catalog.n_items, self.dim + 1)

        def table(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
            return np.pad(normal(self.std)(rng, (shape[0], self.dim)), ((0, 0), (0, 1)))  # last: the bias

        slots = {"users": server(*users, start=table), "items": server(*items, start=table)}
        for name, shape in zip(TABLES, (users, items), strict=True):
            slots |= {f"adam.{name}.{moment}": server(*shape, start=zeros()) for moment in "mv"}
        return slots | {"adam.t": server(start=zeros())}

    def one_pass(self, held: Arrays, samples: Pass, threads: int = 1) -> tuple[Arrays, float]:
        held = {name: values.copy() for name, values in held.items()}
        users, items = ([held[n], held[f"adam.{n}.m"], held[f"adam.{n}.v"]] for n in TABLES)
        steps, loss = _one_pass(
            *samples, *users, *items, int(held["adam.t"]), self.batch_size, self.lr, self.l2
        )
        return {**held, "adam.t": np.float32(steps)}, loss  # type: ignore[dict-item]

    def scorer(self, held: Arrays, histories: Ragged) -> Factors:
        w, v = held["users"], held["items"]
        return Factors(w[:, : self.dim], v[:, : self.dim], w[:, self.dim])


@nb.njit(cache=True, nogil=True, fastmath=STEADY, error_model="numpy")
def _one_pass(
    users: Any, items: Any, labels: Any, w: Any, w_m: Any, w_v: Any, v: Any, v_m: Any, v_v: Any,
    t: int, batch: int, lr: float, l2: float,
) -> Any:  # fmt: skip
    """Batch after batch: sum up the gradient of each touched row, then move these rows."""
    d = w.shape[1] - 1
    g_w, g_v = np.zeros_like(w), np.zeros_like(v)
    seen_w, seen_v = np.zeros(len(w), np.bool_), np.zeros(len(v), np.bool_)
    list_w, list_v = np.empty(batch, np.int64), np.empty(batch, np.int64)
    total = 0.0
    for start in range(0, len(users), batch):
        end = min(start + batch, len(users))
        n_w = n_v = 0
        for s in range(start, end):
            u, i, y = users[s], items[s], labels[s]
            x = w[u, d] + dot(w[u, :d], v[i, :d])
            total += max(x, np.float32(0)) - x * y + np.log1p(np.exp(-abs(x)))
            g = (np.float32(1) / (np.float32(1) + np.exp(-x)) - y) / np.float32(end - start)
            if not seen_w[u]:
                seen_w[u] = True
                list_w[n_w] = u
                n_w += 1
            if not seen_v[i]:
                seen_v[i] = True
                list_v[n_v] = i
                n_v += 1
            g_w[u, d] += g
            for k in range(d):
                g_w[u, k] += g * v[i, k]
                g_v[i, k] += g * w[u, k]
        t += 1
        _adam(w, w_m, w_v, g_w, seen_w, list_w[:n_w], d + 1, t, lr, l2)
        _adam(v, v_m, v_v, g_v, seen_v, list_v[:n_v], d, t, lr, l2)
    return t, total / len(users)


@part(fastmath=STEADY, error_model="numpy")
def _adam(
    x: Any, m: Any, v: Any, g: Any, seen: Any, rows: Any, width: int, t: int, lr: float, l2: float
) -> None:
    """One step of the rows of a batch; their gradients are taken back to zero."""
    b1, b2 = np.float32(BETA1), np.float32(BETA2)
    one = np.float32(1)
    rate = np.float32(lr / (1 - BETA1**t))
    scale = np.float32(1 / (1 - BETA2**t))
    decay = np.float32(l2)
    for r in rows:
        seen[r] = False
        for k in range(width):
            slope = g[r, k] + decay * x[r, k]
            m[r, k] = b1 * m[r, k] + (one - b1) * slope
            v[r, k] = b2 * v[r, k] + (one - b2) * slope * slope
            x[r, k] -= rate * m[r, k] / (np.sqrt(v[r, k] * scale) + np.float32(EPSILON))
            g[r, k] = 0
