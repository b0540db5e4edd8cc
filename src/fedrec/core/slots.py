"""Slots: the named arrays of a method, and who owns each.

``shared`` goes from the server to all clients · ``private`` stays on the device and persists ·
``fresh`` is private and made anew every round · ``server`` never leaves the server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec.core.rng import generator

Owner = Literal["shared", "private", "fresh", "server"]
Array = NDArray[np.float32]
Arrays = dict[str, Array]
Start = Callable[[np.random.Generator, tuple[int, ...]], NDArray[Any]]

START, FRESH = "start", "fresh"  # names of random streams


class Catalog(NamedTuple):
    """What a server may know of its federation, and devices are told: sizes, not who met what."""

    n_users: int
    n_items: int
    positives: float = 100.0  # items that a client trains on, on average
    ordered: bool = True  # devices know in which order their owners met things
    features: Array | None = None  # what is publicly known of items, a row each


@dataclass(frozen=True)
class Slot:
    """One array. With ``rows`` its first axis counts the items, and a client only ever holds touched rows."""

    owner: Owner
    shape: tuple[int, ...]
    start: Start
    rows: bool = False
    unknown: Literal["start", "zero"] = "start"  # a row of an item that an earlier run did not know
    bound: bool = False  # fits just these users and items: an earlier run's is of use to no others
    anew: bool = False  # a warm start does not take it from an earlier run
    reported: bool = False  # a private number whose sum over a round's clients is reported
    met: bool = False  # of private rows: only those of items that the owner met are ever read, moved or kept

    def size(self, of_a_row: bool = False) -> int:
        """How many numbers it has, or one of its rows."""
        return int(np.prod(self.shape[1:] if of_a_row else self.shape))

    def starting(self, name: str, seed: int) -> Array:
        """As it starts: a function of the seed and its name, so that all clients start alike."""
        return self._begin(generator(seed, f"{START}:{name}"))

    def freshly(self, name: str, seed: int, round: int) -> Array:
        """As it starts in a round, if it is made anew: alike for all clients, as the others do."""
        return self._begin(generator(seed, f"{FRESH}:{name}", round))

    def _begin(self, rng: np.random.Generator) -> Array:
        return self.start(rng, self.shape).astype(np.float32)


def shared(
    *shape: int,
    start: Start,
    rows: bool = False,
    unknown: Literal["start", "zero"] = "start",
    anew: bool = False,
) -> Slot:
    return Slot("shared", shape, start, rows, unknown, anew=anew)


def private(*shape: int, start: Start, rows: bool = False, reported: bool = False, met: bool = False) -> Slot:
    return Slot("private", shape, start, rows, reported=reported, met=met)


def fresh(*shape: int, start: Start) -> Slot:
    return Slot("fresh", shape, start)


def server(
    *shape: int,
    start: Start,
    rows: bool = False,
    unknown: Literal["start", "zero"] = "start",
    bound: bool = False,
    anew: bool = False,
) -> Slot:
    return Slot("server", shape, start, rows, unknown, bound, anew)


def sent(*shape: int, rows: bool = False) -> Slot:
    """An array of an upload, or of what is made for one client: it crosses the network and is nobody's."""
    return Slot("shared", shape, zeros(), rows)


def normal(std: float) -> Start:
    return lambda rng, shape: rng.normal(0.0, std, shape)


def uniform(bound: float) -> Start:
    """What PyTorch gives a linear layer of n inputs, with bound 1/sqrt(n)."""
    return lambda rng, shape: rng.uniform(-bound, bound, shape)


def zeros() -> Start:
    return lambda rng, shape: np.zeros(shape, np.float32)


def constant(value: Any) -> Start:
    """The same in every run: a number or an array."""
    return lambda rng, shape: np.broadcast_to(value, shape)
