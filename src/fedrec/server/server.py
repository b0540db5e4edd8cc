"""The server half of a federation: shared and server slots, and nothing of any device.

It names a cohort, tells it a ``Broadcast``, adds up what comes back, and steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedrec.channel.order import check_order, states_epsilon
from fedrec.channel.robust import Gathered, defended
from fedrec.channel.secure import grid_of
from fedrec.channel.stage import Draw, Stage, drawn_for_sum, received
from fedrec.core.aligned import aligned
from fedrec.core.blocks import single_threaded_blas
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Context, Federated, Introduced, Pull
from fedrec.core.files import replacing
from fedrec.core.messages import Broadcast, Reply
from fedrec.core.ragged import Ids
from fedrec.core.rng import generator
from fedrec.core.slots import Arrays, Catalog
from fedrec.core.upload import Total, Upload, summed
from fedrec.server.cohort import groups, sample_cohort

DEFENCE = "defence"  # name of the random stream of groups


@dataclass(frozen=True)
class ServerState:
    """What the server holds after so many rounds. A value: a step makes a new one."""

    round: int
    shared: Arrays
    server: Arrays

    @property
    def held(self) -> Arrays:
        return {**self.shared, **self.server}


class Server:
    """Plays the server's part of every round."""

    def __init__(
        self,
        method: Federated,
        catalog: Catalog,
        seed: int = 0,
        *,
        cohort_size: int | None = None,
        channel: Sequence[Stage] = (),
        shortcut: int = 0,
        local: bool = False,
        draw: Draw = generator,
    ) -> None:
        """``shortcut``: so many of the last stages devices leave out; what they would do is drawn for the sum.
        ``draw``: what the server's own noise is drawn with."""
        self.method, self.catalog, self.seed = method, catalog, seed
        self.cohort_size = catalog.n_users if cohort_size is None else cohort_size
        self.channel, self.shortcut, self.local, self.draw = tuple(channel), shortcut, local, draw
        self.grid = grid_of(self.channel, catalog.n_users)
        self.uploads = method.uploads(catalog)
        self.service = method.service(catalog, seed)
        check_order(self.channel)
        self.private = states_epsilon(self.channel)
        self.defences = tuple(stage for stage in self.channel if stage.looks)
        for stage in self.defences:
            if reason := stage.unsuited(self.uploads):
                raise FedrecError(f"channel '{stage.name}' does not apply to {method.label}: {reason}")
        if self.service is not None:
            self._refuse_hidden()
        self.sums = self.service.sums if self.service else self.uploads.arrays
        self.slots = method.slots(catalog)
        started = {} if local else {n: s for n, s in self.slots.items() if s.owner in ("shared", "server")}
        arrays = {n: s.starting(n, seed) for n, s in started.items()}
        shared = {n: aligned(v) for n, v in arrays.items() if started[n].owner == "shared"}
        self.state = ServerState(0, shared, {n: v for n, v in arrays.items() if n not in shared})
        self._pulls: dict[bytes, Pull] = {}

    def _refuse_hidden(self) -> None:
        for stage in self.channel:
            if stage.guarantees:
                raise FedrecError(
                    f"channel '{stage.name}' can state no epsilon for {self.method.label}, whose server looks at "
                    "single uploads: leave it out, or run another method"
                )
            if stage.looks:
                raise FedrecError(
                    f"channel '{stage.name}' weighs uploads before they are added up, and the server of "
                    f"{self.method.label} does not add them up: leave it out"
                )
            if stage.hides_single:
                raise FedrecError(
                    f"channel '{stage.name}' shows the server nothing but sums, but the server of "
                    f"{self.method.label} looks at single uploads: leave it out"
                )

    def like_this(self, found: ServerState, source: str) -> ServerState:
        """What this server can go on from, or a sentence: another version of a method may hold other arrays."""
        shapes = [{n: v.shape for n, v in state.held.items()} for state in (found, self.state)]
        if shapes[0] != shapes[1]:
            raise FedrecError(f"{source} was written by another server than this: its arrays differ")
        return found

    def meet(self, introduced: Introduced | None) -> None:
        """Devices introduce themselves, before the first round."""
        if self.service is not None and not self.local:
            held = self.service.meet(self.state.held, introduced)
            if self.state.round == 0:  # later the server holds what it has learned since
                self.state = self._with(self.state.round, held)

    # -- a round -------------------------------------------------------------------------------

    def cohort(self, round: int) -> Ids:
        """Who is asked in a round, by the server's numbers."""
        return sample_cohort(self.seed, round, self.catalog.n_users, self.cohort_size, poisson=self.private)

    def groups(self, round: int, users: Ids) -> list[Ids]:
        """The cohort in the groups that it sends in; the server steps after each."""
        return groups(self.seed, round, users, self.uploads.turns)

    def broadcast(self, round: int, ids: Ids | None = None) -> Broadcast:
        """What goes down for a round. ``ids`` are the server's numbers of the clients that are told, in the
        clients' own order."""

        state = self.state

        def given(users: Ids) -> Arrays:
            names = users if ids is None else ids[users]
            made, pull = self._give(state, names)
            if pull is not None:  # an upload will come back
                self._pulls[names.tobytes()] = pull
            return made

        return Broadcast(round, state.shared, given)

    def standing(self, state: ServerState | None = None, ids: Ids | None = None) -> Broadcast:
        """What clients rank with between two rounds: the shared arrays of a state, by default of now."""
        at = self.state if state is None else state
        return Broadcast(
            at.round, at.shared, lambda users: self._give(at, users if ids is None else ids[users])[0]
        )

    def _give(self, state: ServerState, ids: Ids) -> tuple[Arrays, Pull | None]:
        if self.service is None:
            return {}, None
        if self.local:
            return self.service.give_alone(len(ids)), None
        return self.service.give(state.held, ids)

    def receive(self, reply: Reply, block: Ids, ids: Ids | None = None) -> Reply:
        """A reply as what is added up; ``block`` are the clients that were asked together (``ids`` as told)."""
        if not isinstance(reply.sent, Upload) or self.defences:
            return reply
        if self.service is None:
            return replace(reply, sent=summed(reply.sent, self.sums))
        pull = self._pulls.pop((block if ids is None else ids[block]).tobytes(), None)
        if pull is None:
            raise FedrecError(f"a reply that nobody asked for, of {len(block)} clients: it is not added")
        return replace(reply, sent=pull(reply.sent, np.flatnonzero(np.isin(block, reply.users))))

    def empty(self) -> Total:
        sums = {} if self.local else self.sums
        if self.defences and not self.local:
            return Gathered({})
        return Total.empty(sums) if self.grid is None else self.grid.empty(sums)

    def step(self, total: Total, round: int, turn: int = 0) -> None:
        """Merge what a group of clients sent. The round is over when all groups have stepped."""
        number = round * self.uploads.turns + turn
        uploads = self.uploads.at(round, self.cohort_size, self.state.shared)
        if isinstance(total, Gathered):
            rng = generator(self.seed, DEFENCE, number)
            with single_threaded_blas():
                total = defended(self.defences, total, uploads, self.sums, rng)
        if self.shortcut:
            total = drawn_for_sum(self.channel, total, uploads, self.seed, number, self.shortcut)
        total = received(self.channel, total, uploads, self.seed, number, self.draw)
        if self.private:  # who came is nobody's business: a mean is over those who were expected
            total = replace(total, weight=float(self.cohort_size), clients=self.cohort_size)
        if not total.clients or not total.sums:
            return
        noise = {n: math.hypot(*(s.deviation(uploads, n) for s in self.channel), 0.0) for n in self.sums}
        context = Context(round, self.catalog, noise)
        with single_threaded_blas():  # its threads change the last bits
            self.state = self._with(self.state.round, self._merged(total, context))

    def _merged(self, total: Total, context: Context) -> Arrays:
        """What the method makes of it; earlier states share arrays with this one, so that it may write to none."""
        label, held = self.method.label, self.state.held
        views = {n: v.view() for n, v in held.items()}
        for view in views.values():
            view.setflags(write=False)
        try:
            merged = self.method.merge(views, total, context)
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            raise FedrecError(
                f"'merge' of {label} writes into what the server holds: return new arrays"
            ) from error
        for name, values in held.items():
            if name not in merged:
                raise FedrecError(
                    f"'merge' of {label} does not return '{name}': return all that the server holds"
                )
            if merged[name].shape != values.shape:
                raise FedrecError(
                    f"'merge' of {label} returns '{name}' in shape {merged[name].shape}, not {values.shape}"
                )
        return {n: v if merged[n] is views[n] else np.asarray(merged[n], np.float32) for n, v in held.items()}

    def finish(self, round: int) -> None:
        """All groups of a round have stepped."""
        self.state = replace(self.state, round=round)
        self._pulls.clear()

    def _with(self, round: int, held: Arrays) -> ServerState:
        shared, server = ({n: held[n] for n in part} for part in (self.state.shared, self.state.server))
        return ServerState(round, {n: aligned(v) for n, v in shared.items()}, server)

    # -- files ---------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        with replacing(path) as file:
            np.savez(file, **pack(self.state))

    def load(self, path: Path) -> None:
        with np.load(path, allow_pickle=False) as stored:
            found = unpack(stored)
        shapes = [{n: v.shape for n, v in state.held.items()} for state in (found, self.state)]
        if shapes[0] != shapes[1]:
            raise FedrecError(f"{path} was written by another server than this one: their arrays differ")
        self.state = found


def pack(state: ServerState, prefix: str = "") -> dict[str, Any]:
    arrays: dict[str, Any] = {f"{prefix}round": np.array(state.round)}
    arrays |= {f"{prefix}shared/{n}": v for n, v in state.shared.items()}
    return arrays | {f"{prefix}server/{n}": v for n, v in state.server.items()}


def unpack(stored: Any, prefix: str = "") -> ServerState:
    parts: dict[str, Arrays] = {"shared": {}, "server": {}}
    for key in stored:
        kind, _, name = key.removeprefix(prefix).partition("/")
        if key.startswith(prefix) and kind in parts:
            parts[kind][name] = stored[key]
    return ServerState(int(stored[f"{prefix}round"]), parts["shared"], parts["server"])
