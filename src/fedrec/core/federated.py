"""A federated method: slots, then a few verbs. Everything else belongs to the engines.

A method holds no loop over rounds, samples no clients, writes no files and sends nothing: it says
which arrays exist, who owns them, what ONE client does with its data, and how the server merges.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from fedrec.core.errors import FedrecError
from fedrec.core.method import Method
from fedrec.core.slots import Array, Catalog, Slot

if TYPE_CHECKING:
    from fedrec.core.gradient import Phase

Params = dict[str, Any]  # one client's arrays by slot name, as torch tensors
View = Literal["own", "global", "random"]


@dataclass
class Total:
    """What the server sees of a round: sums over the cohort, never one client."""

    sums: dict[str, Array]
    weight: float = 0.0
    clients: int = 0
    counts: dict[str, Array] = field(default_factory=dict)  # clients that sent each row


class Table:
    """A table of item rows that is indexed by items: ``p.items[i]``."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __getitem__(self, i: Any) -> Any:
        from torch.nn.functional import embedding  # its gradient is several times quicker than indexing's

        return embedding(i, self.rows)


class Federated(Method):
    """The verbs. ``fit`` is for one client and in plain PyTorch; engines run it for thousands."""

    reveals: ClassVar[str]  # what one upload tells a server that sees it alone
    default_view: ClassVar[View] = "global"

    @abstractmethod
    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        """The arrays, their owners and how they start."""

    @abstractmethod
    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        """Which passes over its data a client makes in a round."""

    @abstractmethod
    def receive(self, shared: Params, private: Params) -> Params:
        """How the downloaded part meets what the device kept."""

    @abstractmethod
    def fit(self, p: Params, passes: Any, plan: list[Phase]) -> tuple[Params, Any]:
        """The local update of one client: its arrays afterwards, and its training loss."""

    @abstractmethod
    def logits(self, p: Any, i: Any) -> Any:
        """The scores of items ``i`` with arrays ``p``; what is trained and what ranks."""

    def tables(self, p: Params) -> SimpleNamespace:
        """The arrays as attributes, those with a row per item indexed by item."""
        return SimpleNamespace(**{n: Table(v) if n in self.row_slots else v for n, v in p.items()})

    @cached_property
    def row_slots(self) -> frozenset[str]:
        """Names of the slots with a row per item."""
        return frozenset(n for n, slot in self.slots(Catalog(1, 1)).items() if slot.rows)

    def upload(self, shared: Params, p: Params) -> Params:
        """What leaves the client: how far it moved the shared slots."""
        return {name: p[name] - shared[name] for name in shared}

    def weight(self, samples: Any) -> Any:
        """How much one client counts in the average, from its number of samples."""
        return np.ones_like(samples, dtype=np.float32)

    def merge(self, shared: dict[str, Array], total: Total) -> dict[str, Array]:
        """The server's step. Averaging whole tables equals adding the mean of the row moves."""
        if total.weight == 0:
            return shared
        return {name: value + total.sums[name] / np.float32(total.weight) for name, value in shared.items()}


def outgoing(slots: dict[str, Slot], upload: Params) -> Params:
    """The only way out of a client. Refuses whatever is not a shared slot of the method."""
    for name in upload:
        slot = slots.get(name)
        if slot is None or slot.owner != "shared":
            kind = "an undeclared array" if slot is None else f"a {slot.owner} slot"
            raise FedrecError(f"'{name}' is {kind} and may not leave a client: upload shared slots only")
    return upload
