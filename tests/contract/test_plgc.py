"""PLGC over every base, and what is its own: rows that persist, the weight, the redundancy loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Batch, Federated, View
from fedrec.core.slots import Catalog
from fedrec.data.interactions import Interactions
from fedrec.methods import make
from fedrec.methods.fedmf import FedMF
from fedrec.methods.fedncf import FedNCF
from fedrec.methods.fedrap import FedRAP
from fedrec.methods.fedrecon import FedRecon
from fedrec.methods.pfedrec import PFedRec
from fedrec.testing import MethodContract, Spy, scores, trained
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


@pytest.mark.slow
class TestOverFedRAP(OverFedMF):
    method: ClassVar[Federated] = PLGC(FedRAP(dim=8, lr_args=10))


LEARNS = {
    "gel over plgc": GEL(PLGC(FedMF(dim=8))),
    "plgc over gel": PLGC(GEL(PFedRec(dim=8))),
    "dualper over plgc": DualPer(PLGC(FedMF(dim=8))),
    "plgc over dualper": PLGC(DualPer(NCF)),
}


LONG = ("gel over plgc", "plgc over gel")


@pytest.mark.parametrize(
    "chain", [pytest.param(c, marks=pytest.mark.slow) if c in LONG else c for c in LEARNS]
)
def test_chains_learn_the_two_tastes(chain: str) -> None:
    class Chained(OverFedMF):
        method: ClassVar[Federated] = LEARNS[chain]

    Chained().test_learns_the_two_tastes()


def test_the_server_gets_the_local_table_and_devices_keep_it(tastes: Interactions) -> None:
    """G + mean of uploads is the mean of the clients' tables, which are G where they hold no row."""
    spy = Spy()
    simulation, moment = trained(PLGC(FedMF(dim=4)), tastes, 3, channel=[spy])
    assert moment.round == 3
    before = simulation.moment
    spy.seen.clear()
    simulation.play(evaluate=False)
    order = np.concatenate(simulation.clients.engine.blocks(simulation.clients.everyone))
    for user, upload in zip(order, spy.seen, strict=True):
        kept = simulation.clients.state.rows["items_local"].get(np.array([user]))
        sent = upload.items.items
        at = np.searchsorted(kept.items.items, sent)
        np.testing.assert_array_equal(kept.items.items[at], sent)
        expected = kept.values[at] - before.server.shared["items"][sent]
        np.testing.assert_allclose(upload.rows["items"], expected, rtol=1e-4, atol=1e-4)
        earlier = before.devices.rows["items_local"].get(np.array([user])).items.items
        assert set(earlier) <= set(kept.items.items), "rows of earlier rounds are gone"


def test_the_mean_weight_is_recorded(tastes: Interactions) -> None:
    per_client: list[Any] = []

    def look(record: Any, simulation: Any) -> None:
        took_part = simulation.server.cohort(record.round)
        per_client.append(simulation.clients.state.lines["mix"][took_part].copy())

    run = fedrec.run(
        "fedmf+plgc",
        tastes,
        rounds=3,
        settings={"dim": 4},
        clients=30,
        callbacks=[look],
    )
    for line, weights in zip(run.lines, per_client, strict=True):
        assert line["clients"] == len(weights) == 30
        assert line["mix_mean"] == pytest.approx(weights.mean(), rel=1e-5)
        assert 0.1 <= weights.min() < line["mix_mean"] < weights.max() <= 0.9
    assert run.history["mix_mean"].to_list() == [line["mix_mean"] for line in run.lines]


def test_the_history_holds_nothing_of_single_users(tastes: Interactions, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = fedrec.run("fedmf+plgc", tastes, rounds=2, settings={"dim": 4}, out=out)
    written = [json.loads(text) for text in (out / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(written) == len(run.lines) == 2
    for line in (*written, *run.lines):
        assert {name for name in line if name.startswith("mix")} == {"mix_mean"}
        figures = {**line, **line["validation"]}
        figures.pop("validation")
        assert all(isinstance(value, int | float) for value in figures.values()), "a list, or a table"


@pytest.mark.parametrize("spec", ["fedmf+plgc", "fedmf+plgc+gel", "fedmf+gel+plgc"])
def test_a_fixed_weight_ranks_in_any_chain(spec: str, tastes: Interactions) -> None:
    """A device ranks with 0.9 of its own row and 0.1 of the merged one, where it has one of its own."""
    method = make(spec, {"dim": 4, "balance": "fixed", "share": 0.9})
    assert isinstance(method, Federated)
    simulation, moment = trained(method, tastes, 3)
    lines, shared = moment.devices.lines, moment.server.shared["items"]
    np.testing.assert_array_equal(lines["mix"], np.full(tastes.n_users, 0.9, np.float32))
    found = scores(simulation, moment, "own")
    for user in simulation.clients.everyone:
        kept = moment.devices.rows["items_local"].get(np.array([user]))
        table = shared.copy()
        table[kept.items.items] = 0.9 * kept.values + 0.1 * shared[kept.items.items]
        expected = table @ lines["score"][user] + lines["bias"][user]
        np.testing.assert_allclose(found[user], expected, rtol=1e-4, atol=1e-5)


class Undeclared(FedMF):
    """FedMF to which only automatic differentiation knows the way."""

    name: ClassVar[str] = "undeclared"

    def kernel(self, catalog: Catalog) -> None:
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
    batch = Batch(torch.tensor([0, 1, 1]), torch.tensor([1.0, 0, 0]), *[torch.tensor([1.0, 1, 0])] * 2)

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
        ("fedrecgel+plgc", {}, "needs a gradient: take a method whose clients' moves are averaged"),
        ("fedals+plgc", {}, "goes over methods trained by gradient steps"),
        ("ease+plgc", {}, "goes over methods trained by gradient steps"),
    ],
)
def test_bad_input_gets_a_sentence(spec: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(FedrecError, match=words):
        make(spec, settings)
