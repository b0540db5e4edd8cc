"""What every method has: a name, a citation, settings, and a sentence on when to use it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from fedrec.core.settings import Settings

if TYPE_CHECKING:
    from fedrec.core.slots import Array, Catalog, Slot
    from fedrec.data.split import Split
    from fedrec.engine.passes import Pass
    from fedrec.evaluate.scorer import Scorer

ROUNDS = 100


class Method(Settings):
    """A recommender. Its fields are its hyper-parameters; their defaults are the papers'."""

    name: ClassVar[str]
    citation: ClassVar[str]
    use_when: ClassVar[str]

    @property
    def label(self) -> str:
        """The name in tables and on the command line."""
        return self.name


class Central(Method):
    """A yardstick that sees all interactions in one place: no clients, no rounds, no privacy."""

    @abstractmethod
    def fit(self, split: Split, seed: int, threads: int) -> Scorer:
        """Learn from the training rows; the scorer ranks any user of the split."""


class CentralInRounds(Central):
    """A yardstick trained by passes over the data: a round is one pass, and validation selects one."""

    @abstractmethod
    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        """Its arrays, the optimizer's included, and how they start; all are the server's."""

    @abstractmethod
    def one_pass(self, held: dict[str, Array], samples: Pass) -> tuple[dict[str, Array], float]:
        """The arrays after one pass over all users' samples, and the mean loss."""

    @abstractmethod
    def scorer(self, held: dict[str, Array]) -> Scorer:
        """What ranks, from the arrays."""

    def fit(self, split: Split, seed: int = 0, threads: int = 1) -> Scorer:
        """As many rounds as a run has; the selected one ranks."""
        from fedrec.engine.passes import Passes

        passes = Passes(self, split, seed, threads, ROUNDS)
        for _ in range(ROUNDS):
            passes.play(evaluate=True)
        assert passes.selected is not None
        return passes.scorer(passes.selected.moment)
