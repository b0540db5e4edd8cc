"""FedRecGEL and sharpness-aware steps over every base."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.core.serverstep import ServerAdam
from fedrec.core.wrapper import sends_gradients
from fedrec.data.interactions import Interactions
from fedrec.data.samples import draw_samples
from fedrec.methods import make, settings_of, spec_of
from fedrec.methods.fedmf import FedMF
from fedrec.methods.fedncf import FedNCF, FedNeuMF
from fedrec.methods.fedncf_adam import FedNeuMFAdam
from fedrec.methods.fedrecon import FedRecon
from fedrec.methods.pfedrec import PFedRec
from fedrec.testing import MethodContract, Spy, different, trained
from fedrec.wrap.dualper import DualPer
from fedrec.wrap.gel import GEL

SMALL: dict[str, Any] = {"dim": 4, "dim_mlp": 8, "hidden": (8, 4), "lr_server": 0.02}
NCF = FedNCF(dim=8, hidden=(16,), lr=10, eta=2.5, lr_layers=0.3)


def small(**settings: Any) -> Any:
    return make("fedrecgel", {**SMALL, **settings})


class TestFedRecGEL(MethodContract):
    method: ClassVar[Federated] = small()


class TestNeuMF(MethodContract):
    """The model alone, averaged as FedNCF does."""

    method: ClassVar[Federated] = FedNeuMF(dim=4, dim_mlp=8, hidden=(8,), lr=3, eta=3, lr_layers=1)
    rounds: ClassVar[int] = 150


class TestOverFedNCF(MethodContract):
    method: ClassVar[Federated] = GEL(NCF)
    rounds: ClassVar[int] = 150


LEARNS = {
    "fedmf": GEL(FedMF(dim=8)),
    "pfedrec": GEL(PFedRec(dim=8)),
    "fedrecon": GEL(FedRecon(dim=8)),
    "fedmf+dualper": GEL(DualPer(FedMF(dim=8))),
    "fedmf+gel under dualper": DualPer(GEL(FedMF(dim=8))),
    "fedncf+gel under dualper": DualPer(GEL(NCF)),
}


@pytest.mark.parametrize("base", LEARNS)
def test_learns_the_two_tastes_over(base: str) -> None:
    class Over(MethodContract):
        method: ClassVar[Federated] = LEARNS[base]
        rounds: ClassVar[int] = 150 if "fedncf" in base else MethodContract.rounds

    Over().test_learns_the_two_tastes()


def test_the_name_is_that_of_fedneumf_adam_with_gel() -> None:
    method = make("fedrecgel")
    assert spec_of(method) == "fedneumf-adam+gel"
    assert isinstance(method.base, FedNeuMFAdam)  # type: ignore[attr-defined]
    settings = settings_of(method)
    assert settings["fedneumf-adam.hidden"] == (128, 64, 32)
    assert make("fedneumf-adam+gel", settings) == method
    assert make("fedrecgel", {"lr": 0.5, "radius_shared": 0}).base.lr == 0.5  # type: ignore[attr-defined]
    assert sends_gradients(method.base)  # type: ignore[attr-defined]
    plain = make("fedncf+gel")
    assert type(plain.base) is FedNCF  # type: ignore[attr-defined]
    assert not sends_gradients(plain.base)  # type: ignore[attr-defined]


def test_a_tenth_of_the_clients_unless_asked(tastes: Interactions, tmp_path: Any) -> None:
    run = fedrec.run("fedrecgel", tastes, rounds=2, settings=SMALL, out=tmp_path / "run")
    assert run.result["method"] == "fedrecgel"
    assert [line["clients"] for line in run.lines] == [tastes.n_users // 10] * 2
    again = fedrec.open(tmp_path / "run", data=tastes)
    assert again.result["method"] == "fedrecgel"
    assert again.evaluate()["ndcg@10"] == pytest.approx(run.test["ndcg@10"])
    for clients, expected in ((0.5, tastes.n_users // 2), (1.0, tastes.n_users)):
        asked = fedrec.run("fedrecgel", tastes, rounds=1, settings=SMALL, clients=clients)
        assert asked.lines[0]["clients"] == expected
    written_out = fedrec.run("fedneumf-adam+gel", tastes, rounds=1, settings=SMALL)
    assert written_out.lines[0]["clients"] == tastes.n_users, "the tenth comes with the name alone"


def test_radius_zero_is_the_base(tastes: Interactions) -> None:
    zero = small(radius_shared=0, radius_private=0)
    plain, _ = trained(zero.base, tastes, 3)
    sharp, _ = trained(zero, tastes, 3)
    for name, values in plain.server.state.shared.items():
        np.testing.assert_allclose(sharp.server.state.shared[name], values, rtol=1e-4, atol=1e-6)
    other, _ = trained(small(radius_shared=0.5, radius_private=0), tastes, 3)
    assert different(other.moment, sharp.moment)


def test_the_upload_is_minus_the_gradient_of_the_sum_of_batches(tastes: Interactions) -> None:
    """One client, against autograd written out: a sum over batches of each batch's mean."""
    spy = Spy()
    base = small(batch_size=16).base
    simulation, _ = trained(base, tastes, 0, channel=[spy])
    before = simulation.moment
    simulation.play(evaluate=False)
    block = simulation.clients.engine.blocks(simulation.clients.everyone)[0]
    plan = simulation.clients.plan(1)
    drawn = draw_samples(simulation.clients.data, 0, 1, block, plan)
    p = {n: torch.tensor(v, requires_grad=True) for n, v in before.server.shared.items()}
    mine = {n: torch.tensor(v[block[0]]) for n, v in before.devices.lines.items()}
    count = int(drawn.counts[0])
    items = torch.tensor(drawn.touched[0][drawn.passes[0].items[0][:count]])
    labels = torch.tensor(drawn.passes[0].labels[0][:count])
    loss = torch.zeros(())
    for start in range(0, count, 16):
        x = base.logits(base.tables({**p, **mine}), items[start : start + 16])
        loss = loss + torch.nn.functional.binary_cross_entropy_with_logits(x, labels[start : start + 16])
    loss.backward()
    upload = spy.seen[0]
    assert upload.clients == 1
    np.testing.assert_allclose(upload.dense["output_w"][0], -p["output_w"].grad, rtol=1e-3, atol=1e-6)
    rows = p["items_mlp"].grad[torch.tensor(upload.items.items)]
    np.testing.assert_allclose(upload.rows["items_mlp"], -rows, rtol=1e-3, atol=1e-6)


def test_the_servers_adam_is_pytorchs() -> None:
    rng = np.random.default_rng(0)
    theta = torch.nn.Parameter(torch.tensor(rng.normal(size=(5, 3)).astype(np.float32)))
    theirs = torch.optim.Adam([theta], lr=0.05)
    held = {"items": theta.detach().numpy().copy()}
    held |= {f"adam.items.{part}": np.zeros((5, 3), np.float32) for part in "mv"}
    held["adam.items.t"] = np.zeros((), np.float32)
    for _ in range(4):
        gradient = rng.normal(size=(5, 3)).astype(np.float32)
        gradient[4] = 0
        theta.grad = torch.tensor(gradient)
        theirs.step()
        held = ServerAdam(0.05).move(held, {"items": gradient})
    np.testing.assert_allclose(held["items"], theta.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_moments_stay_with_their_owners(tastes: Interactions) -> None:
    simulation, _ = trained(small(), tastes, 2)
    assert (simulation.clients.state.lines["adam.user.t"] == 2).all()
    assert simulation.server.state.server["adam.items.t"] == 2
    assert not any(name.startswith("adam") for name in simulation.clients.uploads.arrays)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"radius_shared": -0.1}, "gel: radius_shared=-0.1 is not valid"),
        ({"radius_private": 11}, "gel: radius_private=11 is not valid"),
        ({"radius_shared": "wide"}, "gel: radius_shared=wide is not valid"),
        ({"lr_server": 0}, "fedneumf-adam: lr_server=0 is not valid"),
        ({"participation": 0.1}, "has no setting 'participation'"),
        ({"model": "mlp"}, "has no setting 'model'"),
        ({"server": "mean"}, "has no setting 'server'"),
        ({"epochs": 2}, "sends one gradient a round: epochs=2"),
        ({"radius": 1}, "has no setting 'radius': did you mean 'radius_"),
    ],
)
def test_bad_input_gets_a_sentence(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(FedrecError, match=words):
        make("fedrecgel", settings)


def test_an_unknown_name_offers_it() -> None:
    with pytest.raises(FedrecError, match="did you mean 'fedrecgel'"):
        make("fedregel")
