"""The channel: stages that an upload passes on its way from a device to the sum."""

from __future__ import annotations

from typing import ClassVar

from fedrec.core.errors import FedrecError, nearest
from fedrec.core.federated import Total
from fedrec.core.settings import Settings
from fedrec.engine.upload import Upload


class Stage(Settings):
    """One thing that happens to uploads. Its half on the device sees one client's upload at a time."""

    name: ClassVar[str]
    single: ClassVar[bool] = False  # looks at single uploads; otherwise the engine may hand over their sum

    def on_device(self, upload: Upload) -> Upload:
        """What a device does to its upload before it leaves (of stages with ``single``)."""
        return upload

    @property
    def dense(self) -> bool:
        """Whether devices have to send their tables whole, touched or not."""
        return False

    def in_sum(self, total: Total, seed: int, round: int) -> Total:
        """Noise that all devices add independently, drawn at once for the sum of it."""
        return total

    def says(self) -> str:
        """What a user should know about this stage; printed with the run."""
        return ""


def parse(text: str) -> Stage:
    """A stage from ``name=strength`` or ``name=strength,option=value``."""
    from fedrec.channel.laplace import Laplace

    known: dict[str, type[Stage]] = {"laplace": Laplace}
    name, _, rest = text.partition("=")
    if name not in known:
        raise FedrecError(f"unknown channel stage '{name}': {nearest(name, known)}")
    kind = known[name]
    first, *others = rest.split(",")
    values = {next(iter(kind.model_fields)): first} if first else {}
    for pair in others:
        key, equals, value = pair.partition("=")
        if not equals:
            raise FedrecError(f"channel '{text}': write options as key=value, not '{pair}'")
        values[key] = value
    return kind(**values)
