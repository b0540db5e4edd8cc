"""Clients that have never trained: a model from a handful of interactions, on the device alone.

Nothing is uploaded (but by MetaMF's) and the shared part stays as it is. FedALS and other methods that make the private
part anew solve it in closed form or reconstruct it; the others take a few local passes with the
items frozen. MetaMF's clients hold nothing: its server learns a vector of the newcomer. A client without
interactions gets what most clients have met.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.core.gradient import GradientMethod, Phase
from fedrec.core.slots import Array, Catalog
from fedrec.core.wrapper import Wrapper
from fedrec.data.split import Ragged, Split
from fedrec.engine.choose import choose_engine
from fedrec.engine.interface import Engine, Held
from fedrec.engine.meta import Meta
from fedrec.engine.state import State, begin
from fedrec.methods.fedpergnn import FedPerGNN
from fedrec.methods.metamf import MetaMF

PASSES = 20  # local passes of a gradient method: a newcomer has few samples, so they take milliseconds


class Frozen(Wrapper):
    """A gradient method whose clients train what is theirs and leave the shared part alone."""

    name: ClassVar[str] = "frozen"
    seams: ClassVar[tuple[str, ...]] = ("step",)

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        phases = self.base.plan(catalog, round)
        kept = [replace(p, groups=[g for g in p.groups if g.owner != "shared"]) for p in phases]
        return [phase for phase in kept if phase.groups]


@dataclass(frozen=True, eq=False)
class Newcomers:
    """Clients that joined, as a scorer: user c is the c-th of them."""

    likes: Ragged
    engine: Engine
    state: State
    held: Held
    popular: Array  # what clients without interactions rank by

    def all(self, users: NDArray[np.int64]) -> Array:
        scores = self.engine.score_all(self.state, self._of(users))
        scores[self._empty(users)] = self.popular
        return scores

    def some(self, users: NDArray[np.int64], items: NDArray[np.int32]) -> Array:
        scores = self.engine.score(self.state, self._of(users), items)
        empty = self._empty(users)
        scores[empty] = self.popular[items[empty]]
        return scores

    def _empty(self, users: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.diff(self.likes.indptr)[users] == 0

    def _of(self, users: NDArray[np.int64]) -> Held:
        rows = {}
        if self.held.rows:  # item rows that these devices keep
            rows = {n: store.get(users) for n, store in self.state.rows.items()}
        return Held(users, {n: v[users] for n, v in self.held.private.items()}, rows)


def join(
    method: Federated,
    state: State,
    split: Split,
    likes: Sequence[Sequence[int]],
    seed: int = 0,
    passes: int = PASSES,
) -> Newcomers:
    """New clients with these items (codes), from the shared part of a trained state."""
    if not state.shared and not state.server:
        raise FedrecError(f"this run of {method.label} shared nothing (--local): nobody can join it")
    parts = newcomers(split, likes)
    counts = np.bincount(split.trained.items, minlength=split.n_items).astype(np.float32)
    everyone, some = np.arange(parts.n_users), np.flatnonzero(np.diff(parts.train.indptr))
    if isinstance(method, MetaMF):
        maker = Meta(method, parts, seed)
        here = maker.welcome(state, some, passes)
        return Newcomers(parts.trained, maker, here, Held(everyone, {}, {}), counts)
    owners = {slot.owner for slot in method.slots(Catalog(1, 1)).values()}
    trains = isinstance(method, GradientMethod) and "private" in owners
    alone = _alone(method) if trains else method
    engine = choose_engine("plain" if trains else "auto", alone, parts, seed, local=False)
    here = begin(engine.slots, parts.n_users, seed)
    here = replace(here, round=state.round, shared=state.shared, server=state.server)
    private: dict[str, Array] = {}
    for number in range(1, passes + 1) if trains else ():
        here = _trained(engine, here, state.round + number, some)
        private = here.private
    if not trains or "fresh" in owners:
        private = private | _made(engine, here, some, parts.n_users)
    rows = {n: store.get(everyone) for n, store in here.rows.items()}
    return Newcomers(parts.trained, engine, here, Held(everyone, private, rows), counts)


def _alone(method: Federated) -> Federated:
    """The method as a newcomer trains it: what is shared stays as it is, and nothing is sent."""
    if isinstance(method, FedPerGNN):  # takes one step a pass, so that its move of the items is thrown away
        return method.model_copy(update={"neighbours": 0, "pseudo": 0, "noise": 0.0})
    return Frozen(base=method)


def _trained(engine: Engine, state: State, round: int, users: NDArray[np.int64]) -> State:
    """One local pass: like a round in which nothing is sent."""
    private = {n: v.copy() for n, v in state.private.items()}
    rows = dict(state.rows)
    for block in engine.blocks(users) if len(users) else []:
        fitted = engine.fit(state, round, block)
        for name, values in private.items():
            values[block] = fitted.private[name]
        for name, store in rows.items():
            assert fitted.rows is not None
            rows[name] = store.put(block, fitted.rows[name], keep_others=True)
    return replace(state, private=private, rows=rows)


def _made(engine: Engine, state: State, users: NDArray[np.int64], total: int) -> dict[str, Array]:
    """What needs no training: solved, or reconstructed."""
    private: dict[str, Array] = {}
    for block in engine.blocks(users) if len(users) else []:
        for name, values in engine.held(state, state.round, block, "global").private.items():
            whole = private.setdefault(name, np.zeros((total, *values.shape[1:]), np.float32))
            whole[block] = values
    for name, slot in engine.slots.items():
        if slot.owner in ("private", "fresh") and not slot.rows:
            private.setdefault(name, np.zeros((total, *slot.shape), np.float32))
    return private


def newcomers(split: Split, likes: Sequence[Sequence[int]]) -> Split:
    """A split of new clients alone: they train on what they like, and nothing is held out."""
    items: list[NDArray[Any]] = [np.unique(np.asarray(mine, dtype=np.int32)) for mine in likes]
    indptr = np.concatenate([[0], np.cumsum([len(i) for i in items])]).astype(np.int64)
    flat = np.concatenate([np.zeros(0, np.int32), *items])
    if len(flat) and not (flat.min() >= 0 and flat.max() < split.n_items):
        raise FedrecError(f"an item code is outside of the catalogue of {split.n_items} items")
    n = len(items)
    data = replace(
        split.data, indptr=indptr, items=flat, times=None, user_ids=-1 - np.arange(n, dtype=np.int64)
    )
    nothing = np.zeros(n, np.int32)
    # Only what the device knows may keep an item out of its negatives: it has no held-out items.
    protocol = split.protocol.model_copy(update={"negatives_from": "untrained"})
    return Split(data, protocol, split.seed, np.arange(n), Ragged(indptr, flat), nothing, nothing, 0)
