"""What every federated method must do, as tests to inherit: one class of a few lines per method.

    from fedrec.testing import MethodContract

    class TestFedMF(MethodContract):
        method = FedMF(dim=8)

Settings are those under which the method learns the small world of two tastes within ``rounds``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import tomli_w
from numpy.typing import NDArray
from pydantic import PrivateAttr

from fedrec.channel.stage import Rng, Stage
from fedrec.clients.clients import Ask, Clients
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated, Introduced, View, own_rows
from fedrec.core.messages import Reply
from fedrec.core.ragged import Ids
from fedrec.core.slots import Catalog
from fedrec.core.upload import Total, Upload, Uploads, check_name
from fedrec.data.interactions import Interactions
from fedrec.data.samples import draw_samples
from fedrec.data.split import Split, split
from fedrec.data.worlds import two_tastes
from fedrec.methods import make, settings_of, spec_of
from fedrec.server.cohort import cohort_size
from fedrec.server.server import Server
from fedrec.simulate.checkpoint import load_checkpoint, save_checkpoint
from fedrec.simulate.moment import Moment
from fedrec.simulate.simulation import Simulation

Arrays = dict[str, NDArray[Any]]


class Spy(Stage):
    """A stage of the channel that remembers what passes, client by client."""

    name: ClassVar[str] = "spy"
    _seen: list[Upload] = PrivateAttr(default_factory=list)

    @property
    def seen(self) -> list[Upload]:
        return self._seen

    def on_device(self, upload: Upload, uploads: Uploads, rng: Rng) -> Upload:
        self._seen.append(upload)
        return upload


def trained(
    method: Federated, data: Interactions, rounds: int, protocol: str = "strict", **options: Any
) -> tuple[Simulation, Moment]:
    """A simulation after some rounds without evaluation, and its last round."""
    simulation = Simulation(method, split(data, protocol, options.get("seed", 0)), **options)
    before = None
    for _ in range(rounds):
        before = simulation.moment
        simulation.play(evaluate=False)
    now = simulation.moment
    return simulation, replace(now, before=before) if simulation.replays else now


def scores(simulation: Simulation, moment: Moment, view: View) -> NDArray[np.float32]:
    """Every client's scores of the whole catalogue."""
    return simulation.scorer(moment, view).all(simulation.clients.everyone)


def arrays_of(moment: Moment) -> Arrays:
    """Everything that both halves hold, by name."""
    parts: dict[str, Any] = {"shared": moment.server.shared, "server": moment.server.server}
    parts |= {"private": moment.devices.lines}
    parts |= {f"rows {name}": store.arrays() for name, store in moment.devices.rows.items()}
    return {f"{part}: {name}": array for part, arrays in parts.items() for name, array in arrays.items()}


def different(a: Moment, b: Moment) -> list[str]:
    """Names of the arrays in which two moments differ, to the bit."""
    mine, others = arrays_of(a), arrays_of(b)
    both = mine.keys() & others.keys()
    return [n for n in {**mine, **others} if n not in both or not _same(mine[n], others[n])]


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@dataclass
class Fleet:
    """A server and a device of its own for every user: a federation without a simulator."""

    server: Server
    phones: list[Clients]
    single: bool
    uploads: dict[tuple[int, int], Upload | Total]

    def play(self) -> None:
        """One round: every device of the cohort is told, trains and answers alone."""
        number = self.server.state.round + 1
        for turn, group in enumerate(self.server.groups(number, self.server.cohort(number))):
            total = self.server.empty()
            for user in group:
                total.add(self._one(int(user), number))
            self.server.step(total, number, turn)
        self.server.finish(number)

    def _one(self, user: int, number: int) -> Total:
        phone, ids = self.phones[user], np.array([user])

        def receive(reply: Reply, block: Ids) -> Reply:
            self.uploads[number, user] = reply.sent
            return self.server.receive(reply, block, ids)

        told = self.server.broadcast(number, ids)
        (answer,) = phone.fit(told, np.array([0]), Ask(single=True), receive)
        phone.keep()
        assert isinstance(answer.reply.sent, Total)
        return answer.reply.sent


def fleet(method: Federated, parts: Split, clients: float | None = None, **options: Any) -> Fleet:
    """As many one-client devices as there are users."""
    catalog, cohort = parts.catalog, cohort_size(clients, parts.n_users)
    server = Server(method, catalog, parts.seed, cohort_size=cohort)
    tuned = cohort < parts.n_users and own_rows(method, catalog) == "tuned"
    phones = [
        Clients(method, parts.clients(np.array([u])), catalog, parts.seed, keeps_tuned=tuned, **options)
        for u in range(parts.n_users)
    ]
    told = [said for phone in phones if (said := phone.introduce()) is not None]
    server.meet(Introduced.joined(told) if told else None)
    return Fleet(server, phones, True, {})


def reachable(*roots: Any) -> Iterator[Any]:
    """Everything that can be reached from some objects: attributes, items, closures."""
    seen: set[int] = set()
    todo = list(roots)
    while todo:
        at = todo.pop()
        if id(at) in seen or isinstance(at, type | str | bytes | int | float | bool | type(None)):
            continue
        seen.add(id(at))
        yield at
        if isinstance(at, dict):
            todo += [*at.keys(), *at.values()]
        elif isinstance(at, list | tuple | set | frozenset):
            todo += list(at)
        elif callable(at) and getattr(at, "__closure__", None):
            todo += [cell.cell_contents for cell in at.__closure__]
        todo += list(getattr(at, "__dict__", {}).values())
        if getattr(at, "__self__", None) is not None:
            todo.append(at.__self__)


def some_users(data: Interactions, users: Sequence[int]) -> Interactions:
    """The same catalogue with these users alone."""
    of_users = [data.items_of(u) for u in users]
    assert data.times is not None
    times = [data.times[data.indptr[u] : data.indptr[u + 1]] for u in users]
    return replace(
        data,
        indptr=np.concatenate([[0], np.cumsum([len(items) for items in of_users])]).astype(np.int64),
        items=np.concatenate(of_users),
        times=np.concatenate(times),
        user_ids=data.user_ids[list(users)],
    )


def with_unknown_items(data: Interactions, count: int) -> Interactions:
    """The same interactions in a catalogue with items that nobody ever met."""
    return replace(data, item_ids=np.arange(data.n_items + count))


def poison(simulation: Simulation) -> int:
    """Make a row that a single client will touch not finite; returns that client."""
    clients, server = simulation.clients, simulation.server
    round = server.state.round + 1
    plan = simulation.method.plan(simulation.split.catalog, round)
    touched = draw_samples(clients.data, simulation.seed, round, clients.everyone, plan).items()
    lonely = np.flatnonzero(np.bincount(touched.items) == 1)[0]
    user = int(np.searchsorted(touched.indptr, np.flatnonzero(touched.items == lonely)[0], side="right")) - 1
    table = next(name for name, slot in clients.slots.items() if slot.rows and slot.owner == "shared")
    rows = server.state.shared[table].copy()
    rows[lonely] = np.nan
    server.state = replace(server.state, shared={**server.state.shared, table: rows})
    return user


class MethodContract:
    """Inherit, and say which method. The rest may stay as it is."""

    method: ClassVar[Federated]
    rounds: ClassVar[int] = 60  # enough to learn the world of two tastes,
    view: ClassVar[View] = "global"  # ranking with this,
    protocol: ClassVar[str] = "strict"  # under this protocol
    engine: ClassVar[str] = "auto"

    @property
    def world(self) -> Interactions:
        return two_tastes()

    @property
    def large_world(self) -> Interactions:
        """Enough clients for several blocks."""
        return two_tastes(users=300)

    def catalog(self) -> Catalog:
        return Catalog(self.world.n_users, self.world.n_items)

    def trained(
        self, data: Interactions, rounds: int, protocol: str = "strict", **options: Any
    ) -> tuple[Simulation, Moment]:
        return trained(self.method, data, rounds, protocol, engine=self.engine, **options)

    def test_says_what_it_is(self) -> None:
        for word in ("name", "citation", "use_when", "reveals"):
            assert getattr(self.method, word), f"the method has no {word}"

    def test_only_declared_uploads_reach_the_channel(self) -> None:
        spy = Spy()
        self.trained(self.world, 2, channel=[spy])
        slots, declared = self.method.slots(self.catalog()), self.method.uploads(self.catalog()).arrays
        assert spy.seen, "nothing was uploaded"
        for upload in spy.seen:
            assert upload.clients == 1, "a stage on the device saw another client's upload"
            for name, array in {**upload.rows, **upload.dense}.items():
                assert name in declared, f"'{name}' was uploaded and is not declared"
                assert name not in slots or slots[name].owner == "shared", f"'{name}' is not shared"
                count = len(upload.items.items) if declared[name].rows else upload.clients
                shape = declared[name].shape[1:] if declared[name].rows else declared[name].shape
                assert array.shape == (count, *shape), f"'{name}' is uploaded in another shape than declared"

    def test_private_slots_and_undeclared_arrays_cannot_leave(self) -> None:
        slots, declared = self.method.slots(self.catalog()), self.method.uploads(self.catalog()).arrays
        kept = [name for name, slot in slots.items() if slot.owner != "shared"]
        for name in [*kept, "something else"]:
            with pytest.raises(FedrecError, match=f"'{name}' is .* may not leave a client"):
                check_name(self.method.label, name, slots, declared)

    def test_one_device_alone_does_what_the_simulator_says(self) -> None:
        self.check_fleet(None)

    def test_one_device_alone_with_sampled_clients(self) -> None:
        self.check_fleet(0.5)

    def check_fleet(self, clients: float | None) -> None:
        """A fleet of one-client devices against the simulator: uploads of the first round, then what both hold."""
        parts, spy = split(two_tastes(users=10, items=16)), Spy()
        options: dict[str, Any] = {"engine": self.engine, "clients_per_round": clients}
        spied = Simulation(self.method, parts, channel=[spy], **options)
        simulation = Simulation(self.method, parts, **options)
        alone = fleet(self.method, parts, clients, engine=self.engine)
        compiled = simulation.clients.engine.name == "fused"
        spied.play(evaluate=False)
        blocks = spied.clients.engine.blocks
        groups = spied.server.groups(1, spied.server.cohort(1))
        order = np.concatenate([np.concatenate(blocks(group)) for group in groups])
        simulation.play(evaluate=False)
        alone.play()
        for user, theirs in zip(order.tolist(), spy.seen, strict=True):
            mine = alone.uploads[1, user]
            assert isinstance(mine, Upload)
            _alike({**mine.rows, **mine.dense}, {**theirs.rows, **theirs.dense}, 0 if compiled else 1e-4)
            assert _same(mine.items.items, theirs.items.items)
        _alike(alone.server.state.held, simulation.server.state.held, 1e-6 if compiled else 1e-4)
        simulation.play(evaluate=False)
        alone.play()
        _alike(alone.server.state.held, simulation.server.state.held, 1e-5 if compiled else 1e-3)
        for name, lines in simulation.clients.state.lines.items():
            mine_too = np.concatenate([phone.state.lines[name] for phone in alone.phones])
            _alike({name: mine_too}, {name: lines}, 1e-5 if compiled else 1e-3)
        for name, store in simulation.clients.state.rows.items():
            for user, phone in enumerate(alone.phones):
                theirs_too = store.get(np.array([user])).values
                _alike({name: phone.state.rows[name].get(np.array([0])).values}, {name: theirs_too}, 1e-3)

    def test_the_server_holds_nothing_private_and_devices_nothing_held_out(self) -> None:
        simulation, _ = self.trained(self.world, 2)
        mine = [*simulation.clients.state.lines.values()]
        for found in reachable(simulation.server):
            assert not isinstance(found, Clients), "the server holds its clients"
            if isinstance(found, np.ndarray) and found.dtype == np.float32 and found.size:
                shared = [m for m in mine if np.shares_memory(m, found)]
                assert not shared, "the server holds a private array"
        exam = simulation.exam
        for found in reachable(simulation.clients):
            assert not isinstance(found, type(exam) | Split | Interactions | Server)
            if isinstance(found, np.ndarray) and found.shape == exam.test.shape:
                assert not np.array_equal(found, exam.test), "devices hold their test items"
                assert not np.array_equal(found, exam.valid), "devices hold their validation items"

    def test_state_survives_a_checkpoint(self, tmp_path: Path) -> None:
        going_on, _ = self.trained(self.world, 2, clients_per_round=0.5)
        save_checkpoint(tmp_path / "checkpoint", going_on.moment, None)
        resumed, _ = self.trained(self.world, 0, clients_per_round=0.5)
        resumed.restore(*load_checkpoint(tmp_path / "checkpoint"))
        assert resumed.moment.round == 2
        assert different(resumed.moment, going_on.moment) == []
        for simulation in (resumed, going_on):
            simulation.play(evaluate=False)
        assert different(resumed.moment, going_on.moment) == [], "they part after the checkpoint"

    def test_settings_survive_the_config(self) -> None:
        written = tomli_w.dumps(settings_of(self.method))
        assert make(spec_of(self.method), tomllib.loads(written)) == self.method

    def test_unknown_items_and_new_clients_have_finite_scores(self) -> None:
        data = with_unknown_items(self.world, 5)
        simulation, moment = self.trained(data, 2, clients_per_round=1)
        for view in simulation.views:
            found = scores(simulation, moment, view)
            assert found.shape == (data.n_users, data.n_items)
            assert np.isfinite(found).all(), f"not finite under view {view}"

    def test_scores_are_finite_under_every_view(self) -> None:
        simulation, moment = self.trained(self.world, 3)
        for view in simulation.views:
            assert np.isfinite(scores(simulation, moment, view)).all(), f"not finite under view {view}"

    def test_same_seed_same_bits_and_another_seed_others(self) -> None:
        first, again, other = (self.trained(self.world, 2, seed=seed)[0] for seed in (0, 0, 1))
        assert different(first.moment, again.moment) == []
        assert different(first.moment, other.moment), "the seed changes nothing"

    def test_one_thread_and_many_give_the_same_bits(self) -> None:
        one, at_one = self.trained(self.large_world, 2, threads=1)
        many, at_many = self.trained(self.large_world, 2, threads=4)
        assert len(one.clients.engine.blocks(one.clients.everyone)) > 1, "one block cannot tell"
        assert different(one.moment, many.moment) == []
        for view in one.views:
            a, b = one.ranks(at_one, "test", view), many.ranks(at_many, "test", view)
            assert all(_same(x, y) for x, y in zip(a, b, strict=True))

    def test_only_sampled_clients_change(self) -> None:
        simulation, _ = self.trained(self.world, 0, clients_per_round=0.5)
        before = simulation.clients.state.copy()
        record = simulation.play(evaluate=True)
        assert record.clients == self.world.n_users // 2
        assert record.validation is not None
        for name, values in simulation.clients.state.lines.items():
            moved = (values != before.lines[name]).reshape(len(values), -1).any(axis=1)
            assert moved.sum() <= record.clients, f"'{name}' moved on clients that took no part"
            assert moved.any(), f"'{name}' moved nowhere"
        for store in simulation.clients.state.rows.values():
            assert len(store) == record.clients

    def test_local_clients_learn_alone(self) -> None:
        data, few = self.world, range(6)
        together, at_together = self.trained(data, 3, local=True)
        alone, at_alone = self.trained(some_users(data, few), 3, local=True)
        assert not together.server.state.held, "the server holds an array, but nothing is aggregated"
        mine = scores(together, at_together, "own")[few]
        np.testing.assert_allclose(mine, scores(alone, at_alone, "own"), rtol=1e-4, atol=1e-5)

    def test_learns_the_two_tastes(self) -> None:
        data = self.world
        simulation, moment = self.trained(data, self.rounds, self.protocol)
        found = scores(simulation, moment, self.view)
        other_taste = np.arange(data.n_users)[:, None] % 2 != np.arange(data.n_items) % 2
        median = np.nanmedian(np.where(other_taste, found, np.nan), axis=1)
        withheld = found[simulation.clients.everyone, simulation.split.test]
        right = float((withheld > median).mean())
        assert right >= 0.9, f"the withheld item beats the median wrong one for {right:.0%} of the users only"

    def test_a_client_that_is_not_finite_is_dropped_and_stays_as_it_was(self) -> None:
        data = with_unknown_items(self.world, 2000)  # so many that some are drawn by one client only
        simulation, _ = self.trained(data, 0)
        user = poison(simulation)
        before = simulation.moment
        record = simulation.play(evaluate=True)
        assert record.dropped == 1
        assert np.isfinite(record.loss)
        for name, values in simulation.server.state.shared.items():
            came_in = np.isnan(before.server.shared[name])
            assert np.isfinite(values[~came_in]).all(), f"'{name}' is not finite"
        for name, values in simulation.clients.state.lines.items():
            moved = (values != before.devices.lines[name]).reshape(len(values), -1).any(axis=1)
            assert not moved[user], f"'{name}' of the dropped client moved"
            assert moved.sum() == data.n_users - 1, f"'{name}' of other clients did not move"


def _alike(mine: Arrays, theirs: Arrays, tolerance: float) -> None:
    """The same arrays, norm-wise; a tolerance of 0 is to the bit."""
    assert mine.keys() == theirs.keys()
    for name, values in theirs.items():
        assert mine[name].shape == values.shape, f"'{name}' has another shape"
        if tolerance == 0:
            assert _same(mine[name], values), f"'{name}' differs"
            continue
        far = float(np.linalg.norm((mine[name].astype(np.float64) - values).ravel()))
        size = float(np.linalg.norm(values.astype(np.float64).ravel()))
        assert far <= tolerance * max(size, 1e-3), f"'{name}' differs by {far / max(size, 1e-3):.1e}"
