"""What every method has: a name, a citation, settings, and a sentence on when to use it."""

from __future__ import annotations

from typing import ClassVar

from fedrec.core.settings import Settings

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
