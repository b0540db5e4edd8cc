"""Everything that decides a run, as one typed record: what ``config.toml`` holds."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from fedrec.core.federated import View
from fedrec.core.protocol import Protocol
from fedrec.core.settings import Settings


class RunConfig(Settings):
    """A complete, re-runnable description. Threads and folders are left out: they change no result."""

    called: ClassVar[str | None] = ""  # messages speak of its options as a person gave them

    fedrec: str = Field(description="version that made the run")
    method: str
    settings: dict[str, Any] = Field(default_factory=dict)
    preset: str | None = Field(
        None,
        description="which of the method's presets its settings began with; none: given in Python, or private",
    )
    data: str
    source: str | None = Field(None, description="what the data were loaded from; none: given in Python")
    load: dict[str, Any] = Field(
        default_factory=dict, description="options of fedrec.load that the data were loaded with"
    )
    fingerprint: str = Field(description="sum of the data's content")
    protocol: Protocol
    seed: int = Field(0, ge=0, lt=2**63)
    rounds: int | None = Field(None, ge=1)
    engine: Literal["auto", "plain", "fused"] = "auto"
    clients: int | float | None = Field(None, gt=0)
    channel: tuple[str, ...] = ()
    epsilon: float | None = Field(None, gt=0, description="privacy of a user's data that may be spent")
    delta: float | None = Field(None, gt=0, lt=1)
    spent_before: tuple[tuple[float, float, float], ...] | None = Field(
        None, description="releases of what it started from"
    )
    view: View | None = None
    local: bool = False
    eval_every: int = Field(1, ge=1)
    patience: int | None = Field(None, ge=1)
    k: tuple[Annotated[int, Field(ge=1)], ...] = Field((10,), min_length=1, description="lengths of lists")
    all_data: bool = Field(False, description="nothing is held out: for people, not for figures")
    start: str | None = Field(None, description="earlier run whose tables were taken over")
    start_leaks: int = Field(0, ge=0, description="users whose held-out item that run gives away")

    @field_validator("k")
    @classmethod
    def _ten_as_well(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        """Ten is what tables, comparisons and the selection of a round speak of."""
        return tuple(sorted({10, *value}))

    @field_validator("clients", mode="before")
    @classmethod
    def _fraction_or_number(cls, value: Any) -> Any:
        """``0.1`` is a fraction, ``94`` a number of clients, also as text."""
        if not isinstance(value, str):
            return value
        try:
            return int(value) if value.strip().lstrip("+-").isdecimal() else float(value)
        except ValueError:
            raise ValueError("give a fraction such as 0.1 or a number such as 94") from None

    def table(self) -> dict[str, Any]:
        """For TOML, which knows no null."""
        return {k: v for k, v in self.model_dump(mode="json").items() if v is not None}
