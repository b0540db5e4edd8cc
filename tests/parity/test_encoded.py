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
from fedrec.clients.clients import Ask
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Group
from fedrec.core.optim import SGD
from fedrec.core.slots import Catalog
from fedrec.core.upload import Upload
from fedrec.data.interactions import from_codes
from fedrec.data.split import Split, split
from fedrec.data.worlds import scalable
from fedrec.methods import make
from fedrec.methods.fedae import FedAE
from fedrec.simulate.simulation import Simulation
from fedrec.testing import different, scores

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


def assert_alike(method: Any, parts: Split, seed: int = 0) -> None:
    """Before Adam, which makes as much of rounding alone as of any other gradient; and what devices keep."""
    plain, compiled = (Simulation(method, parts, engine=e, seed=seed) for e in ("plain", "fused"))
    for round in (1, 2):
        theirs, ours = (sums_of(simulation, False, round) for simulation in (plain, compiled))
        for name, value in theirs.items():
            assert np.linalg.norm(value - ours[name]) <= fused.TOLERANCE * np.linalg.norm(value) + 1e-5, name
    for name, value in plain.clients.state.lines.items():
        assert fused.far(value, compiled.clients.state.lines[name]) < fused.TOLERANCE, name
    everyone = plain.clients.everyone
    for name, store in plain.clients.state.rows.items():
        a, b = (s.get(everyone) for s in (store, compiled.clients.state.rows[name]))
        np.testing.assert_array_equal(a.items.items, b.items.items)
        assert fused.far(a.values, b.values) < fused.TOLERANCE, name


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
    runs = [[0, 1, 2], list(range(12)), [3, 4, 5, 6]]
    users = np.repeat(np.arange(3, dtype=np.int32), [len(run) for run in runs])
    codes = np.array([i for run in runs for i in run], np.int32)
    data = from_codes("tiny", users, codes, np.arange(len(codes)), np.arange(3), np.arange(12))
    for protocol in ("strict", "paper"):
        assert_alike(make(name, SMALL[name]), split(data, protocol, 0))


@pytest.mark.parametrize("name", SMALL)
def test_one_thread_and_many_end_with_the_same_bits(name: str) -> None:
    many = scalable(200, 120, 3000)
    one, three = (
        fedrec.run(name, many, rounds=2, settings=SMALL[name], threads=threads) for threads in (1, 3)
    )
    assert one.federated is not None
    assert three.federated is not None
    assert one.federated.clients.engine.name == "fused"
    assert different(one.federated.moment, three.federated.moment) == []
    assert one.ranks.equals(three.ranks)


@pytest.mark.parametrize("name", SMALL)
def test_a_client_that_runs_away_is_dropped_and_left_as_it_was(name: str) -> None:
    parts = split(scalable(60, 400, 400), "strict", 0)
    dropped = []
    for engine in ("plain", "fused"):
        simulation = Simulation(make(name, SMALL[name]), parts, engine=engine)  # type: ignore[arg-type]
        appeal = simulation.server.state.shared["appeal"]
        appeal[7] = np.inf  # whoever meets item 7
        dropped.append(simulation.play(evaluate=False).dropped)
        others = np.delete(simulation.server.state.shared["decoder"], 7, axis=0)
        assert np.isfinite(others).all()
    assert dropped[0] == dropped[1] > 0


def test_what_the_kernel_does_not_know_runs_on_the_plain_engine() -> None:
    class Stepping(FedAE):
        def plan(self, catalog: Catalog, round: int) -> Any:
            support, everything = super().plan(catalog, round)
            return [
                support,
                type(everything)([Group(("decoder",), SGD(0.1), "shared")], terms=everything.terms),
            ]

    parts = split(scalable(20, 30, 200), "strict", 0)
    for method in (Stepping(hidden=8), FedAE(hidden=8, batch_size=16)):
        assert Simulation(method, parts).clients.engine.name == "plain"
        with pytest.raises(FedrecError, match="engine 'fused' cannot run fedae"):
            Simulation(method, parts, engine="fused")
