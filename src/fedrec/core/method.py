"""What every method has: a name, a citation, settings, and a sentence on when to use it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from fedrec.core.settings import Settings

if TYPE_CHECKING:
    from fedrec.data.split import Split
    from fedrec.evaluate.scorer import Scorer


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
