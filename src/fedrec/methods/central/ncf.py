"""NCF: centralised neural collaborative filtering, what FedNCF is measured against.

He, Liao, Zhang, Nie, Hu & Chua, "Neural Collaborative Filtering", WWW 2017, in the form that FedNCF has:
an MLP on the concatenation of a user and an item vector, with the same samples.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedrec.core.layers import mlp, mlp_slots
from fedrec.core.ragged import Ragged
from fedrec.core.settings import Search
from fedrec.core.slots import Array, Arrays, Catalog, Slot, normal, server
from fedrec.data.passes import Pass
from fedrec.methods.central.adam import Adam, with_moments, without_moments
from fedrec.methods.central.base import CentralInRounds


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

    def one_pass(self, held: Arrays, samples: Pass, threads: int = 1) -> tuple[Arrays, float]:
        import torch
        from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

        users, items, labels = map(torch.from_numpy, samples)
        adam = Adam(held, self.lr, l2=self.l2)
        p, total = SimpleNamespace(**adam.model), 0.0
        for start in range(0, len(users), self.batch_size):
            batch = slice(start, start + self.batch_size)
            loss = cross_entropy(self._logits(p, users[batch], items[batch]), labels[batch])
            loss.backward()
            adam.step()
            total += loss.item() * len(labels[batch])
        return adam.held(), total / len(users)

    def _logits(self, p: Any, users: Any, items: Any) -> Any:
        from torch import cat
        from torch.nn.functional import embedding

        both = cat([embedding(users, p.users), embedding(items, p.items)], dim=-1)
        return mlp(p, "layer", len(self.hidden) + 1, both)[..., 0]

    def scorer(self, held: Arrays, histories: Ragged) -> Network:
        return Network(self, without_moments(held))


class Network:
    """Scores of the trained network."""

    def __init__(self, method: NCF, held: Arrays) -> None:
        import torch

        self.method, self.n_items = method, len(held["items"])
        self.p = SimpleNamespace(**{name: torch.from_numpy(values) for name, values in held.items()})

    def some(self, users: NDArray[np.int64], items: NDArray[np.int32]) -> Array:
        import torch

        rows = torch.from_numpy(np.maximum(items, 0))  # padding
        each = torch.from_numpy(np.asarray(users))[:, None].expand(rows.shape)
        with torch.no_grad():
            scores: Array = self.method._logits(self.p, each.to(rows.dtype), rows).numpy()
        return scores

    def all(self, users: NDArray[np.int64]) -> Array:
        return self.some(users, np.tile(np.arange(self.n_items, dtype=np.int32), (len(users), 1)))
