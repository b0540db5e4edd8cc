"""The ways in which clients compute; ``plain`` and the kernels answer alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.gathering import Whole
from fedrec.clients.state import DeviceState
from fedrec.clients.store import OwnRows, Rows
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated, Phase, check_plan
from fedrec.core.gradient import GradientMethod
from fedrec.core.messages import Broadcast
from fedrec.core.ragged import Ids
from fedrec.core.slots import Array, Arrays, Catalog, Slot
from fedrec.core.upload import Total, Upload, Uploads
from fedrec.core.wrapper import chain
from fedrec.data.clients import ClientData

WILD = 1e4  # a loss beyond it: a client that ran away, dropped before it takes the others with it


@dataclass(frozen=True)
class Setting:
    """What an engine is built from: the method, the devices' data, and what is public of the federation."""

    method: Federated
    data: ClientData
    catalog: Catalog
    seed: int  # of the run, public: how slots start
    secret: int  # of the devices: what they sample; in a simulation the run's seed
    slots: dict[str, Slot]
    uploads: Uploads
    local: bool = False

    def plan(self, round: int) -> list[Phase]:
        plan = self.method.plan(self.catalog, round)
        check_plan(self.method.label, plan, self.slots)
        if any(phase.recency for phase in plan):
            _check_weighs(self.method)
        return plan


def _check_weighs(method: Federated) -> None:
    """A loss that would pass the weights of samples by is refused: recency would do nothing."""
    for part in chain(method):
        if not (isinstance(part, GradientMethod) and part.weighs):
            raise FedrecError(
                f"recent has no effect on the loss of {part.name}, which does not weigh samples: multiply its "
                "terms by batch.weight, and say so with weighs = True"
            )


@dataclass(frozen=True)
class Wish:
    """What is wanted of clients besides their training."""

    single: bool = False  # uploads one by one, not their sum
    rows: bool = True  # the tuned rows
    lines: NDArray[np.int32] | None = None  # scores of a line of items per client, with tuned rows
    whole: Whole | None = None  # single uploads may be added to it instead of being answered


@dataclass(frozen=True)
class RankingPart:
    """What some devices rank with beside the shared arrays: their own arrays and rows, and what they were given."""

    users: Ids
    lines: Arrays
    rows: Mapping[str, OwnRows]
    given: Arrays = field(default_factory=dict)


@dataclass(frozen=True)
class Fitted:
    """Some clients after their local training. One that is not finite, or wild, is as before the round."""

    users: Ids
    lines: Arrays
    loss: Array
    finite: NDArray[np.bool_]
    sent: Upload | Total
    rows_sent: int
    rows: dict[str, Rows] | None  # tuned rows, where wished for
    scores: Array | None
    seconds: tuple[float, float]  # training, ranking
    fits: NDArray[np.bool_] | None = None  # whose uploads had room, where they were added to whole numbers


class Engine(Protocol):
    name: str

    def blocks(self, users: Ids) -> list[Ids]:
        """Which clients to work on together; a function of the users alone."""
        ...

    def why_not(self, plan: list[Phase]) -> str | None:
        """What a plan asks for that this engine does not do; None where it does it all."""
        ...

    def fit(
        self, broadcast: Broadcast, state: DeviceState, users: Ids, plan: list[Phase], wish: Wish
    ) -> Fitted:
        """Local training of a block."""
        ...

    def rebuilt(self, broadcast: Broadcast, state: DeviceState, users: Ids, own: bool) -> RankingPart:
        """What devices rank with outside of a round; ``own``: with their own rows where they have some."""
        ...

    def score(self, shared: Arrays, part: RankingPart, items: NDArray[np.int32]) -> Array:
        """Scores of a line of items per device; -1 is padding."""
        ...

    def score_all(self, shared: Arrays, part: RankingPart) -> Array:
        """Scores of the whole catalogue."""
        ...
