"""Centralised MF, NCF and SASRec: a round is one pass over the data, and the rest is as in any run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Phase
from fedrec.data.interactions import Interactions
from fedrec.data.passes import draw_pass
from fedrec.data.samples import draw_samples
from fedrec.data.split import Split, split
from fedrec.data.worlds import two_tastes
from fedrec.methods.central.base import CentralInRounds
from fedrec.methods.central.mf import MF
from fedrec.methods.central.ncf import NCF
from fedrec.methods.central.sasrec import SASRec
from fedrec.simulate.passes import Passes

METHODS = [
    MF(dim=4, lr=0.03),
    NCF(dim=4, hidden=(8,), lr=0.03, batch_size=64),
    SASRec(dim=4, blocks=1, length=10, lr=0.03, batch_size=8),
]


def name_of(method: Any) -> str:
    return str(method.name)


def after(method: CentralInRounds, parts: Split, rounds: int, seed: int = 0) -> Passes:
    passes = Passes(method, parts, seed)
    for _ in range(rounds):
        passes.play(evaluate=False)
    return passes


@pytest.mark.parametrize("method", METHODS, ids=name_of)
def test_learns_two_tastes(method: CentralInRounds) -> None:
    parts = split(two_tastes())
    passes, everyone = after(method, parts, 40), np.arange(parts.n_users)
    scores = method.scorer(passes.state.server, parts.train).all(everyone)
    wrong = np.arange(parts.n_items) % 2 != parts.users[:, None] % 2
    median = [np.median(row[bad]) for row, bad in zip(scores, wrong, strict=True)]
    assert np.mean(scores[everyone, parts.test] > median) >= 0.9


def test_a_pass_holds_what_the_clients_of_a_federation_would_train_on(small_split: Split) -> None:
    users, items, labels = draw_pass(small_split.clients(), 3, 2)
    chosen = np.array([5])
    theirs = draw_samples(small_split.clients(), 3, 2, chosen, [Phase([])])
    assert theirs.counts[0] == (users == 5).sum()
    assert set(items[users == 5]) == set(theirs.items().items)
    assert sorted(items[(users == 5) & (labels == 1)]) == sorted(small_split.train.of(5))


@pytest.mark.parametrize("method", METHODS, ids=name_of)
def test_the_seed_decides_every_bit(method: CentralInRounds, small_split: Split) -> None:
    first, again, other = (after(method, small_split, 2, seed).state.server for seed in (0, 0, 1))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["items"], other["items"])


@pytest.mark.parametrize("method", METHODS, ids=name_of)
def test_some_are_the_same_as_all(method: CentralInRounds, small_split: Split) -> None:
    scorer = method.scorer(after(method, small_split, 1).state.server, small_split.train)
    users, items = np.array([7, 3]), np.array([[5, 79, 0, -1], [1, -1, -1, -1]], np.int32)
    some, full = scorer.some(users, items), scorer.all(users)
    np.testing.assert_allclose(some[items >= 0], full[[0, 0, 0, 1], [5, 79, 0, 1]], rtol=1e-5)
    assert np.isfinite(full).all()


def test_mf_takes_the_steps_of_adam(small_split: Split) -> None:
    """One batch that touches every row is one step of torch's Adam on the same loss."""
    torch = pytest.importorskip("torch")
    method = MF(dim=4, lr=0.01, batch_size=10**6)
    passes = Passes(method, small_split)
    start = {name: torch.tensor(values, requires_grad=True) for name, values in passes.state.server.items()}
    samples = draw_pass(small_split.clients(), 0, 1)
    users, items = (torch.from_numpy(part.astype(np.int64)) for part in samples[:2])
    w, v = start["users"][users], start["items"][items]
    logits = (w[:, :4] * v[:, :4]).sum(1) + w[:, 4]
    adam = torch.optim.Adam([start["users"], start["items"]], lr=0.01)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, torch.from_numpy(samples.labels))
    loss.backward()
    adam.step()
    held, mean = method.one_pass(passes.state.server, samples)
    assert mean == pytest.approx(loss.item(), rel=1e-5)
    touched = np.unique(samples.items)
    np.testing.assert_allclose(held["users"], start["users"].detach(), atol=2e-4)
    np.testing.assert_allclose(held["items"][touched], start["items"].detach()[touched], atol=2e-4)


@pytest.mark.parametrize("hidden", [(5,), pytest.param((9, 4, 3), marks=pytest.mark.slow)])
def test_ncf_takes_the_steps_of_adam(hidden: tuple[int, ...], small_split: Split) -> None:
    """Two passes in batches are those of torch's Adam, weight decay included, and the scores those of its network."""
    torch = pytest.importorskip("torch")
    from torch.nn.functional import binary_cross_entropy_with_logits, linear

    method = NCF(dim=4, hidden=hidden, lr=0.003, l2=0.01, batch_size=100)
    held = start = Passes(method, small_split).state.server
    model = {n: torch.tensor(v, requires_grad=True) for n, v in start.items() if not n.startswith("adam.")}
    adam = torch.optim.Adam(model.values(), lr=0.003, weight_decay=0.01)

    def logits(users: Any, items: Any) -> Any:
        x = torch.cat([model["users"][users], model["items"][items]], dim=-1)
        for layer in range(len(hidden) + 1):
            x = linear(x if layer == 0 else torch.relu(x), model[f"layer_w{layer}"], model[f"layer_b{layer}"])
        return x[..., 0]

    for round in (1, 2):
        samples = draw_pass(small_split.clients(), 0, round)
        users, items, labels = (torch.from_numpy(np.asarray(part)) for part in samples)
        total = 0.0
        for first in range(0, len(users), 100):
            part = slice(first, first + 100)
            loss = binary_cross_entropy_with_logits(logits(users[part], items[part]), labels[part])
            adam.zero_grad()
            loss.backward()
            adam.step()
            total += loss.item() * len(labels[part])
        held, mean = method.one_pass(held, samples)
        assert mean == pytest.approx(total / len(users), rel=1e-5)
    for name, values in model.items():
        found, expected = held[name], values.detach().numpy()
        assert np.linalg.norm(found - expected) < 2e-4 * np.linalg.norm(expected), name
    some = np.arange(5)
    with torch.no_grad():
        grid = torch.meshgrid(torch.arange(5), torch.arange(small_split.data.n_items), indexing="ij")
        expected = logits(*grid).numpy()
    np.testing.assert_allclose(
        method.scorer(held, small_split.train).all(some), expected, rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("name", ["mf", "ncf", "sasrec"])
def test_a_run_has_rounds_and_validation_selects_one(name: str, small: Interactions) -> None:
    run = fedrec.run(name, small, rounds=4, settings={"dim": 4})
    assert run.result["rounds"] == 4
    figures = run.history["ndcg@10"].to_list()
    assert run.result["selected_round"] == 1 + int(np.argmax(figures))
    assert run.validation["ndcg@10"] == max(figures)
    assert run.recommend(run.split.data.user_ids[0], k=3).height == 3


def test_patience_stops_a_run(small: Interactions) -> None:
    run = fedrec.run("mf", small, rounds=300, patience=2, settings={"dim": 4, "lr": 0.1})
    assert run.result["rounds"] < 300
    assert "stopped early" in run.result["stopped"]


@pytest.mark.parametrize("name", ["mf", "ncf", "sasrec"])
def test_resumed_is_uninterrupted_and_opened_is_the_same(
    name: str, small: Interactions, tmp_path: Path
) -> None:
    whole = fedrec.run(name, small, rounds=4, settings={"dim": 4})
    fedrec.run(name, small, rounds=2, settings={"dim": 4}, out=tmp_path / "run")
    longer = fedrec.resume(tmp_path / "run", 4, data=small)
    assert longer.test == whole.test
    users = np.arange(5)
    opened = fedrec.open(tmp_path / "run", data=small)
    assert np.array_equal(opened.scorer().all(users), whole.scorer().all(users))


@pytest.mark.parametrize("option", [{"clients": 0.5}, {"local": True}, {"view": "own"}])
def test_what_needs_clients_is_refused(option: dict[str, Any], small: Interactions) -> None:
    with pytest.raises(FedrecError, match="does not apply to mf: it is not federated"):
        fedrec.run("mf", small, rounds=1, **option)


def test_a_learning_rate_that_diverges_stops_in_a_sentence(small: Interactions) -> None:
    with pytest.raises(FedrecError, match="mf diverged in round 1"):
        fedrec.run("mf", small, rounds=2, settings={"lr": 1e30})
