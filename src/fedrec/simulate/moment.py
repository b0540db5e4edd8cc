"""Moments of a simulated federation: both halves between two rounds, and the best of them so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fedrec.clients.state import DeviceState
from fedrec.core.protocol import Protocol
from fedrec.server.server import ServerState


@dataclass(frozen=True)
class Moment:
    """What the server and the devices hold after a round; ``before`` it too, where the round can be played again."""

    server: ServerState
    devices: DeviceState
    before: Moment | None = None

    @property
    def round(self) -> int:
        return self.server.round


@dataclass
class Round:
    """What is known of a round afterwards; a line of the history."""

    round: int
    loss: float | None  # none where telling it would cost privacy
    clients: int
    dropped: int
    bytes_up: int
    fit_seconds: float
    evaluate_seconds: float = 0.0
    validation: dict[str, float] | None = None
    bytes_down: int = 0
    diagnostics: dict[str, Any] = field(default_factory=dict)  # what the method says of itself

    def line(self) -> dict[str, Any]:
        said = {k: v for k, v in self.__dict__.items() if v is not None and k != "diagnostics"}
        return said | self.diagnostics


@dataclass
class Selected:
    """The best round so far, by the protocol's validation figure."""

    moment: Moment
    value: float
    validation: dict[str, float]

    @property
    def round(self) -> int:
        return self.moment.round


def is_better(best: Selected | None, protocol: Protocol, metrics: dict[str, float]) -> bool:
    """Whether a round is selected over the best so far, on validation. Test is not looked at here."""
    return best is None or protocol.better(metrics[protocol.select_on], best.value)


def shown(metrics: dict[str, float]) -> dict[str, float]:
    """The validation figures that a history states."""
    return {name: metrics[name] for name in ("hr@10", "ndcg@10")}
