"""GPFedRec: who is linked, what a client is given, and what the server makes of their moves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Batch, Context, Federated
from fedrec.core.layers import mlp
from fedrec.core.ragged import Ragged
from fedrec.core.slots import Arrays, Catalog
from fedrec.core.upload import Total, Upload
from fedrec.data.interactions import Interactions
from fedrec.methods.gpfedrec import APART, GIVEN, MOVES, NEAR, WENT, GPFedRec, alike, mean_over
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
    went = np.array([0.25, 0.4], np.float32)
    total = pull(Upload(items, {"items": moves}, {WENT: went}, np.ones(2, np.float32)), np.array([0, 1]))
    assert [list(places) for places, _ in total.told[MOVES]] == [[2 * 6 + 5, 1, 2]]

    tables = before["items"] + went[:, None, None] * before[APART][users]
    tables[0, 5] += moves[0]
    tables[1, 1] += moves[1]
    tables[1, 2] += moves[2]
    flat = tables.reshape(2, -1)
    unit = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    cosines = unit @ unit.T
    own = np.stack([tables[cosines[u] > cosines.mean()].mean(axis=0) for u in range(2)])

    after = method.merge(before, total, Context(1, CATALOG))
    np.testing.assert_allclose(after["items"], own.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(after["items"] + after[APART][users], own, atol=1e-5)
    # Clients 1 and 3 were not there: they are in no graph, and have the tables they had.
    others = [1, 3]
    were = before["items"] + before[APART][others]
    np.testing.assert_allclose(after["items"] + after[APART][others], were, atol=1e-5)


def test_a_client_descends_the_penalty_on_its_whole_table() -> None:
    """What it holds, rows of its samples and one number, stands for all rows under the paper's loss."""
    n, d, lr, eta, lam = 9, 4, 0.05, 3.0, 2.0
    method = GPFedRec(dim=d, hidden=(5,), lr=lr, eta=eta, pull=2 * lam * lr * eta / d, batch_size=3)
    catalog = Catalog(2, n)
    torch.manual_seed(0)
    layers = {k: s for k, s in method.slots(catalog).items() if k.startswith("score") or k == "user"}
    private = {k: torch.randn(s.shape) for k, s in layers.items()} | {NEAR: torch.tensor(0.7)}
    common, apart = torch.randn(n, d), torch.randn(n, d)  # g and r - g
    places = torch.tensor([0, 3, 5, 3, 7, 0, 8])
    labels = torch.tensor([1.0, 0, 1, 0, 1, 1, 0])
    real = torch.ones(len(places))
    after, sent, _ = method.fit(
        {"items": common},
        {**private, GIVEN: apart},
        [Batch(places, labels, real, real)],
        method.plan(catalog, 1),
    )

    q = common.clone().requires_grad_()
    own = {k: v.clone().requires_grad_() for k, v in private.items() if k != NEAR}
    rates = {k: lr * eta if k == "user" else lr for k in own}
    for start in range(0, len(places), 3):
        some = slice(start, start + 3)
        x = mlp(SimpleNamespace(**own), "score", 2, own["user"], q[places[some]])[..., 0]
        loss = binary_cross_entropy_with_logits(x, labels[some]) + lam * ((q - common - apart) ** 2).mean()
        grads = torch.autograd.grad(loss, [q, *own.values()])
        with torch.no_grad():
            q -= lr * n * eta * grads[0]
            for k, slope in zip(own, grads[1:], strict=True):
                own[k] -= rates[k] * slope
    table = after["items"] + after[NEAR] * apart
    torch.testing.assert_close(table, q.detach(), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(common + sent["items"] + sent[WENT] * apart, q.detach(), atol=1e-5, rtol=1e-4)
    for k, v in own.items():
        torch.testing.assert_close(after[k], v.detach(), atol=1e-5, rtol=1e-4)


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
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)


def test_clients_are_pulled_as_often_as_they_have_batches(small: Interactions) -> None:
    """In one block stand clients with one batch and with many: padding is no step."""
    run = fedrec.run(
        "gpfedrec", small, rounds=1, settings={"dim": 4, "hidden": (4,), "batch_size": 16, "pull": 0.25}
    )
    clients = run.federated.clients
    steps = np.ceil(5 * clients.data.train.counts(clients.everyone) / 16)
    assert len(set(steps)) > 1
    np.testing.assert_allclose(clients.state.lines[NEAR], 1 - 0.75**steps, rtol=1e-5)
