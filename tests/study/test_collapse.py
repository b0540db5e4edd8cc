"""Collapse diagnostics: worked out by hand, and of runs."""

from __future__ import annotations

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.study.collapse import collapse, spectrum


def test_all_directions_alike_is_full_rank():
    found = spectrum(3 * np.eye(4, dtype=np.float32))
    assert found.effective_rank == pytest.approx(4)
    assert found.top_share == pytest.approx(1 / 4)


def test_one_direction_is_complete_collapse():
    found = spectrum(np.outer(np.arange(1, 6), [1, 2, 3]).astype(np.float32))
    assert found.effective_rank == pytest.approx(1, abs=1e-3)
    assert found.top_share == pytest.approx(1)


def test_entropy_of_singular_values_by_hand():
    found = spectrum(np.diag([3.0, 1.0]).astype(np.float32))
    assert found.effective_rank == pytest.approx(np.exp(-0.75 * np.log(0.75) - 0.25 * np.log(0.25)))
    assert found.top_share == pytest.approx(0.9)


def test_nothing_has_no_rank():
    found = spectrum(np.zeros((5, 3), np.float32))
    assert found.effective_rank == found.top_share == 0


def test_a_table_that_is_not_finite_is_refused():
    with pytest.raises(FedrecError, match="not finite has no spectrum"):
        spectrum(np.array([[np.nan, 1.0]], np.float32))


@pytest.mark.parametrize(("method", "slots"), [("pfedrec", ["items"]), ("fedmf+plgc", ["items_local"])])
def test_of_a_run(tastes: Interactions, method: str, slots: list[str]):
    run = fedrec.run(method, tastes, rounds=2, settings={"dim": 6}, threads=1)
    found = collapse(run, clients=7)
    assert list(found.tables) == ["items"]
    assert found.tables["items"].singular_values.shape == (6,)
    assert list(found.personal) == slots
    for by_user in (found.personal[slots[0]], found.matched[slots[0]]):
        assert len(by_user) == 7
        assert all(1 <= s.effective_rank <= 6 for s in by_user.values())
    assert set(found.summary()) == {"items global", f"{slots[0]} personal", f"{slots[0]} matched"}
    assert collapse(run, clients=7).personal[slots[0]].keys() == found.personal[slots[0]].keys()


@pytest.mark.parametrize("method", ["fcf", "fedals", "fedpergnn"])
def test_without_rows_of_their_own_there_is_the_global_table(tastes: Interactions, method: str):
    found = collapse(fedrec.run(method, tastes, rounds=2, settings={"dim": 6}, threads=1))
    assert set(found.summary()) == {"items global"}
    assert found.tables["items"].effective_rank > 1


def test_what_has_no_shared_table_is_refused(tastes: Interactions):
    with pytest.raises(FedrecError, match="popularity is not federated"):
        collapse(fedrec.run("popularity", tastes))
    with pytest.raises(FedrecError, match="metamf keeps none"):
        collapse(fedrec.run("metamf", tastes, rounds=1, settings={"hidden": 8}))
    with pytest.raises(FedrecError, match="clients=0 samples nobody"):
        collapse(fedrec.run("fedmf", tastes, rounds=1, settings={"dim": 4}), clients=0)
