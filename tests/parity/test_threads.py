"""What a run gives does not depend on the number of threads."""

from __future__ import annotations

from typing import Any

import pytest

import fedrec
from fedrec.data.interactions import Interactions
from fedrec.data.worlds import scalable
from fedrec.testing import different


@pytest.fixture(scope="module")
def many() -> Interactions:
    """Enough clients for several blocks."""
    return scalable(400, 120, 6000)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("pfedrec", {}),
        ("fedncf+dualper", {"clients": 0.8, "channel": ["laplace=0.1"]}),
        ("fedrecon", {"view": "random"}),
        ("fedrap+recent", {}),
        ("fedrecon+recent", {}),
        ("fedmf", {"local": True}),
    ],
)
def test_one_thread_and_many_end_with_the_same_bits(
    many: Interactions, method: str, options: dict[str, Any]
) -> None:
    one, three = (
        fedrec.run(method, many, rounds=2, settings={"dim": 8}, threads=threads, **options)
        for threads in (1, 3)
    )
    assert one.federated is not None
    assert three.federated is not None
    assert len(one.federated.clients.engine.blocks(one.federated.clients.everyone)) > 3
    assert different(one.federated.moment, three.federated.moment) == []
    assert one.ranks.equals(three.ranks)
    seconds = ["fit_seconds", "evaluate_seconds"]
    assert one.history.drop(seconds).equals(three.history.drop(seconds))
