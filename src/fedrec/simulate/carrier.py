"""How a driver reaches its workers. ``Here`` has them in this process; ``onray`` has them on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from fedrec.core.slots import Arrays
from fedrec.simulate.worker import Worker


class Lost(Exception):
    """A worker, or what it had made, is gone."""


class Carrier(Protocol):
    """Some workers, numbered from 0."""

    name: str
    count: int

    def room(self, broadcast: int, sums: int) -> None:
        """Refuses where so many bytes, down and up a worker, do not fit on their way."""
        ...

    def put(self, arrays: Arrays) -> Any:
        """Arrays for all workers; a handle for ``call``."""
        ...

    def call(self, worker: int, command: str, args: tuple[Any, ...], tables: Mapping[int, Any]) -> Any:
        """Ask a worker; a promise for ``get``. ``tables`` are handles by number."""
        ...

    def get(self, promise: Any) -> Any:
        """The answer, or ``Lost``."""
        ...

    def replace(self, worker: int) -> None:
        """A new worker in the place of a lost one: it knows nothing."""
        ...

    def close(self) -> None: ...


class Here:
    """Workers one after another in this process: the same bits as anywhere, for tests and for a look."""

    name = "threads"

    def __init__(self, count: int) -> None:
        self.count = count
        self.workers: list[Worker | None] = [Worker() for _ in range(count)]

    def room(self, broadcast: int, sums: int) -> None:
        pass

    def put(self, arrays: Arrays) -> Arrays:
        return arrays

    def call(self, worker: int, command: str, args: tuple[Any, ...], tables: Mapping[int, Any]) -> Any:
        found = self.workers[worker]
        return Lost() if found is None else found.do(command, args, tables)

    def get(self, promise: Any) -> Any:
        if isinstance(promise, Lost):
            raise promise
        return promise

    def kill(self, worker: int) -> None:
        self.workers[worker] = None

    def replace(self, worker: int) -> None:
        self.workers[worker] = Worker()

    def close(self) -> None:
        pass
