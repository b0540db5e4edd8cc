"""What every federated method must do, as tests to inherit: one class of a few lines per method.

    from fedrec.testing import MethodContract

    class TestFedMF(MethodContract):
        method = FedMF(dim=8)

Settings are those under which the method learns the small world of two tastes within ``rounds``.
"""

from __future__ import annotations

from fedrec.testing.contract import MethodContract
from fedrec.testing.fleet import Fleet, fleet, reachable
from fedrec.testing.tools import (
    Arrays,
    Spy,
    arrays_of,
    check_alike,
    different,
    poison,
    same,
    scores,
    some_users,
    trained,
    with_unknown_items,
)

__all__ = [
    "Arrays",
    "Fleet",
    "MethodContract",
    "Spy",
    "arrays_of",
    "check_alike",
    "different",
    "fleet",
    "poison",
    "reachable",
    "same",
    "scores",
    "some_users",
    "trained",
    "with_unknown_items",
]
