"""MetaMF keeps the contract as far as a method without device state can."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from fedrec.channel.laplace import Laplace
from fedrec.channel.stage import Stage
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.data.split import split
from fedrec.methods.metamf import MetaMF
from fedrec.simulate.simulation import Simulation
from fedrec.testing import MethodContract, Spy


class SumsOnly(Stage):
    """A stage behind which the server sees no single upload."""

    name: ClassVar[str] = "sums"
    hides_single: ClassVar[bool] = True


class TestMetaMF(MethodContract):
    method: ClassVar[Federated] = MetaMF(dim=8, rank=4, predictor=4, memory=8, hidden=16, lr=0.01, steps=4)
    rounds: ClassVar[int] = 40
    # Its clients have no rows of their own that could be broken, and no model without the server.
    test_a_client_that_is_not_finite_is_dropped_and_stays_as_it_was = None  # type: ignore[assignment]
    test_local_clients_learn_alone = None  # type: ignore[assignment]

    def test_local_is_refused_in_a_sentence(self) -> None:
        with pytest.raises(FedrecError, match="cannot learn locally"):
            Simulation(self.method, split(self.world), local=True)

    def test_what_shows_nothing_but_sums_is_refused_in_a_sentence(self) -> None:
        with pytest.raises(
            FedrecError, match=r"'sums' shows .* of metamf looks at single uploads: leave it out"
        ):
            Simulation(self.method, split(self.world), channel=[SumsOnly()])

    def test_noise_of_each_device_is_back_propagated(self) -> None:
        plain, noisy = (
            Simulation(self.method, split(self.world), channel=channel)
            for channel in ([], [Laplace(strength=0.1)])
        )
        for simulation in (plain, noisy):
            simulation.play(evaluate=False)
        for name, values in noisy.server.state.server.items():
            assert np.isfinite(values).all()
            if not name.startswith("adam"):
                assert not np.array_equal(values, plain.server.state.server[name]), f"no noise in '{name}'"

    def test_back_propagated_uploads_are_the_gradient_of_the_whole(self) -> None:
        """With and without a channel that looks at single uploads, the server makes the same step."""
        plain, spied = (Simulation(self.method, split(self.world), channel=c) for c in ([], [Spy()]))
        for simulation in (plain, spied):
            simulation.play(evaluate=False)
        theirs = spied.server.state.server
        for name, values in plain.server.state.server.items():
            np.testing.assert_allclose(values, theirs[name], rtol=1e-3, atol=2e-4, err_msg=name)

    def test_a_client_that_is_not_finite_is_dropped(self) -> None:
        simulation = Simulation(self.method, split(self.world))
        users = simulation.server.state.server["users"]
        users[7] = 1e18  # so large that its model overflows
        record = simulation.play(evaluate=False)
        assert record.dropped == 1
        others = np.delete(simulation.server.state.server["users"], 7, axis=0)
        assert np.isfinite(others).all()

    def test_a_client_downloads_the_model_that_was_made_for_it(self) -> None:
        record = Simulation(self.method, split(self.world)).play(evaluate=False)
        table, predictor = self.world.n_items * 4 + 4 * 8, 8 * 4 + 4 + 4 + 1
        assert record.bytes_down == record.clients * 4 * (table + predictor)
