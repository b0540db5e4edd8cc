"""FedNext keeps the contract, on both engines; devices choose what it leaves open."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.data.split import split
from fedrec.data.worlds import drifting, scalable, two_orders, two_tastes
from fedrec.evaluate.ranking import rank_full
from fedrec.methods import make
from fedrec.methods.fedals import FedALS
from fedrec.methods.fednext import FedNext
from fedrec.simulate.simulation import Simulation
from fedrec.testing import MethodContract


class TestFedNext(MethodContract):
    method: ClassVar[Federated] = FedNext(dim=8, alpha=4, lam=2)
    rounds: ClassVar[int] = 10
    test_a_client_that_is_not_finite_is_dropped_and_stays_as_it_was = None  # type: ignore[assignment]


class TestFedNextPlain(TestFedNext):
    engine: ClassVar[str] = "plain"


def played(method: Federated, data: fedrec.Interactions, rounds: int, **more: object) -> Simulation:
    simulation = Simulation(method, split(data), **more)  # type: ignore[arg-type]
    for _ in range(rounds):
        simulation.play(evaluate=False)
    return simulation


def test_only_the_order_tells() -> None:
    """Even users end where a session begins: what comes soon is after it on the ring, and nothing else says so."""
    found = {}
    for kind in (FedNext, FedALS):
        simulation = played(kind(dim=16), two_orders(), 10)
        ranks = rank_full(simulation.scorer(simulation.moment), simulation.exam, "valid")
        found[kind.name] = (ranks.ahead < 3)[::2].mean()
    assert found["fednext"] > 0.7
    assert found["fedals"] < 0.3


def test_devices_choose_recency_where_it_helps() -> None:
    drifts = played(FedALS(dim=8), drifting(), 7).server.state.held
    assert drifts["recency"][1] < 1  # of floor 1 all would count alike
    assert drifts["withheld"] == 0
    assert drifts["sum_gains"].max() > drifts["sum_gains"][-1]  # the last choice: all alike


def test_devices_guess_only_while_they_withhold() -> None:
    simulation = Simulation(FedALS(dim=8), split(two_tastes()))
    rounds = int(FedALS.withheld)
    for number in range(1, rounds + 3):
        before = simulation.server.state.held["sum_gains"].copy()
        senders = simulation.server.state.held["mean_senders"].sum()
        simulation.play(evaluate=False)
        held = simulation.server.state.held
        guessed = (held["sum_gains"] != before).any()
        assert guessed == (rounds - FedALS.guesses < number <= rounds)
        if number == rounds + 1:  # the newest items are trained on from now on
            assert held["mean_senders"].sum() == senders + len(simulation.clients)


def test_a_cohort_withholds_for_longer() -> None:
    """Rounds are counted by how many take part: half of the clients, twice as long."""
    simulation = played(FedALS(dim=8), two_tastes(), 4, clients_per_round=0.5)
    assert simulation.server.state.held["withheld"] == pytest.approx(FedALS.withheld - 2)


def test_numbers_that_are_given_are_not_tried() -> None:
    fixed = FedALS(dim=8, recency=4, floor=0.2)
    assert fixed.trials(split(two_tastes()).catalog) is None
    held = played(fixed, two_tastes(), 1).server.state.held
    np.testing.assert_allclose(held["recency"], [4, 0.2])
    assert "withheld" not in held


def test_what_a_guess_says_is_declared_and_counted_in_bytes() -> None:
    data = scalable(60, 50, 900)
    with_trials, without = (
        Simulation(FedALS(dim=8, recency=r), split(data)).play(evaluate=False).bytes_up
        for r in ("auto", "off")
    )
    trials = FedALS(dim=8).trials(split(data).catalog)
    assert trials is not None
    withheld_rows = (
        60 * (8 + 1 + 1) * 4 + 60 * 4
    )  # a row less for each: corrections, senders and the item's code
    assert with_trials - without == pytest.approx(60 * 4 * len(trials.choices) - withheld_rows, abs=60 * 8)


@pytest.mark.parametrize("ties", [True, False])
def test_data_without_an_order(ties: bool) -> None:
    data = two_tastes()
    data = replace(data, times=np.zeros(len(data), np.int64) if ties else None)
    run = fedrec.run("fedals", data, rounds=1, settings={"dim": 8}, threads=1)
    assert any("recency is off" in note for note in run.result["notes"])
    assert "recency" not in run.federated.server.state.held  # type: ignore[union-attr]
    with pytest.raises(FedrecError, match="do not say in which order things were met: use fedals"):
        fedrec.run("fednext", data, rounds=1, settings={"dim": 8}, threads=1)


@pytest.mark.parametrize("value", ["0", "-3", "nan", "soon", "1e-50"])
def test_a_half_life_that_is_none(value: str) -> None:
    with pytest.raises(FedrecError, match="recency"):
        make("fedals", {"recency": value})


@pytest.mark.parametrize("given", [{"floor": -0.1}, {"floor": 1.5}, {"weight": -1}, {"ridge": 0}])
def test_a_number_out_of_its_range_is_one_sentence(given: dict[str, float]) -> None:
    (name,) = given
    with pytest.raises(FedrecError, match=rf"^fednext: {name}=.* is not valid"):
        make("fednext", given)


def test_likes_in_the_order_given() -> None:
    run = fedrec.run("fednext", two_orders(), rounds=10, settings={"dim": 16}, threads=1)
    for likes in ([60, 61, 62, 63, 40, 20], [60, 61, 62, 63, 20, 40]):
        assert run.recommend(likes=likes, k=1)["item"].to_list() == [likes[-1] + 1]


@pytest.mark.parametrize("engine", ["fused", "plain"])
def test_devices_with_a_single_item_keep_it(engine: str) -> None:
    """What nobody could guess is not withheld: training is that of given numbers, and no loss jumps."""
    first = scalable(20, 30, 300)
    data = first.only(np.arange(len(first)) - np.repeat(first.indptr[:-1], first.counts) < 3)
    auto, fixed = (
        played(FedNext(dim=4, weight=0.1, recency=r), data, 7, engine=engine).server.state.held["items"]
        for r in ("auto", 3)
    )
    np.testing.assert_array_equal(auto, fixed)


def test_what_devices_rehearsed_with_is_let_go() -> None:
    simulation = played(FedALS(dim=4), scalable(30, 30, 300), 5)
    assert simulation.clients._rehearsal is not None
    simulation.play(evaluate=False)
    assert simulation.clients._rehearsal is None
