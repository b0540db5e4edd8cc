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

Owner = Literal["shared", "private", "fresh", "server"]
Array = NDArray[np.float32]
Start = Callable[[np.random.Generator, tuple[int, ...]], NDArray[Any]]


class Catalog(NamedTuple):
    """The sizes a method is built for."""

    n_users: int
    n_items: int


@dataclass(frozen=True)
class Slot:
    """One array. With ``rows`` its first axis counts the items, and a client only ever holds touched rows."""

    owner: Owner
    shape: tuple[int, ...]
    start: Start
    rows: bool = False

    def begin(self, rng: np.random.Generator, rows: int | None = None) -> Array:
        shape = self.shape if rows is None else (rows, *self.shape[1:])
        return self.start(rng, shape).astype(np.float32)


def shared(*shape: int, start: Start, rows: bool = False) -> Slot:
    return Slot("shared", shape, start, rows)


def private(*shape: int, start: Start, rows: bool = False) -> Slot:
    return Slot("private", shape, start, rows)


def fresh(*shape: int, start: Start, rows: bool = False) -> Slot:
    return Slot("fresh", shape, start, rows)


def server(*shape: int, start: Start, rows: bool = False) -> Slot:
    return Slot("server", shape, start, rows)


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
