"""When training runs away: told by clients that are dropped, or by a loss far from that of the first round."""

from __future__ import annotations

from collections.abc import Sequence

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.core.messages import Report
from fedrec.core.wrapper import chain

MOST_DROPPED = 0.5  # a larger share of clients with non-finite updates means that the run diverged
FAR = 30.0  # and so does a loss this many times (of either sign) that of the first round
RATES = ("lr", "eta", "lam")  # settings that are named so, or begin so, make steps long


class Diverged(FedrecError):
    """Nothing more can be learned: the loss or most updates ran away. The state before the round is kept."""


class Watch:
    """Looks at what clients report of every round."""

    def __init__(self, method: Federated) -> None:
        self.method = method
        self.first_loss: float | None = None

    def check(self, round: int, report: Report) -> float | None:
        """The mean loss of the round, where devices tell it; raises where training runs away."""
        if report.silent:
            return None
        loss = report.loss / max(report.clients - report.dropped, 1)
        if report.dropped > MOST_DROPPED * report.clients:
            what = f"{report.dropped} of {report.clients} clients ran away"
        elif self.first_loss is not None and abs(loss) > FAR * max(abs(self.first_loss), 0.01):
            what = f"the loss is {loss:.3g} after {self.first_loss:.3g} in the first round"
        else:
            self.first_loss = loss if self.first_loss is None else self.first_loss
            return loss
        raise Diverged(
            f"{self.method.label} diverged in round {round}: {what}; the state after round "
            f"{round - 1} is kept. Try {remedy(self.method)}"
        )


def remedy(method: Federated) -> str:
    """Which settings to lower."""
    steps = [
        f"{name}={value:g}"
        for part in chain(method)
        for name in type(part).model_fields
        if name.startswith(RATES) and isinstance(value := getattr(part, name), float)
    ]
    return f"smaller {_listed(steps)}" if steps else "a smaller learning rate"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
