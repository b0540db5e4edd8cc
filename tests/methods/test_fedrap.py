"""What a user sees of FedRAP: schedules, sparsity, exact zeros, and settings that diverge."""

from __future__ import annotations

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.slots import Catalog
from fedrec.data.split import split
from fedrec.data.worlds import two_tastes
from fedrec.methods.fedrap import FedRAP
from fedrec.server.divergence import Diverged
from fedrec.simulate.simulation import Simulation


def simulation(**settings: object) -> Simulation:
    return Simulation(FedRAP(**{"dim": 8, "lr_args": 10, **settings}), split(two_tastes(), "paper", 0))


def play(trained: Simulation, rounds: int) -> None:
    for _ in range(rounds):
        trained.play(evaluate=True)


def test_weights_grow_by_the_schedule() -> None:
    rounds = (1, 5, 10, 15, 25, 35)
    grown = {
        s: [FedRAP(schedule=s).grown(r) for r in rounds] for s in ("tanh", "fixed", "sin", "square", "frac")
    }
    assert np.all(np.diff(grown["tanh"]) > 0)
    assert grown["tanh"][-1] == pytest.approx(1, abs=0.01)
    assert grown["fixed"] == [1] * 6
    assert grown["sin"][-1] < 0 < grown["sin"][0]
    assert grown["square"] == [0, 0, 1, 1, 0, 1]
    assert np.all(np.diff(grown["frac"]) < 0)


def test_rates_fall_over_rounds() -> None:
    method = FedRAP()
    first, tenth = (method.plan(Catalog(1, 1), r)[0].groups[0].optimizer for r in (1, 10))
    assert tenth.lr == pytest.approx(first.lr * 0.97**9)  # type: ignore[attr-defined]


def test_sparsity_is_in_the_history_and_grows_with_the_weight() -> None:
    run = fedrec.run(FedRAP(dim=8, lr_args=10), two_tastes(), rounds=3, threads=1)
    assert run.history["sparsity"].is_between(0, 1).all()
    mild, strong = (simulation(mu=mu, schedule="fixed", lam=0) for mu in (0.0, 3.0))
    for _ in range(20):
        less, more = mild.play(evaluate=False), strong.play(evaluate=False)
    assert (
        np.abs(strong.server.state.shared["common"]).mean()
        < np.abs(mild.server.state.shared["common"]).mean()
    )
    assert more.diagnostics["sparsity"] >= less.diagnostics["sparsity"]


@pytest.mark.parametrize("engine", ["plain", "fused"])
def test_rows_that_the_threshold_zeroes_are_neither_counted_nor_sent(engine: str) -> None:
    method = FedRAP(dim=8, lr_args=10, prox=10.0, schedule="fixed")  # nothing survives this
    trained = Simulation(method, split(two_tastes(), "paper", 0), engine=engine)
    first, second = trained.play(evaluate=False), trained.play(evaluate=False)
    assert not trained.server.state.shared["common"].any()
    assert first.bytes_up > 0, "rows went to zero: that is a move"
    assert second.bytes_up == 0
    assert first.bytes_down > 0
    assert second.bytes_down == 0
    run = fedrec.run(method, two_tastes(), "paper", rounds=2, engine=engine)
    assert run.result["bytes_down_per_client"] == first.bytes_down / first.clients / 2


def test_personal_rows_stay_and_only_touched_ones_are_held() -> None:
    trained = simulation()
    trained.play(evaluate=False)
    after_one = trained.clients.state.rows["personal"].get(trained.clients.everyone)
    trained.play(evaluate=False)
    after_two = trained.clients.state.rows["personal"].get(trained.clients.everyone)
    for user in (0, 7):
        assert set(after_one.items.of(user)) <= set(after_two.items.of(user))
        assert len(after_two.items.of(user)) < trained.split.n_items


@pytest.mark.parametrize("engine", ["plain", "fused"])
def test_settings_that_diverge_stop_the_run_with_a_sentence(engine: str) -> None:
    method = FedRAP(dim=8, lr_args=1000, lam=1.0, std=1.0)
    parts = split(two_tastes(), "paper", 0)
    trained = Simulation(method, parts, engine=engine)
    remedy = "Try smaller lam=1, lr_network=0.1 or lr_args=1000"
    with pytest.raises(Diverged, match=rf"fedrap diverged in round \d+: .* {remedy}"):
        play(trained, 10)
    assert np.isfinite(trained.server.state.shared["common"]).all()
    assert np.isfinite(trained.clients.state.lines["user"]).all()


def test_a_run_that_diverges_reports_the_last_good_state() -> None:
    method = FedRAP(dim=8, lr_args=300, lam=0.3, std=1.0)
    run = fedrec.run(method, two_tastes(), "paper", rounds=60, threads=1)
    assert "diverged" in run.result["stopped"]
    assert run.result["rounds"] < 60
    assert run.result["selected_round"] <= run.result["rounds"]
    assert 0 <= run.test["hr@10"] <= 1


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"schedule": "cosine"}, "schedule=cosine is not valid"),
        ({"lam": -1}, "lam=-1 is not valid"),
        ({"parts": "all"}, "parts=all is not valid"),
        ({"prox": 0.1, "regularizer": "l2"}, "needs regularizer=l1"),
    ],
)
def test_settings_out_of_range_are_one_sentence(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(FedrecError, match=sentence):
        FedRAP(**settings)


def test_personal_rows_that_do_not_move_leave_the_common_part_alone() -> None:
    still, common = simulation(slow=0, lam=0), simulation(parts="common", lam=0)
    play(still, 2), play(common, 2)
    tables = (each.server.state.shared["common"] for each in (still, common))
    np.testing.assert_allclose(*tables, atol=1e-6)
    assert still.method.plan(Catalog(1, 1), 1)[0].groups[1].optimizer.lr == 0  # type: ignore[attr-defined]
