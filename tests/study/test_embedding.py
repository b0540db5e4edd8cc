"""Rows as one client sees them."""

from __future__ import annotations

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.study.embedding import Seen, client_for, embedding


def test_own_rows_differ_where_the_client_trained(small: Interactions) -> None:
    run = fedrec.run("pfedrec", small, rounds=2, settings={"dim": 8}, threads=1)
    own, common = embedding(run)
    assert [own.view, common.view] == ["own", "global"]
    np.testing.assert_array_equal(own.items, common.items)
    positives = run.split.trained.of(client_for(run))
    np.testing.assert_array_equal(own.items[own.positive], positives)
    moved = (own.rows != common.rows).any(axis=1)
    assert moved[own.positive].all()
    # The global view is the server's table itself.
    assert run.federated is not None
    assert run.federated.selected is not None
    table = run.federated.selected.moment.server.shared["items"]
    np.testing.assert_array_equal(common.rows, table[common.items])


@pytest.mark.slow
def test_private_rows_stand_beside_the_table(small: Interactions) -> None:
    own, common = embedding(fedrec.run("fedrap", small, rounds=2, settings={"dim": 8}, threads=1))
    assert own.rows.shape[1] == 2 * common.rows.shape[1]


def test_a_client_that_never_took_part_holds_no_rows(small: Interactions) -> None:
    run = fedrec.run("fedmf+plgc", small, rounds=1, clients=1, settings={"dim": 8}, threads=1)
    for client in (0, 1):  # one of them at least was not drawn
        own, common = embedding(run, client)
        assert len(own.rows) == len(common.rows)


def test_nearness_counts_positives_among_neighbours() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 8)).astype(np.float32)
    positive = np.arange(200) < 40
    items = np.arange(200)
    alike = Seen("global", items, rows, positive)
    assert abs(alike.nearness - alike.chance) < 0.1
    apart = rows + 5 * positive[:, None].astype(np.float32)
    assert Seen("own", items, apart, positive).nearness > 0.9


def test_the_same_places_every_time(small: Interactions) -> None:
    pytest.importorskip("sklearn", reason="t-SNE comes from scikit-learn, the extra 'report'")
    seen = embedding(fedrec.run("fedmf", small, rounds=1, settings={"dim": 8}, threads=1), most=30)[0]
    assert len(seen.items) == 30
    np.testing.assert_array_equal(seen.places(), seen.places())


def test_bad_input(small: Interactions) -> None:
    run = fedrec.run("fedmf", small, rounds=1, settings={"dim": 8}, threads=1)
    with pytest.raises(FedrecError, match="there is no client 60"):
        embedding(run, client=60)
    with pytest.raises(FedrecError, match="too few"):
        embedding(run, most=2)
    with pytest.raises(FedrecError, match="is not federated"):
        embedding(fedrec.run("popularity", small))
