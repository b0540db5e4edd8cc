"""A federation without a simulator: a server, and one device for every user. And what can be reached from an object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedrec.clients.clients import Ask, Clients
from fedrec.core.federated import Federated, Introduced, own_rows
from fedrec.core.messages import Reply
from fedrec.core.ragged import Ids
from fedrec.core.upload import Total, Upload
from fedrec.data.split import Split
from fedrec.server.cohort import cohort_size
from fedrec.server.server import Server


@dataclass
class Fleet:
    """A server and a device of its own for every user: a federation without a simulator."""

    server: Server
    phones: list[Clients]
    uploads: dict[tuple[int, int], Upload | Total] = field(default_factory=dict)  # by round and user

    def play(self) -> None:
        """One round: every device of the cohort is told, trains and answers alone."""
        number = self.server.state.round + 1
        for turn, group in enumerate(self.server.groups(number, self.server.cohort(number))):
            total = self.server.empty()
            for user in group:
                total.add(self._one(int(user), number))
            self.server.step(total, number, turn)
        self.server.finish(number)

    def _one(self, user: int, number: int) -> Total:
        phone, ids = self.phones[user], np.array([user])

        def receive(reply: Reply, block: Ids) -> Reply:
            self.uploads[number, user] = reply.sent
            return self.server.receive(reply, block, ids)

        told = self.server.broadcast(number, ids)
        (answer,) = phone.fit(told, np.array([0]), Ask(single=True), receive)
        phone.keep()
        assert isinstance(answer.reply.sent, Total)
        return answer.reply.sent


def fleet(method: Federated, parts: Split, clients: float | None = None, **options: Any) -> Fleet:
    """As many one-client devices as there are users."""
    catalog, cohort = parts.catalog, cohort_size(clients, parts.n_users)
    server = Server(method, catalog, parts.seed, cohort_size=cohort, channel=options.get("channel", ()))
    tuned = cohort < parts.n_users and own_rows(method, catalog) == "tuned"
    phones = [
        Clients(
            method,
            parts.clients(np.array([u])),
            catalog,
            parts.seed,
            secret=parts.seed,
            keeps_tuned=tuned,
            **options,
        )
        for u in range(parts.n_users)
    ]
    told = [said for phone in phones if (said := phone.introduce()) is not None]
    server.meet(Introduced.joined(told) if told else None)
    return Fleet(server, phones)


def reachable(*roots: Any) -> Iterator[Any]:
    """Everything that can be reached from some objects: attributes, items, closures."""
    seen: set[int] = set()
    todo = list(roots)
    while todo:
        at = todo.pop()
        if id(at) in seen or isinstance(at, type | str | bytes | int | float | bool | type(None)):
            continue
        seen.add(id(at))
        yield at
        if isinstance(at, dict):
            todo += [*at.keys(), *at.values()]
        elif isinstance(at, list | tuple | set | frozenset):
            todo += list(at)
        elif callable(at) and getattr(at, "__closure__", None):
            todo += [cell.cell_contents for cell in at.__closure__]
        todo += list(getattr(at, "__dict__", {}).values())
        if getattr(at, "__self__", None) is not None:
            todo.append(at.__self__)
