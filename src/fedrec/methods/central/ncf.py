"""NCF: centralised neural collaborative filtering, what FedNCF is measured against.

He, Liao, Zhang, Nie, Hu & Chua, "Neural Collaborative Filtering", WWW 2017, in the form that FedNCF has:
an MLP on the concatenation of a user and an item vector, with the same samples.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numba as nb
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedrec.core.compiled import part
from fedrec.core.entropy import STEADY, F
from fedrec.core.layers import mlp_names, mlp_slots
from fedrec.core.network import TILE, Net, forward, gradient, make_memory, make_net, places, prepare
from fedrec.core.ragged import Ragged
from fedrec.core.settings import Search
from fedrec.core.slots import Array, Arrays, Catalog, Slot, normal, server
from fedrec.data.passes import Pass
from fedrec.methods.central.adam import with_moments
from fedrec.methods.central.base import CentralInRounds

TABLES = ("users", "items")
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class NCF(CentralInRounds):
    """logit = MLP(w_u ‖ v_i); Adam (Kingma & Ba, ICLR 2015)."""

    name: ClassVar[str] = "ncf"
    citation: ClassVar[str] = "He et al., WWW 2017"
    use_when: ClassVar[str] = "you want FedNCF's model without the federation, as its yardstick"

    dim: Annotated[int, Search(8, 128, log=True)] = Field(
        32, ge=1, le=4096, description="length of user and item vectors"
    )
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (32, 16, 8), min_length=1, description="hidden layers"
    )
    lr: Annotated[float, Search(0.0003, 0.03, log=True)] = Field(
        0.003, gt=0, description="learning rate of Adam; found on validation"
    )
    l2: Annotated[float, Search(1e-07, 0.01, log=True)] = Field(0.0, ge=0, description="weight decay")
    std: float = Field(0.1, gt=0, description="spread of the first vectors")
    batch_size: int = Field(1024, ge=1, description="samples per step")

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        model = {
            "users": server(catalog.n_users, self.dim, start=normal(self.std)),
            "items": server(catalog.n_items, self.dim, start=normal(self.std)),
            **mlp_slots("layer", (2 * self.dim, *self.hidden, 1), "server"),
        }
        return with_moments(model)

    def net(self) -> Net:
        """Both vectors enter the layers as one row."""
        return make_net(0, 2 * self.dim, 0, self.hidden)

    def places(self) -> dict[str, NDArray[np.int64]]:
        """Where the numbers of each layer are in the network's array."""
        found = places(self.net())
        weights, biases = mlp_names("layer", len(self.hidden) + 1)
        named = {n: found["weights", i] for i, n in enumerate(weights)}
        return named | {n: found["biases", i] for i, n in enumerate(biases)}

    def packed(self, held: Arrays, form: str = "{}") -> Array:
        """The layers, or their moments, as the network has them."""
        theta = np.zeros(self.net().size, np.float32)
        for name, at in self.places().items():
            theta[at] = held[form.format(name)].reshape(at.shape)
        return theta

    def one_pass(self, held: Arrays, samples: Pass, threads: int = 1) -> tuple[Arrays, float]:
        held = {name: values.copy() for name, values in held.items()}
        forms = ("{}", "adam.{}.m", "adam.{}.v")
        users, items = ([held[form.format(n)] for form in forms] for n in TABLES)
        layers = [self.packed(held, form) for form in forms]
        steps, loss = _one_pass(
            self.net(),
            *samples,
            *users,
            *items,
            *layers,
            int(held["adam.t"]),
            self.batch_size,
            self.lr,
            self.l2,
        )
        for form, theta in zip(forms, layers, strict=True):
            for name, at in self.places().items():
                full = form.format(name)
                held[full] = theta[at].reshape(held[full].shape)
        return {**held, "adam.t": np.float32(steps)}, loss  # type: ignore[dict-item]

    def scorer(self, held: Arrays, histories: Ragged) -> Network:
        return Network(self, held)


class Network:
    """Scores of the trained network."""

    def __init__(self, method: NCF, held: Arrays) -> None:
        self.net, self.theta = method.net(), method.packed(held)
        self.users, self.items = (np.ascontiguousarray(held[n]) for n in TABLES)

    def some(self, users: NDArray[np.int64], items: NDArray[np.int32]) -> Array:
        out = np.empty(items.shape, np.float32)
        _score(self.net, self.theta, self.users, self.items, users, items, out)
        return out

    def all(self, users: NDArray[np.int64]) -> Array:
        out = np.empty((len(users), len(self.items)), np.float32)
        _score(self.net, self.theta, self.users, self.items, users, np.zeros((0, 0), np.int32), out)
        return out


@nb.njit(cache=True, nogil=True, fastmath=STEADY, error_model="numpy")
def _one_pass(
    net: Net, users: Any, items: Any, labels: Any, w: Any, w_m: Any, w_v: Any, v: Any, v_m: Any, v_v: Any,
    theta: Any, theta_m: Any, theta_v: Any, t: int, batch: int, lr: float, l2: float,
) -> Any:  # fmt: skip
    """Batch after batch: the gradient of everything, then a step of everything, rows without a sample included."""
    dim, row = w.shape[1], net.row_stride
    memory = make_memory(net, np.int64(batch))
    e, f, weights = np.zeros((batch + TILE) * row, F), np.zeros(0, F), np.zeros(batch, F)
    g_w, g_v, g = np.zeros_like(w), np.zeros_like(v), np.zeros_like(theta)
    total = 0.0
    # Not as literals, for which the network would be compiled once more.
    no, yes = net.vector > 0, net.row > 0
    for start in range(0, len(users), batch):
        count = min(batch, len(users) - start)
        for k in range(count):
            u, i = users[start + k], items[start + k]
            weights[k] = F(1) / F(count)
            for j in range(dim):
                e[k * row + j] = w[u, j]
            for j in range(dim):
                e[k * row + dim + j] = v[i, j]
        y = labels[start : start + count]
        total += gradient(net, theta, memory, e, f, y, weights, no, yes, yes, g) * count
        for k in range(count):
            u, i = users[start + k], items[start + k]
            for j in range(dim):
                g_w[u, j] += e[k * row + j]
            for j in range(dim):
                g_v[i, j] += e[k * row + dim + j]
        t += 1
        _adam(w.reshape(-1), w_m.reshape(-1), w_v.reshape(-1), g_w.reshape(-1), t, lr, l2)
        _adam(v.reshape(-1), v_m.reshape(-1), v_v.reshape(-1), g_v.reshape(-1), t, lr, l2)
        _adam(theta, theta_m, theta_v, g, t, lr, l2)
    return t, total / len(users)


@part(fastmath=STEADY, error_model="numpy")
def _adam(x: Any, m: Any, v: Any, g: Any, t: int, lr: float, l2: float) -> None:
    """One step; the gradient is taken back to zero."""
    b1, b2, decay = F(BETA1), F(BETA2), F(l2)
    rate, scale = F(lr / (1 - BETA1**t)), F(1 / (1 - BETA2**t))
    for k in range(len(x)):
        slope = g[k] + decay * x[k]
        m[k] = b1 * m[k] + F(1 - BETA1) * slope
        v[k] = b2 * v[k] + F(1 - BETA2) * slope * slope
        x[k] -= rate * m[k] / (np.sqrt(v[k] * scale) + F(EPSILON))
        g[k] = F(0)


@nb.njit(cache=True, nogil=True, fastmath=STEADY, error_model="numpy")
def _score(net: Net, theta: Any, w: Any, v: Any, users: Any, items: Any, out: Any) -> None:
    """Scores of a line of items for each user (-1 is padding), of all items where there are no lines."""
    dim, row = w.shape[1], net.row_stride
    memory = make_memory(net, np.int64(1))
    e, f = np.zeros(TILE * row, F), np.zeros(0, F)
    prepare(net, theta, memory)
    for c in range(len(users)):
        for start in range(0, out.shape[1], TILE):
            count = min(TILE, out.shape[1] - start)
            for k in range(count):
                item = max(items[c, start + k], 0) if len(items) else start + k
                for j in range(dim):
                    e[k * row + j] = w[users[c], j]
                for j in range(dim):
                    e[k * row + dim + j] = v[item, j]
            forward(net, theta, memory, e, f, 0, count)
            for k in range(count):
                out[c, start + k] = memory.logits[k]
