"""What the devices of a federation agree to, before they ever meet its server: a small file, handed to every device.

A device keeps its copy. A server cannot change the method, leave secure aggregation out, or make sums of fewer
devices than the terms say: a message under other terms is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

import fedrec
from fedrec.channel.order import check_order, states_epsilon
from fedrec.channel.secure import Fixed, Secure
from fedrec.channel.stage import Stage, parse
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.core.protocol import protocol
from fedrec.core.settings import Settings
from fedrec.methods import make

NAME = "federation.json"


class Terms(Settings):
    """The method, its settings, what uploads pass, and how small a sum may be."""

    called: ClassVar[str] = "a federation"

    method: str
    settings: dict[str, Any] = Field(default_factory=dict)
    seed: int = Field(0, ge=0, description="public: how slots start, who is asked")
    channel: tuple[str, ...] = ("secure",)
    protocol: str = "strict"
    hold_out: bool = Field(True, description="devices keep newest items out of training, to measure with")
    threshold: int = Field(3, ge=1, description="devices that a sum needs at least")
    answers: int | None = Field(
        None, ge=1, description="how often a device sends at most, where an epsilon is stated"
    )
    delta: float | None = Field(None, gt=0, lt=1, description="of that epsilon")
    neighbours: int = Field(32, ge=2, description="devices that each one shares masks with")
    fedrec: str = fedrec.__version__

    @cached_property
    def made(self) -> Federated:
        method = make(self.method, dict(self.settings))
        if not isinstance(method, Federated):
            raise FedrecError(
                f"{method.label} is a yardstick that wants all data in one place: no device trains it"
            )
        return method

    @cached_property
    def stages(self) -> list[Stage]:
        return [parse(text) for text in self.channel]

    @property
    def fixed(self) -> Fixed:
        last = self.stages[-1] if self.stages else None
        if not isinstance(last, Fixed):
            raise FedrecError(
                "a deployed federation adds up in fixed point: end its channel with fixed or secure"
            )
        return last

    @property
    def secure(self) -> bool:
        return isinstance(self.fixed, Secure)

    def check(self) -> Terms:
        """Refuses what no fleet of devices can do, in a sentence."""
        from fedrec.core.slots import Catalog

        protocol(self.protocol)
        if self.made.service(Catalog(10, 10), 0) is not None:
            raise FedrecError(
                f"the server of {self.made.label} makes something for single devices and looks at single uploads: "
                "it is for simulations, and cannot be deployed"
            )
        check_order(self.stages)
        self._check_private()
        if self.secure and self.threshold < 3:
            raise FedrecError(
                f"threshold={self.threshold} is no sum to hide in: secure aggregation needs at least 3 devices"
            )
        return self

    @property
    def private(self) -> bool:
        """Whether an epsilon is stated: then nothing but uploads leaves, and noise is drawn from the system."""
        return states_epsilon(self.stages)

    def _check_private(self) -> None:
        for stage in self.stages:
            if not stage.guarantees:
                continue
            if stage.name == "gaussian" and stage.at_device and not self.secure:
                raise FedrecError(
                    "channel 'gaussian' of devices hides them in sums alone, and fixed shows single uploads: end the "
                    "channel with secure"
                )
            if stage.name == "local" and getattr(stage, "sigma", None) is None:
                raise FedrecError(
                    "channel 'local' does not say its noise: give sigma=…, or let fedrec deploy find it for the rounds"
                )
            if self.answers is None:
                raise FedrecError(
                    f"channel '{stage.name}' states an epsilon, and the terms do not say how often a device answers: "
                    "give answers=…"
                )

    @property
    def text(self) -> str:
        return json.dumps(self.model_dump(mode="json"), indent=2, sort_keys=True) + "\n"

    def differs(self, other: dict[str, Any]) -> str | None:
        """What another copy of the terms has different, in words."""
        mine = json.loads(self.text)
        for name in mine:
            if other.get(name) != mine[name]:
                return f"{name} is {other.get(name)!r} there and {mine[name]!r} here"
        return None


def read_terms(text: str, where: str) -> Terms:
    try:
        return Terms(**json.loads(text)).check()
    except (ValueError, TypeError) as error:
        raise FedrecError(f"{where} does not say what a federation agrees to: {error}") from None


def terms_in(path: Path) -> Terms:
    try:
        return read_terms(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise FedrecError(f"cannot read the terms of the federation, {path}: {error.strerror}") from None


def catalogue_digest(ids: Sequence[str]) -> str:
    """Stands for a list of item ids in their order."""
    text = hashlib.sha256()
    for item in ids:
        text.update(str(item).encode() + b"\n")
    return text.hexdigest()[:32]
