"""FedRAP keeps the contract, on both engines and in its ablations.

Its personal rows rank: it learns the two tastes where the held-out item is kept out of the negatives.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from fedrec.clients.store import fetched
from fedrec.core.federated import Federated, View
from fedrec.methods.fedrap import FedRAP
from fedrec.simulate.simulation import Simulation
from fedrec.testing import MethodContract, scores
from fedrec.wrap.dualper import DualPer
from fedrec.wrap.gel import GEL


class TestFedRAP(MethodContract):
    method: ClassVar[Federated] = FedRAP(dim=8, lr_args=10)
    rounds: ClassVar[int] = 30
    view: ClassVar[View] = "own"
    protocol: ClassVar[str] = "paper"


class TestFedRAPPlain(TestFedRAP):
    engine: ClassVar[str] = "plain"


class TestFedRAPCommonOnly(TestFedRAP):
    method: ClassVar[Federated] = FedRAP(dim=8, lr_args=10, mu=0.01, parts="common")
    view: ClassVar[View] = "global"  # there is no other


class TestFedRAPWithThreshold(TestFedRAP):
    method: ClassVar[Federated] = FedRAP(dim=8, lr_args=10, prox=0.001)


@pytest.mark.slow
class TestFedRAPWithDualPer(TestFedRAP):
    method: ClassVar[Federated] = DualPer(FedRAP(dim=8, lr_args=10))

    def test_the_tuned_rows_of_the_common_table_rank(self) -> None:
        """Without the wrapper a device forgets its copy of C; with it that copy is its own view."""
        simulation, moment = self.trained(self.world, 3, self.protocol)
        assert simulation.own == "tuned"
        assert Simulation(FedRAP(dim=8, lr_args=10), simulation.split).own == "kept"
        assert simulation.view == "own"
        own, merged = (scores(simulation, moment, view) for view in ("own", "global"))
        assert not np.allclose(own, merged, rtol=1e-3, atol=1e-4)
        clients, before = simulation.clients, moment.before
        assert before is not None
        then = simulation.server.standing(replace(before.server, round=moment.round))
        part = clients.trained_again(then, before.devices, clients.everyone)
        tuned, personal = (fetched(part.rows[name]) for name in ("common", "personal"))
        for user in (0, 7):
            c, d = before.server.shared["common"].copy(), np.zeros_like(before.server.shared["common"])
            for table, rows in ((c, tuned), (d, personal)):
                run = slice(rows.items.indptr[user], rows.items.indptr[user + 1])
                table[rows.items.items[run]] = rows.values[run]
            assert not np.allclose(c, before.server.shared["common"]), "nothing was tuned"
            touched = tuned.items.of(user)
            expected = (c + d) @ part.lines["user"][user] + part.lines["bias"][user]
            np.testing.assert_allclose(own[user, touched], expected[touched], rtol=1e-3, atol=1e-4)


@pytest.mark.slow
class TestFedRAPWithGEL(TestFedRAP):
    method: ClassVar[Federated] = GEL(FedRAP(dim=8, lr_args=10))
