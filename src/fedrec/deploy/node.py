"""What a node says for its devices: one on a phone, many behind a gateway or in a rehearsal. No network in it.

A question is bytes, and so is the answer; a device that cannot answer says why in a sentence, and the others go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.blocks import single_threaded
from fedrec.core.errors import FedrecError
from fedrec.core.slots import Arrays, Catalog
from fedrec.deploy.device import Device, digest_of
from fedrec.deploy.session import Party
from fedrec.deploy.vector import Row, packed
from fedrec.deploy.wire import asked, pack, unpack

HELLO, FIT, SCORE = "hello", "fit", "score"
BEGIN, SHARE, REVEAL = "begin", "share", "reveal"


class Node:
    """Some devices behind one connection."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self.devices = {device.name: device for device in devices}

    def warm_up(self) -> None:
        """Compile what a round needs before it is asked for one: what one device compiles the others have."""
        with single_threaded():
            any(device.warm_up() for device in self.devices.values())

    def answer(self, data: bytes) -> bytes:
        """The devices' answers, each as bytes of its own."""
        head, arrays = unpack(data)
        kind, terms, ask = asked(head, kind=str, terms=dict, ask=str)
        refused, answers = {}, {}
        todo = {name: {} for name in self.devices} if kind == HELLO else head.get("devices")
        if not isinstance(todo, dict):
            raise FedrecError("a question to nobody")
        with single_threaded():
            for name, about in todo.items():
                try:
                    if name not in self.devices:
                        raise FedrecError(f"device {name} is not here")
                    device = self.devices[name]
                    check_same(device, terms, head)
                    answers[name] = np.frombuffer(_one(device, kind, head, about, arrays), np.uint8)
                except FedrecError as error:
                    refused[name] = str(error)
        return pack({"kind": kind, "ask": ask, "refused": refused}, answers)

    def close(self) -> None:
        for device in self.devices.values():
            device.close()


def check_same(device: Device, terms: dict[str, Any], head: dict[str, Any]) -> None:
    """A device takes part in its own federation alone: the same method, version and catalogue."""
    if (other := device.terms.differs(terms)) is not None:
        raise FedrecError(f"device {device.name} belongs to another federation: {other}")
    editions = head.get("editions")
    if not isinstance(editions, list) or list(device.edition) not in editions:
        count, digest = device.edition
        raise FedrecError(
            f"device {device.name} has another catalogue ({count} items, {digest[:8]}) than the server: give it the "
            "server's items.csv"
        )


def _one(
    device: Device, kind: str, head: dict[str, Any], about: Any, arrays: dict[str, NDArray[Any]]
) -> bytes:
    """One device's answer to one question."""
    if kind == HELLO:
        return pack({"edition": list(device.edition)})
    if not isinstance(about, dict):
        raise FedrecError("a question that cannot be read")
    round = asked(head, round=int)[0]
    if kind in (BEGIN, SHARE, REVEAL):
        return _step(device, kind, round, asked(head, session=str)[0], about)
    if kind not in (FIT, SCORE):
        raise FedrecError(f"device {device.name} knows no question '{kind}'")
    catalog = Catalog(*asked(head, catalog=list)[0])
    shared: Arrays = {n: np.array(v, np.float32) for n, v in arrays.items()}
    check_shared(device, catalog, shared)
    (merged,) = asked(about, merged=int)
    label = head.get("session", "").encode() if device.terms.secure else b""
    digest = digest_of(round, catalog, shared, label).hex()

    def send(row: NDArray[np.int64], order: Row) -> bytes:
        if not device.terms.secure:
            return pack({"digest": digest}, order.sparse(row))
        party = _party(device, asked(head, session=str)[0])
        party.take(asked(about, shares=dict)[0], device.terms)
        device.file.remember(round, party=party.text)
        return pack({"digest": digest}, {"masked": packed(party.masked(row), order.grid.word)})

    if kind == SCORE:
        return device.score(round, catalog, shared, merged, send)
    return device.play(round, catalog, shared, merged, send, label)


def check_shared(device: Device, catalog: Catalog, shared: Arrays) -> None:
    """What comes down is what the method shares, in its shapes, and finite."""
    slots = {n: s for n, s in device.terms.made.slots(catalog).items() if s.owner == "shared"}
    if {n: s.shape for n, s in slots.items()} != {n: v.shape for n, v in shared.items()}:
        raise FedrecError(f"device {device.name} was sent other arrays than {device.terms.made.label} shares")
    if not all(np.isfinite(v).all() for v in shared.values()):
        raise FedrecError(f"device {device.name} was sent numbers that are not finite")


def _party(device: Device, session: str) -> Party:
    """Of the masked round that was begun last: an earlier one is over, answered or not."""
    text = device.file.remembered("party")
    if text is None or (party := Party.read(text)).session != session:
        raise FedrecError(
            f"device {device.name} knows nothing of this masked round, or has begun another one since"
        )
    return party


def _step(device: Device, kind: str, round: int, session: str, about: dict[str, Any]) -> bytes:
    """A step of a masked round; what it learned is stored before it answers."""
    if not device.terms.secure:
        raise FedrecError(f"device {device.name} belongs to a federation without masks")
    if kind == BEGIN:
        known = device.file.remembered("party")
        party = Party.begin(session, device.name)
        if known is not None and Party.read(known).session == session:
            party = Party.read(known)  # asked again
        said: dict[str, Any] = {"keys": party.keys}
    else:
        party = _party(device, session)
        if kind == SHARE:
            said = {"shares": party.share(asked(about, roster=dict)[0], device.terms)}
        else:
            alive, dead = asked(about, alive=list, dead=list)
            said = {"parts": party.reveal(alive, dead, device.terms)}
    device.file.remember(round, party=party.text)
    return pack(said)
