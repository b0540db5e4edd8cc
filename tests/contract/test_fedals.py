"""FedALS keeps the contract, on both engines and with its options."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fedrec.clients.kernels.leastsquares import LeastSquaresClients
from fedrec.core.federated import Federated
from fedrec.data.split import split
from fedrec.methods.fedals import FedALS
from fedrec.methods.private_fedals import PrivateFedALS
from fedrec.simulate.simulation import Simulation
from fedrec.testing import MethodContract


class TestFedALS(MethodContract):
    method: ClassVar[Federated] = FedALS(dim=8, alpha=4, lam=2)
    rounds: ClassVar[int] = 10

    def test_a_client_that_is_not_finite_is_dropped_and_stays_as_it_was(self) -> None:
        """Without sampled negatives no row of this world is one client's alone: break a vector instead."""
        simulation = Simulation(self.method, split(self.world))
        engine = simulation.clients.rehearsal.engine  # the first rounds are without the newest items
        assert isinstance(engine, LeastSquaresClients)
        solve = engine._solve

        def broken(shared: Any, users: Any) -> Any:
            w = solve(shared, users)
            w[users == 7] = np.nan
            return w

        engine._solve = broken  # type: ignore[method-assign]
        record = simulation.play(evaluate=False)
        assert record.dropped == 1
        assert np.isfinite(record.loss)
        for name, values in simulation.server.state.shared.items():
            assert np.isfinite(values).all(), f"'{name}' is not finite"


class TestFedALSWithoutPopularity(TestFedALS):
    method: ClassVar[Federated] = FedALS(dim=8, alpha=4, lam=2, popularity=0, scale=0)


class TestFedALSPlain(MethodContract):
    method: ClassVar[Federated] = FedALS(dim=8, alpha=4, lam=2)
    rounds: ClassVar[int] = 10
    engine: ClassVar[str] = "plain"
    test_a_client_that_is_not_finite_is_dropped_and_stays_as_it_was = None  # type: ignore[assignment]


class TestPrivateFedALS(MethodContract):
    """As it is without clip and noise."""

    method: ClassVar[Federated] = PrivateFedALS(dim=8)
    rounds: ClassVar[int] = 10
    test_a_client_that_is_not_finite_is_dropped_and_stays_as_it_was = None  # type: ignore[assignment]


class TestPrivateFedALSPlain(TestPrivateFedALS):
    engine: ClassVar[str] = "plain"
