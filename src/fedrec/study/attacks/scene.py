"""What an adversary attacks: a federation before one of its rounds, played by its own two halves.

Uploads, sums and released tables come from ``Clients`` and ``Server`` through the run's channel; nothing of a method is
written again here. Noise is drawn anew wherever an attack looks twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec.channel.local import Local
from fedrec.channel.secure import Secure
from fedrec.channel.stage import drawn_for_sum, received
from fedrec.clients.clients import Ask, Clients
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.core.ragged import Ids
from fedrec.core.rng import generator
from fedrec.core.slots import Arrays
from fedrec.core.upload import Total, Upload
from fedrec.data.split import Split
from fedrec.runs.api import training_of
from fedrec.runs.config import RunConfig
from fedrec.simulate.simulation import Simulation

Tell = Callable[[str], None]


class Seen(NamedTuple):
    """What reaches the server of one client, or of a sum: of tables a row for every item, zero where none was sent."""

    tables: Arrays
    dense: Arrays

    @property
    def rows(self) -> NDArray[np.float64]:
        """The tables side by side."""
        flat = [np.asarray(v, np.float64).reshape(len(v), -1) for v in self.tables.values()]
        return np.concatenate(flat, axis=1)


@dataclass
class Scene:
    """A run's description, and what its server sees in its last round."""

    method: Federated
    parts: Split
    config: RunConfig
    threads: int = 1
    targets: int = 100
    shadows: int = 32
    tell: Tell = field(default=lambda text: None)

    @property
    def rounds(self) -> int:
        assert self.config.rounds is not None
        return self.config.rounds

    def rng(self, purpose: str) -> np.random.Generator:
        return generator(self.config.seed, f"attack {purpose}")

    def simulation(self, parts: Split | None = None) -> Simulation:
        made = training_of(self.method, parts or self.parts, self.config, self.threads)
        assert isinstance(made, Simulation)
        return made

    @cached_property
    def now(self) -> Simulation:
        """Before the round that is attacked, the last one."""
        self.tell(f"{self.method.label}: training")
        simulation = self.simulation()
        for _ in range(self.rounds - 1):
            simulation.play(evaluate=False)
        return simulation

    def allowed(self, histories: int) -> tuple[float, float | None]:
        """δ, and the ε that the accountant states between the two worlds of a game; None where it states none.

        ``histories``: 1 where a user is there or not, 2 where a user has one history or another. Between two
        histories a guarantee for taking a user away holds twice over: away, and back with the other one.
        """
        budget = self.now.budget
        if budget is None:
            return 0.0, None
        epsilon, delta = budget.spent(self.rounds), budget.at
        if isinstance(budget.noise, Local):  # hides what is sent, not that something is
            return delta, epsilon if histories == 2 else None
        if histories == 2:
            return min(delta * (1 + math.exp(min(epsilon, 50.0))), 1.0), 2 * epsilon
        return delta, epsilon

    @cached_property
    def users(self) -> Ids:
        """The people that are attacked."""
        count = min(self.targets, self.parts.n_users)
        return np.sort(self.rng("targets").choice(self.parts.n_users, count, replace=False))

    @cached_property
    def truth(self) -> dict[int, NDArray[np.int32]]:
        """What the targets trained on."""
        return {int(user): self.parts.trained.of(int(user)) for user in self.users}

    # -- single uploads ------------------------------------------------------------------------

    @cached_property
    def devices(self) -> Clients:
        """The devices as they are: each plays its half of the channel by itself, without a simulator's shortcut."""
        return self.devices_of(self.parts, self.now.clients.state)

    def devices_of(self, parts: Split, state: object = None) -> Clients:
        catalog, seed = self.now.server.catalog, self.config.seed
        tuned = bool(self.now.clients.tuned)
        made = Clients(
            self.method, parts.clients(), catalog, seed, secret=seed, channel=self.now.channel,
            engine=self.config.engine, keeps_tuned=tuned, threads=self.threads,
        )  # fmt: skip
        if state is not None:
            made.state = state  # type: ignore[assignment]
        return made

    def upload(self, user: int, devices: Clients | None = None) -> Seen:
        """What the server gets from one device in this round; behind ``secure`` it bears that device's mask."""
        devices, server = devices or self.devices, self.now.server
        who = np.array([user])
        (answer,) = devices.fit(server.broadcast(self.rounds), who, Ask(single=True))
        devices.drop()
        sent, uploads = answer.reply.sent, server.uploads
        if isinstance(sent, Upload):
            if not sent.clients:
                raise FedrecError(f"the upload of user {user} is not finite: nothing leaves that device")
            whole = sent.whole(uploads)
            return Seen(whole.rows, {n: v[0] for n, v in whole.dense.items()})
        assert server.grid is not None
        if any(isinstance(stage, Secure) for stage in self.now.channel):
            rng = self.rng(f"masks of {user}")  # to whoever has not the keys, a mask is uniform in the ring
            full = np.iinfo(np.int64)
            masks = {
                n: rng.integers(full.min, full.max, v.shape, endpoint=True) for n, v in sent.sums.items()
            }
            with np.errstate(over="ignore"):
                sent = replace(sent, sums={n: v + masks[n] for n, v in sent.sums.items()})
        return self.split_up({n: server.grid.decode(v) for n, v in sent.sums.items()})

    @cached_property
    def uploads(self) -> dict[int, Seen]:
        """Of all targets."""
        return {int(user): self.upload(int(user)) for user in self.users}

    # -- sums ----------------------------------------------------------------------------------

    def split_up(self, arrays: Arrays) -> Seen:
        tables = {n for n, slot in self.now.server.sums.items() if slot.rows}
        return Seen(
            {n: v for n, v in arrays.items() if n in tables},
            {n: v for n, v in arrays.items() if n not in tables},
        )

    def total(self, users: Ids) -> Total:
        """The sum of some clients' uploads as it arrives, before a server's noise or a simulator's shortcut."""
        server, clients = self.now.server, self.now.clients
        total = server.empty()
        told = server.broadcast(self.rounds)
        for answer in clients.fit(told, users, Ask(self.now.single), server.receive):
            total.add(answer.reply.sent)  # type: ignore[arg-type]
        clients.drop()
        return total

    def released(self, total: Total, draw: int) -> Total:
        """What anybody sees of a sum: with the channel's noise, drawn anew for every number."""
        now, seed = self.now, self.config.seed + 1
        uploads = now.server.uploads.at(self.rounds, now.server.cohort_size)
        total = drawn_for_sum(now.channel, total, uploads, seed, draw, now.server.shortcut)
        return received(now.channel, total, uploads, seed, draw)
