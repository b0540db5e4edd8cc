"""A masked round: four questions to every device (begin, share, masked, reveal), and what each side keeps of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError
from fedrec.deploy import masks
from fedrec.deploy.terms import Terms

Texts = dict[str, str]


@dataclass
class Party:
    """A device in a masked round. All of it is plain text, so that it can be stored after every answer."""

    session: str
    name: str
    key: str  # behind its masks with others
    seal: str  # for shares that are sent to it
    seed: str  # of its own mask
    roster: dict[str, list[str]] = field(default_factory=dict)  # the public keys of all
    mine: Texts = field(default_factory=dict)  # its answer to "share", given again when asked again
    held: dict[str, list[str]] = field(default_factory=dict)  # shares of its neighbours
    told: dict[str, Any] = field(default_factory=dict)  # who answered and who did not, as it was told once

    @classmethod
    def begin(cls, session: str, name: str) -> Party:
        key, seal, seed = (masks.new_key().hex() for _ in range(3))
        return cls(session, name, key, seal, seed)

    @property
    def text(self) -> bytes:
        return json.dumps(self.__dict__).encode()

    @classmethod
    def read(cls, text: bytes) -> Party:
        return cls(**json.loads(text))

    @property
    def keys(self) -> list[str]:
        """What it says to "begin": two public keys."""
        return [masks.public(bytes.fromhex(k)).hex() for k in (self.key, self.seal)]

    def near(self, terms: Terms) -> list[str]:
        return masks.neighbours(self.session, list(self.roster), terms.neighbours)[self.name]

    def share(self, roster: Mapping[str, list[str]], terms: Terms) -> Texts:
        """Parts of its secrets for its neighbours, each sealed for one of them."""
        if self.mine:
            if dict(roster) != self.roster:
                raise FedrecError(
                    f"device {self.name}: other devices are named than before in this round: it stops"
                )
            return self.mine
        if roster.get(self.name) != self.keys:
            raise FedrecError(f"device {self.name}: its keys were changed on their way: it takes no part")
        if len(roster) < terms.threshold:
            raise FedrecError(
                f"device {self.name}: {len(roster)} devices take part, and the terms ask for {terms.threshold} at least"
            )
        if len({k for keys in roster.values() for k in keys}) < 2 * len(roster):
            raise FedrecError(f"device {self.name}: two devices have the same key: it takes no part")
        self.roster = {n: list(keys) for n, keys in roster.items()}
        near = self.near(terms)
        made = [
            masks.shares(bytes.fromhex(secret), masks.enough(len(near)), len(near))
            for secret in (self.key, self.seed)
        ]
        for at, other in enumerate(near):
            text = made[0][at] + made[1][at]
            self.mine[other] = masks.sealed(self._sealing(other), text, self._about(self.name, other)).hex()
        return self.mine

    def take(self, shares: Mapping[str, str], terms: Terms) -> None:
        """Shares of its neighbours, as the server passes them on: who sent one takes part."""
        if not self.roster:
            raise FedrecError(f"device {self.name}: it was not told who takes part")
        opened = {}
        near = self.near(terms)
        for other, sealed in shares.items():
            if other not in near:
                raise FedrecError(f"device {self.name}: a share of '{other}', which is no neighbour")
            about = self._about(other, self.name)
            text = masks.unsealed(self._sealing(other), bytes.fromhex(sealed), about)
            opened[other] = [text[: len(text) // 2].hex(), text[len(text) // 2 :].hex()]
        if len(opened) < masks.enough(len(near)):
            raise FedrecError(
                f"device {self.name}: {len(opened)} of {len(near)} neighbours are left: too few"
            )
        if self.held and self.held.keys() != opened.keys():
            raise FedrecError(
                f"device {self.name}: other neighbours are named than before in this round: it stops"
            )
        self.held = self.held or opened

    def masked(self, row: NDArray[np.int64]) -> NDArray[np.int64]:
        """Its numbers under its own mask and those that it shares."""
        others = {n: bytes.fromhex(self.roster[n][0]) for n in self.held}
        key, length = bytes.fromhex(self.key), len(row)
        hidden = row.view(np.uint64) + masks.mask(bytes.fromhex(self.seed), length)
        return (hidden + masks.pair_masks(self.session, self.name, key, others, length)).view(np.int64)

    def reveal(self, alive: list[str], dead: list[str], terms: Terms) -> dict[str, list[str]]:
        """Parts by which masks are taken off the sum: of seeds of those that answered, of keys of the others."""
        both = set(alive) & set(dead)
        if both:
            raise FedrecError(
                f"device {self.name}: '{min(both)}' is said to have answered and not to have: it stops"
            )
        said = {"alive": sorted(alive), "dead": sorted(dead)}
        if self.told and self.told != said:
            raise FedrecError(
                f"device {self.name}: it was told before that others answered: it says nothing more"
            )
        if self.name not in alive:
            raise FedrecError(f"device {self.name}: it answered and is said not to have: it stops")
        if len(alive) < terms.threshold:
            raise FedrecError(
                f"device {self.name}: {len(alive)} devices answered, and the terms ask for {terms.threshold} at least"
            )
        if set(alive) - set(self.roster) or set(dead) - set(self.roster):
            raise FedrecError(f"device {self.name}: devices are named that do not take part: it stops")
        self.told = said
        seeds = {n: self.held[n][1] for n in alive if n in self.held}
        keys = {n: self.held[n][0] for n in dead if n in self.held}
        return {n: ["seed", part] for n, part in seeds.items()} | {
            n: ["key", part] for n, part in keys.items()
        }

    def _sealing(self, other: str) -> bytes:
        return masks.agreed(
            bytes.fromhex(self.seal), bytes.fromhex(self.roster[other][1]), f"seal {self.session}".encode()
        )

    def _about(self, sender: str, reader: str) -> bytes:
        return f"{self.session}/{sender}/{reader}".encode()


@dataclass
class Gathering:
    """The server's side of a masked round: it passes on what it cannot read, and takes masks off a sum."""

    session: str
    terms: Terms
    roster: dict[str, list[str]] = field(default_factory=dict)
    shares: dict[str, Texts] = field(default_factory=dict)  # by sender, then reader
    masked: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    parts: dict[str, dict[str, list[bytes]]] = field(
        default_factory=dict
    )  # of a device, what others gave of it

    def near(self) -> dict[str, list[str]]:
        return masks.neighbours(self.session, list(self.roster), self.terms.neighbours)

    def hear_keys(self, name: str, said: Any) -> None:
        if not isinstance(said, list) or [len(bytes.fromhex(key)) for key in said] != [masks.SECRET] * 2:
            raise FedrecError(f"'{name}' has keys that are none")
        self.roster[name] = said

    def hear_share(self, name: str, said: Mapping[str, Any]) -> None:
        if set(said) != set(self.near()[name]) or not all(isinstance(t, str) for t in said.values()):
            raise FedrecError(f"'{name}' did not share with its neighbours")
        self.shares[name] = dict(said)

    def shares_for(self, name: str) -> Texts:
        return {sender: texts[name] for sender, texts in self.shares.items() if name in texts}

    @property
    def alive(self) -> list[str]:
        return sorted(self.masked)

    @property
    def dead(self) -> list[str]:
        """Who shared and did not answer: its masks with others are still in the sum."""
        return sorted(self.shares.keys() - self.masked.keys())

    def hear_reveal(self, name: str, said: Mapping[str, Any]) -> None:
        near = self.near()[name]
        for other, (kind, part) in said.items():
            if other not in near or kind != ("seed" if other in self.masked else "key"):
                raise FedrecError(f"'{name}' reveals what it was not asked for")
            self.parts.setdefault(other, {}).setdefault(kind, []).append(bytes.fromhex(part))

    def sum(self) -> NDArray[np.int64]:
        """The sum of those that answered, without masks."""
        near, length = self.near(), len(next(iter(self.masked.values())))
        total = np.zeros(length, np.uint64)
        for name in self.alive:
            total += self.masked[name].view(np.uint64)
            total -= masks.mask(self._secret(name, "seed", near), length)
        for name in self.dead:
            others = {n: bytes.fromhex(self.roster[n][0]) for n in near[name] if n in self.masked}
            # In the sum stand the others' halves of these masks; added with its own they cancel.
            total += masks.pair_masks(self.session, name, self._secret(name, "key", near), others, length)
        return total.view(np.int64)

    def _secret(self, name: str, kind: str, near: Mapping[str, list[str]]) -> bytes:
        parts, needed = self.parts.get(name, {}).get(kind, []), masks.enough(len(near[name]))
        if len(parts) < needed:
            raise FedrecError(
                f"{len(parts)} of the {needed} neighbours that it takes are left to take the masks of '{name}' off: "
                "the round does not count"
            )
        secret = masks.combined(parts[:needed])
        if kind == "key" and masks.public(secret).hex() != self.roster[name][0]:
            raise FedrecError(
                f"the parts of the key of '{name}' do not fit together: the round does not count"
            )
        return secret
