"""GPFedRec: who is linked, what a client is given, and what the server makes of their moves."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Context, Federated
from fedrec.core.ragged import Ragged
from fedrec.core.slots import Arrays, Catalog
from fedrec.core.upload import Total, Upload
from fedrec.data.interactions import Interactions
from fedrec.methods.gpfedrec import APART, GIVEN, MOVES, GPFedRec, alike, mean_over
from fedrec.testing import MethodContract

CATALOG = Catalog(4, 6)


class TestGPFedRec(MethodContract):
    method: ClassVar[Federated] = GPFedRec(dim=4, hidden=(8,), eta=20.0)


def held(method: GPFedRec, seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    slots = method.slots(CATALOG)
    return {n: rng.normal(size=slots[n].shape).astype(np.float32) for n in ("items", APART)}


def test_cosines_are_those_of_whole_tables() -> None:
    rng = np.random.default_rng(1)
    own, table = rng.normal(size=(5, 12)).astype(np.float32), rng.normal(size=12).astype(np.float32)
    whole = own + table
    unit = whole / np.linalg.norm(whole, axis=1, keepdims=True)
    np.testing.assert_allclose(alike(own, table), unit @ unit.T, atol=1e-5)


def test_clients_more_alike_than_the_mean_are_linked_or_those_less() -> None:
    cosines = np.array([[1, 0.9, -0.5], [0.9, 1, -0.5], [-0.5, -0.5, 1]], np.float32)
    np.testing.assert_allclose(mean_over(cosines, "alike"), [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]])
    np.testing.assert_allclose(mean_over(cosines, "unlike"), [[0, 0, 1], [0, 0, 1], [0.5, 0.5, 0]])
    alone = mean_over(np.ones((3, 3), np.float32), "alike")  # nobody is above the mean
    np.testing.assert_array_equal(alone, np.eye(3))


def test_the_servers_step_in_plain_words() -> None:
    """Tables q of all clients, the mean over those linked with each, and the mean of these."""
    method = GPFedRec(dim=2, pull=0.25)
    before = held(method)
    service = method.service(CATALOG, 0)
    users = np.array([2, 0])
    given, pull = service.give(before, users)
    np.testing.assert_array_equal(given[GIVEN], before[APART][users])
    items = Ragged(np.array([0, 1, 3]), np.array([5, 1, 2], np.int32))
    moves = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    total = pull(Upload(items, {"items": moves}, {}, np.ones(2, np.float32)), np.array([0, 1]))
    assert [list(places) for places, _ in total.told[MOVES]] == [[2 * 6 + 5, 1, 2]]

    tables = before["items"] + 0.25 * before[APART]
    tables[2, 5] += moves[0]
    tables[0, 1] += moves[1]
    tables[0, 2] += moves[2]
    flat = tables.reshape(4, -1)
    unit = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    cosines = unit @ unit.T
    own = np.stack([tables[cosines[u] > cosines.mean()].mean(axis=0) for u in range(4)])

    after = method.merge(before, total, Context(1, CATALOG))
    np.testing.assert_allclose(after["items"], own.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(after["items"] + after[APART], own, atol=1e-5)


def test_clients_rank_with_tables_of_their_own(small: Interactions) -> None:
    """Without a pull all share one table; with it, they do not."""
    run = {
        pull: fedrec.run(
            "gpfedrec", small, rounds=3, settings={"dim": 4, "hidden": (8,), "pull": pull, "mild": 0}
        )
        for pull in (0.0, 0.5)
    }
    assert np.abs(run[0.5].federated.server.state.server[APART]).max() > 0
    assert run[0.0].result["test"] != run[0.5].result["test"]
    simulation = run[0.0].federated
    before = simulation.scorer(simulation.moment).all(np.arange(3))
    simulation.server.state.server[APART][:] = 1  # without a pull nobody looks at it
    np.testing.assert_array_equal(simulation.scorer(simulation.moment).all(np.arange(3)), before)


def test_too_many_tables_are_refused() -> None:
    with pytest.raises(
        FedrecError, match=r"6,040 × 3,706 × 32 numbers are 2.7 GB, and it takes 1 at the most"
    ):
        GPFedRec().slots(Catalog(6040, 3706))


def test_too_many_clients_are_refused() -> None:
    with pytest.raises(FedrecError, match=r"300,000 clients are too many, it takes 16,384 at the most"):
        GPFedRec(dim=8).slots(Catalog(300_000, 100))


def test_nothing_that_hides_single_uploads_goes_over_it(small: Interactions) -> None:
    with pytest.raises(FedrecError, match="looks at single uploads"):
        fedrec.run("gpfedrec", small, rounds=1, channel=["secure"])


def test_nobody_came() -> None:
    method = GPFedRec(dim=2)
    before = held(method)
    total = Total.empty(method.uploads(CATALOG).arrays)
    after = method.merge(before, total, Context(1, CATALOG))
    assert np.isfinite(after["items"]).all()
