"""CoLR keeps the contract; at full rank it is its base, and below it sends fewer numbers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.data.split import split
from fedrec.data.worlds import two_tastes
from fedrec.methods import make
from fedrec.simulate.simulation import Simulation
from fedrec.testing import MethodContract


class TestCoLR(MethodContract):
    method: ClassVar[Federated] = make("fedmf+colr", {"dim": 8, "rank": 4})  # type: ignore[assignment]


def played(spec: str, **settings: object) -> Simulation:
    simulation = Simulation(make(spec, {"dim": 8, **settings}), split(two_tastes()), engine="plain")
    for _ in range(3):
        simulation.play(evaluate=False)
    return simulation


def test_at_full_rank_it_is_its_base_and_below_rows_stay_in_the_subspace() -> None:
    base, full, low = played("fedmf"), played("fedmf+colr", rank=8), played("fedmf+colr", rank=2)
    tables = [s.server.state.shared["items"] for s in (base, full, low)]
    assert np.allclose(tables[0], tables[1], atol=1e-3 * np.abs(tables[0]).max())
    assert not np.allclose(tables[0], tables[2], atol=1e-2 * np.abs(tables[0]).max())
    before = low.server.state.shared
    low.play(evaluate=False)
    move = low.server.state.shared["items"] - before["items"]
    assert np.linalg.matrix_rank(move, tol=1e-3 * np.abs(move).max()) == 2
    rows = before["items_basis"]
    assert np.allclose(move @ rows.T @ rows, move, atol=1e-3 * np.abs(move).max())


def test_what_it_does_not_go_over_is_said() -> None:
    for spec, sentence in (
        ("pfedrec+colr", "rows that clients move"),
        ("fedneumf-adam+colr", "rows that clients move"),
        ("fedmf+colr+dualper", "send coordinates"),
    ):
        with pytest.raises(FedrecError, match=sentence):
            make(spec)
    with pytest.raises(FedrecError, match="more than the 4 numbers of a row"):
        make("fedmf+colr", {"dim": 4, "rank": 8})
