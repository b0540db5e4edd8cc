"""Devices that solve their vector from their history, in which the newest counts most when they rank.

A positive aims at 1 while the table is trained. When a device ranks, one of age a (in positions from the
newest) aims at m(a) = floor + (1 − floor)·½^(a / half-life): older ones are still no negatives, they only ask
for less. That is better on validation than to trust them less (docs/recency.md), and costs no upload.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedrec.core.federated import Batch, Federated, Params, Phase
from fedrec.core.slots import Arrays, Catalog, Slot, constant, sent, server, shared, zeros
from fedrec.core.trials import Trials
from fedrec.core.upload import Total

# Half-life and floor. The first is what devices begin with; of floor 1 all positives count alike.
GRID = ((3, 0.1), (3, 0.03), (1, 0.1), (10, 0.1), (3, 0.3), (10, 0.3), (30, 0.3), (1, 1.0))


class HistoryMethod(Federated):
    """Settings, arrays and the server's part of recency; ``aims`` is the device's."""

    withheld: ClassVar[float]  # rounds without the newest item: until the table is good enough to choose by
    guesses: ClassVar[float] = 2.0  # of these, the last ones in which devices guess it

    recency: Annotated[float, Field(ge=0.001)] | Literal["auto", "off"] = Field(
        "auto",
        description="half-life, in positions, of what a positive counts when ranking; auto: devices find out; off",
    )
    floor: float = Field(
        0.1, ge=0, le=1, description="what the oldest still count, where recency is a number"
    )

    def ages(self, catalog: Catalog) -> bool:
        """Whether age counts."""
        return self.recency != "off" and catalog.ordered

    def note(self, catalog: Catalog) -> str:
        if catalog.ordered or self.recency == "off":
            return ""
        return "recency is off: the data do not say in which order things were met"

    def choices(self) -> list[Arrays]:
        """What devices try out."""
        return [{"recency": np.array(pair, np.float32)} for pair in GRID] if self.recency == "auto" else []

    def history_slots(self, catalog: Catalog) -> dict[str, Slot]:
        """What ages need, and what is needed to choose."""
        slots = {}
        if self.ages(catalog):
            first = GRID[0] if self.recency == "auto" else (self.recency, self.floor)
            slots["recency"] = shared(2, start=constant(np.array(first)), anew=self.recency != "auto")
        if trials := self.trials(catalog):
            slots[trials.withheld] = shared(start=constant(self.withheld))
            slots["sum_gains"] = server(len(trials.choices), start=zeros(), anew=True)
        return slots

    def history_uploads(self, catalog: Catalog) -> dict[str, Slot]:
        trials = self.trials(catalog)
        return {} if trials is None else {trials.gains: sent(len(trials.choices))}

    def trials(self, catalog: Catalog) -> Trials | None:
        choices = self.choices() if catalog.ordered else []
        return Trials("withheld", self.guesses, "gains", choices) if choices else None

    def chosen(self, held: Arrays, total: Total, catalog: Catalog) -> Arrays:
        """The server's part: of the choices for each name, what gained most so far; the first of equals."""
        if "gains" not in total.sums:
            return {}
        gains = held["sum_gains"] + total.sums["gains"]
        left = held["withheld"] - np.float32(total.clients / catalog.n_users)
        # A remainder of rounding is no round.
        found: Arrays = {"sum_gains": gains, "withheld": np.where(left > 1e-3, left, 0).astype(np.float32)}
        choices = self.choices()
        for name in {n for choice in choices for n in choice}:
            tried = [i for i, choice in enumerate(choices) if name in choice]
            if gains[tried].any():
                found[name] = choices[max(tried, key=lambda i: gains[i])][name]
        return found

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        return [Phase([], part="history")]

    def rebuild(self, catalog: Catalog, round: int) -> list[Phase]:
        """To rank, as in training, but for what positives aim at."""
        return [
            Phase(p.groups, p.epochs, p.part, {**p.terms, "ranking": 1.0}) for p in self.plan(catalog, round)
        ]

    def aims(self, p: Params, batch: Batch, plan: list[Phase]) -> Any:
        """What each item of a history aims at, the newest first."""
        import torch

        if "recency" not in p or not plan[0].terms.get("ranking"):
            return batch.mask
        half_life, floor = p["recency"]
        age = torch.arange(batch.items.shape[0])
        return batch.mask * (floor + (1 - floor) * 0.5 ** (age / half_life))
