"""The server of a deployed federation: the loop over rounds, whatever carries its questions.

``Server`` merges as it does in a simulation. After every round a checkpoint is on disk before the next one is
asked for: what the server holds, and for each device the last of its rounds that was added.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError
from fedrec.core.rng import generator
from fedrec.core.slots import Arrays
from fedrec.deploy.device import digest_of
from fedrec.deploy.node import BEGIN, FIT, HELLO, REVEAL, SCORE, SHARE
from fedrec.deploy.session import Gathering
from fedrec.deploy.state import Folder
from fedrec.deploy.unseen import unseen
from fedrec.deploy.vector import FIGURES, Row, unpacked
from fedrec.deploy.wire import Malformed, asked, pack, unpack
from fedrec.server.cohort import cohort_size, sample_cohort
from fedrec.server.server import Server

ATTEMPTS = 5  # at a round, before it is given up


class Carrier(Protocol):
    """What carries questions to nodes and answers back."""

    def nodes(self) -> list[int]:
        """Who is there now."""
        ...

    def ask(self, questions: Mapping[int, bytes]) -> dict[int, bytes]:
        """The answers that came in time, by node."""
        ...


@dataclass
class Record:
    """What is known of a round afterwards."""

    round: int
    devices: int  # that were added
    asked: int
    refused: dict[str, str] = field(default_factory=dict)  # devices whose answer was not added, and why
    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = 0.0
    validation: dict[str, float] | None = None
    attempts: int = 1

    def line(self) -> str:
        return json.dumps({k: v for k, v in self.__dict__.items() if v is not None})


class Rounds:
    """Plays rounds with whoever is there."""

    def __init__(self, folder: Folder, carrier: Carrier, clients: float | int | None = None) -> None:
        self.folder, self.carrier, self.terms, self.clients = folder, carrier, folder.terms, clients
        self.at: dict[str, int] = {}  # the node of each device
        self.known: set[int] = set()  # nodes that have said hello
        self.refused: dict[str, str] = {}
        self.counted: list[str] = []  # whose numbers are in the sum
        self.up = self.down = 0
        self.state = folder.load()
        self.server = self._server()

    def _server(self) -> Server:
        catalog, terms = self.folder.catalog, self.terms
        draw = (
            unseen if terms.private else generator
        )  # noise that the server's owner cannot draw again, either
        server = Server(terms.made, catalog, terms.seed, channel=terms.stages, draw=draw)
        if self.state is not None:
            server.state = self.folder.grown(self.state.server, server)
        return server

    @property
    def merged(self) -> dict[str, int]:
        return {} if self.state is None else self.state.merged

    # -- questions -----------------------------------------------------------------------------

    def _ask(
        self, kind: str, about: Mapping[str, Any], arrays: Arrays | None = None, **head: Any
    ) -> dict[str, bytes]:
        """One question to some devices; what each answered. Who could not, and why, is noted."""
        ask = secrets.token_hex(8)
        terms, editions = json.loads(self.terms.text), [list(e) for e in self.folder.editions]
        questions = {}
        for node in {self.at[name] for name in about}:
            mine = {name: value for name, value in about.items() if self.at[name] == node}
            facts = {"kind": kind, "ask": ask, "terms": terms, "editions": editions, "devices": mine, **head}
            questions[node] = pack(facts, arrays)
        return self._heard(ask, kind, questions, about)

    def _heard(
        self, ask: str, kind: str, questions: Mapping[int, bytes], about: Mapping[str, Any] | None
    ) -> dict[str, bytes]:
        self.down += sum(map(len, questions.values()))
        answers: dict[str, bytes] = {}
        for node, data in self.carrier.ask(questions).items():
            self.up += len(data)
            try:
                head, said = unpack(data)
                if (head.get("ask"), head.get("kind")) != (ask, kind) or node not in questions:
                    raise Malformed("an answer to another question")
                refused = asked(head, refused=dict)[0]
                for name in {*said, *refused}:
                    if about is not None and (name not in about or self.at[name] != node):
                        raise Malformed(f"an answer for '{name[:40]}', which was not asked there")
            except FedrecError as error:
                self._refuse(f"node {node}", str(error))
                continue
            for name, why in refused.items():
                self._refuse(name, str(why)[:300])
            answers |= {name: values.tobytes() for name, values in said.items() if values.dtype == np.uint8}
            if about is None:
                self.at |= dict.fromkeys(said, node)
        return answers

    def _refuse(self, name: str, why: str) -> None:
        self.refused[name] = why

    def hello(self) -> None:
        """Nodes that are new say which devices they have; those that are gone are forgotten."""
        there = set(self.carrier.nodes())
        self.at = {name: node for name, node in self.at.items() if node in there}
        self.known &= there
        new = there - self.known
        if not new:
            return
        ask = secrets.token_hex(8)
        facts = {"kind": HELLO, "ask": ask, "terms": json.loads(self.terms.text)}
        question = pack(facts | {"editions": [list(e) for e in self.folder.editions]})
        self._heard(ask, HELLO, dict.fromkeys(new, question), None)
        self.known |= {node for node in self.at.values() if node in new}

    # -- a round -------------------------------------------------------------------------------

    def play(self) -> Record:
        """The next round, again where too few devices answered; what was learned is on disk when it returns."""
        began, number = time.monotonic(), self.server.state.round + 1
        self.up = self.down = 0
        for attempt in range(1, ATTEMPTS + 1):
            self.refused = {}
            self.hello()
            present = sorted(self.at)
            try:
                self._enough(len(present), "there")
                size = cohort_size(self.clients, len(present))
                cohort = [present[i] for i in sample_cohort(self.terms.seed, number, len(present), size)]
                row, total, added = self._round(number, cohort)
                self._enough(added, "added")
                break
            except FedrecError:
                if attempt == ATTEMPTS:
                    raise
                time.sleep(min(attempt, 3))
        counted, figures = row.opened(total)
        self.server.cohort_size = len(cohort)  # where an epsilon is stated, means are over who was asked
        self.server.step(counted, number)
        self.server.finish(number)
        record = Record(number, counted.clients, len(cohort), dict(self.refused), attempts=attempt)
        self._measured(record, figures, tuned=self._tuned)
        record.bytes_up, record.bytes_down = self.up, self.down
        record.seconds = time.monotonic() - began
        self.state = self.folder.save(
            self.server.state, {**self.merged, **dict.fromkeys(self.counted, number)}, record
        )
        return record

    def _enough(self, count: int, what: str) -> None:
        if count < self.terms.threshold:
            why = "".join(f"; {name}: {said}" for name, said in list(self.refused.items())[:3])
            raise FedrecError(
                f"round {self.server.state.round + 1}: {count} devices were {what}, and the terms ask for "
                f"{self.terms.threshold} at least{why}"
            )

    @property
    def _tuned(self) -> bool:
        from fedrec.core.federated import own_rows

        method = self.terms.made
        return method.view() == "tuned" and own_rows(method, self.folder.catalog) == "tuned"

    def _round(self, number: int, cohort: list[str]) -> tuple[Row, NDArray[np.int64], int]:
        """The sum of what a cohort sends."""
        catalog = self.folder.catalog
        row = Row(self.server.uploads.arrays, self.terms.fixed.grid, catalog.n_users)
        head = {"round": number, "catalog": list(catalog)}
        about = {name: {"merged": self.merged.get(name, 0)} for name in cohort}
        return self._sum(FIT, row, head, about, self.server.state.shared)

    def _sum(
        self, kind: str, row: Row, head: dict[str, Any], about: dict[str, dict[str, Any]], shared: Arrays
    ) -> tuple[Row, NDArray[np.int64], int]:
        if self.terms.secure:
            return row, *self._masked(kind, row, head, about, shared)
        digest = digest_of(head["round"], self.folder.catalog, shared).hex()
        total, self.counted = np.zeros(len(row), np.int64), []
        for name, data in self._ask(kind, about, shared, **head).items():
            self._taken(name, data, digest, lambda _, arrays: np.add(total, row.filled(arrays), out=total))
        return row, total, len(self.counted)

    def _taken(
        self, name: str, data: bytes, digest: str, take: Callable[[str, dict[str, NDArray[Any]]], Any]
    ) -> None:
        """One device's numbers, if they are an answer to this question and sound."""
        try:
            said, arrays = unpack(data)
            if said.get("digest") != digest:
                raise Malformed("an answer to another round")
            take(name, arrays)
            self.counted.append(name)
        except FedrecError as error:
            self._refuse(name, str(error))

    def _masked(
        self, kind: str, row: Row, head: dict[str, Any], about: dict[str, dict[str, Any]], shared: Arrays
    ) -> tuple[NDArray[np.int64], int]:
        """The same sum, of which no single part can be seen."""
        session = f"{head['round']}-{secrets.token_hex(8)}"
        to, self.counted = {"round": head["round"], "session": session}, []
        gathering = Gathering(session, self.terms)
        self._hear(self._ask(BEGIN, {n: {} for n in about}, **to), "keys", gathering.hear_keys)
        self._enough(len(gathering.roster), "ready")
        everyone = {n: {"roster": gathering.roster} for n in gathering.roster}
        self._hear(self._ask(SHARE, everyone, **to), "shares", gathering.hear_share)
        self._enough(len(gathering.shares), "ready")
        about = {n: {**about[n], "shares": gathering.shares_for(n)} for n in gathering.shares}
        digest = digest_of(head["round"], self.folder.catalog, shared, session.encode()).hex()
        for name, data in self._ask(kind, about, shared, session=session, **head).items():
            self._taken(
                name, data, digest, lambda n, arrays: gathering.masked.update({n: _words(arrays, row)})
            )
        self._enough(len(gathering.masked), "heard")
        lists = {"alive": gathering.alive, "dead": gathering.dead}
        self._hear(
            self._ask(REVEAL, dict.fromkeys(gathering.alive, lists), **to), "parts", gathering.hear_reveal
        )
        return gathering.sum(), len(gathering.masked)

    def _hear(self, answers: Mapping[str, bytes], what: str, hear: Callable[[str, Any], None]) -> None:
        """Steps of a masked round that carry no numbers: what makes no sense is not heard."""
        for name, data in answers.items():
            try:
                hear(name, unpack(data)[0].get(what))
            except (FedrecError, ValueError, TypeError, AttributeError) as error:
                self._refuse(name, str(error))

    # -- how well it does ----------------------------------------------------------------------

    def _measured(self, record: Record, figures: dict[str, float], tuned: bool) -> None:
        """Sums of the devices' own exams: of this round where they rank with tuned rows, else of the one before."""
        means = _means(figures)
        if tuned:
            record.validation = means
        elif means is not None:
            self.folder.measured(record.round - 1, means)

    def score(self) -> dict[str, float] | None:
        """How the last round does: devices score with its table, and send figures alone."""
        if self._tuned or self.state is None or self.terms.private:
            return None
        self.hello()
        row = Row({}, self.terms.fixed.grid, self.folder.catalog.n_users)
        head = {"round": self.server.state.round, "catalog": list(self.folder.catalog)}
        about = {name: {"merged": self.merged.get(name, 0)} for name in self.at}
        _, total, added = self._sum(SCORE, row, head, about, self.server.state.shared)
        self._enough(added, "added")
        means = _means(row.opened(total)[1])
        if means is not None:
            self.folder.measured(self.server.state.round, means)
        return means


def _means(figures: dict[str, float]) -> dict[str, float] | None:
    asked_for = figures["asked"]
    return {n: figures[n] / asked_for for n in FIGURES[1:]} if asked_for else None


def _words(arrays: dict[str, NDArray[Any]], row: Row) -> NDArray[np.int64]:
    if arrays.keys() != {"masked"}:
        raise Malformed("something else than a masked upload")
    return unpacked(arrays["masked"], row.grid.word, len(row))
