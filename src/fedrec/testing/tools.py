"""What tests of methods look with: a spy in the channel, trained simulations, worlds that are changed a little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import PrivateAttr

from fedrec.channel.stage import Rng, Stage
from fedrec.core.federated import Federated, View
from fedrec.core.upload import Upload, Uploads
from fedrec.data.interactions import Interactions
from fedrec.data.samples import draw_samples
from fedrec.data.split import split
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
    return [n for n in {**mine, **others} if n not in both or not same(mine[n], others[n])]


def same(a: NDArray[Any], b: NDArray[Any]) -> bool:
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


def poison(simulation: Simulation) -> int:
    """Make the rows of an item that a single client will touch not finite; returns that client."""
    clients, server = simulation.clients, simulation.server
    round = server.state.round + 1
    plan = simulation.method.plan(simulation.split.catalog, round)
    touched = draw_samples(clients.data, simulation.seed, round, clients.everyone, plan).items()
    lonely = np.flatnonzero(np.bincount(touched.items) == 1)[0]
    user = int(np.searchsorted(touched.indptr, np.flatnonzero(touched.items == lonely)[0], side="right")) - 1
    shared = dict(server.state.shared)
    for table in (name for name, slot in clients.slots.items() if slot.rows and slot.owner == "shared"):
        shared[table] = shared[table].copy()
        shared[table][lonely] = np.nan
    server.state = replace(server.state, shared=shared)
    return user


def check_alike(mine: Arrays, theirs: Arrays, tolerance: float) -> None:
    """The same arrays, norm-wise; a tolerance of 0 is to the bit."""
    assert mine.keys() == theirs.keys()
    for name, values in theirs.items():
        assert mine[name].shape == values.shape, f"'{name}' has another shape"
        if tolerance == 0:
            assert same(mine[name], values), f"'{name}' differs"
            continue
        far = float(np.linalg.norm((mine[name].astype(np.float64) - values).ravel()))
        size = float(np.linalg.norm(values.astype(np.float64).ravel()))
        assert far <= tolerance * max(size, 1e-3), f"'{name}' differs by {far / max(size, 1e-3):.1e}"
