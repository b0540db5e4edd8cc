"""Compiled autoencoders (FedAE, FedDAE) must agree with the plain engine, their slow twin."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedrec
from fedrec.channel.stage import parse
from fedrec.clients.clients import Ask
from fedrec.clients.engine import Wish
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Group
from fedrec.core.optim import SGD
from fedrec.core.slots import Catalog
from fedrec.core.upload import Upload
from fedrec.data.interactions import Interactions
from fedrec.data.split import Split, split
from fedrec.data.worlds import scalable
from fedrec.methods import make
from fedrec.methods.fedae import FedAE
from fedrec.methods.feddae import FedDAE
from fedrec.server.divergence import Diverged
from fedrec.simulate.simulation import Simulation
from fedrec.testing import scores

spec = importlib.util.spec_from_file_location("fused", Path(__file__).with_name("test_fused.py"))
assert spec is not None
assert spec.loader is not None
fused = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fused)

SMALL: dict[str, dict[str, Any]] = {
    "fedae": {"hidden": 8, "lr": 0.02},
    "feddae": {"hidden": 8, "lr": 0.02, "lr_own": 0.1, "share": 0.3},
}


def sums_of(simulation: Simulation, single: bool, round: int = 1) -> dict[str, np.ndarray]:
    """What the server would add up."""
    clients, server = simulation.clients, simulation.server
    total = server.empty()
    for answer in clients.fit(server.broadcast(round), clients.everyone, Ask(single=single), server.receive):
        total.add(answer.reply.sent)  # type: ignore[arg-type]
    clients.keep()
    return dict(total.sums)


def begun(method: Any, parts: Split, seed: int = 0, **options: Any) -> list[Simulation]:
    """Both engines, at a server whose offsets are not zero."""
    simulations = [Simulation(method, parts, engine=e, seed=seed, **options) for e in ("plain", "fused")]  # type: ignore[arg-type]
    for simulation in simulations:
        rng, shared = np.random.default_rng(0), simulation.server.state.shared
        for name in ("appeal", "offset"):
            shared[name][:] = rng.normal(0, 0.3, shared[name].shape)
    assert [simulation.clients.engine.name for simulation in simulations] == ["plain", "fused"]
    return simulations


def assert_same_devices(plain: Simulation, compiled: Simulation) -> None:
    for name, value in plain.clients.state.lines.items():
        assert fused.far(value, compiled.clients.state.lines[name]) < fused.TOLERANCE, name
    everyone = plain.clients.everyone
    for name, store in plain.clients.state.rows.items():
        a, b = (s.get(everyone) for s in (store, compiled.clients.state.rows[name]))
        np.testing.assert_array_equal(a.items.items, b.items.items)
        assert fused.far(a.values, b.values) < fused.TOLERANCE, name


def assert_alike(method: Any, parts: Split, seed: int = 0) -> None:
    """Before Adam, which makes as much of rounding alone as of any other gradient; and what devices keep."""
    plain, compiled = begun(method, parts, seed)
    for round in (1, 2):
        told = [s.server.broadcast(round) for s in (plain, compiled)]
        codes = [
            s.clients.engine.fit(
                at, s.clients.state, s.clients.everyone, s.clients.plan(round), Wish(single=True)
            ).lines["code"]
            for s, at in zip((plain, compiled), told, strict=True)
        ]
        assert fused.far(*codes) < fused.TOLERANCE
        theirs, ours = (sums_of(simulation, False, round) for simulation in (plain, compiled))
        for name, value in theirs.items():
            assert np.linalg.norm(value - ours[name]) <= fused.TOLERANCE * np.linalg.norm(value) + 1e-5, name
    assert_same_devices(plain, compiled)


@pytest.mark.parametrize("protocol", ["strict", "paper"])
@pytest.mark.parametrize("name", SMALL)
def test_compiled_equals_plain(name: str, protocol: str) -> None:
    assert_alike(make(name, SMALL[name]), split(scalable(60, 50, 900), protocol, 0))


@pytest.mark.parametrize("options", [{}, {"clients_per_round": 0.4, "seed": 7}])
@pytest.mark.parametrize("name", SMALL)
def test_runs_end_alike(name: str, options: dict[str, Any]) -> None:
    parts = split(scalable(60, 50, 900), "strict", 0)
    plain, compiled = fused.both(make(name, SMALL[name]), parts, **options)
    assert (plain.clients.engine.name, compiled.clients.engine.name) == ("plain", "fused")
    for part, value in plain.server.state.shared.items():
        assert fused.far(value, compiled.server.state.shared[part]) < 1e-3, part
    a, b = (scores(each, each.moment, view) for each, view in ((plain, "global"), (compiled, "global")))
    assert fused.far(a, b) < 1e-3
    assert plain.play(evaluate=False).bytes_up == compiled.play(evaluate=False).bytes_up


@given(
    users=st.integers(2, 14),
    items=st.integers(8, 60),
    share=st.floats(0.2, 0.5),
    hidden=st.integers(1, 37),
    name=st.sampled_from(list(SMALL)),
    protocol=st.sampled_from(["strict", "paper"]),
    seed=st.integers(0, 5),
)
def test_any_shape(
    users: int, items: int, share: float, hidden: int, name: str, protocol: str, seed: int
) -> None:
    per_user = min(max(5, int(share * items)), items // 2)
    rows = users * max(per_user, 3)
    parts = split(scalable(users, items, rows, seed), protocol if per_user >= 5 else "strict", seed)
    assert_alike(make(name, {**SMALL[name], "hidden": hidden}), parts, seed)


@pytest.mark.parametrize("name", SMALL)
def test_sums_are_those_of_single_uploads(name: str) -> None:
    parts = split(scalable(60, 50, 900), "strict", 0)
    together, alone = (Simulation(make(name, SMALL[name]), parts, engine="fused") for _ in range(2))
    theirs, ours = sums_of(together, False), sums_of(alone, True)
    for part, value in theirs.items():
        np.testing.assert_allclose(value, ours[part], atol=1e-5, err_msg=part)


@pytest.mark.parametrize("name", SMALL)
def test_a_single_upload_is_the_plain_engines(name: str) -> None:
    parts = split(scalable(20, 30, 200), "strict", 0)
    sent = []
    for engine in ("plain", "fused"):
        simulation = Simulation(make(name, SMALL[name]), parts, engine=engine)  # type: ignore[arg-type]
        clients = simulation.clients
        asked = clients.fit(simulation.server.broadcast(1), clients.everyone[3:4], Ask(single=True))
        (upload,) = (answer.reply.sent for answer in asked)
        assert isinstance(upload, Upload)
        sent.append(upload)
    np.testing.assert_array_equal(sent[0].items.items, sent[1].items.items)
    for part, value in {**sent[0].rows, **sent[0].dense}.items():
        np.testing.assert_allclose(value, {**sent[1].rows, **sent[1].dense}[part], atol=1e-6, err_msg=part)


@pytest.mark.parametrize("name", SMALL)
def test_clients_with_one_item_and_with_all_items(name: str) -> None:
    """The smallest client there is, and one that leaves nothing to draw as a negative."""
    for protocol in ("strict", "paper"):
        assert_alike(make(name, SMALL[name]), split(fused.tiny(), protocol, 0))


@pytest.mark.parametrize("name", SMALL)
def test_one_thread_and_many_end_with_the_same_bits(name: str) -> None:
    fused.assert_same_bits_on_threads(name, SMALL[name])


@pytest.mark.parametrize("table", ["decoder", "appeal", "encoder", "offset"])
@pytest.mark.parametrize("name", SMALL)
def test_a_client_that_runs_away_is_dropped_and_left_as_it_was(name: str, table: str) -> None:
    """Of rows whoever looks at item 7; an offset that is not finite ends the run."""
    parts = split(scalable(60, 400, 400), "strict", 0)
    for simulation in begun(make(name, SMALL[name]), parts):
        simulation.play(evaluate=False)
        state, everyone = simulation.clients.state, simulation.clients.everyone
        before = [
            {n: v.copy() for n, v in state.lines.items()},
            {n: s.get(everyone) for n, s in state.rows.items()},
        ]
        shared = simulation.server.state.shared[table]
        shared[7 if table != "offset" else slice(None)] = np.inf
        if table == "offset":
            with pytest.raises(Diverged, match="60 of 60 clients ran away"):
                simulation.play(evaluate=False)
            continue
        answers = list(simulation.clients.fit(simulation.server.broadcast(2), everyone, Ask(single=True)))
        there = np.concatenate([answer.reply.users for answer in answers])
        dropped = np.setdiff1d(everyone, there)
        assert len(dropped) > 0
        simulation.clients.keep()
        for line, value in before[0].items():
            np.testing.assert_array_equal(simulation.clients.state.lines[line][dropped], value[dropped])
        for rows in before[1]:
            kept = simulation.clients.state.rows[rows].get(dropped)
            np.testing.assert_array_equal(kept.values, state.rows[rows].get(dropped).values)


@pytest.mark.parametrize("name", SMALL)
def test_newcomers_and_longer_histories(name: str) -> None:
    """Where the shared part stands still, and where devices rank from more than they trained on."""
    parts = split(scalable(60, 50, 900), "strict", 0)
    plain, compiled = begun(make(name, SMALL[name]), parts)
    for simulation in (plain, compiled):
        simulation.clients.join(simulation.server.standing(), 2)
    assert_same_devices(plain, compiled)
    found = []
    for simulation in (plain, compiled):
        clients = simulation.clients
        everyone, told = clients.everyone, simulation.server.standing()
        longer = clients.knowing(clients.data.train.followed_by(clients.data.forbidden))
        assert longer.engine.name == clients.engine.name
        found.append(longer.score(told.shared, longer.part(told, everyone, own=True)))
    assert fused.far(*found) < fused.TOLERANCE


def test_histories_longer_than_a_batch_are_ranked_from(small: Interactions) -> None:
    """Protocol `next` adds an item after training: nobody is asked to train on it."""
    longest = int(Simulation(FedAE(), split(small, "next", 0)).clients.engine.sizes.max())  # type: ignore[attr-defined]
    run = fedrec.run(FedAE(hidden=8, batch_size=longest), small, protocol="next", rounds=1)
    assert run.federated is not None
    assert run.federated.clients.engine.name == "fused"


@pytest.mark.parametrize("name", SMALL)
def test_in_fixed_point_too(name: str) -> None:
    parts = split(scalable(60, 50, 900), "strict", 0)
    plain, compiled = begun(make(name, SMALL[name]), parts, channel=[parse("fixed")])
    for simulation in (plain, compiled):
        simulation.play(evaluate=False)
    assert_same_devices(plain, compiled)
    for part, value in plain.server.state.shared.items():
        assert fused.far(value, compiled.server.state.shared[part]) < 1e-3, part


def test_what_the_kernel_does_not_know_runs_on_the_plain_engine() -> None:
    class Stepping(FedAE):
        def plan(self, catalog: Catalog, round: int) -> Any:
            support, everything = super().plan(catalog, round)
            return [
                support,
                type(everything)([Group(("decoder",), SGD(0.1), "shared")], terms=everything.terms),
            ]

    parts = split(scalable(20, 30, 200), "strict", 0)

    class TwoRates(FedDAE):
        def plan(self, catalog: Catalog, round: int) -> Any:
            support, everything = super().plan(catalog, round)
            shared, _ = everything.groups
            own = [Group(("own", "own_offset"), SGD(0.1), "private"), Group(("gate",), SGD(5.0), "private")]
            return [support, type(everything)([shared, *own], terms=everything.terms)]

    for method in (Stepping(hidden=8), FedAE(hidden=8, batch_size=16), TwoRates(hidden=8)):
        assert Simulation(method, parts).clients.engine.name == "plain"
        with pytest.raises(FedrecError, match="engine 'fused' cannot run fed"):
            Simulation(method, parts, engine="fused")
