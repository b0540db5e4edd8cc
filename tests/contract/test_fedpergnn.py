"""FedPerGNN keeps the contract; its third party and what hides uploads do what the paper says."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.data.split import split
from fedrec.methods import make
from fedrec.methods.fedpergnn import FedPerGNN
from fedrec.methods.thirdparty import TOLD, VECTORS, ThirdParty
from fedrec.simulate.simulation import Simulation
from fedrec.testing import MethodContract, Spy

# 40 clients hide one another less than thousands do: so little noise still leaves something to learn.
METHOD = FedPerGNN(dim=8, neighbours=5, pseudo=10, noise=0.02)


def neighbours_of(simulation: Simulation, user: int) -> np.ndarray:
    """Whom the third party has found for a client, from the hashes that devices told it."""
    assert isinstance(simulation.server.service, ThirdParty)
    return simulation.server.service.near.of(user)


class TestFedPerGNN(MethodContract):
    method: ClassVar[Federated] = METHOD

    def test_neighbours_share_items_and_are_no_more_than_asked_for(self) -> None:
        simulation = Simulation(METHOD, split(self.world))
        for user in simulation.clients.everyone:
            mine = neighbours_of(simulation, user)
            assert len(mine) == len(set(mine)) == 5
            assert user not in mine
            assert all(other % 2 == user % 2 for other in mine), "only users of one taste share items"

    def test_a_neighbour_changes_what_a_client_ranks_with(self) -> None:
        simulation = Simulation(METHOD, split(self.world))
        simulation.play(evaluate=False)
        server, clients, user = simulation.server, simulation.clients, np.array([3])
        near, vectors = neighbours_of(simulation, 3), clients.state.lines["user"]
        np.testing.assert_array_equal(server.state.server[VECTORS], vectors)  # as the devices told them

        def ranks_with(other: int, shift: float) -> np.ndarray:
            moved = vectors.copy()
            moved[other] += shift
            third_party = replace(server.state, server={**server.state.server, VECTORS: moved})
            devices = replace(clients.state, lines={**clients.state.lines, "user": moved})
            return clients.part(server.standing(third_party), user, own=False, state=devices).lines["vector"]

        for other in range(len(vectors)):
            same = np.array_equal(ranks_with(other, 0.0), ranks_with(other, 1.0))
            assert same == (other not in near and other != 3)

    def test_uploads_hide_among_pseudo_items_and_are_bounded_before_the_noise(self) -> None:
        spy = Spy()
        quiet = METHOD.model_copy(update={"noise": 0.0})
        simulation = Simulation(quiet, split(self.world), channel=[spy])
        simulation.play(evaluate=False)
        for upload in spy.seen:
            gradients = {**upload.rows, **upload.dense}
            gradients.pop(TOLD)  # the vector, for the third party
            for values in gradients.values():
                assert np.abs(values).max() <= METHOD.clip + 1e-7
        with_less = FedPerGNN(dim=8, neighbours=5, pseudo=0)
        bare = Simulation(with_less, split(self.world)).play(evaluate=False)
        assert simulation.play(evaluate=False).bytes_up > bare.bytes_up

    def test_wrappers_are_refused_in_a_sentence(self) -> None:
        for name in ("dualper", "gel"):
            with pytest.raises(FedrecError, match=f"{name} does not go over fedpergnn: its clients"):
                make(f"fedpergnn+{name}")
