"""A federated method: slots, then a few verbs. Everything else belongs to devices and the server.

A method holds no loop over rounds, samples no clients, writes no files and sends nothing: it says
which arrays exist, who owns them, what ONE client does with its data, and how the server merges.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError, nearest
from fedrec.core.kernel import Kernel
from fedrec.core.method import Method
from fedrec.core.optim import Gradient, Optimizer
from fedrec.core.ragged import Ids, Ragged, run_ends
from fedrec.core.recency import Recency
from fedrec.core.recipe import Recipe, recipe_of
from fedrec.core.serverstep import mean_of_moves
from fedrec.core.slots import Arrays, Catalog, Owner, Slot
from fedrec.core.trials import Trials
from fedrec.core.upload import Total, Upload, Uploads

Params = dict[str, Any]  # one client's arrays by slot name, as torch tensors
View = Literal["own", "global", "random"]  # what a user may ask to rank with
RanksWith = Literal["merged", "tuned", "kept"]
Part = Literal["all", "positives", "history", "support", "query"]  # history: distinct, newest first


class Batch(NamedTuple):
    """Some samples of one client: positions in its compact tables, labels, which are real, what each counts.

    ``weight`` is ``mask`` unless the phase has a recency: their mean over a client's samples is 1.
    """

    items: Any
    labels: Any
    mask: Any
    weight: Any


@dataclass(frozen=True)
class Group:
    """Slots that move together, and how."""

    names: tuple[str, ...]
    optimizer: Optimizer
    owner: Owner


@dataclass(frozen=True)
class Phase:
    """A run of epochs over (a part of) the client's samples that trains some groups."""

    groups: Sequence[Group]
    epochs: int = 1
    part: Part = "all"
    terms: Mapping[str, float] = field(default_factory=dict)  # numbers of this round that the loss reads
    recency: Recency | None = None  # samples weigh by the age of their positive; None: all alike
    least: int = 0  # samples that each client run at once has (engines know): up to there nothing is padding


class Context(NamedTuple):
    """What the server knows when it merges."""

    round: int
    catalog: Catalog
    noise: Mapping[
        str, float
    ] = {}  # its deviation in each number of a sum, by name; of what has none, nothing


Pull = Callable[[Upload, Ids], Total]  # from uploads of clients (which of the given ones) to what is added up


class Introduced(NamedTuple):
    """What devices tell once, before the first round, where a method has them introduce themselves."""

    indptr: NDArray[np.int64]
    tokens: NDArray[np.uint64]  # stand for their items: device d's are tokens[indptr[d]:indptr[d + 1]]
    arrays: Arrays  # a line a device

    @classmethod
    def joined(cls, parts: Sequence[Introduced]) -> Introduced:
        """Devices one after another."""
        counts = np.concatenate([np.diff(part.indptr) for part in parts])
        arrays = {n: np.concatenate([part.arrays[n] for part in parts]) for n in parts[0].arrays}
        return cls(run_ends(counts), np.concatenate([part.tokens for part in parts]), arrays)


class Service(ABC):
    """A server (or a third party) that makes something for single clients, and looks at single uploads."""

    sums: dict[str, Slot]  # what is added up in the end
    given: dict[str, Slot]  # what one client is given; tables (``rows``) reach its code as touched rows

    def meet(self, held: Arrays, introduced: Introduced | None) -> Arrays:
        """What the server holds after the devices introduced themselves."""
        return held

    @abstractmethod
    def give(self, held: Arrays, users: Ids) -> tuple[Arrays, Pull]:
        """What some clients are given, a line for each, and the way back for what they will send."""

    @abstractmethod
    def give_alone(self, clients: int) -> Arrays:
        """What clients have without the others: newcomers, and where nothing is ever aggregated."""

    def welcome(self, held: Arrays, clients: int) -> Arrays | None:
        """What the server holds for newcomers alone; None where ``give_alone`` is all that they need."""
        return None

    def settle(self, held: Arrays, total: Total) -> Arrays:
        """A step for newcomers, everything else left as it is."""
        return held


VERBS = (
    "slots",
    "fit",
    "rebuild",
    "logits",
    "loss",
    "batches",
    "step",
    "turns",
    "receive",
    "finish",
    "send",
    "keep",
    "uploads",
    "service",
)


class Federated(Method):
    """The verbs. ``fit`` is for one client and in plain PyTorch; engines run it for thousands."""

    reveals: ClassVar[str]  # what one upload tells a server that sees it alone

    def __init_subclass__(cls, **options: Any) -> None:
        """Kernel and recipe promise a class's mathematics: who changes a verb makes them anew, or has none."""
        super().__init_subclass__(**options)

        def made_by(name: str) -> int:
            """How far up the line of classes it is written."""
            return next((i for i, kind in enumerate(cls.__mro__) if name in vars(kind)), len(cls.__mro__))

        if any(made_by(verb) < made_by("kernel") for verb in VERBS):
            cls.kernel = Federated.kernel  # type: ignore[method-assign]
        if any(made_by(verb) < made_by("recipe") for verb in VERBS):
            cls.recipe = Federated.recipe  # type: ignore[method-assign]

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        """The arrays, their owners and how they start."""
        raise FedrecError(f"{self.label} does not say which arrays it has: give it 'slots'")

    def uploads(self, catalog: Catalog) -> Uploads:
        """What leaves a client: the moves of the shared slots, unless a method says otherwise."""
        return Uploads({n: s for n, s in self.slots(catalog).items() if s.owner == "shared"})

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        """Which passes over its data a client makes in a round: by default one look at its positives."""
        return [Phase([], part="positives")]

    def rebuild(self, catalog: Catalog, round: int) -> list[Phase]:
        """The passes in which a device makes, before it ranks, what it does not keep: its fresh slots."""
        fresh = {n for n, s in self.slots(catalog).items() if s.owner == "fresh"}
        phases = [p for p in self.plan(catalog, round) if all(fresh >= set(g.names) for g in p.groups)]
        return [p if p.part in ("positives", "history") else replace(p, part="all") for p in phases]

    @abstractmethod
    def fit(
        self, shared: Params, private: Params, passes: Sequence[Batch], plan: list[Phase]
    ) -> tuple[Params, Params, Any]:
        """The local update of one client: its arrays afterwards, its upload, and its training loss."""

    @abstractmethod
    def logits(self, p: Any, i: Any) -> Any:
        """The scores of items ``i`` with arrays ``p``; what is trained and what ranks."""

    def view(self) -> RanksWith:
        """What a client ranks with: the tables as merged, rows as it tuned them, or rows that it keeps for good."""
        return "merged"

    def merge(self, held: Arrays, total: Total, context: Context) -> Arrays:
        """The server's step on its shared and server slots; by default the mean of the clients' moves."""
        return mean_of_moves(held, total.sums, total.weight)

    def introduce(self, items: Ragged, private: Arrays, salt: int) -> Introduced | None:
        """What devices tell the server's service once, before the first round; most methods: nothing."""
        return None

    def service(self, catalog: Catalog, seed: int) -> Service | None:
        """Where the server makes something for single clients (MetaMF's models, FedPerGNN's neighbours)."""
        return None

    def trials(self, catalog: Catalog) -> Trials | None:
        """What devices try out so that the server can choose it; most methods: nothing."""
        return None

    def kernel(self, catalog: Catalog) -> Kernel | None:
        """The compiled form that it can run in."""
        return None

    def recipe(self, catalog: Catalog) -> Recipe | None:
        """How a device without fedrec scores, where plain arrays are enough; a kernel's description says it."""
        return recipe_of(self.kernel(catalog))

    def diagnose(self, shared: Arrays) -> dict[str, Any]:
        """Figures of the merged arrays, for the history of every round."""
        return {}


def row_names(slots: Mapping[str, Slot]) -> frozenset[str]:
    """Names of the slots with a row per item."""
    return frozenset(n for n, slot in slots.items() if slot.rows)


def check_plan(label: str, plan: Sequence[Phase], slots: Mapping[str, Slot]) -> None:
    """Groups move slots: a name that is none is refused before a client trains."""
    for name in (name for phase in plan for group in phase.groups for name in group.names):
        if name not in slots:
            raise FedrecError(f"a group of {label} names '{name}', which is no slot: {nearest(name, slots)}")


def weights_by(uploads: Uploads, samples: Any) -> Any:
    """How much clients count in a mean, from their numbers of samples."""
    return np.ones(len(samples), np.float32) if uploads.weight == "client" else samples.astype(np.float32)


def tuned_tables(method: Federated, catalog: Catalog) -> list[str]:
    """Shared tables whose rows a client moves itself, so that it may rank with its own of this round."""
    tables = [n for n, s in method.slots(catalog).items() if s.rows and s.owner == "shared"]
    if method.view() == "tuned":
        return [n for n in tables if n in method.uploads(catalog).arrays]
    groups = [g for phase in method.plan(catalog, 1) for g in phase.groups]
    moved = {n for g in groups if not isinstance(g.optimizer, Gradient) for n in g.names}
    return [n for n in tables if n in moved]


def own_rows(method: Federated, catalog: Catalog) -> RanksWith | None:
    """Which item rows of its own a device can rank with, if any."""
    if method.view() == "kept":
        kept = any(s.rows and s.owner == "private" for s in method.slots(catalog).values())
        return "kept" if kept else None
    return "tuned" if tuned_tables(method, catalog) else None


def ranks_from_history(method: Federated, catalog: Catalog) -> bool:
    """Whether a device makes what it ranks with from its history, alone: an item met since then is used at once."""
    fresh = any(s.owner == "fresh" for s in method.slots(catalog).values())
    return fresh and method.service(catalog, 0) is None
