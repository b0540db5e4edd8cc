"""Clients that join a trained federation: from a few interactions, or none, on the device alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.split import split
from fedrec.data.worlds import two_tastes
from fedrec.methods import make
from fedrec.serve.join import join
from fedrec.simulate.simulation import Simulation

NCF = {"hidden": (16,), "lr": 10, "eta": 2.5, "lr_layers": 0.3}
METHODS: dict[str, tuple[int, dict[str, Any]]] = {
    "fedals": (10, {}),
    "fednext": (10, {}),
    "fcf": (60, {"alpha": 4, "lam": 2, "lr": 0.1}),
    "fedmf": (60, {}),
    "pfedrec": (60, {}),
    "fedrecon": (60, {}),
    "fedncf": (150, NCF),
    "fedrap": (30, {"lr_args": 10}),
    "feddae": (60, {"hidden": 8, "lr": 0.02, "lr_own": 0.01}),
    "fedpergnn": (15, {"neighbours": 5, "pseudo": 10, "noise": 0.02, "lr": 0.1, "lr_items": 10}),
    "gpfedrec": (60, {"hidden": (16,), "lr": 0.3}),
    "metamf": (60, {"rank": 4, "predictor": 4, "memory": 16, "hidden": 32, "lr": 0.01, "steps": 4}),
    "fedmf+dualper": (60, {}),
    "pfedrec+gel": (60, {}),
    "fedmf+plgc": (60, {}),
    "fedmf+recent": (60, {}),
}


@pytest.mark.parametrize("name", METHODS)
def test_newcomers_are_offered_their_taste(name: str) -> None:
    """Even users like even items: so must somebody who has just met two even ones."""
    parts = split(two_tastes())
    rounds, settings = METHODS[name]
    length = {} if name == "feddae" else {"dim": 8}  # there it is called hidden
    simulation = Simulation(make(name, {**length, **settings}), parts)  # type: ignore[arg-type]
    for _ in range(rounds):
        simulation.play(evaluate=False)
    shared = {n: v.copy() for n, v in simulation.server.state.held.items()}
    likes = [[2, 8], [3, 9, 11], []]
    popular = np.bincount(parts.trained.items, minlength=parts.n_items).astype(np.float32)
    negatives = parts.protocol.negatives_per_positive
    found = join(simulation.server, simulation.server.state, likes, popular, negatives)
    scores = found.all(np.arange(3))
    assert scores.shape == (3, parts.n_items)
    assert np.isfinite(scores).all()
    for user, right in ((0, 0), (1, 1)):
        others = np.setdiff1d(np.arange(parts.n_items), likes[user])
        taste = others % 2 == right
        assert scores[user, others[taste]].mean() > scores[user, others[~taste]].mean()
    np.testing.assert_array_equal(scores[2], popular)  # nothing known: what most have met
    for n, values in shared.items():
        assert (values == simulation.server.state.held[n]).all(), "joining changed what all share"
    items = np.array([[0, 5, 7]] * 3, np.int32)
    np.testing.assert_allclose(
        found.some(np.arange(3), items), np.take_along_axis(scores, items, 1), rtol=1e-5, atol=1e-6
    )


def test_a_run_recommends_to_a_new_person() -> None:
    run = fedrec.run("fedals", two_tastes(), rounds=5, settings={"dim": 8})
    found = run.recommend(likes=[2, 4, 8], k=5)
    assert all(item % 2 == 0 for item in found["item"])
    assert not {2, 4, 8} & set(found["item"])
    popular = run.recommend(likes=[], k=3)
    assert len(popular) == 3
    many = run.recommend([0, 1, 2], k=4)
    assert [len(table) for table in many] == [4, 4, 4]
    assert many[1].equals(run.recommend(1, k=4))


def test_yardsticks_take_newcomers_where_they_can() -> None:
    data = two_tastes()
    found = fedrec.run("ease", data).recommend(likes=[2, 4], k=3)
    assert all(item % 2 == 0 for item in found["item"])
    found = fedrec.run("ials", data, settings={"dim": 4}).recommend(likes=[2, 4], k=3)
    assert all(item % 2 == 0 for item in found["item"])
    with pytest.raises(FedrecError, match="nobody can join a run of counter"):
        fedrec.run("counter", data).recommend(likes=[2])
    with pytest.raises(FedrecError, match=r"no item of .* is called '999'"):
        fedrec.run("ease", data).recommend(likes=[999])
    with pytest.raises(FedrecError, match="give one of them"):
        fedrec.run("ease", data).recommend(3, likes=[2])
