"""Typed, validated settings: hyper-parameters are the fields of a frozen model.

An unknown name is an error that offers the nearest one; a value out of range is one sentence.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from fedrec.core.errors import FedrecError, nearest


class Settings(BaseModel):
    """Base of everything a user configures."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise FedrecError(_sentence(type(self), error)) from None

    @model_validator(mode="before")
    @classmethod
    def _lists_from_text(cls, values: Any) -> Any:
        """Lists come from the command line as text: ``hidden=64,32``, and ``hidden=`` is the empty one."""
        if not isinstance(values, dict):
            return values
        split = dict(values)
        for name, value in values.items():
            field = cls.model_fields.get(name)
            if isinstance(value, str) and field is not None and str(field.annotation).startswith("tuple"):
                split[name] = [part for part in value.split(",") if part.strip()]
        return split


def _sentence(model: type[BaseModel], error: ValidationError) -> str:
    problem = error.errors()[0]
    name = str(problem["loc"][0]) if problem["loc"] else ""
    owner = getattr(model, "name", None)
    owner = owner if isinstance(owner, str) else model.__name__
    if problem["type"] == "extra_forbidden":
        if not model.model_fields:
            return f"{owner} has no settings, but got '{name}'"
        return f"{owner} has no setting '{name}': {nearest(name, model.model_fields)}"
    message = problem["msg"]
    message = message.removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if not name:
        return f"{owner}: {message}"
    return f"{owner}: {name}={problem['input']} is not valid: {message}"
