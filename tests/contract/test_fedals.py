"""FedALS keeps the contract, on both engines and with its options."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fedrec.core.federated import Federated
from fedrec.data.split import split
from fedrec.engine.als import ALS
from fedrec.engine.round import Federation
from fedrec.methods.fedals import FedALS
from fedrec.testing import MethodContract


class TestFedALS(MethodContract):
    method: ClassVar[Federated] = FedALS(dim=8, alpha=4, lam=2)
    rounds: ClassVar[int] = 10

    def test_a_client_that_is_not_finite_is_dropped_and_stays_as_it_was(self) -> None:
        """Without sampled negatives no row of this world is one client's alone: break a vector instead."""
        federation = Federation(self.method, split(self.world))
        assert isinstance(federation.engine, ALS)
        solve = federation.engine._solve

        def broken(state: Any, users: Any) -> Any:
            w = solve(state, users)
            w[users == 7] = np.nan
            return w

        federation.engine._solve = broken  # type: ignore[method-assign]
        record = federation.play(evaluate=False)
        assert record.dropped == 1
        assert np.isfinite(record.loss)
        for name, values in federation.state.shared.items():
            assert np.isfinite(values).all(), f"'{name}' is not finite"


class TestFedALSWithoutPopularity(TestFedALS):
    method: ClassVar[Federated] = FedALS(dim=8, alpha=4, lam=2, popularity=0, scale=0)


class TestFedALSPlain(MethodContract):
    method: ClassVar[Federated] = FedALS(dim=8, alpha=4, lam=2)
    rounds: ClassVar[int] = 10
    engine: ClassVar[str] = "plain"
    test_a_client_that_is_not_finite_is_dropped_and_stays_as_it_was = None  # type: ignore[assignment]
