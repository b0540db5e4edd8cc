"""The plain engine against clients trained one after another with autograd and torch's optimizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from fedrec.core.federated import Federated, Group
from fedrec.core.gradient import GradientMethod
from fedrec.core.optim import Adam
from fedrec.core.slots import Catalog
from fedrec.data.samples import draw_samples
from fedrec.data.split import Split, split
from fedrec.data.worlds import scalable
from fedrec.methods.fedmf import FedMF
from fedrec.methods.fedncf import FedNCF
from fedrec.methods.fedrecon import FedRecon
from fedrec.methods.pfedrec import PFedRec
from fedrec.simulate.simulation import Simulation
from fedrec.wrap.dualper import DualPer

Params = dict[str, Any]
Turns = Sequence[tuple[str, ...]]  # the arrays that move together, turn by turn, in every step
ROUNDS = 2


@pytest.fixture(scope="module")
def few() -> Split:
    """Few clients, of 3 to 30 positives: they are trained one by one here."""
    return split(scalable(24, 60, 360))


def linear(p: Params, items: Any) -> Any:
    return (p["items"][items] * p["score"]).sum(dim=1) + p["bias"]


def perceptron(p: Params, items: Any) -> Any:
    x = torch.cat([p["user"].expand(len(items), -1), p["items"][items]], dim=1)
    hidden = torch.relu(torch.nn.functional.linear(x, p["layer_w0"], p["layer_b0"]))
    return torch.nn.functional.linear(hidden, p["layer_w1"], p["layer_b1"]).squeeze(1)


def by_hand(
    method: GradientMethod,
    parts: Split,
    score: Callable[[Params, Any], Any],
    turns: Callable[[int], Turns],
    rates: dict[str, float],
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD,
    weights: Callable[[int], float] = lambda samples: 1.0,
) -> tuple[Params, list[Params], int]:
    """Shared and private arrays after some rounds, and how many passes clients made in all.

    ``turns`` says what moves in a client's n-th pass over its samples.
    """
    catalog = parts.catalog
    slots = method.slots(catalog)
    start = {n: s.starting(n, 0) for n, s in slots.items()}
    shared = {n: torch.tensor(start[n]) for n, s in slots.items() if s.owner == "shared"}
    own = [n for n, s in slots.items() if s.owner == "private"]
    private = [{n: torch.tensor(start[n]) for n in own} for _ in range(parts.n_users)]
    made = 0
    for round in range(1, ROUNDS + 1):
        plan = method.plan(catalog, round)
        samples = draw_samples(parts.clients(), 0, round, np.arange(parts.n_users), plan)
        total = {n: torch.zeros_like(v) for n, v in shared.items()}
        weight = 0.0
        for u in range(parts.n_users):
            fresh = {n: torch.tensor(s.freshly(n, 0, round)) for n, s in slots.items() if s.owner == "fresh"}
            p = {n: v.clone().requires_grad_() for n, v in {**shared, **private[u], **fresh}.items()}
            optimizers = {n: optimizer([v], lr=rates[n]) for n, v in p.items()}
            last = None
            for number, batch in enumerate(samples.passes):
                made += 1
                real = batch.mask[u] > 0
                items = torch.from_numpy(samples.touched[u][batch.items[u][real]]).long()
                labels = torch.from_numpy(batch.labels[u][real])
                value = 0.0
                for k in range(0, len(items), method.batch_size):
                    part = slice(k, k + method.batch_size)
                    for names in turns(number):
                        loss = cross_entropy(score(p, items[part]), labels[part])
                        grads = torch.autograd.grad(loss, [p[n] for n in names])
                        for n, grad in zip(names, grads, strict=True):
                            p[n].grad = grad
                            optimizers[n].step()
                    value += loss.item() * len(items[part]) / len(items)
                if method.tolerance and last is not None and abs(last - value) <= method.tolerance * last:
                    break
                last = value
            private[u] = {n: p[n].detach() for n in private[u]}
            mine = weights(int(samples.counts[u]))
            weight += mine
            total = {n: total[n] + mine * p[n].detach() for n in total}
        shared = {n: v / weight for n, v in total.items()}
    return shared, private, made


def check(method: Federated, parts: Split, expected: tuple[Params, list[Params], int]) -> None:
    """Equal up to the rounding of float32, array by array in the norm."""
    shared, private, _ = expected
    simulation = Simulation(method, parts, engine="plain")
    for _ in range(ROUNDS):
        simulation.play(evaluate=False)
    stacked = {n: np.stack([p[n].numpy() for p in private]) for n in private[0]}
    found = {**simulation.server.state.shared, **simulation.clients.state.lines}
    assert found.keys() == {*shared, *stacked}
    for name, value in {**{n: v.numpy() for n, v in shared.items()}, **stacked}.items():
        assert np.linalg.norm(found[name] - value) <= 1e-5 * np.linalg.norm(value), name


def item_rate(method: FedMF | PFedRec, parts: Split) -> dict[str, float]:
    return {"score": method.lr, "bias": method.lr, "items": method.lr * parts.n_items * method.eta}


def alternating(number: int) -> Turns:
    return [("score", "bias"), ("items",)]


def joint(number: int) -> Turns:
    return [("score", "bias", "items")]


@pytest.mark.parametrize("epochs", [pytest.param(1, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("batch_size", [16, 256])
def test_pfedrec(few: Split, epochs: int, batch_size: int) -> None:
    method = PFedRec(dim=8, eta=5, epochs=epochs, batch_size=batch_size)
    check(method, few, by_hand(method, few, linear, alternating, item_rate(method, few)))


def test_fedmf(few: Split) -> None:
    method = FedMF(dim=8, eta=5, epochs=2, batch_size=16)
    check(method, few, by_hand(method, few, linear, joint, item_rate(method, few)))


@pytest.mark.parametrize("epochs", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_fedncf(few: Split, epochs: int) -> None:
    method = FedNCF(dim=8, hidden=(6,), lr=0.5, eta=0.25, lr_layers=0.3, epochs=epochs, batch_size=32)
    layers = ("layer_w0", "layer_b0", "layer_w1", "layer_b1")
    rates = {"user": 0.5, "items": 0.25 * few.n_items} | dict.fromkeys(layers, 0.3)
    check(method, few, by_hand(method, few, perceptron, lambda n: [tuple(rates)], rates))
    turns = [("user",), ("items", *layers)]
    check(DualPer(method), few, by_hand(method, few, perceptron, lambda n: turns, rates))


def test_fedrecon(few: Split) -> None:
    method = FedRecon(dim=8, eta=0.125, reconstruction=2, epochs=2, batch_size=16)
    rates = {"user": method.lr, "bias": method.lr, "items": method.eta * few.n_items}

    def score(p: Params, items: Any) -> Any:
        return linear({"items": p["items"], "score": p["user"], "bias": p["bias"]}, items)

    def turns(number: int) -> Turns:
        return [("user", "bias")] if number < method.reconstruction else [("items",)]

    expected = by_hand(method, few, score, turns, rates, weights=float)
    check(method, few, expected)


class AdamMF(FedMF):
    """FedMF with another local optimizer: what a method's author would write."""

    name: ClassVar[str] = "adammf"

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        return [Group(("score", "bias", "items"), Adam(self.lr), "shared")]


def test_adam(few: Split) -> None:
    method = AdamMF(dim=8, lr=0.05, epochs=3, batch_size=16)
    rates = dict.fromkeys(("score", "bias", "items"), method.lr)
    check(method, few, by_hand(method, few, linear, joint, rates, torch.optim.Adam))


def test_clients_that_stop_early_stand_still(few: Split) -> None:
    method = PFedRec(dim=8, eta=2, epochs=6, tolerance=0.1, batch_size=64)
    expected = by_hand(method, few, linear, alternating, item_rate(method, few))
    least, most = 2 * few.n_users * ROUNDS, 6 * few.n_users * ROUNDS
    assert least < expected[2] < most, "some stop early and some do not"
    check(method, few, expected)
