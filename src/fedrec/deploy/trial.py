"""A rehearsal on one machine: real processes, TLS, keys, files and masks; then how it differs from the simulator."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.data.split import split
from fedrec.deploy.device import Device
from fedrec.deploy.flower import needed
from fedrec.deploy.flower.link import Link, free_port, write_app
from fedrec.deploy.flower.proxy import Proxy
from fedrec.deploy.keys import make_certificates, make_node_key
from fedrec.deploy.node import Node
from fedrec.deploy.private import stated
from fedrec.deploy.rehearse import furthest, make_devices, make_server, simulated, some_of
from fedrec.deploy.state import Folder
from fedrec.deploy.terms import Terms
from fedrec.simulate.moment import Round

MARKER = "run.json"
Watch = Callable[[dict[str, Any]], None]


@dataclass
class Trial:
    """The parts of a rehearsal while it runs."""

    folder: Path
    terms: Terms
    data: Interactions
    rounds: int
    link: Link
    proxy: Proxy
    server: Folder
    devices: list[Path]
    groups: list[tuple[Path, list[Path]]] = field(default_factory=list)  # a node's key, and its devices
    nodes: list[Any] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.proxy.port}"

    def start_node(self, at: int, official: bool = False) -> Any:
        key, devices = self.groups[at]
        start = self.link.supernode if official else self.link.node
        process = start(f"node{at}", self.address, key, devices)
        if at < len(self.nodes):
            self.nodes[at] = process
        else:
            self.nodes.append(process)
        return process

    def start_run(self, seconds: float = 120, wait: float = 300) -> None:
        self.server.claim()  # a server of before, should one still live, writes no more
        (self.server.path / MARKER).unlink(missing_ok=True)
        self.link.run(
            folder=str(self.server.path.resolve()), rounds=self.rounds, devices=len(self.devices), seconds=seconds,
            wait=wait,
        )  # fmt: skip

    def wait(self, watch: Watch | None = None, seconds: float = 3600) -> None:
        """Until the run is over, saying each round once."""
        shown, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            lines = self.server.history()
            for line in lines[shown:]:
                if watch is not None:
                    watch(line)
            shown = max(shown, len(lines))
            state = self.state()
            if state.get("state") == "done":
                return
            if state.get("state") == "failed":
                raise FedrecError(f"the federation stopped: {state.get('why')}")
            for at, node in enumerate(self.nodes):
                if node.poll() not in (None, 0):
                    raise FedrecError(f"a node stopped: {self.link.last_words(f'node{at}')}")
            time.sleep(0.2)
        raise FedrecError(
            f"the federation was not done after {seconds:.0f} seconds: see {self.folder / 'logs'}"
        )

    def state(self) -> dict[str, Any]:
        path = self.server.path / MARKER
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return found
        except (OSError, ValueError):
            return {}

    def memory(self) -> float:
        """Megabytes of all nodes together, as the system counts them (Linux; NaN elsewhere)."""
        total = 0
        for node in self.nodes:
            try:
                lines = Path(f"/proc/{node.pid}/status").read_text().splitlines()
            except OSError:
                return float("nan")
            total += next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)
        return total / 1024


@contextmanager
def rehearsal(
    folder: Path,
    terms: Terms,
    data: Interactions,
    devices: int,
    rounds: int,
    nodes: int | None = None,
    *,
    official: bool = False,
    began: Callable[[], None] = lambda: None,
) -> Iterator[Trial]:
    """Everything started and ready for a run; everything stopped at the end, whatever happened. ``official``: nodes are
    Flower's own SuperNodes. ``began`` is called once nothing speaks against it."""
    needed()
    terms.check()
    data = some_of(data, devices)
    parts = split(data, terms.protocol, terms.seed)
    if parts.n_users < terms.threshold:
        raise FedrecError(
            f"{parts.n_users} devices are fewer than the {terms.threshold} that a sum needs: ask for more devices"
        )
    began()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    make_certificates(folder / "tls", [])
    write_app(folder / "app")
    server, made = (
        make_server(folder / "server", terms, parts),
        make_devices(folder / "devices", terms, parts),
    )
    one = Node([Device(made[0])])
    one.warm_up()  # compiled here once, and not by every node beside the others
    one.close()
    link = Link(folder, free_port())
    proxy = Proxy(folder / "tls", "127.0.0.1", free_port(), link.port)
    trial = Trial(folder, terms, data, rounds, link, proxy, server, made)
    count = min(len(made), nodes or min(len(made), 4))
    for at, group in enumerate(np.array_split(np.arange(len(made)), count)):
        trial.groups.append((make_node_key(folder / "nodes" / f"node{at}"), [made[i] for i in group]))
    try:
        link.start()
        proxy.start()
        for at, (key, _) in enumerate(trial.groups):
            link.register(key)
            trial.start_node(at, official)
        yield trial
    finally:
        link.stop()
        proxy.stop()


@dataclass
class Outcome:
    """What a rehearsal showed."""

    apart: dict[str, float]  # from the simulator, by array
    seconds: float  # a round, in the median
    bytes_up: int  # a round and device, on the wire
    bytes_down: int
    predicted_up: float
    predicted_down: float
    megabytes: float  # a device
    selected: tuple[int, int]  # here and there
    validation: tuple[float, float]
    absent: int  # answers that were asked for and did not come: the simulator's devices are always there
    promised: str | None = None  # what an epsilon says, where one is stated


def compared(trial: Trial, megabytes: float, wire: tuple[int, int]) -> Outcome:
    records: list[Round] = []
    there = simulated(trial.data, trial.terms, trial.rounds, records)
    lines, devices = trial.server.history(), len(trial.devices)
    chosen, value = trial.server.selected(), float("nan")
    for line in lines:
        if chosen is not None and line["round"] == chosen.round and "validation" in line:
            value = line["validation"]["ndcg@10"]
    best = there.selected
    return Outcome(
        furthest(trial.server, trial.devices, there),
        float(np.median([line["seconds"] for line in lines])),
        int(wire[0] / trial.rounds / devices),
        int(wire[1] / trial.rounds / devices),
        float(np.mean([r.bytes_up for r in records])) / devices,
        float(np.mean([r.bytes_down for r in records])) / devices,
        megabytes / devices,
        (0 if chosen is None else chosen.round, 0 if best is None else best.round),
        (value, float("nan") if best is None else best.value),
        sum(len(trial.devices) - line["devices"] for line in lines),
        stated(trial.terms, trial.server.catalog),
    )


def same_bits(outcome: Outcome) -> bool:
    return max(outcome.apart.values(), default=0.0) == 0.0


def here(folder: Path | None) -> Path:
    """A new folder for a rehearsal."""
    import tempfile

    if folder is None:
        return Path(tempfile.mkdtemp(prefix="fedrec-try-"))
    if folder.exists() and any(folder.iterdir()):
        raise FedrecError(f"{folder} is not empty: choose a new folder")
    return folder
