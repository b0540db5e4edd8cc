"""FedAE and FedDAE keep the contract, and a gate that is closed leaves FedAE."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from fedrec.core.federated import Federated
from fedrec.core.slots import Catalog, Slot
from fedrec.data.split import Split
from fedrec.methods.fedae import FedAE
from fedrec.methods.feddae import FedDAE
from fedrec.simulate.simulation import Simulation
from fedrec.testing import MethodContract


class TestFedAE(MethodContract):
    method: ClassVar[Federated] = FedAE(hidden=8, lr=0.02)


class TestFedDAE(MethodContract):
    method: ClassVar[Federated] = FedDAE(hidden=8, lr=0.02, lr_own=0.1)


def played(method: Federated, parts: Split, engine: str = "auto") -> Simulation:
    simulation = Simulation(method, parts, threads=1, engine=engine)
    for _ in range(2):
        simulation.play(evaluate=False)
    return simulation


def test_a_closed_gate_leaves_fedae(small_split: Split) -> None:
    with_gate = played(FedDAE(hidden=8, share=1e-12), small_split)
    without = played(FedAE(hidden=8), small_split)
    for name in ("encoder", "decoder", "appeal"):
        np.testing.assert_allclose(
            with_gate.server.state.shared[name], without.server.state.shared[name], atol=1e-5, err_msg=name
        )


def test_the_own_encoder_moves_and_stays_on_its_device(small_split: Split) -> None:
    simulation = played(FedDAE(hidden=8, lr_own=0.1), small_split)
    state = simulation.clients.state
    assert np.abs(state.lines["gate"] - state.lines["gate"][0]).max() > 0
    assert not {"own", "own_offset", "gate"} & set(simulation.server.state.shared)


class Everything(FedDAE):
    """FedDAE that keeps every row of its encoder that it has ever held."""

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        slots = super().slots(catalog)
        return {**slots, "own": replace(slots["own"], met=False)}


def test_rows_that_are_not_kept_are_of_no_use(small_split: Split) -> None:
    some, all_of_them = (
        played(method(hidden=8, lr_own=0.1, share=0.5), small_split, "plain")
        for method in (FedDAE, Everything)
    )
    for name, line in some.clients.state.lines.items():
        np.testing.assert_array_equal(line, all_of_them.clients.state.lines[name], err_msg=name)
    users = some.clients.everyone
    scores = [each.scorer(each.moment).all(users) for each in (some, all_of_them)]
    np.testing.assert_array_equal(*scores)
    rows = [each.clients.state.rows["own"].get(users).items for each in (some, all_of_them)]
    assert len(rows[0].items) < len(rows[1].items)


def test_own_rows_are_kept_of_what_a_device_met_and_of_nothing_else(small_split: Split) -> None:
    """Sampled negatives come and go: what a device keeps does not grow with rounds."""
    simulation = played(FedDAE(hidden=8, lr_own=0.1), small_split)
    clients = simulation.clients
    kept = clients.state.rows["own"].get(clients.everyone).items
    for user in clients.everyone:
        assert len(kept.of(user)) > 0
        assert set(kept.of(user)) <= set(clients.data.train.of(user))
