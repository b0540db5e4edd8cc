"""What a user sees of FedRecon: by what clients count in the mean."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec.core.upload import Upload
from fedrec.data.split import split
from fedrec.data.worlds import scalable
from fedrec.methods.fedrecon import FedRecon
from fedrec.simulate.simulation import Simulation


@pytest.mark.parametrize(("weighting", "alike"), [("clients", True), ("examples", False)])
def test_clients_count_alike_or_by_their_examples(weighting: str, alike: bool) -> None:
    trained = Simulation(FedRecon(dim=4, weighting=weighting), split(scalable(30, 40, 300), "strict", 0))
    broadcast = trained.server.broadcast(1, trained.clients.everyone)
    from fedrec.clients.clients import Ask

    sent = [a.reply.sent for a in trained.clients.fit(broadcast, trained.clients.everyone, Ask(single=True))]
    weights = np.concatenate([s.weights for s in sent if isinstance(s, Upload)])
    assert len(weights) == len(trained.clients)
    assert (weights == 1).all() == alike
    assert (np.ptp(weights) == 0) == alike
