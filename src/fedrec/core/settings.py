"""Typed, validated settings: hyper-parameters are the fields of a frozen model.

An unknown name is an error that offers the nearest one; a value out of range is one sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from fedrec.core.errors import FedrecError, nearest


@dataclass(frozen=True)
class Search:
    """Where to look for a setting's good value; stands beside it: ``Annotated[float, Search(0.01, 1, log=True)]``."""

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True)
class Choice:
    """The same for a setting that is one of several words: ``Annotated[Literal["a", "b"], Choice("a", "b")]``."""

    options: tuple[str, ...]

    def __init__(self, *options: str) -> None:
        object.__setattr__(self, "options", options)


class Settings(BaseModel):
    """Base of everything a user configures."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    called: ClassVar[str | None] = None  # what messages call it; none: its name, else its class's

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise FedrecError(_sentence(type(self), error)) from None

    @model_validator(mode="before")
    @classmethod
    def _as_given(cls, values: Any) -> Any:
        """Values as people give them: NumPy's numbers and arrays, and lists as text.

        Lists come from the command line as ``hidden=64,32``, and ``hidden=`` is the empty one.
        """
        if not isinstance(values, dict):
            return values
        plain = {name: plain_value(value) for name, value in values.items()}
        for name, value in plain.items():
            kind = cls.model_fields[name].annotation if name in cls.model_fields else None
            if isinstance(value, str) and str(kind).startswith("tuple"):
                plain[name] = [part for part in value.split(",") if part.strip()]
            numbers = {int, float} & {kind, *get_args(kind)}
            if isinstance(value, bool) and numbers and bool not in (kind, *get_args(kind)):
                raise ValueError(f"{name}={value} is not valid: give a number")
        return plain


def plain_value(value: Any) -> Any:
    """A number of NumPy or PyTorch as Python's, an array as a list; anything else as it is."""
    if hasattr(value, "tolist") and hasattr(value, "ndim"):
        return value.tolist()
    return value


def _sentence(model: type[BaseModel], error: ValidationError) -> str:
    problem = error.errors()[0]
    name = str(problem["loc"][0]) if problem["loc"] else ""
    owner = getattr(model, "called", None)
    if owner is None:
        owner = getattr(model, "name", None)
        owner = owner if isinstance(owner, str) else model.__name__
    if problem["type"] == "extra_forbidden":
        if not model.model_fields:
            return f"{owner} has no settings, but got '{name}'"
        return f"{owner or 'a run'} has no setting '{name}': {nearest(name, model.model_fields)}"
    message = problem["msg"]
    message = message.removeprefix("Value error, ").replace("a valid tuple", "a list")
    message = message[0].lower() + message[1:]
    start = f"{owner}: " if owner else ""
    if not name:
        return start + message
    return f"{start}{name}={problem['input']} is not valid: {message}"
