"""What every federated method must do: ``MethodContract``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import tomli_w

from fedrec.clients.clients import Clients
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated, View
from fedrec.core.slots import Catalog
from fedrec.core.upload import Upload, check_name
from fedrec.data.interactions import Interactions
from fedrec.data.split import Split, split
from fedrec.data.worlds import two_tastes
from fedrec.methods import make, settings_of, spec_of
from fedrec.server.server import Server
from fedrec.simulate.checkpoint import load_checkpoint, save_checkpoint
from fedrec.simulate.moment import Moment
from fedrec.simulate.simulation import Simulation
from fedrec.testing.fleet import fleet, reachable
from fedrec.testing.tools import (
    Spy,
    check_alike,
    different,
    poison,
    same,
    scores,
    some_users,
    trained,
    with_unknown_items,
)


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
        return two_tastes(users=150)

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
        exact = (
            compiled and simulation.server.uploads.turns == 1
        )  # once the server has stepped on sums, these are rounded otherwise
        spied.play(evaluate=False)
        blocks = spied.clients.engine.blocks
        groups = spied.server.groups(1, spied.server.cohort(1))
        order = np.concatenate([np.concatenate(blocks(group)) for group in groups])
        simulation.play(evaluate=False)
        alone.play()
        sends = bool(simulation.server.uploads.arrays)  # FedRAP's personal part alone sends nothing
        for user, theirs in zip(order.tolist() if sends else [], spy.seen, strict=True):
            mine = alone.uploads[1, user]
            assert isinstance(mine, Upload)
            tolerance = 0 if compiled and user in groups[0] else 1e-4
            check_alike({**mine.rows, **mine.dense}, {**theirs.rows, **theirs.dense}, tolerance)
            assert same(mine.items.items, theirs.items.items)
        check_alike(alone.server.state.held, simulation.server.state.held, 1e-6 if exact else 1e-4)
        simulation.play(evaluate=False)
        alone.play()
        check_alike(alone.server.state.held, simulation.server.state.held, 1e-5 if exact else 1e-3)
        for name, lines in simulation.clients.state.lines.items():
            mine_too = np.concatenate([phone.state.lines[name] for phone in alone.phones])
            check_alike({name: mine_too}, {name: lines}, 1e-5 if exact else 1e-3)
        for name, store in simulation.clients.state.rows.items():
            for user, phone in enumerate(alone.phones):
                theirs_too = store.get(np.array([user])).values
                check_alike(
                    {name: phone.state.rows[name].get(np.array([0])).values}, {name: theirs_too}, 1e-3
                )

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
            assert all(same(x, y) for x, y in zip(a, b, strict=True))

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
        withheld = found[simulation.clients.everyone, simulation.exam.test]
        right = float((withheld > median).mean())
        assert right >= 0.9, f"the withheld item beats the median wrong one for {right:.0%} of the users only"

    def test_a_client_that_is_not_finite_is_dropped_and_stays_as_it_was(self) -> None:
        data = with_unknown_items(self.world, 2000)  # so many that some are drawn by one client only
        simulation, _ = self.trained(data, 0)
        user = poison(simulation)
        before = simulation.moment
        record = simulation.play(evaluate=True)
        assert record.dropped == 1
        assert record.loss is not None
        assert np.isfinite(record.loss)
        for name, values in simulation.server.state.shared.items():
            came_in = np.isnan(before.server.shared[name])
            assert np.isfinite(values[~came_in]).all(), f"'{name}' is not finite"
        for name, values in simulation.clients.state.lines.items():
            moved = (values != before.devices.lines[name]).reshape(len(values), -1).any(axis=1)
            assert not moved[user], f"'{name}' of the dropped client moved"
            assert moved.sum() == data.n_users - 1, f"'{name}' of other clients did not move"
