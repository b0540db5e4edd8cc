"""Devices and a server in one process, with bytes between them that a test can lose, change and look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedrec.data.split import split
from fedrec.data.worlds.two_tastes import two_tastes
from fedrec.deploy.device import Device
from fedrec.deploy.node import Node
from fedrec.deploy.rehearse import make_devices, make_server
from fedrec.deploy.rounds import Rounds
from fedrec.deploy.state import Folder
from fedrec.deploy.terms import Terms

Meddle = Callable[[int, bytes], bytes | None]


class Local:
    """Carries questions by calling nodes. ``down`` and ``up`` may change what passes, or lose it (None)."""

    def __init__(self, nodes: dict[int, Node]) -> None:
        self.there = nodes
        self.down: Meddle = lambda node, data: data
        self.up: Meddle = lambda node, data: data
        self.record: list[bytes] = []

    def nodes(self) -> list[int]:
        return list(self.there)

    def ask(self, questions: Mapping[int, bytes]) -> dict[int, bytes]:
        answers = {}
        for node, data in questions.items():
            self.record.append(data)
            if (told := self.down(node, data)) is None:
                continue
            said = self.there[node].answer(told)
            self.record.append(said)
            if (heard := self.up(node, said)) is not None:
                answers[node] = heard
        return answers


def opened(path: Path) -> Device:
    """A device that does not wait for the disk: here processes end, machines do not."""
    device = Device(path)
    device.file._db.execute("PRAGMA synchronous = OFF")
    return device


class Fleet:
    """A server's folder, devices, and rounds between them."""

    def __init__(
        self,
        path: Path,
        method: str = "fedmf",
        channel: str | tuple[str, ...] = "fixed",
        users: int = 8,
        **options: Any,
    ) -> None:
        per_node = options.pop("per_node", 1)
        passed = (channel,) if isinstance(channel, str) else channel
        self.terms = Terms(method=method, channel=passed, **{"threshold": 3, **options})
        self.data = two_tastes(users, 40)
        self.parts = split(self.data, self.terms.protocol, self.terms.seed)
        self.folder = make_server(path / "server", self.terms, self.parts)
        self.paths = make_devices(path / "devices", self.terms, self.parts)
        groups = [self.paths[i : i + per_node] for i in range(0, len(self.paths), per_node)]
        self.carrier = Local({i: Node([opened(p) for p in group]) for i, group in enumerate(groups, 1)})
        self.rounds = Rounds(self.folder, self.carrier)

    def restart_server(self) -> None:
        self.folder = Folder(self.folder.path)
        self.rounds = Rounds(self.folder, self.carrier)

    def restart_devices(self) -> None:
        for node in self.carrier.there.values():
            paths = [d.file.folder for d in node.devices.values()]
            node.close()
            node.devices = {d.name: d for d in map(opened, paths)}
