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
from fedrec.core.loglinear import LogLinear
from fedrec.core.method import Method
from fedrec.core.slots import Array, Catalog, Slot

if TYPE_CHECKING:
    from fedrec.core.gradient import Phase
    from fedrec.data.split import Split

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

        return embedding(i, self.rows) if self.rows.dim() > 1 else self.rows[i]


class Federated(Method):
    """The verbs. ``fit`` is for one client and in plain PyTorch; engines run it for thousands."""

    reveals: ClassVar[str]  # what one upload tells a server that sees it alone
    default_view: ClassVar[View] = "global"
    default_clients: ClassVar[float | None] = None  # share of clients in a round; None is everyone
    turns: ClassVar[int] = 1  # groups that a round's clients come in; the server steps after each
    bound: ClassVar[bool] = False  # whether the server's arrays fit just these users and items
    sizes: ClassVar[tuple[str, ...]] = ()  # server slots that say how many clients there are
    negatives: ClassVar[bool] = True  # whether clients train on sampled negatives beside their positives
    sends: ClassVar[Literal["moves", "gradients"]] = "moves"  # what its uploads are to the server
    tunes_rows: ClassVar[bool] = True  # whether item rows after local training rank, or only carry a gradient

    @property
    def sparse(self) -> bool:
        """Whether rows of an upload that are zero are left out of it."""
        return False

    @property
    def remedy(self) -> str:
        """What to try, with which settings, when training diverges."""
        return "a smaller learning rate"

    def suited(self, split: Split) -> Federated:
        """With settings that are left to the data filled in."""
        return self

    def new_rows(self, name: str, started: Array) -> Array:
        """Rows of items that an earlier run did not know, in a table as it starts; by default just so."""
        return started

    def alone(self) -> Federated:
        """What a device trains when nothing is ever aggregated: the same, unless the server has a part in it."""
        return self

    @abstractmethod
    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        """The arrays, their owners and how they start."""

    def uploads(self, catalog: Catalog) -> dict[str, Slot]:
        """What leaves a client, by name and shape: the shared slots, unless a method says otherwise."""
        return {n: s for n, s in self.slots(catalog).items() if s.owner == "shared"}

    def wire(self, catalog: Catalog) -> dict[str, Slot]:
        """What crosses the network, to count its bytes: the uploads, unless they stand for something larger."""
        return self.uploads(catalog)

    def made(self, catalog: Catalog) -> dict[str, Slot]:
        """What the server makes for one client and sends to it beside the shared slots, to count its bytes."""
        return {}

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

    def log_linear(self) -> LogLinear | None:
        """The slots of an inner-product score, where compiled kernels may run this method."""
        return None

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

    def merge(self, held: dict[str, Array], total: Total) -> dict[str, Array]:
        """The server's step on its shared and server slots; by default the mean of the clients' moves.

        Averaging whole tables over the cohort equals adding the mean of the row moves.
        """
        mean = {name: value / np.float32(total.weight) for name, value in total.sums.items()}
        return {name: value + mean[name] if name in mean else value for name, value in held.items()}

    def diagnose(self, shared: dict[str, Array], private: dict[str, Array], users: Any) -> dict[str, Any]:
        """Figures for the history of every round, of the merged arrays and what devices keep.

        ``users`` took part in the round; ``private`` has a line for every client.
        """
        return {}


def outgoing(method: Federated, catalog: Catalog, upload: Params) -> Params:
    """The only way out of a client. Refuses private slots and whatever is not declared."""
    slots, declared = method.slots(catalog), method.uploads(catalog)
    for name in upload:
        if name in slots and slots[name].owner != "shared":
            raise FedrecError(
                f"'{name}' is a {slots[name].owner} slot of {method.label}: it may not leave a client"
            )
        if name not in declared:
            raise FedrecError(
                f"'{name}' is not declared in the uploads of {method.label}: it may not leave a client"
            )
    return upload
