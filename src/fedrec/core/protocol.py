"""A protocol: how data are split, negatives drawn, candidates chosen and the reported round selected.

Three are named. ``strict`` is the default and the honest one: a device knows only what it trained on.
``next`` is the same, but the validation item is known when the test item is ranked, as the sequential
literature has it. ``paper`` reproduces publications, leak included: their training negatives avoid the
held-out items, so "was never a negative" gives the test item away (see docs/protocols.md).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from fedrec.core.errors import FedrecError, nearest
from fedrec.core.settings import Settings


class Protocol(Settings):
    """Every choice that decides what a number means; printed with every result."""

    name: str = "strict"
    deduplicate: bool = Field(True, description="keep one row per (user, item), the newest")
    min_interactions: int = Field(
        3, ge=3, description="users with fewer rows (after de-duplication) are dropped"
    )
    time_ties: Literal["shuffle", "first-in-file"] = Field(
        "shuffle", description="which of a user's rows of equal time counts as newest"
    )
    negatives_from: Literal["untrained", "never-interacted"] = Field(
        "untrained",
        description="training negatives: all items but those trained on, or (leaks) held out as well",
    )
    negatives_per_positive: int = Field(4, ge=1, description="drawn anew each round")
    candidates: int = Field(
        99, ge=1, description="never-interacted items that the held-out one is ranked against"
    )
    known: Literal["train", "validation"] = Field(
        "train",
        description="what a device ranks its test item from: its training items, or the validation item too",
    )
    select_on: Literal["ndcg@10", "hr@10"] = Field(
        "ndcg@10", description="validation metric that selects the round"
    )
    select_tie: Literal["first", "last"] = Field(
        "first", description="which of equally good rounds is selected"
    )

    @property
    def leaks(self) -> bool:
        """Whether the held-out items are kept out of the training negatives."""
        return self.negatives_from == "never-interacted"

    def with_(self, **changes: Any) -> Protocol:
        """The same with some choices changed, checked, under a name that says which (or one that is given)."""
        return Protocol(**{**self.model_dump(), **changes}).honestly_named()

    def honestly_named(self) -> Protocol:
        """Checked once more; where it is not what its name stands for, the name says what differs."""
        checked = Protocol(**self.__dict__)
        known = PROTOCOLS.get(checked.name)
        changed = (
            {}
            if known is None
            else {
                field: value
                for field, value in checked.model_dump().items()
                if value != getattr(known, field)
            }
        )
        if not changed:
            return checked
        said = ",".join(f"{field}={value}" for field, value in changed.items())
        return Protocol(**{**checked.model_dump(), "name": f"{checked.name}+{said}"})

    def better(self, value: float, best: float) -> bool:
        """Whether a round with this validation figure replaces the best so far."""
        return value >= best if self.select_tie == "last" else value > best


STRICT = Protocol()
NEXT = Protocol(name="next", known="validation")
PAPER = Protocol(
    name="paper",
    deduplicate=False,
    min_interactions=5,
    time_ties="first-in-file",
    negatives_from="never-interacted",
    select_on="hr@10",
    select_tie="last",
)
PROTOCOLS = {p.name: p for p in (STRICT, NEXT, PAPER)}


def protocol(name: str | Protocol) -> Protocol:
    """A protocol by name, or one of one's own: it is checked, and never goes by the name of another."""
    if isinstance(name, Protocol):
        return name.honestly_named()
    if name not in PROTOCOLS:
        raise FedrecError(f"unknown protocol '{name}': {nearest(name, PROTOCOLS)}")
    return PROTOCOLS[name]
