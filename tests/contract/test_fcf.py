"""FCF keeps the contract on both engines, and its sums are those of the paper's M × d uploads."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedrec.core.federated import Federated
from fedrec.data.split import split
from fedrec.methods.fcf import FCF
from fedrec.simulate.simulation import Simulation
from fedrec.testing import MethodContract


class TestFCF(MethodContract):
    method: ClassVar[Federated] = FCF(dim=8, alpha=4, lam=2, lr=0.1)
    # No sampled negatives: no row of this world is one client's alone.
    test_a_client_that_is_not_finite_is_dropped_and_stays_as_it_was = None  # type: ignore[assignment]

    def test_the_step_is_that_of_the_papers_uploads(self) -> None:
        """f_ui = c_ui (p_ui − x_u·y_i) x_u for all users and items, written out in full."""
        method = FCF(dim=4, alpha=3, lam=2, lr=0.1, recency="off")
        simulation = Simulation(method, split(self.world))
        simulation.play(evaluate=False)  # so that the Gramian is that of the table
        before = simulation.server.state
        simulation.play(evaluate=False)
        parts, y = simulation.split, before.shared["items"].astype(np.float64)
        p = np.zeros((parts.n_users, parts.n_items))
        for u in range(parts.n_users):
            p[u, parts.train.of(u)] = 1
        c = 1 + 3 * p
        x = np.stack(
            [
                np.linalg.solve(y.T @ (c[u][:, None] * y) + 2 * np.eye(4), y.T @ (c[u] * p[u]))
                for u in range(parts.n_users)
            ]
        )
        f = np.einsum("ui,ud->id", c * (p - x @ y.T), x)
        slope = -2 * f + 2 * 2 * y
        m = 0.4 * before.server["adam.items.m"] + 0.6 * slope
        v = 0.99 * before.server["adam.items.v"] + 0.01 * slope**2
        expected = y - 0.1 * m / (1 - 0.4**2) / (np.sqrt(v / (1 - 0.99**2)) + 1e-8)
        np.testing.assert_allclose(simulation.server.state.shared["items"], expected, atol=2e-4)

    def test_bytes_are_the_papers(self) -> None:
        simulation = Simulation(FCF(dim=8, recency="off"), split(self.world))
        record = simulation.play(evaluate=False)
        assert record.bytes_up == record.clients * simulation.split.n_items * 8 * 4


class TestFCFPlain(TestFCF):
    engine: ClassVar[str] = "plain"

    def test_both_engines_agree(self) -> None:
        plain, fused = (
            Simulation(self.method, split(self.world), engine=name) for name in ("plain", "fused")
        )
        for simulation in (plain, fused):
            simulation.play(evaluate=False)
        a, b = plain.server.state.shared["items"], fused.server.state.shared["items"]
        assert np.abs(a - b).max() < 1e-3
