"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fedrec.cli.terminal import escape

Preset = Annotated[
    str | None,
    typer.Option(
        help=escape(
            "Settings to begin with: paper, as published, or honest, searched on validation without a leak "
        )
        + escape("[default: the protocol's].")
    ),
]


def pairs(given: list[str] | None, option: str = "--set", example: str = "dim=64") -> dict[str, Any]:
    """``key=value`` as it was typed, several times."""
    from fedrec.core.errors import FedrecError

    settings = {}
    for pair in given or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise FedrecError(f"{option} {pair} is not key=value: write for example {option} {example}")
        settings[key.strip()] = value.strip()
    return settings
