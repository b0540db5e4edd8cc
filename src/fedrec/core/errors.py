"""Errors a user can act on: one sentence with what was wrong, the value, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FedrecError(Exception):
    """Bad input or a state the user can mend. The command line prints it and exits with code 2."""


class DataError(FedrecError):
    """Data that cannot be found, read or used."""


class Interrupted(KeyboardInterrupt):
    """Stopped from the keyboard; what was saved can be gone on with. No ``except Exception`` swallows it."""

    def __init__(self, command: str, round: int | None = None) -> None:
        held = "" if round is None else f" after round {round}, which the checkpoint holds"
        super().__init__(f"interrupted{held}; go on with: {command}")


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint to append to "unknown …": the nearest valid name, or all of them where nothing is near."""
    options = sorted(known)
    close = difflib.get_close_matches(name.lower(), options, n=1, cutoff=0.5)
    if close:
        return f"did you mean '{close[0]}'?"
    return "known: " + ", ".join(options) if options else "none are known"
