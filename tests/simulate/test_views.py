"""What clients rank with: their own rows, the global table, another client's rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedrec
from fedrec.core.federated import Federated, View
from fedrec.data.interactions import Interactions
from fedrec.data.split import split
from fedrec.evaluate.metrics import summary
from fedrec.methods import make
from fedrec.methods.pfedrec import PFedRec
from fedrec.simulate.simulation import Simulation
from fedrec.simulate.views import partners
from fedrec.testing import different, scores, trained

VIEWS: tuple[View, ...] = ("own", "global", "random")


@pytest.mark.parametrize("name", ["pfedrec", "fedmf", "fedncf", "fedrap", "fedmf+plgc"])
def test_training_does_not_depend_on_the_view(small: Interactions, name: str) -> None:
    """So that any view can be asked of any run: it gives what a run under that view gives."""
    method = make(name, {"dim": 8})  # FedRAP's honest preset would hardly move its own rows in a round
    runs = {view: fedrec.run(method, small, rounds=1, view=view) for view in VIEWS}
    asked = runs["own"]
    for view, run in runs.items():
        assert asked.federated is not None
        assert run.federated is not None
        assert different(asked.federated.moment, run.federated.moment) == []
        assert asked.evaluate(view) == run.evaluate()
    assert len({run.test["auc"] for run in runs.values()}) == 3, "the views differ"


@pytest.mark.parametrize("name", ["pfedrec", "fedncf+dualper", "fedrecon+dualper"])
def test_replayed_rows_are_the_rows_of_training(small: Interactions, name: str) -> None:
    """Validation ranks while the tuned rows are at hand; afterwards the round is played again."""
    method = make(name, {"dim": 8})
    assert isinstance(method, Federated)
    simulation = Simulation(method, split(small), view="own")
    for _ in range(2):
        simulation.play(evaluate=False)
    record = simulation.play(evaluate=True)
    assert simulation.selected is not None
    replayed = summary(simulation.ranks(simulation.selected.moment, "valid"))
    assert record.validation == {figure: replayed[figure] for figure in ("hr@10", "ndcg@10")}


def test_with_client_sampling_own_rows_are_those_of_the_last_round_taken_part_in(
    tastes: Interactions,
) -> None:
    sampled, _ = trained(PFedRec(dim=8), tastes, 1, clients_per_round=39)
    everyone, moment = trained(PFedRec(dim=8), tastes, 1)
    assert moment.before is not None
    took_part = sampled.clients.state.rows["items"].arrays()["users"]
    assert len(took_part) == 39
    stored = sampled.clients.state.rows["items"].get(took_part)
    told = everyone.server.standing(replace(moment.before.server, round=1))
    replayed = everyone.clients.trained_again(told, moment.before.devices, took_part).rows["items"]
    np.testing.assert_array_equal(stored.items.items, replayed.items.items)
    np.testing.assert_allclose(stored.values, replayed.values, rtol=1e-5, atol=1e-6)


def test_a_client_that_never_took_part_ranks_with_the_global_table(tastes: Interactions) -> None:
    simulation, moment = trained(PFedRec(dim=8), tastes, 2, clients_per_round=1)
    took_part = simulation.clients.state.rows["items"].arrays()["users"]
    others = np.setdiff1d(simulation.clients.everyone, took_part)
    own, common = (scores(simulation, moment, view) for view in ("own", "global"))
    np.testing.assert_allclose(own[others], common[others], rtol=1e-5)
    assert not np.allclose(own[took_part], common[took_part], rtol=1e-2)


def test_partners_are_others_and_each_serves_once() -> None:
    mine = partners(seed=3, n_users=50)
    assert (mine != np.arange(50)).all()
    assert sorted(mine) == list(range(50))
    assert (partners(seed=4, n_users=50) != mine).any()


def test_random_view_takes_rows_of_another_and_keeps_the_own_score_function(tastes: Interactions) -> None:
    simulation, moment = trained(PFedRec(dim=8), tastes, 3)
    assert moment.before is not None
    users = simulation.clients.everyone
    told = simulation.server.standing(replace(moment.before.server, round=3))
    rows = simulation.clients.trained_again(told, moment.before.devices, users).rows["items"]
    other = int(partners(0, len(users))[5])
    item = int(rows.items.of(other)[0])
    row = rows.values[rows.items.indptr[other]]
    private = {name: values[5] for name, values in moment.devices.lines.items()}
    expected = row @ private["score"] + private["bias"]
    assert scores(simulation, moment, "random")[5, item] == pytest.approx(float(expected), rel=1e-4)
