"""All that a server and its clients ever say to each other: ``Broadcast`` down, ``Reply`` up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fedrec.core.ragged import Ids
from fedrec.core.slots import Arrays
from fedrec.core.upload import Total, Upload


def nothing_given(users: Ids) -> Arrays:
    return {}


@dataclass(frozen=True)
class Broadcast:
    """What goes down: the round, the shared arrays, and what is made for single clients."""

    round: int
    shared: Arrays
    given: Callable[[Ids], Arrays] = nothing_given  # for some clients (by their own numbers), a line for each


@dataclass
class Report:
    """What is known of some clients' round beside their uploads: sums, never one client's figure."""

    clients: int = 0
    dropped: int = 0  # whose update was not finite: they are as before, and sent nothing
    loss: float = 0.0
    rows: int = 0  # item rows sent
    figures: dict[str, float] = field(default_factory=dict)  # of slots that a method reports
    silent: bool = False  # nothing but who was asked is told: the rest would cost privacy

    def add(self, other: Report) -> None:
        self.clients += other.clients
        self.dropped += other.dropped
        self.loss += other.loss
        self.rows += other.rows
        self.silent |= other.silent
        for name, value in other.figures.items():
            self.figures[name] = self.figures.get(name, 0.0) + value


@dataclass(frozen=True)
class Reply:
    """What goes up: single uploads where the server or the channel looks at them, else their sum."""

    users: Ids  # who sent, by their own numbers
    sent: Upload | Total
    report: Report
