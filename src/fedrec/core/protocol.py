"""A protocol: how data are split, negatives drawn, candidates chosen and the reported round selected.

Four are named. ``strict`` is the default and the honest one: a device knows only what it trained on.
``next`` is the same, but the validation item is known when the test item is ranked, as the sequential
literature has it. ``temporal`` cuts the histories of all users at the same two points of time. ``paper``
reproduces publications, leak included: their training negatives avoid the held-out items, so "was never a
negative" gives the test item away (see docs/protocols.md).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from fedrec.core.errors import FedrecError, nearest
from fedrec.core.settings import Settings


class Protocol(Settings):
    """Every choice that decides what a number means; printed with every result."""

    name: str = "strict"
    deduplicate: bool = Field(True, description="keep one row per (user, item), the newest")
    min_interactions: int = Field(
        3, ge=3, description="users with fewer rows (after de-duplication) are dropped"
    )
    split: Literal["leave-out", "random", "temporal"] = Field(
        "leave-out",
        description="held out: each user's newest rows, any of them at random, or all rows after a point of time",
    )
    held_out: int = Field(
        1, ge=1, description="leave-out, random: a user's rows that are for test, and as many for validation"
    )
    test_share: float = Field(0.1, gt=0, lt=1, description="temporal: share of all rows, the newest")
    valid_share: float = Field(0.1, gt=0, lt=1, description="temporal: share of all rows, just before")
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
    known: Literal["train", "validation", "validation-trained"] = Field(
        "train",
        description="what a device ranks its test item from: its training items, the validation item too, "
        "or the same and it trained on that (select_by=test: as papers without validation do)",
    )
    select_on: Literal["ndcg@10", "hr@10"] = Field(
        "ndcg@10", description="metric that selects the round, on validation"
    )
    select_by: Literal["validation", "test"] = Field(
        "validation", description="items whose figure selects the round; test: as some papers do, too good"
    )
    select_tie: Literal["first", "last"] = Field(
        "first", description="which of equally good rounds is selected"
    )

    @model_validator(mode="after")
    def _says_what_it_does(self) -> Protocol:
        """A choice that another one makes void is refused."""
        void = ("held_out",) if self.split == "temporal" else ("test_share", "valid_share")
        for name in void:
            value = getattr(self, name)
            if value != type(self).model_fields[name].default:
                other = "leave-out" if self.split == "temporal" else "temporal"
                raise ValueError(
                    f"{name}={value} says nothing under split={self.split}: it is for split={other}"
                )
        if self.known == "validation-trained" and self.select_by != "test":
            raise ValueError(
                "known=validation-trained leaves nothing to select the round on but the test items: "
                "it goes with select_by=test"
            )
        if self.test_share + self.valid_share >= 1:
            raise ValueError(
                "test_share and valid_share leave nothing to train on: together they are below 1"
            )
        return self

    @property
    def least(self) -> int:
        """Rows that a user needs to take part."""
        return max(self.min_interactions, 2 * self.held_out + 1)

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
TEMPORAL = Protocol(name="temporal", split="temporal")
PAPER = Protocol(
    name="paper",
    deduplicate=False,
    min_interactions=5,
    time_ties="first-in-file",
    negatives_from="never-interacted",
    select_on="hr@10",
    select_tie="last",
)
PROTOCOLS = {p.name: p for p in (STRICT, NEXT, TEMPORAL, PAPER)}


def protocol(name: str | Protocol) -> Protocol:
    """A protocol by name, or one of one's own: it is checked, and never goes by the name of another.

    A changed one is found by the name that it is given: ``strict+held_out=5,candidates=999``.
    """
    if isinstance(name, Protocol):
        return name.honestly_named()
    known, plus, changes = name.partition("+")
    if known not in PROTOCOLS:
        raise FedrecError(f"unknown protocol '{name}': {nearest(name, PROTOCOLS)}")
    pairs = [pair.partition("=") for pair in changes.split(",")] if plus else []
    for field, equals, _ in pairs:
        if not (field and equals):
            raise FedrecError(
                f"protocol '{name}' is not name+key=value: write for example {known}+candidates=999"
            )
    return PROTOCOLS[known].with_(**{field: value for field, _, value in pairs})
