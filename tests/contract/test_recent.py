"""`recent` keeps the contract over every base, and does what its page says."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated, View
from fedrec.core.recency import Recency
from fedrec.core.slots import Catalog
from fedrec.data.clients import ClientData
from fedrec.data.interactions import Interactions, from_codes
from fedrec.data.split import split
from fedrec.data.worlds import two_tastes
from fedrec.methods import make
from fedrec.methods.fedmf import FedMF
from fedrec.methods.fedncf import FedNCF
from fedrec.methods.fedncf_adam import FedNeuMFAdam
from fedrec.methods.fedrap import FedRAP
from fedrec.methods.fedrecon import FedRecon
from fedrec.methods.pfedrec import PFedRec
from fedrec.serve.join import join, newcomers
from fedrec.simulate.simulation import Simulation
from fedrec.testing import MethodContract, different
from fedrec.wrap.dualper import DualPer
from fedrec.wrap.gel import GEL
from fedrec.wrap.plgc import PLGC
from fedrec.wrap.recent import Recent

STRONG: dict[str, Any] = {"half_life": 4, "floor": 0.2}
NCF = FedNCF(dim=8, hidden=(16,), lr=10, eta=2.5, lr_layers=0.3)


class TestOverFedMF(MethodContract):
    method: ClassVar[Federated] = Recent(FedMF(dim=8), **STRONG)


class TestOverFedMFPlain(TestOverFedMF):
    engine: ClassVar[str] = "plain"


class TestOverPFedRec(MethodContract):
    method: ClassVar[Federated] = Recent(PFedRec(dim=8), **STRONG)


class TestOverFedNCF(MethodContract):
    method: ClassVar[Federated] = Recent(NCF, **STRONG)
    rounds: ClassVar[int] = 150


class TestOverFedNeuMFAdam(MethodContract):
    method: ClassVar[Federated] = Recent(
        FedNeuMFAdam(dim=4, dim_mlp=8, hidden=(8, 4), lr_server=0.02, batch_size=16), **STRONG
    )
    rounds: ClassVar[int] = 100


class TestOverFedRecon(MethodContract):
    method: ClassVar[Federated] = Recent(FedRecon(dim=8), **STRONG)


class TestOverFedReconPlain(TestOverFedRecon):
    engine: ClassVar[str] = "plain"


class TestOverFedRAP(MethodContract):
    method: ClassVar[Federated] = Recent(FedRAP(dim=8, lr_args=10), **STRONG)
    rounds: ClassVar[int] = 30
    view: ClassVar[View] = "own"
    protocol: ClassVar[str] = "paper"


class TestOverGEL(MethodContract):
    method: ClassVar[Federated] = Recent(GEL(FedMF(dim=8)), **STRONG)


class TestOverPLGC(MethodContract):
    method: ClassVar[Federated] = Recent(PLGC(FedMF(dim=8)), **STRONG)


class TestUnderDualPer(MethodContract):
    method: ClassVar[Federated] = DualPer(Recent(FedRecon(dim=8), **STRONG))


FUSED = ["fedmf", "pfedrec", "fedrecon", "fedrap", "fedmf+gel", "fedmf+dualper"]
SMALL = {"dim": 8}


@pytest.mark.parametrize("spec", FUSED)
def test_compiled_bases_stay_compiled(spec: str) -> None:
    simulation = Simulation(make(f"{spec}+recent", SMALL), split(two_tastes()))  # type: ignore[arg-type]
    assert simulation.clients.engine.name == "fused"


@pytest.mark.parametrize("spec", [*FUSED, "fedncf", "fedmf+plgc"])
def test_a_floor_of_one_is_the_base_and_a_lower_one_is_not(spec: str) -> None:
    parts = split(two_tastes())
    base = played(make(spec, SMALL), parts)
    alike = played(make(f"{spec}+recent", {**SMALL, "floor": 1}), parts)
    weighed = played(make(f"{spec}+recent", {**SMALL, **STRONG}), parts)
    (held, mine), (same, too), (_, other) = (
        (s.server.state.held, s.clients.state.lines) for s in (base, alike, weighed)
    )
    for found, values in [(same[n], v) for n, v in held.items()] + [(too[n], v) for n, v in mine.items()]:
        np.testing.assert_allclose(found, values, rtol=1e-4, atol=1e-6)
    if spec == "fedrecon":  # keeps nothing of its own
        mine, other = held, weighed.server.state.held
    assert not all(np.allclose(other[n], v, rtol=1e-3, atol=1e-5) for n, v in mine.items())


@pytest.mark.parametrize("engine", ["plain", "fused"])
@pytest.mark.parametrize("spec", ["fedmf", "fedrap", "fedmf+gel"])
def test_what_is_shared_learns_from_all_samples_alike(spec: str, engine: str) -> None:
    """In the first step both are at the same point: shared rows move as without it, the device's arrays do not."""
    parts, one = split(two_tastes()), {"dim": 8, "epochs": 1, "batch_size": 4096}
    if spec == "fedrap":
        one["lr_args"] = 10
    base, over = (
        Simulation(make(name, settings), parts, engine=engine)  # type: ignore[arg-type]
        for name, settings in ((spec, one), (f"{spec}+recent", {**one, **STRONG}))
    )
    losses = [simulation.play(evaluate=False).loss for simulation in (base, over)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for name, values in base.server.state.held.items():
        np.testing.assert_allclose(over.server.state.held[name], values, rtol=1e-5, atol=1e-6)
    for name, values in base.clients.state.lines.items():
        assert not np.allclose(over.clients.state.lines[name], values, rtol=1e-3, atol=1e-5), name


def played(method: Any, parts: Any, rounds: int = 2) -> Simulation:
    simulation = Simulation(method, parts)
    for _ in range(rounds):
        simulation.play(evaluate=False)
    return simulation


def without_order(data: Interactions, times: Any) -> Interactions:
    users = np.repeat(np.arange(data.n_users, dtype=np.int32), data.counts)
    return from_codes(data.name, users, data.items, times, data.user_ids, data.item_ids)


@pytest.mark.parametrize("ties", [False, True])
def test_without_an_order_it_is_off_and_the_result_says_so(ties: bool) -> None:
    world = two_tastes()
    data = without_order(world, np.zeros(len(world), np.int64) if ties else None)
    base, run = (
        fedrec.run(spec, data, rounds=2, settings={"dim": 8}, threads=1) for spec in ("fedmf", "fedmf+recent")
    )
    assert run.federated is not None
    assert base.federated is not None
    assert different(run.federated.moment, base.federated.moment) == []
    said = [note for note in run.result["notes"] if note.startswith("recency is off")]
    assert said == ["recency is off: the data do not say in which order things were met; this is fedmf"]
    ordered = fedrec.run("fedmf+recent", world, rounds=1, settings={"dim": 8}, threads=1)
    assert not any("recency" in note for note in ordered.result["notes"])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"half_life": 0}, "recent: half_life=0 is not valid: input should be greater than 0"),
        ({"half_life": -3}, "recent: half_life=-3 is not valid"),
        ({"half_life": float("inf")}, "recent: half_life=inf is not valid"),
        ({"half_life": "long"}, "recent: half_life=long is not valid"),
        ({"floor": 1.5}, "recent: floor=1.5 is not valid"),
        ({"floor": -0.1}, "recent: floor=-0.1 is not valid"),
    ],
)
def test_bad_input_gets_a_sentence(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(FedrecError, match=words):
        make("fedmf+recent", settings)


@pytest.mark.parametrize("base", ["fedals", "metamf", "fedpergnn", "ease"])
def test_methods_without_local_samples_are_refused(base: str) -> None:
    with pytest.raises(FedrecError, match=r"recent (goes over methods trained by|does not go over)"):
        make(f"{base}+recent")


class Other(FedMF):
    """A loss of its own that knows nothing of weights."""

    name: ClassVar[str] = "other"

    def loss(self, p: Any, batch: Any) -> Any:
        x = self.logits(self.tables(p), batch.items)
        return ((x - batch.labels) ** 2 * batch.mask).sum() / batch.mask.sum()


class Weighing(Other):
    name: ClassVar[str] = "weighing"
    weighs: ClassVar[bool] = True

    def loss(self, p: Any, batch: Any) -> Any:
        x = self.logits(self.tables(p), batch.items)
        return ((x - batch.labels) ** 2 * batch.weight).sum() / batch.mask.sum()


def test_a_loss_that_does_not_weigh_samples_is_refused() -> None:
    parts = split(two_tastes())
    with pytest.raises(FedrecError, match="recent has no effect on the loss of other"):
        Simulation(Recent(Other(dim=4)), parts)
    Simulation(Recent(Weighing(dim=4, eta=0.1)), parts).play(evaluate=False)
    Simulation(Recent(Other(dim=4, eta=0.1)), split(without_order(two_tastes(), None))).play(evaluate=False)


def test_all_phases_are_weighed_and_so_is_what_is_rebuilt() -> None:
    method, catalog = make("fedrecon+recent", STRONG), Catalog(10, 10)
    assert isinstance(method, Federated)
    phases = [*method.plan(catalog, 1), *method.rebuild(catalog, 1)]
    assert [p.part for p in phases] == ["support", "query", "all"]
    assert {p.recency for p in phases} == {Recency(4, 0.2)}
    unordered = catalog._replace(ordered=False)
    assert {p.recency for p in method.plan(unordered, 1) + method.rebuild(unordered, 1)} == {None}


def test_nothing_more_is_uploaded() -> None:
    catalog = Catalog(10, 10)
    base, over = make("fedmf"), make("fedmf+recent")
    assert isinstance(base, Federated)
    assert isinstance(over, Federated)
    assert over.uploads(catalog).arrays.keys() == base.uploads(catalog).arrays.keys()
    assert over.reveals.startswith(base.reveals)
    assert "nothing more is sent" in over.reveals


# -- newcomers: the order given is the order ---------------------------------------------------


def test_a_newcomers_history_is_in_the_order_given() -> None:
    data: ClientData = newcomers([[7, 2, 9], [5, 1, 5, 3], []], 12, 4)
    assert data.train.of(0).tolist() == [7, 2, 9]
    assert data.train.of(1).tolist() == [1, 5, 3]  # named twice: as new as where it was named last
    assert data.trained.of(0).tolist() == data.forbidden.of(0).tolist() == [2, 7, 9]
    assert data.trained.of(1).tolist() == [1, 3, 5]


@pytest.mark.parametrize("spec", ["fedmf", "pfedrec", "fedrecon"])
def test_what_a_newcomer_named_last_counts_most(spec: str) -> None:
    """Likes of both tastes, in two orders: the taste that was named last wins."""
    parts = split(two_tastes())
    simulation = played(make(f"{spec}+recent", {"dim": 8, "half_life": 1, "floor": 0.01}), parts, 60)
    even, odd = [2, 8, 12], [3, 9, 13]
    popular = np.ones(parts.n_items, np.float32)
    negatives = parts.protocol.negatives_per_positive
    found = join(simulation.server, simulation.server.state, [even + odd, odd + even], popular, negatives)
    scores = found.all(np.arange(2))
    others = np.setdiff1d(np.arange(parts.n_items), even + odd)
    lean = [float(s[others[others % 2 == 1]].mean() - s[others[others % 2 == 0]].mean()) for s in scores]
    assert lean[0] > lean[1]
