"""What clients rank with: their own rows, the global table, another client's rows."""

from __future__ import annotations

import numpy as np
import pytest

import fedrec
from fedrec.core.federated import Federated, View
from fedrec.data.interactions import Interactions
from fedrec.data.split import split
from fedrec.engine.round import Federation
from fedrec.engine.views import partners
from fedrec.evaluate.metrics import summary
from fedrec.methods import make
from fedrec.methods.pfedrec import PFedRec
from fedrec.testing import different, scores, trained

VIEWS: tuple[View, ...] = ("own", "global", "random")


@pytest.mark.parametrize("name", ["pfedrec", "fedmf", "fedncf", "fedrap", "fedmf+plgc"])
def test_training_does_not_depend_on_the_view(small: Interactions, name: str) -> None:
    """So that any view can be asked of any run: it gives what a run under that view gives."""
    runs = {view: fedrec.run(name, small, rounds=1, settings={"dim": 8}, view=view) for view in VIEWS}
    asked = runs["own"]
    for view, run in runs.items():
        assert asked.federation is not None
        assert run.federation is not None
        assert different(asked.federation.state, run.federation.state) == []
        assert asked.evaluate(view) == run.evaluate()
    assert len({run.test["auc"] for run in runs.values()}) == 3, "the views differ"


@pytest.mark.parametrize("name", ["pfedrec", "fedncf+dualper", "fedrecon+dualper"])
def test_replayed_rows_are_the_rows_of_training(small: Interactions, name: str) -> None:
    """Validation ranks while the tuned rows are at hand; afterwards the round is played again."""
    method = make(name, {"dim": 8})
    assert isinstance(method, Federated)
    federation = Federation(method, split(small), view="own")
    for _ in range(2):
        federation.play(evaluate=False)
    record = federation.play(evaluate=True)
    assert federation.selected is not None
    replayed = summary(federation.ranks(federation.selected.moment, "valid"))
    assert record.validation == {figure: replayed[figure] for figure in ("hr@10", "ndcg@10")}


def test_with_client_sampling_own_rows_are_those_of_the_last_round_taken_part_in(
    tastes: Interactions,
) -> None:
    sampled, _ = trained(PFedRec(dim=8), tastes, 1, clients=39)
    everyone, moment = trained(PFedRec(dim=8), tastes, 1)
    assert moment.before is not None
    took_part = sampled.state.rows["items"].arrays()["users"]
    assert len(took_part) == 39
    stored = sampled.state.rows["items"].get(took_part)
    replayed = everyone.engine.fit(moment.before, 1, took_part).held.rows["items"]
    np.testing.assert_array_equal(stored.held.items, replayed.held.items)
    np.testing.assert_allclose(stored.values, replayed.values, rtol=1e-5, atol=1e-6)


def test_a_client_that_never_took_part_ranks_with_the_global_table(tastes: Interactions) -> None:
    federation, moment = trained(PFedRec(dim=8), tastes, 2, clients=1)
    took_part = federation.state.rows["items"].arrays()["users"]
    others = np.setdiff1d(federation.everyone, took_part)
    own, common = (scores(federation, moment, view) for view in ("own", "global"))
    np.testing.assert_allclose(own[others], common[others], rtol=1e-5)
    assert not np.allclose(own[took_part], common[took_part], rtol=1e-2)


def test_partners_are_others_and_each_serves_once() -> None:
    mine = partners(seed=3, n_users=50)
    assert (mine != np.arange(50)).all()
    assert sorted(mine) == list(range(50))
    assert (partners(seed=4, n_users=50) != mine).any()


def test_random_view_takes_rows_of_another_and_keeps_the_own_score_function(tastes: Interactions) -> None:
    federation, moment = trained(PFedRec(dim=8), tastes, 3)
    assert moment.before is not None
    users = federation.everyone
    rows = federation.engine.fit(moment.before, 3, users).held.rows["items"]
    other = int(partners(0, len(users))[5])
    item = int(rows.held.of(other)[0])
    row = rows.values[rows.held.indptr[other]]
    private = {name: values[5] for name, values in moment.after.private.items()}
    expected = row @ private["score"] + private["bias"]
    assert scores(federation, moment, "random")[5, item] == pytest.approx(float(expected), rel=1e-4)
