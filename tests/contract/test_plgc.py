"""PLGC over every base, and what is its own: rows that persist, the weight, the redundancy loss."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated, View
from fedrec.core.gradient import Batch
from fedrec.data.interactions import Interactions
from fedrec.methods import make
from fedrec.methods.fedmf import FedMF
from fedrec.methods.fedncf import FedNCF
from fedrec.methods.fedrap import FedRAP
from fedrec.methods.fedrecon import FedRecon
from fedrec.methods.pfedrec import PFedRec
from fedrec.testing import MethodContract, Spy, trained
from fedrec.wrap.dualper import DualPer
from fedrec.wrap.gel import GEL
from fedrec.wrap.plgc import PLGC, redundancy

NCF = FedNCF(dim=8, hidden=(16,), lr=10, eta=2.5, lr_layers=0.3)


class OverFedMF(MethodContract):
    """What ranks are rows of the device's own, so the held-out item is kept out of the negatives."""

    view: ClassVar[View] = "own"
    protocol: ClassVar[str] = "paper"


class TestOverFedMF(OverFedMF):
    method: ClassVar[Federated] = PLGC(FedMF(dim=8))


class TestWithAlignment(OverFedMF):
    method: ClassVar[Federated] = PLGC(FedMF(dim=8), balance="alignment", redundancy=0)


class TestWithFixedWeight(OverFedMF):
    method: ClassVar[Federated] = PLGC(FedMF(dim=8), balance="fixed", share=0.3)


class TestOverPFedRec(OverFedMF):
    method: ClassVar[Federated] = PLGC(PFedRec(dim=8))


class TestOverFedNCF(OverFedMF):
    method: ClassVar[Federated] = PLGC(NCF)


class TestOverFedRecon(OverFedMF):
    method: ClassVar[Federated] = PLGC(FedRecon(dim=8))
    rounds: ClassVar[int] = 40


class TestOverFedRAP(OverFedMF):
    method: ClassVar[Federated] = PLGC(FedRAP(dim=8, lr_args=10))


LEARNS = {
    "gel over plgc": GEL(PLGC(FedMF(dim=8))),
    "plgc over gel": PLGC(GEL(PFedRec(dim=8))),
    "dualper over plgc": DualPer(PLGC(FedMF(dim=8))),
    "plgc over dualper": PLGC(DualPer(NCF)),
}


@pytest.mark.parametrize("chain", LEARNS)
def test_chains_learn_the_two_tastes(chain: str) -> None:
    class Chained(OverFedMF):
        method: ClassVar[Federated] = LEARNS[chain]

    Chained().test_learns_the_two_tastes()


def test_the_server_gets_the_local_table_and_devices_keep_it(tastes: Interactions) -> None:
    """G + mean of uploads is the mean of the clients' tables, which are G where they hold no row."""
    federation, moment = trained(PLGC(FedMF(dim=4)), tastes, 3)
    before = federation.state
    spy = Spy()
    federation.channel = [spy]
    federation.play(evaluate=False)
    (upload,) = spy.seen
    start = 0
    for c, user in enumerate(federation.engine.blocks(federation.everyone)[0]):
        end = upload.held.indptr[c + 1]
        kept = federation.state.rows["items_local"].get(np.array([user]))
        at = np.searchsorted(kept.held.items, upload.held.items[start:end])
        np.testing.assert_array_equal(kept.held.items[at], upload.held.items[start:end])
        expected = kept.values[at] - before.shared["items"][upload.held.items[start:end]]
        np.testing.assert_allclose(upload.rows["items"][start:end], expected, rtol=1e-4, atol=1e-4)
        earlier = before.rows["items_local"].get(np.array([user])).held.items
        assert set(earlier) <= set(kept.held.items), "rows of earlier rounds are gone"
        start = end
    assert moment.after.round == 3


def test_the_weight_is_recorded(tastes: Interactions) -> None:
    per_client: list[Any] = []
    run = fedrec.run(
        "fedmf+plgc",
        tastes,
        rounds=3,
        settings={"dim": 4},
        clients=30,
        callbacks=[lambda record, federation: per_client.append(federation.state.private["mix"])],
    )
    for line, weights in zip(run.lines, per_client, strict=True):
        took_part = [user for user, weight in enumerate(line["mix"]) if weight is not None]
        assert len(line["mix"]) == tastes.n_users
        assert len(took_part) == 30
        np.testing.assert_allclose([line["mix"][u] for u in took_part], weights[took_part], atol=1e-4)
        assert line["mix_mean"] == pytest.approx(weights[took_part].mean())
        assert 0.1 <= line["mix_min"] <= line["mix_mean"] <= line["mix_max"] <= 0.9
    assert len(run.history["mix"][0]) == tastes.n_users


class Undeclared(FedMF):
    """FedMF to which only automatic differentiation knows the way."""

    name: ClassVar[str] = "undeclared"

    def log_linear(self) -> None:
        return None


def test_the_trace_weight_by_hand() -> None:
    """With a linear scorer tr K_X = Σ σ'(x)²·‖w‖²: only how far the sigmoid is saturated tells L from G."""
    method = PLGC(FedMF(dim=2))
    w = torch.tensor([1.0, 2.0])
    p = {"score": w, "bias": torch.tensor(0.5), "mix": torch.tensor(0.5)}
    p |= {
        "items": torch.tensor([[0.1, 0.2], [0.3, -0.1]]),
        "items_local": torch.tensor([[0.5, 0.3], [0.0, 0.6]]),
    }
    batch = Batch(torch.tensor([0, 1, 1]), torch.tensor([1.0, 0, 0]), torch.tensor([1.0, 1, 0]))

    def trace(table: Any) -> Any:
        s = torch.sigmoid(table @ w + 0.5)
        return ((s * (1 - s)) ** 2).sum()  # the third sample is padding

    k_local, k_global = trace(p["items_local"]), trace(p["items"])
    expected = pytest.approx((k_local / (k_local + k_global)).item(), rel=1e-5)
    assert method.weigh(p, batch).item() == expected
    assert PLGC(Undeclared(dim=2)).weigh(p, batch).item() == expected, "the derivative says the same"


def test_the_redundancy_loss_by_hand() -> None:
    g = torch.tensor([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])  # uncorrelated dimensions
    full = torch.ones(4)
    assert redundancy(g, g, full, 0.1).item() == pytest.approx(0, abs=1e-6)
    assert redundancy(5 * g + 2, g, full, 0.1).item() == pytest.approx(0, abs=1e-6), "scale does not matter"
    collapsed = g[:, :1].expand(4, 2)  # both dimensions say the same: C = [[1, 0], [1, 0]]
    assert redundancy(collapsed, g, full, 0.1).item() == pytest.approx(1 + 0.1, rel=1e-5)
    assert redundancy(g, g * torch.tensor([1.0, 0.0]), full, 0.1).item() == pytest.approx(0, abs=1e-6)
    assert redundancy(g, g, torch.tensor([1.0, 0, 0, 0]), 0.1).item() == 0, "a batch of one item"
    grad = torch.func.grad(lambda x: redundancy(x, g, full, 0.1))(torch.zeros(4, 2))
    assert torch.isfinite(grad).all()


@pytest.mark.parametrize(
    ("spec", "settings", "words"),
    [
        ("fedmf+plgc", {"share": 1.5}, "plgc: share=1.5 is not valid"),
        ("fedmf+plgc", {"redundancy": -1}, "plgc: redundancy=-1 is not valid"),
        ("fedmf+plgc", {"gamma": -0.1}, "plgc: gamma=-0.1 is not valid"),
        (
            "fedmf+plgc",
            {"balance": "ntk"},
            "plgc: balance=ntk is not valid: .*'trace', 'alignment' or 'fixed'",
        ),
        ("fedmf+plgc+plgc", {}, "has plgc in it already"),
        ("fedmf+gel+plgc+gel", {}, "has gel in it already"),
        ("fedrecgel+plgc", {}, "needs a gradient: set server=mean"),
        ("fedals+plgc", {}, "goes over methods trained by gradient steps"),
        ("ease+plgc", {}, "goes over methods trained by gradient steps"),
    ],
)
def test_bad_input_gets_a_sentence(spec: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(FedrecError, match=words):
        make(spec, settings)
