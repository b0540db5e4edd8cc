"""Whole numbers that kernels add as they train: those of the same uploads, one by one."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec.clients.clients import Clients
from fedrec.clients.engine import Wish
from fedrec.clients.gathering import Whole
from fedrec.core.fixed import Grid
from fedrec.core.messages import Broadcast
from fedrec.core.rounding import Steps
from fedrec.core.upload import Upload
from fedrec.data.split import split
from fedrec.data.worlds.two_tastes import two_tastes
from fedrec.methods import make
from fedrec.server.server import Server

# By how much the first table is taken larger, so that clients' numbers are not all below 1.
METHODS = {"pfedrec": 50, "fedrecon": 50, "fedrap": 50, "fedals": 1, "fcf": 1}


def sizes(upload: Upload) -> np.ndarray:
    """The largest number of each client, times its weight."""
    owner = np.repeat(np.arange(upload.clients), np.diff(upload.items.indptr))
    found = np.abs(upload.weights.astype(np.float64))
    for values in upload.rows.values():
        np.maximum.at(
            found, owner, np.abs(values.reshape(len(owner), -1)).max(axis=1) * upload.weights[owner]
        )
    for values in upload.dense.values():
        found = np.maximum(found, np.abs(values.reshape(upload.clients, -1)).max(axis=1) * upload.weights)
    return found


@pytest.mark.parametrize("method", METHODS)
def test_kernels_add_what_single_uploads_round_to(method: str) -> None:
    parts = split(two_tastes(30, 60), "strict", 0)
    made, catalog = make(method), parts.catalog
    clients = Clients(made, parts.clients(), catalog, secret=0, engine="fused")
    shared = {n: METHODS[method] * v for n, v in Server(made, catalog).state.shared.items()}
    engine, everyone, plan = clients.engine, clients.everyone, clients.plan(1)
    told = Broadcast(1, shared)
    upload = engine.fit(told, clients.state, everyone, plan, Wish(single=True)).sent
    assert isinstance(upload, Upload)
    reached = sizes(upload)
    declared = {n: s for n, s in clients.uploads.arrays.items() if n in (*upload.rows, *upload.dense)}
    # Quick, slow (40 bits are more than 32), and with room for half of the clients.
    for grid, most in ((Grid(), np.inf), (Grid(40), np.inf), (Grid(), np.median(reached))):
        whole = Whole(grid, Steps(grid.scale, float(most)), grid.empty(declared))
        fitted = engine.fit(told, clients.state, everyone, plan, Wish(single=True, whole=whole))
        assert fitted.fits is not None
        np.testing.assert_array_equal(fitted.fits, reached <= most)
        expected = grid.summed(upload.only(fitted.fits), declared)
        for name, words in expected.sums.items():
            np.testing.assert_array_equal(whole.total.sums[name], words, err_msg=name)
        assert (whole.total.weight, whole.total.clients) == (expected.weight, expected.clients)
        assert fitted.rows_sent == len(upload.only(fitted.fits).items.items)
    assert 0 < fitted.fits.sum() < len(everyone)


def test_who_has_no_room_is_who_had_none_alone() -> None:
    """A row that has run away takes some of its clients' numbers out of the word, or out of all numbers."""
    parts = split(two_tastes(30, 60), "strict", 0)
    made = make("fedals", {"recency": "off"})
    clients = Clients(made, parts.clients(), parts.catalog, secret=0, engine="fused")
    shared = dict(Server(made, parts.catalog).state.shared)
    shared["items"] = shared["items"].copy()
    shared["items"][int(parts.trained.items[0])] = np.float32(1e22)
    grid = Grid()
    whole = Whole(grid, grid.steps(30), grid.empty(clients.uploads.arrays))
    alone, added = (
        clients.engine.fit(Broadcast(1, shared), clients.state, clients.everyone, clients.plan(1), wish)
        for wish in (Wish(single=True), Wish(single=True, whole=whole))
    )
    assert isinstance(alone.sent, Upload)
    expected = alone.finite.copy()
    expected[alone.finite] = grid.fits(alone.sent, 30)
    assert added.fits is not None
    assert 0 < expected.sum() < 30
    np.testing.assert_array_equal(added.fits, expected)
    np.testing.assert_array_equal(added.finite, alone.finite)
