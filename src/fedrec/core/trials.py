"""Numbers that a federation chooses by itself, without seeing anybody's data.

For some rounds devices train without their newest item. In the last of these rounds each ranks that item among
items it has not met, once under each choice, and sends how well it came out: the sum over devices says which
choice is best. Nobody's held-out items take part: the newest item is one that devices train on afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedrec.core.slots import Arrays


@dataclass(frozen=True, eq=False)
class Trials:
    """What is tried, where the answers go, and how long it takes."""

    withheld: str  # a shared number: rounds in which devices still train without their newest item
    guesses: float  # of these, the last ones in which they guess it
    gains: str  # an upload: what each choice gains, a number per choice
    choices: Sequence[Arrays]  # each stands in for shared arrays of these names
