"""Yardsticks that see all interactions in one place: no clients, no privacy."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

from fedrec.core.method import Method
from fedrec.core.ragged import Ragged
from fedrec.core.scorer import Scorer
from fedrec.core.slots import Arrays, Catalog, Slot
from fedrec.data.clients import ClientData
from fedrec.data.passes import draw_pass
from fedrec.data.split import Split


class Solves(NamedTuple):
    """A new person's vector in closed form: (VᵀV + α V_uᵀV_u + λI) w = (1 + α) Σ v_i, with the items as they are."""

    alpha: float
    lam: float


class Central(Method):
    """A yardstick."""

    ranks_from_history: ClassVar[bool] = False  # its scorer is a ``FromHistory``

    def solves(self) -> Solves | None:
        """How a new person gets a vector, where a factor model can tell; None: it ranks for known users only."""
        return None


class CentralAtOnce(Central):
    """Fitted in one go."""

    @abstractmethod
    def fit(self, split: Split, seed: int, threads: int) -> Scorer:
        """Learn from the training rows; the scorer ranks any user of the split."""


class CentralInRounds(Central):
    """Trained by passes over the data: a round is one pass, and validation selects one."""

    @abstractmethod
    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        """Its arrays, the optimizer's included, and how they start; all are the server's."""

    def draw(self, data: ClientData, seed: int, round: int) -> Any:
        """What a pass is made over: the samples of a federation's clients, shuffled together."""
        return draw_pass(data, seed, round)

    @abstractmethod
    def one_pass(self, held: Arrays, samples: Any, threads: int = 1) -> tuple[Arrays, float]:
        """The arrays after one pass over what ``draw`` gave, and the mean loss."""

    @abstractmethod
    def scorer(self, held: Arrays, histories: Ragged) -> Scorer:
        """What ranks, from the arrays and what users trained on, oldest first."""
