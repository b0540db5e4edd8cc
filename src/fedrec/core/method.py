"""What every method has: a name, a citation, settings, and a sentence on when to use it."""

from __future__ import annotations

from typing import Any, ClassVar

from fedrec.core.errors import FedrecError
from fedrec.core.settings import Settings
from fedrec.core.slots import Catalog

ROUNDS = 100


class Method(Settings):
    """A recommender. Its fields are its hyper-parameters; their defaults are the papers'."""

    name: ClassVar[str]
    citation: ClassVar[str]
    use_when: ClassVar[str]

    def __init__(self, **values: Any) -> None:
        check_named(type(self))
        super().__init__(**values)

    @property
    def label(self) -> str:
        """The name in tables and on the command line."""
        return self.name

    def note(self, catalog: Catalog) -> str:
        """What a result must say of it on these data; most methods: nothing."""
        return ""


def check_named(kind: type[Method]) -> None:
    """A method without a name cannot be told apart in results, settings and files."""
    name = getattr(kind, "name", None)
    if not (isinstance(name, str) and name):
        raise FedrecError(f'{kind.__name__} has no name: write name = "{kind.__name__.lower()}" in the class')
