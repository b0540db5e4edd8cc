"""A warm start: what an earlier run learned is taken over, new items get a row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedrec
from fedrec.clients.store import Rows, RowStore
from fedrec.core.errors import FedrecError
from fedrec.core.federated import View
from fedrec.core.ragged import Ragged
from fedrec.data.interactions import Interactions
from fedrec.data.split import split
from fedrec.data.worlds import two_tastes
from fedrec.methods import make
from fedrec.simulate.simulation import Simulation
from fedrec.simulate.warm import carry_rows, warm_start
from fedrec.testing import scores, some_users

NEW = 4


def grown(data: Interactions) -> Interactions:
    """The same interactions in a catalogue with new items in front: every code changes."""
    ids = np.concatenate([1000 + np.arange(NEW), data.item_ids])
    return replace(data, items=data.items + np.int32(NEW), item_ids=ids)


@pytest.mark.parametrize("name", ["fedals", "fcf", "pfedrec"])
def test_known_items_keep_their_rows_and_new_ones_get_one(name: str) -> None:
    data = two_tastes()
    run = fedrec.run(make(name, {"dim": 8}), data, rounds=5)
    simulation = Simulation(make(name, {"dim": 8}), split(grown(data)))
    assert run.federated is not None
    assert run.federated.selected is not None
    warm_start(simulation, run.federated)
    before = run.federated.selected.moment
    table = simulation.server.state.shared["items"]
    np.testing.assert_array_equal(table[NEW:], before.server.shared["items"])
    assert np.isfinite(table[:NEW]).all()
    for private, values in simulation.clients.state.lines.items():
        np.testing.assert_array_equal(values, before.devices.lines[private])
    if name in ("fedals", "fcf"):
        np.testing.assert_allclose(
            simulation.server.state.shared["gram"], table.T @ table, rtol=1e-3, atol=1e-3
        )


@pytest.mark.parametrize(
    "name",
    ["fedmf", "pfedrec", "fedncf", "fedrecgel", "fedrap", "fedmf+plgc", "pfedrec+plgc", "fcf", "fedals"],
)
def test_known_clients_rank_known_items_as_before(name: str) -> None:
    """Whatever devices keep is carried over too, in another order of users, with items come and gone."""
    data = two_tastes()
    run = fedrec.run(make(name, {"dim": 8}), some_users(data, range(5, 35)), rounds=3)
    simulation = Simulation(make(name, {"dim": 8}), split(grown(some_users(data, range(39, -1, -1)))))
    assert run.federated is not None
    assert run.federated.selected is not None
    warm_start(simulation, run.federated)
    view: View = "own" if simulation.clients.state.rows else "global"
    before = scores(run.federated, run.federated.selected.moment, view)
    after = scores(simulation, simulation.moment, view)
    known = after[39 - np.arange(5, 35), NEW:]
    np.testing.assert_allclose(known, before, rtol=1e-3, atol=1e-4)
    simulation.play(evaluate=False)
    assert np.isfinite(scores(simulation, simulation.moment, view)).all()


def test_rows_of_items_that_are_gone_go() -> None:
    old = RowStore((1,)).put(
        np.array([0, 2]),
        Rows(
            Ragged(np.array([0, 3, 5]), np.array([0, 1, 2, 1, 3], np.int32)),
            np.arange(5.0, dtype="f4")[:, None],
        ),
        keep_others=True,
    )
    items = (np.array([0, 2, 3]), np.array([5, 4, 0]))
    users = (np.array([0, 1, 2]), np.array([7, 1, 3]))
    new = carry_rows(old, RowStore((1,)), users, items)
    rows = new.get(np.array([7, 1, 3, 0]))
    np.testing.assert_array_equal(rows.items.indptr, [0, 2, 2, 3, 3])
    np.testing.assert_array_equal(rows.items.items, [4, 5, 0])
    np.testing.assert_array_equal(rows.values[:, 0], [2, 0, 4])


def test_a_server_that_knows_its_users_goes_on_with_the_same_ones() -> None:
    data, settings = two_tastes(), {"hidden": 8, "memory": 4}
    run = fedrec.run("metamf", data, rounds=2, settings=settings)
    again = fedrec.run("metamf", data, rounds=1, settings=settings, start=run)
    assert again.lines[0]["loss"] < run.lines[0]["loss"]
    with pytest.raises(FedrecError, match="metamf has learned for its own users and items"):
        fedrec.run("metamf", grown(data), rounds=1, settings=settings, start=run)


def test_a_warm_run_is_as_good_after_a_round_as_the_earlier_one(tmp_path: Path) -> None:
    data = two_tastes()
    earlier = fedrec.run("fedals", data, rounds=8, settings={"dim": 8}, out=tmp_path / "earlier")
    warm = fedrec.run("fedals", grown(data), rounds=1, settings={"dim": 8}, start=earlier)
    cold = fedrec.run("fedals", grown(data), rounds=1, settings={"dim": 8})
    assert warm.lines[0]["loss"] < cold.lines[0]["loss"]
    assert warm.config.start == str(tmp_path / "earlier")


def test_another_shape_is_one_sentence() -> None:
    data = two_tastes()
    earlier = fedrec.run("fedals", data, rounds=1, settings={"dim": 8})
    with pytest.raises(FedrecError, match="has other tables"):
        fedrec.run("fedals", data, rounds=1, settings={"dim": 9}, start=earlier)
    strange = replace(data, item_ids=data.item_ids + 5000)
    with pytest.raises(FedrecError, match="shares no item"):
        fedrec.run("fedals", strange, rounds=1, settings={"dim": 8}, start=earlier)
    with pytest.raises(FedrecError, match="start does not apply to ease"):
        fedrec.run("ease", data, start=earlier)


def test_numbers_that_are_given_win_over_those_of_the_earlier_run() -> None:
    """What the federation chose is taken over, what the user sets is not overruled."""
    data = two_tastes()
    chosen = fedrec.run("fednext", data, rounds=6, settings={"dim": 4}, threads=1)
    fixed = fedrec.run("fedals", data, rounds=1, settings={"dim": 4, "recency": 5}, threads=1)
    for earlier, name, more in (
        (chosen, "fednext", {"weight": 0.3}),
        (chosen, "fednext", {"recency": 7.0}),
        (fixed, "fedals", {"recency": 7.0}),
    ):
        run = fedrec.run(name, data, rounds=1, settings={"dim": 4, **more}, start=earlier, threads=1)
        before, held = (r.federated.selected.moment.server.held for r in (earlier, run))  # type: ignore[union-attr]
        for number in ("recency", "weight"):
            if number in more:
                assert held[number].flat[0] == np.float32(more[number])
            elif number in held:
                np.testing.assert_array_equal(held[number], before[number])
