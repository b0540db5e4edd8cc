"""What every federated method must do, as tests to inherit: one class of a few lines per method.

    from fedrec.testing import MethodContract

    class TestFedMF(MethodContract):
        method = FedMF(dim=8)

Settings are those under which the method learns the small world of two tastes within ``rounds``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import tomli_w
from numpy.typing import NDArray
from pydantic import PrivateAttr

from fedrec.channel.stage import Stage
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated, View, outgoing
from fedrec.core.slots import Catalog
from fedrec.data.interactions import Interactions
from fedrec.data.split import split
from fedrec.data.worlds import two_tastes
from fedrec.engine.checkpoint import load_checkpoint, save_checkpoint
from fedrec.engine.round import Federation
from fedrec.engine.samples import draw_samples
from fedrec.engine.state import State
from fedrec.engine.upload import Upload
from fedrec.engine.views import Moment
from fedrec.methods import make, settings_of, spec_of

Arrays = dict[str, NDArray[Any]]


class Spy(Stage):
    """A stage of the channel that remembers what passes."""

    name: ClassVar[str] = "spy"
    single: ClassVar[bool] = True
    _seen: list[Upload] = PrivateAttr(default_factory=list)

    @property
    def seen(self) -> list[Upload]:
        return self._seen

    def on_device(self, upload: Upload) -> Upload:
        self._seen.append(upload)
        return upload


def trained(
    method: Federated, data: Interactions, rounds: int, protocol: str = "strict", **options: Any
) -> tuple[Federation, Moment]:
    """A federation after some rounds without evaluation, and its last round."""
    federation = Federation(method, split(data, protocol, options.get("seed", 0)), **options)
    before = federation.state
    for _ in range(rounds):
        before = federation.state
        federation.play(evaluate=False)
    return federation, Moment(before if federation.replays else None, federation.state)


def scores(federation: Federation, moment: Moment, view: View) -> NDArray[np.float32]:
    """Every client's scores of the whole catalogue."""
    return federation.scorer(moment, view).all(federation.everyone)


def arrays_of(state: State) -> Arrays:
    """Everything a state holds, by name."""
    held: dict[str, Arrays] = {"shared": state.shared, "server": state.server, "private": state.private}
    held |= {f"rows {name}": store.arrays() for name, store in state.rows.items()}
    return {f"{part}: {name}": array for part, arrays in held.items() for name, array in arrays.items()}


def different(a: State, b: State) -> list[str]:
    """Names of the arrays in which two states differ, to the bit."""
    mine, others = arrays_of(a), arrays_of(b)
    both = mine.keys() & others.keys()
    return [n for n in {**mine, **others} if n not in both or not _same(mine[n], others[n])]


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


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


def poison(federation: Federation) -> int:
    """Make a row that a single client will touch not finite; returns that client."""
    state, engine = federation.state, federation.engine
    catalog = Catalog(federation.split.n_users, federation.split.n_items)
    method, round = federation.method, state.round + 1
    plan = method.plan(catalog, round)
    held = draw_samples(
        federation.split, federation.seed, round, federation.everyone, plan, method.negatives
    ).held()
    lonely = np.flatnonzero(np.bincount(held.items) == 1)[0]
    user = int(np.searchsorted(held.indptr, np.flatnonzero(held.items == lonely)[0], side="right")) - 1
    table = next(name for name, slot in engine.slots.items() if slot.rows and slot.owner == "shared")
    rows = state.shared[table].copy()
    rows[lonely] = np.nan
    federation.state = replace(state, shared={**state.shared, table: rows})
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
    ) -> tuple[Federation, Moment]:
        return trained(self.method, data, rounds, protocol, engine_name=self.engine, **options)

    def test_says_what_it_is(self) -> None:
        for word in ("name", "citation", "use_when", "reveals"):
            assert getattr(self.method, word), f"the method has no {word}"

    def test_only_declared_uploads_reach_the_channel(self) -> None:
        spy = Spy()
        self.trained(self.world, 2, channel=[spy])
        slots, declared = self.method.slots(self.catalog()), self.method.uploads(self.catalog())
        assert spy.seen, "nothing was uploaded"
        for upload in spy.seen:
            for name, array in {**upload.rows, **upload.dense}.items():
                assert name in declared, f"'{name}' was uploaded and is not declared"
                assert name not in slots or slots[name].owner == "shared", f"'{name}' is not shared"
                count = len(upload.held.items) if declared[name].rows else upload.clients
                shape = declared[name].shape[1:] if declared[name].rows else declared[name].shape
                assert array.shape == (count, *shape), f"'{name}' is uploaded in another shape than declared"

    def test_private_slots_and_undeclared_arrays_cannot_leave(self) -> None:
        slots = self.method.slots(self.catalog())
        kept = [name for name, slot in slots.items() if slot.owner != "shared"]
        for name in [*kept, "something else"]:
            with pytest.raises(FedrecError, match=f"'{name}' is .* may not leave a client"):
                outgoing(self.method, self.catalog(), {name: np.zeros(1)})

    def test_state_survives_a_checkpoint(self, tmp_path: Path) -> None:
        going_on, _ = self.trained(self.world, 2, clients=0.5)
        save_checkpoint(tmp_path / "checkpoint", going_on.state, None)
        resumed, _ = self.trained(self.world, 0, clients=0.5)
        resumed.state, _ = load_checkpoint(tmp_path / "checkpoint")
        assert resumed.state.round == 2
        assert different(resumed.state, going_on.state) == []
        for federation in (resumed, going_on):
            federation.play(evaluate=False)
        assert different(resumed.state, going_on.state) == [], "they part after the checkpoint"

    def test_settings_survive_the_config(self) -> None:
        written = tomli_w.dumps(settings_of(self.method))
        assert make(spec_of(self.method), tomllib.loads(written)) == self.method

    def test_unknown_items_and_new_clients_have_finite_scores(self) -> None:
        data = with_unknown_items(self.world, 5)
        federation, moment = self.trained(data, 2, clients=1)
        for view in federation.views:
            found = scores(federation, moment, view)
            assert found.shape == (data.n_users, data.n_items)
            assert np.isfinite(found).all(), f"not finite under view {view}"

    def test_scores_are_finite_under_every_view(self) -> None:
        federation, moment = self.trained(self.world, 3)
        for view in federation.views:
            assert np.isfinite(scores(federation, moment, view)).all(), f"not finite under view {view}"

    def test_same_seed_same_bits_and_another_seed_others(self) -> None:
        first, again, other = (self.trained(self.world, 2, seed=seed)[0] for seed in (0, 0, 1))
        assert different(first.state, again.state) == []
        assert different(first.state, other.state), "the seed changes nothing"

    def test_one_thread_and_many_give_the_same_bits(self) -> None:
        one, at_one = self.trained(self.large_world, 2, threads=1)
        many, at_many = self.trained(self.large_world, 2, threads=4)
        assert len(one.engine.blocks(one.everyone)) > 1, "one block cannot tell"
        assert different(one.state, many.state) == []
        for view in one.views:
            a, b = one.ranks(at_one, "test", view), many.ranks(at_many, "test", view)
            assert all(_same(x, y) for x, y in zip(a, b, strict=True))

    def test_only_sampled_clients_change(self) -> None:
        federation, _ = self.trained(self.world, 0, clients=0.5)
        before = federation.state
        record = federation.play(evaluate=True)
        assert record.clients == federation.cohort == self.world.n_users // 2
        assert record.validation is not None
        for name, values in federation.state.private.items():
            moved = (values != before.private[name]).reshape(len(values), -1).any(axis=1)
            assert moved.sum() <= federation.cohort, f"'{name}' moved on clients that took no part"
            assert moved.any(), f"'{name}' moved nowhere"
        for store in federation.state.rows.values():
            assert len(store) == federation.cohort

    def test_local_clients_learn_alone(self) -> None:
        data, few = self.world, range(6)
        together, at_together = self.trained(data, 3, local=True)
        alone, at_alone = self.trained(some_users(data, few), 3, local=True)
        assert not together.state.shared, "a shared array exists, but nothing is aggregated"
        mine = scores(together, at_together, "own")[few]
        np.testing.assert_allclose(mine, scores(alone, at_alone, "own"), rtol=1e-4, atol=1e-5)

    def test_learns_the_two_tastes(self) -> None:
        data = self.world
        federation, moment = self.trained(data, self.rounds, self.protocol)
        found = scores(federation, moment, self.view)
        other_taste = np.arange(data.n_users)[:, None] % 2 != np.arange(data.n_items) % 2
        median = np.nanmedian(np.where(other_taste, found, np.nan), axis=1)
        withheld = found[federation.everyone, federation.split.test]
        right = float((withheld > median).mean())
        assert right >= 0.9, f"the withheld item beats the median wrong one for {right:.0%} of the users only"

    def test_a_client_that_is_not_finite_is_dropped_and_stays_as_it_was(self) -> None:
        data = with_unknown_items(self.world, 2000)  # so many that some are drawn by one client only
        federation, _ = self.trained(data, 0)
        user = poison(federation)
        before = federation.state
        record = federation.play(evaluate=True)
        assert record.dropped == 1
        assert np.isfinite(record.loss)
        for name, values in federation.state.shared.items():
            came_in = np.isnan(before.shared[name])
            assert np.isfinite(values[~came_in]).all(), f"'{name}' is not finite"
        for name, values in federation.state.private.items():
            moved = (values != before.private[name]).reshape(len(values), -1).any(axis=1)
            assert not moved[user], f"'{name}' of the dropped client moved"
            assert moved.sum() == data.n_users - 1, f"'{name}' of other clients did not move"
