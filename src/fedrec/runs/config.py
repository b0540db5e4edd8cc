"""Everything that decides a run, as one typed record: what ``config.toml`` holds."""

from __future__ import annotations

import hashlib
from typing import Any, Literal

from pydantic import Field, field_validator

from fedrec.core.federated import View
from fedrec.core.protocol import Protocol
from fedrec.core.settings import Settings
from fedrec.data.interactions import Interactions


class RunConfig(Settings):
    """A complete, re-runnable description. Threads and folders are left out: they change no result."""

    fedrec: str = Field(description="version that made the run")
    method: str
    settings: dict[str, Any] = Field(default_factory=dict)
    data: str
    source: str | None = Field(None, description="what the data were loaded from; none: given in Python")
    fingerprint: str = Field(description="sum of the data's content")
    protocol: Protocol
    seed: int = Field(0, ge=0, lt=2**63)
    rounds: int | None = Field(None, ge=1)
    engine: Literal["auto", "plain", "fused"] = "auto"
    clients: int | float | None = Field(None, gt=0)
    channel: tuple[str, ...] = ()
    view: View | None = None
    local: bool = False
    eval_every: int = Field(1, ge=1)
    patience: int | None = Field(None, ge=1)
    start: str | None = Field(None, description="earlier run whose tables were taken over")

    @field_validator("clients", mode="before")
    @classmethod
    def _fraction_or_number(cls, value: Any) -> Any:
        """``0.1`` is a fraction, ``94`` a number of clients, also as text."""
        if isinstance(value, str):
            return float(value) if "." in value or "e" in value.lower() else int(value)
        return value

    def table(self) -> dict[str, Any]:
        """For TOML, which knows no null."""
        return {k: v for k, v in self.model_dump(mode="json").items() if v is not None}


def fingerprint(data: Interactions) -> str:
    """A sum over ids, items and times: two data sets of one name can differ."""
    digest = hashlib.sha256()
    for array in (data.indptr, data.items, data.times):
        if array is not None:
            digest.update(array.tobytes())
    for ids in (data.user_ids, data.item_ids):  # a user's random streams hang on its id
        digest.update("\n".join(map(str, ids.tolist())).encode() + b"\0")
    return digest.hexdigest()[:16]
