"""Workers on a Ray cluster, or in processes that Ray starts here. All that knows Ray.

Moritz et al., "Ray: A Distributed Framework for Emerging AI Applications", OSDI 2018. A worker is an actor; tables
go down and sums come up through Ray's store of objects.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.slots import Arrays
from fedrec.simulate.carrier import Lost
from fedrec.simulate.worker import Worker

LOOPBACK = "127.0.0.1"
TRYOUT = "127.0.0.2"  # loopback too; Ray takes 127.0.0.1 for the machine's address in the network
PATIENCE = 5.0  # seconds until an address has answered
TRIES = 3  # to start Ray
STORE = 512  # megabytes of objects, where Ray is started here
MEGABYTE = 1 << 20
SETTINGS = b"\x04"  # the kind of an HTTP/2 frame, after three bytes of its length
FIRST_WORDS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + SETTINGS + bytes(5)


def library() -> Any:
    """Ray, if it is installed; what is started here reports to nobody, and its workers are no less urgent than it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # of which its newer versions warn
    try:
        import ray
    except ImportError:
        raise FedrecError("workers on Ray need Ray: pip install 'fedrec[ray]', on every node") from None
    return ray


class Hand:
    """What runs in a process of Ray's: a worker that is reached by messages."""

    def __init__(self) -> None:
        self.worker = Worker()

    def do(self, command: str, args: tuple[Any, ...], numbers: list[int], *tables: Arrays) -> Any:
        return self.worker.do(command, args, dict(zip(numbers, tables, strict=True)))

    def process(self) -> int:
        return os.getpid()


class OnRay:
    """Workers as actors, spread over the nodes."""

    name = "ray"

    def __init__(self, address: str | None, count: int | None, store: int | None = None) -> None:
        self.ray = library()
        self.started = not self.ray.is_initialized()
        if self.started:
            self._connect(address, store)
        try:
            there = self._same_version()
            self.count = count or there
            self.cpus = int(self.ray.cluster_resources().get("CPU", 1))
            self.actors = [self._hired(worker) for worker in range(self.count)]
        except BaseException:
            self.close()
            raise

    def _connect(self, address: str | None, store: int | None) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address is None:
            here = {"_node_ip_address": LOOPBACK, "object_store_memory": (store or STORE) * MEGABYTE}
            patiently(lambda: self.ray.init(include_dashboard=False, **here, **quiet), self.ray.shutdown)
            return
        if store is not None:
            raise FedrecError("store=… is for a Ray that is started here: leave it out beside an address")
        _answers(address)
        host = address.rpartition(":")[0]
        if host.startswith("127.") and host != LOOPBACK:
            quiet["_node_ip_address"] = host
        try:
            self.ray.init(address=address, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise FedrecError(f"no Ray cluster answers at {address}: {str(error).splitlines()[0]}") from None

    def _nodes(self) -> list[dict[str, Any]]:
        """Those that are there, in one order: Ray tells them in another one each time."""
        return sorted((node for node in self.ray.nodes() if node["Alive"]), key=lambda node: node["NodeID"])

    def _at(self, node: dict[str, Any], soft: bool) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(node["NodeID"], soft=soft)

    def _same_version(self) -> int:
        """Before a worker starts anywhere: the same fedrec must be on every node. How many nodes answer."""

        def look() -> str | None:  # sent as code: it must run where fedrec is missing
            try:
                import fedrec
            except ImportError:
                return None
            return fedrec.__version__

        task, answered = self.ray.remote(look), 0
        asked = [
            (node, task.options(num_cpus=0, scheduling_strategy=self._at(node, soft=False)).remote())
            for node in self._nodes()
        ]
        for node, promise in asked:
            try:
                found = self.ray.get(promise)
            except self.ray.exceptions.RayError:  # it went away, and this is not known everywhere yet
                continue
            answered += 1
            if found != fedrec.__version__:
                has = "no fedrec" if found is None else f"fedrec {found}"
                raise FedrecError(
                    f"node {node['NodeManagerAddress']} has {has} and this is {fedrec.__version__}: install the same "
                    "on every node"
                )
        return max(answered, 1)

    def _hired(self, worker: int) -> Any:
        """On nodes in turn. No CPUs are asked for: when a node goes its workers must find a place elsewhere."""
        nodes = self._nodes()
        there = self._at(nodes[worker % len(nodes)], soft=True)
        return self.ray.remote(Hand).options(num_cpus=0, scheduling_strategy=there).remote()

    def threads(self) -> int:
        """What a worker has where nothing else is asked for: its share of the CPUs."""
        return max(1, self.cpus // self.count)

    def room(self, broadcast: int, sums: int) -> None:
        nodes = len(self._nodes())
        there = self.ray.cluster_resources().get("object_store_memory", 0) / nodes
        needed = 2 * broadcast + sums * -(-self.count // nodes)  # tables of two rounds; a sum of each worker
        if needed > there:
            raise FedrecError(
                f"Ray's store of objects has {there / MEGABYTE:,.0f} MB on a node and a round needs "
                f"{needed / MEGABYTE:,.0f}: start Ray with a larger --object-store-memory (here: --workers "
                f"ray,store={-(-needed // MEGABYTE) + 1})"
            )

    def put(self, arrays: Arrays) -> Any:
        return self.ray.put(arrays)

    def call(self, worker: int, command: str, args: tuple[Any, ...], tables: Mapping[int, Any]) -> Any:
        try:
            return self.actors[worker].do.remote(command, args, list(tables), *tables.values())
        except self.ray.exceptions.RayActorError:
            return Lost()

    def get(self, promise: Any) -> Any:
        gone = self.ray.exceptions
        if isinstance(promise, Lost):
            raise promise
        try:
            return self.ray.get(promise)
        except gone.ObjectStoreFullError:
            raise FedrecError("Ray's store of objects is full: start Ray with a larger one") from None
        except (
            gone.RayActorError,
            gone.ObjectLostError,
            gone.WorkerCrashedError,
            gone.OutOfMemoryError,
        ) as error:
            raise Lost from error
        except gone.RayTaskError as error:
            raise error.as_instanceof_cause() from None

    def replace(self, worker: int) -> None:
        self.ray.kill(self.actors[worker])
        self.actors[worker] = self._hired(worker)

    def close(self) -> None:
        if self.started and self.ray.is_initialized():
            self.ray.shutdown()
            return
        for actor in getattr(self, "actors", ()):
            self.ray.kill(actor)


def patiently(start: Callable[[], Any], undo: Callable[[], Any] = lambda: None) -> Any:
    """Processes of Ray's must answer each other within half a minute: on a busy machine that can take some tries."""
    for left in reversed(range(TRIES)):
        try:
            return start()
        except Exception as error:  # Ray raises nothing more special
            undo()
            if not left:
                raise FedrecError(f"Ray did not start here: {str(error).splitlines()[0]}") from None


def _answers(address: str) -> None:
    """Ray itself would try for minutes. It speaks HTTP/2, whose first words are answered by settings at once."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), PATIENCE) as line:
            if os.environ.get("RAY_USE_TLS") == "1":
                return
            line.sendall(FIRST_WORDS)
            if line.recv(4)[3:] != SETTINGS:
                raise OSError("what is there does not speak like Ray")
    except (OSError, ValueError) as error:
        why = "it is not HOST:PORT" if isinstance(error, ValueError) else str(error)
        raise FedrecError(
            f"no Ray cluster answers at {address} ({why}): start one with fedrec cluster up, or ray start --head"
        ) from None
