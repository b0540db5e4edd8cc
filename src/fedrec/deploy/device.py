"""A device: ``Clients`` over one owner's interactions, with a file of its own. No network in it.

It is told a round and answers; what it knows leaves as declared whole numbers, in the clear or masked.
"""

from __future__ import annotations

import hashlib
import io
import secrets
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.clients import Ask, Clients
from fedrec.clients.save import pack as pack_state
from fedrec.clients.save import unpack as unpack_state
from fedrec.clients.state import DeviceState, begin
from fedrec.core.errors import FedrecError
from fedrec.core.federated import own_rows
from fedrec.core.messages import Broadcast
from fedrec.core.protocol import protocol
from fedrec.core.rng import generator
from fedrec.core.slots import Array, Arrays, Catalog
from fedrec.core.upload import Total
from fedrec.data.interactions import Interactions
from fedrec.data.split import Split, split
from fedrec.deploy.file import DeviceFile, Played
from fedrec.deploy.terms import Terms, catalogue_digest, read_terms
from fedrec.deploy.unseen import unseen
from fedrec.deploy.vector import Row
from fedrec.deploy.wire import pack, unpack
from fedrec.evaluate.exam import Exam
from fedrec.evaluate.metrics import summary
from fedrec.evaluate.ranking import count_sampled

Send = Callable[[NDArray[np.int64], Row], bytes]  # how a row of numbers becomes a reply
ME = np.array([0])


class Device:
    """One owner's device. Its key is drawn when it is made, and never leaves it."""

    def __init__(self, folder: Path) -> None:
        self.file = DeviceFile(folder)
        self.terms: Terms = read_terms(self.file.fact("terms", ""), str(self.file.path))
        self.name: str = self.file.fact("name")
        self._made: tuple[Any, Clients] | None = None

    @classmethod
    def make(
        cls,
        folder: Path,
        terms: Terms,
        items: Sequence[Any],
        titles: Sequence[str] | None = None,
        met: Sequence[tuple[int, int | None]] = (),
        *,
        name: str | None = None,
        owner: int | str = 0,
        secret: int | None = None,
    ) -> Device:
        """``secret`` and ``owner`` are for rehearsals that shall repeat a simulation; a real device draws its own."""
        drawn = secrets.randbits(63) if secret is None else secret
        facts = {
            "terms": terms.check().text,
            "name": name or secrets.token_hex(8),
            "owner": owner,
            "secret": drawn,
        }
        file = DeviceFile.make(folder, facts)
        file.name_items([str(i) for i in items], titles)
        file.meet(met)
        file.close()
        return cls(folder)

    def close(self) -> None:
        self.file.close()

    # -- what it knows -------------------------------------------------------------------------

    @cached_property
    def catalogue(self) -> tuple[list[str], list[str | None]]:
        return self.file.catalogue()

    @property
    def edition(self) -> tuple[int, str]:
        """Which catalogue it has: how many items, and what stands for their ids."""
        ids = self.catalogue[0]
        return len(ids), catalogue_digest(ids)

    def data(self, n_items: int | None = None) -> Interactions:
        """Its owner's interactions, in a catalogue of so many items (by default as many as it can name)."""
        ids, titles = self.catalogue
        count = len(ids) if n_items is None else n_items
        rows = [row for row in self.file.met() if row[0] < count]
        known, timed = min(count, len(ids)), all(time is not None for _, time in rows)
        return Interactions(
            name=f"device {self.name}",
            indptr=np.array([0, len(rows)], np.int64),
            items=np.array([code for code, _ in rows], np.int32),
            times=np.array([time for _, time in rows], np.int64) if timed else np.arange(len(rows)),
            user_ids=np.array(
                [self.file.fact("owner")], object if isinstance(self.file.fact("owner"), str) else None
            ),
            item_ids=np.array(ids[:known] + [f"#{i}" for i in range(known, count)], object),
            titles=tuple(t or i for i, t in zip(ids, titles, strict=True)) if count == len(ids) else None,
        )

    def parts(self, n_items: int) -> Split | None:
        """What it trains on and what it asks itself afterwards; None where there is nothing to train on."""
        data, terms = self.data(n_items), self.terms
        if len(data) == 0:
            return None
        enough = terms.hold_out and len(np.unique(data.items)) >= protocol(terms.protocol).least
        return split(data, terms.protocol, self.file.fact("secret"), hold_out=enough)

    def clients(self, parts: Split, catalog: Catalog) -> Clients:
        """Its half of the method; made anew when the federation or what it has met has grown."""
        key = (catalog, len(parts.data))
        if self._made is None or self._made[0] != key:
            terms = self.terms
            method = terms.made
            half = Clients(
                method, parts.clients(), catalog, terms.seed, secret=self.file.fact("secret"), channel=terms.stages,
                keeps_tuned=own_rows(method, catalog) == "tuned",
                expected=terms.threshold if terms.private else None, draw=unseen if terms.private else generator,
            )  # fmt: skip
            self._made = key, half
        return self._made[1]

    # -- a round -------------------------------------------------------------------------------

    def play(
        self, round: int, catalog: Catalog, shared: Arrays, merged: int, send: Send, label: bytes = b""
    ) -> bytes:
        """Train and answer, once: asked again the same, it says the same. ``merged`` is the last round of this device
        that the server added; what it trained since then did not count, and is taken back. ``label`` is what the
        question hangs on besides: a masked round's session."""
        digest = digest_of(round, catalog, shared, label)
        known, earlier = self._standing(round, merged)
        if known is not None and (known.digest, known.earlier) == (digest, merged):
            return known.reply
        self._may_answer()
        parts = self.parts(catalog.n_items)
        row = Row(self.terms.made.uploads(catalog).arrays, self.terms.fixed.grid, catalog.n_users)
        if parts is None:  # nothing met so far: it sends nothing, and stays as it is
            empty = send(row.of(row.grid.empty(row.declared), {}), row)
            state = earlier.after if earlier is not None else b""
            self.file.play(
                Played(round, merged, digest, state, state, empty), pack_broadcast(round, catalog, shared)
            )
            return empty
        clients = self.clients(parts, catalog)
        clients.state = self._state(clients, earlier)
        before = _bytes(clients.state)
        sent, figures = self._trained(clients, parts, Broadcast(round, shared), earlier)
        clients.keep()
        reply = send(row.of(sent, figures), row)
        self.file.play(
            Played(round, merged, digest, before, _bytes(clients.state), reply),
            pack_broadcast(round, catalog, shared),
        )
        return reply

    def _trained(
        self, clients: Clients, parts: Split, told: Broadcast, earlier: Played | None
    ) -> tuple[Total, dict[str, float]]:
        """What it would send of a round, and the figures of its own exam; nothing is kept yet."""
        figures, exam = self._figures(clients, parts, told, earlier), Exam(parts)
        inside = parts.held_out and self._tuned(clients) and not self.terms.private
        ask = Ask(lines=(lambda users: exam.lines("valid", users)) if inside else None)
        (answer,) = clients.fit(told, ME, ask)
        if inside and answer.scores is not None:
            figures = _graded(exam, answer.scores)
        assert isinstance(answer.reply.sent, Total)
        return answer.reply.sent, figures

    def warm_up(self) -> bool:
        """Train once as if it was asked, from a table that has learned nothing, and forget it: what is compiled then is
        not waited for in a round. False where nothing was met so far, and there is nothing to train on."""
        catalog = Catalog(self.terms.threshold, len(self.catalogue[0]))
        parts = self.parts(catalog.n_items)
        if parts is None:
            return False
        clients = self.clients(parts, catalog)
        shared = {n: s.starting(n, self.terms.seed) for n, s in clients.slots.items() if s.owner == "shared"}
        nothing = Played(0, 0, b"", b"", b"", b"")
        self._trained(clients, parts, Broadcast(1, shared), nothing)
        self._made = None
        return True

    def score(self, round: int, catalog: Catalog, shared: Arrays, merged: int, send: Send) -> bytes:
        """The figures of its own exam after a round, nothing else: what it holds stays as it is."""
        row = Row({}, self.terms.fixed.grid, catalog.n_users)
        _, earlier = self._standing(round + 1, merged)
        parts, figures = self.parts(catalog.n_items), {}
        if parts is not None:
            clients = self.clients(parts, catalog)
            clients.state = self._state(clients, earlier)
            figures = self._figures(clients, parts, Broadcast(round, shared), earlier)
        return send(row.of(row.grid.empty({}), figures), row)

    def _may_answer(self) -> None:
        """What its owner is promised holds for so many answers; attempts of the server that failed are among them."""
        sent, most = self.file.fact("answers", 0), self.terms.answers
        if self.terms.private and most is not None and sent >= most:
            raise FedrecError(
                f"device {self.name} has answered {sent} times, as often as its epsilon allows: it sends no more"
            )

    def _tuned(self, clients: Clients) -> bool:
        """It ranks with rows as it tuned them in the round itself."""
        return clients.method.view() == "tuned" and bool(clients.tuned)

    def _figures(
        self, clients: Clients, parts: Split, told: Broadcast, earlier: Played | None
    ) -> dict[str, float]:
        """Where its validation item comes with the table as it is now: what the round before is measured by."""
        if earlier is None or not parts.held_out or self._tuned(clients) or self.terms.private:
            return {}
        exam = Exam(parts)
        part = clients.part(told, ME, own=bool(clients.state.rows) and clients.method.view() == "kept")
        return _graded(exam, clients.score(told.shared, part, exam.lines("valid", ME)))

    def _standing(self, round: int, merged: int) -> tuple[Played | None, Played | None]:
        """This round if it was played already, and the one whose state counts; says so where neither is known."""
        played = {p.number: p for p in self.file.rounds()}
        known = played.get(round)
        if merged in played:
            return known, played[merged]
        first = min(played.values(), key=lambda p: p.number, default=None)
        if merged == 0 and (first is None or first.earlier == 0):
            return known, None
        after = next((p for n, p in sorted(played.items()) if p.earlier == merged), None)
        if after is not None:  # what it held after that round is what the next one began with
            return known, Played(merged, 0, b"", b"", after.before, b"")
        held = f"rounds {', '.join(map(str, sorted(played)))}" if played else "no round"
        raise FedrecError(
            f"device {self.name}: the server added its round {merged} last, and its file knows {held}: it cannot go "
            "on without doing a round twice or losing one; restore its file, or let it join anew under another name"
        )

    def _state(self, clients: Clients, earlier: Played | None) -> DeviceState:
        if earlier is None or not earlier.after:
            return begin(clients.slots, 1, self.terms.seed, clients.tuned)
        with np.load(io.BytesIO(earlier.after), allow_pickle=False) as stored:
            return unpack_state({n: stored[n] for n in stored.files})

    # -- for its owner -------------------------------------------------------------------------

    def scores(self) -> tuple[Interactions, Array]:
        """Scores of the whole catalogue from the last broadcast and its own state: nothing is asked of anybody."""
        stored, rounds = self.file.blob("broadcast"), self.file.rounds()
        if stored is None or not rounds:
            raise FedrecError(
                f"device {self.name} has not been told a table yet: it takes part in a round first"
            )
        round, catalog, shared = unpack_broadcast(stored)
        data, parts = self.data(catalog.n_items), self.parts(catalog.n_items)
        if parts is None:
            raise FedrecError("nothing was met so far: tell it some items with fedrec device add")
        clients = self.clients(parts, catalog)
        clients.state = self._state(clients, rounds[-1])
        everything = clients.knowing(split(data, "strict", 0, hold_out=False).train)
        part = everything.part(Broadcast(round, shared), ME, own=bool(clients.state.rows))
        return data, everything.score(shared, part)[0]


def _graded(exam: Exam, scores: Array) -> dict[str, float]:
    ranks = exam.unranked("valid")
    count_sampled(scores, exam.lines("valid", ME), exam, "valid", ME, ranks)
    found = summary(ranks)
    return {"asked": 1.0, "hr@10": found["hr@10"], "ndcg@10": found["ndcg@10"]}


def _bytes(state: DeviceState) -> bytes:
    made = io.BytesIO()
    np.savez(made, **pack_state(state))
    return made.getvalue()


def digest_of(round: int, catalog: Catalog, shared: Arrays, label: bytes = b"") -> bytes:
    """Stands for what a round was told."""
    text = hashlib.sha256(repr((round, tuple(catalog), label)).encode())
    for name in sorted(shared):
        text.update(name.encode() + np.ascontiguousarray(shared[name], np.float32).tobytes())
    return text.digest()


def pack_broadcast(round: int, catalog: Catalog, shared: Arrays) -> bytes:
    return pack({"round": round, "catalog": list(catalog)}, shared)


def unpack_broadcast(data: bytes) -> tuple[int, Catalog, Arrays]:
    head, shared = unpack(data)
    return head["round"], Catalog(*head["catalog"]), shared
