"""CoLR: item rows move within a small subspace that all clients share, so that a few numbers a row are sent.

Nguyen et al., "Towards Efficient Communication and Secure Federated Recommendation System via Low-rank Training",
WWW 2024 (CoLR, correlated low-rank structure).

In each round the server draws a basis B of r orthonormal rows. A client trains A with items Q + A·B, Q frozen, which is
to say that every step of its rows is projected on B; it sends A, r numbers a row in place of d. The same B for all
makes the mean of A·B the mean of A, times B, so that secure aggregation works as before. With r = d it is the base.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Context, Group, Params
from fedrec.core.gradient import Loss
from fedrec.core.method import Method
from fedrec.core.rng import generator
from fedrec.core.settings import Search
from fedrec.core.slots import Array, Arrays, Catalog, Slot, sent, shared
from fedrec.core.upload import Total, Uploads
from fedrec.core.wrapper import Wrapper, sends_gradients


class CoLR(Wrapper):
    name: ClassVar[str] = "colr"
    citation: ClassVar[str] = "Nguyen et al., WWW 2024"
    use_when: ClassVar[str] = "uploads must be small, and sums must stay sums"
    seams: ClassVar[tuple[str, ...]] = ("step",)
    closed: ClassVar[str] = "its clients send coordinates, not rows, which another wrapper would not know"

    rank: Annotated[int, Search(1, 16, log=True)] = Field(
        8, ge=1, description="r, numbers of a row that are sent; at most the length of a row"
    )

    def __init__(self, base: Method, **settings: Any) -> None:
        super().__init__(base, **settings)
        tables = self.base.slots(Catalog(1, 1))
        if not self.tables_of:
            raise FedrecError(f"colr sends few numbers of each item row: {base.label} sends none")
        if sends_gradients(self.base) or self.base.view() == "tuned":
            raise FedrecError(
                f"colr is for rows that clients move and the server averages and ranks with: {base.label} has others"
            )
        for name in self.tables_of:
            if self.rank > tables[name].shape[1]:
                raise FedrecError(
                    f"colr: rank={self.rank} is more than the {tables[name].shape[1]} numbers of a row"
                )

    @property
    def reveals(self) -> str:  # type: ignore[override]
        return f"{self.base.reveals}; fewer numbers of each row, which hides neither"

    @cached_property
    def tables_of(self) -> dict[str, str]:
        """The base's item tables that clients move, and the names of their bases."""
        sent_by = self.base.uploads(Catalog(1, 1)).arrays
        return {n: f"{n}_basis" for n, s in sent_by.items() if s.rows and len(s.shape) == 2}

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        slots = self.base.slots(catalog)
        for table, basis in self.tables_of.items():
            width = slots[table].shape[1]
            slots = slots | {
                basis: shared(self.rank, width, start=lambda rng, shape: orthonormal(rng, *shape))
            }
        return slots

    def uploads(self, catalog: Catalog) -> Uploads:
        whole = self.base.uploads(catalog)
        arrays = {
            n: sent(s.shape[0], self.rank, rows=True) if n in self.tables_of else s
            for n, s in whole.arrays.items()
        }
        return replace(
            whole, arrays={_coordinates(n) if n in self.tables_of else n: s for n, s in arrays.items()}
        )

    def step(self, loss: Loss, p: Params, groups: Sequence[Group]) -> tuple[Params, Any]:
        """The base's, of which rows keep what lies in the subspace."""
        moved, value = self.base.step(loss, p, groups)
        low = {n: p[n] + (moved[n] - p[n]) @ p[b].T @ p[b] for n, b in self.tables_of.items()}
        return {**moved, **low}, value

    def send(self, shared: Params, p: Params) -> Params:
        bases = set(self.tables_of.values())
        moves = self.base.send({n: v for n, v in shared.items() if n not in bases}, p)
        low = {_coordinates(n): moves.pop(n) @ shared[b].T for n, b in self.tables_of.items()}
        return {**moves, **low}

    def merge(self, held: Arrays, total: Total, context: Context) -> Arrays:
        """The base's, with A·B in place of A; then a basis for the next round, which anybody may know."""
        sums = dict(total.sums)
        for table, basis in self.tables_of.items():
            sums[table] = sums.pop(_coordinates(table)) @ held[basis]
        merged = self.base.merge(held, replace(total, sums=sums), context)
        for basis in self.tables_of.values():
            drawn = orthonormal(generator(0, f"colr:{basis}", context.round), *held[basis].shape)
            merged = {**merged, basis: drawn}
        return merged


def _coordinates(table: str) -> str:
    return f"{table}_low"


def orthonormal(rng: np.random.Generator, rank: int, width: int) -> Array:
    """Rows of length 1 at right angles, in any direction alike."""
    q, r = np.linalg.qr(rng.normal(size=(width, rank)))
    return np.ascontiguousarray((q * np.sign(np.diag(r))).T, np.float32)
