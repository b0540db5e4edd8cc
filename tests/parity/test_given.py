"""Compiled clients that a server makes something for must agree with the plain engine, their slow twin."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec.clients.clients import Ask
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Group
from fedrec.core.optim import SGD
from fedrec.core.ragged import Ragged
from fedrec.core.slots import Catalog
from fedrec.core.upload import Upload
from fedrec.data.split import Split, split
from fedrec.data.worlds import scalable
from fedrec.methods import make
from fedrec.methods.fedpergnn import FedPerGNN
from fedrec.methods.metamf import MetaMF
from fedrec.simulate.simulation import Simulation

spec = importlib.util.spec_from_file_location("fused", Path(__file__).with_name("test_fused.py"))
assert spec is not None
assert spec.loader is not None
fused = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fused)

SMALL: dict[str, dict[str, Any]] = {
    "fedpergnn": {"dim": 8, "neighbours": 5, "pseudo": 10, "noise": 0.02},
    "metamf": {"dim": 8, "rank": 3, "predictor": 5, "memory": 9, "hidden": 17, "lr": 0.01, "steps": 4},
}


def assert_alike(method: Any, parts: Split, **options: Any) -> None:
    plain, compiled = fused.both(method, parts, **options)
    fused.assert_alike(plain, compiled)
    for name, value in plain.server.state.server.items():
        # Adam makes much of what is little more than rounding: exact are the sums before it, further below.
        assert fused.far(value, compiled.server.state.server[name]) < 10 * fused.TOLERANCE, ("server", name)


@pytest.mark.parametrize("options", [{}, {"clients_per_round": 0.4, "seed": 7}])
@pytest.mark.parametrize("name", SMALL)
def test_compiled_equals_plain(name: str, options: dict[str, Any]) -> None:
    assert_alike(make(name, SMALL[name]), split(scalable(60, 50, 900), "strict", 0), **options)


@given(
    users=st.integers(2, 14),
    items=st.integers(8, 60),
    share=st.floats(0.2, 0.5),
    dim=st.integers(1, 37),
    neighbours=st.integers(0, 20),
    pseudo=st.integers(0, 70),
    protocol=st.sampled_from(["strict", "paper"]),
    seed=st.integers(0, 5),
)
def test_neighbours_of_any_shape(
    users: int, items: int, share: float, dim: int, neighbours: int, pseudo: int, protocol: str, seed: int
) -> None:
    per_user = min(max(5, int(share * items)), items // 2)
    rows = users * max(per_user, 3)
    parts = split(scalable(users, items, rows, seed), protocol if per_user >= 5 else "strict", seed)
    method = FedPerGNN(dim=dim, neighbours=neighbours, pseudo=pseudo, lr=1.0, lr_items=1.0)
    fused.assert_same_arrays(*fused.both(method, parts, rounds=2, seed=seed))


@given(
    users=st.integers(2, 14),
    items=st.integers(8, 60),
    share=st.floats(0.2, 0.5),
    widths=st.lists(st.integers(1, 20), min_size=4, max_size=4),
    steps=st.integers(1, 3),
    seed=st.integers(0, 5),
)
def test_made_models_of_any_shape(
    users: int, items: int, share: float, widths: list[int], steps: int, seed: int
) -> None:
    """What the server adds up, before Adam, which makes as much of rounding alone as of any other gradient."""
    parts = split(scalable(users, items, users * max(int(share * items), 3), seed), "strict", seed)
    sizes = dict(zip(("rank", "predictor", "memory", "hidden"), widths, strict=True))
    sums = {}
    for engine in ("plain", "fused"):
        simulation = Simulation(
            MetaMF(dim=4 + widths[0], steps=steps, std=0.3, **sizes), parts, engine=engine, seed=seed
        )
        clients, server = simulation.clients, simulation.server
        total = server.empty()
        for answer in clients.fit(server.broadcast(1), clients.everyone, Ask(single=True), server.receive):
            total.add(answer.reply.sent)  # type: ignore[arg-type]
        sums[engine] = total.sums
    for name, value in sums["plain"].items():
        apart = np.linalg.norm(value - sums["fused"][name])
        assert apart <= fused.TOLERANCE * np.linalg.norm(value) + 1e-5, name


def test_the_server_back_propagates_as_pytorch_does() -> None:
    import torch
    from torch.nn.functional import linear

    method = MetaMF(**SMALL["metamf"])
    catalog, rng, users = Catalog(9, 30), np.random.default_rng(0), np.array([1, 4, 5, 8])
    held = {n: s.starting(n, 0) for n, s in method.slots(catalog).items()}
    p = {n: torch.from_numpy(held[n]).requires_grad_() for n in method.network(catalog)}

    def layer(name: str, x: torch.Tensor) -> torch.Tensor:
        return linear(x, p[f"{name}_w"], p[f"{name}_b"])

    mixed = p["users"][torch.from_numpy(users)] @ p["memory"]
    table, first, second = (torch.relu(layer(name, mixed)) for name in ("table", "first", "second"))
    made = {
        "left": layer("left", table).unflatten(-1, (-1, method.rank)),
        "right": layer("right", table).unflatten(-1, (method.rank, method.dim)),
        "w1": layer("first_weight", first).unflatten(-1, (method.dim, method.predictor)),
        "b1": layer("first_bias", first),
        "w2": layer("second_weight", second),
        "b2": layer("second_bias", second)[..., 0],
    }
    given, pull = method.service(catalog, 0).give(held, users)
    for name, values in made.items():
        np.testing.assert_allclose(np.asarray(given[name]), values.detach().numpy(), atol=1e-5, err_msg=name)
    at, met = (
        np.array([0, 2, 3]),
        [np.sort(rng.choice(30, n, replace=False)).astype(np.int32) for n in (7, 1, 12)],
    )
    items = Ragged(np.array([0, 7, 8, 20]), np.concatenate(met))
    rows = rng.normal(size=(20, method.dim)).astype(np.float32)
    dense = {n: rng.normal(size=(3, *made[n].shape[1:])).astype(np.float32) for n in ("w1", "b1", "w2", "b2")}
    total = pull(Upload(items, {"items": rows}, dense, np.array([3, 1, 2], np.float32)), at)
    value = sum(
        weight
        * (
            (made["left"][c][met[k]] @ made["right"][c])
            * torch.from_numpy(rows[items.indptr[k] : items.indptr[k + 1]])
        ).sum()
        + weight * sum((made[n][c] * torch.as_tensor(dense[n][k])).sum() for n in dense)
        for k, (c, weight) in enumerate(zip(at, (3, 1, 2), strict=True))
    )
    for name, slope in zip(p, torch.autograd.grad(value, list(p.values())), strict=True):
        assert fused.far(slope.numpy(), total.sums[name]) < fused.TOLERANCE, name


@pytest.mark.parametrize("name", SMALL)
def test_clients_with_one_item_and_with_all_items(name: str) -> None:
    """The smallest client there is, and one that leaves nothing to draw as a negative."""
    for protocol in ("strict", "paper"):
        assert_alike(make(name, SMALL[name]), split(fused.tiny(), protocol, 0))


@pytest.mark.parametrize("name", SMALL)
def test_one_thread_and_many_end_with_the_same_bits(name: str) -> None:
    fused.assert_same_bits_on_threads(name, SMALL[name])


def test_a_client_that_runs_away_is_dropped_and_left_as_it_was() -> None:
    parts = split(scalable(60, 50, 900), "strict", 0)
    for engine in ("plain", "fused"):
        simulation = Simulation(make("fedpergnn", SMALL["fedpergnn"]), parts, engine=engine)  # type: ignore[arg-type]
        before = simulation.clients.state.lines["bias"]
        before[[3, 17]] = np.inf
        assert simulation.play(evaluate=True).dropped == 2
        np.testing.assert_array_equal(simulation.clients.state.lines["bias"][[3, 17]], before[[3, 17]])
        assert all(np.isfinite(v).all() for v in simulation.server.state.shared.values())


def test_what_the_kernel_does_not_know_runs_on_the_plain_engine() -> None:
    class Stepping(FedPerGNN):
        def groups(self, catalog: Catalog, round: int) -> list[Group]:
            first, _ = super().groups(catalog, round)
            return [first, Group(("items",), SGD(0.1), "shared")]

    parts = split(scalable(20, 30, 200), "strict", 0)
    for method in (Stepping(), FedPerGNN(epochs=2), FedPerGNN(batch_size=16)):
        assert Simulation(method, parts).clients.engine.name == "plain"
        with pytest.raises(FedrecError, match="engine 'fused' cannot run fedpergnn"):
            Simulation(method, parts, engine="fused")
