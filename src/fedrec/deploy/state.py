"""The server's folder: terms, catalogue, and what was learned so far. Every file is replaced as a whole."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrec.core.errors import FedrecError
from fedrec.core.files import replacing, write
from fedrec.core.protocol import protocol
from fedrec.core.slots import Array, Catalog, Slot
from fedrec.deploy.terms import NAME, Terms, catalogue_digest, terms_in
from fedrec.server.server import Server, ServerState, pack, unpack

if TYPE_CHECKING:
    from fedrec.deploy.rounds import Record

OWNER = "owner"  # which process writes here
CHECKPOINT, SELECTED, HISTORY, CATALOGUE, FLEET = (
    "checkpoint.npz",
    "selected.npz",
    "history.json",
    "items.csv",
    "fleet.json",
)


@dataclass(frozen=True)
class Saved:
    """What the server holds after a round, and for every device the last of its rounds that is in it."""

    server: ServerState
    merged: dict[str, int]


class Folder:
    """Reads and writes what a server must not lose."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._token: str | None = None
        self.terms = terms_in(path / NAME)
        self.items, self.titles = read_items(path / CATALOGUE)
        try:
            self._fleet = json.loads((path / FLEET).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FedrecError(f"cannot read {path / FLEET}: {error}") from None
        self.editions: list[tuple[int, str]] = [tuple(e) for e in self._fleet["editions"]]
        count = len(self.items)
        if (count, catalogue_digest(self.items)) not in self.editions:
            for n, digest in self.editions:
                if n > count or catalogue_digest(self.items[:n]) != digest:
                    raise FedrecError(
                        f"{path / CATALOGUE} is not what devices have: add new items at its end, change none"
                    )
            self.editions.append((count, catalogue_digest(self.items)))
            self._write_fleet()

    @classmethod
    def make(
        cls,
        path: Path,
        terms: Terms,
        items: Sequence[Any],
        titles: Sequence[str] | None,
        clients: int,
        positives: float = 100.0,
        ordered: bool = True,
    ) -> Folder:
        path.mkdir(parents=True, exist_ok=True)
        if (path / NAME).exists():
            raise FedrecError(f"{path} holds a federation already: choose another folder")
        write(path / CATALOGUE, items_text(items, titles))
        ids = [str(i) for i in items]
        fleet = {"clients": clients, "positives": positives, "ordered": ordered}
        write(path / FLEET, json.dumps(fleet | {"editions": [(len(ids), catalogue_digest(ids))]}))
        write(path / NAME, terms.check().text)
        return cls(path)

    def _write_fleet(self) -> None:
        write(self.path / FLEET, json.dumps(self._fleet | {"editions": self.editions}))

    @property
    def catalog(self) -> Catalog:
        """What is public of the fleet: sizes."""
        facts = self._fleet
        return Catalog(facts["clients"], len(self.items), facts["positives"], facts["ordered"])

    def expect(self, clients: int) -> None:
        """How many devices a sum has room for, and methods reckon with."""
        self._fleet = {**self._fleet, "clients": clients}
        self._write_fleet()

    # -- whose turn it is ----------------------------------------------------------------------

    def claim(self) -> None:
        """From now on this process writes here. One that was cut off and lives on finds out, and writes no more."""
        self._token = secrets.token_hex(8)
        write(self.path / OWNER, self._token)

    def mine(self) -> bool:
        return self._token is None or (self.path / OWNER).read_text(encoding="utf-8") == self._token

    def _check_mine(self) -> None:
        if not self.mine():
            raise FedrecError(f"another server has taken {self.path} over: this one stops")

    # -- what was learned ----------------------------------------------------------------------

    def load(self) -> Saved | None:
        path = self.path / CHECKPOINT
        if not path.exists():
            return None
        try:
            with np.load(path, allow_pickle=False) as stored:
                merged = json.loads(bytes(stored["merged"]))
                return Saved(unpack({n: stored[n] for n in stored.files if n != "merged"}), merged)
        except (OSError, ValueError, KeyError) as error:
            raise FedrecError(f"{path} cannot be read: {error}; restore it from a copy") from None

    def save(self, server: ServerState, merged: dict[str, int], record: Record) -> Saved:
        """On disk before the next round is asked for."""
        self._check_mine()
        lines = [line for line in self.history() if line["round"] < record.round]
        write(self.path / HISTORY, json.dumps([*lines, json.loads(record.line())], indent=0))
        with replacing(self.path / CHECKPOINT) as file:
            text = np.frombuffer(json.dumps(merged).encode(), np.uint8)
            np.savez(file, **pack(server), merged=text)
        if record.validation is not None:
            self.measured(record.round, record.validation)
        return Saved(server, merged)

    def history(self) -> list[dict[str, Any]]:
        path = self.path / HISTORY
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []

    def measured(self, round: int, means: dict[str, float]) -> None:
        """The devices' figures of a round: it is kept where none before was better."""
        self._check_mine()
        how, lines = protocol(self.terms.protocol), self.history()
        best = max((ln["validation"][how.select_on] for ln in lines if ln["round"] < round and "validation" in ln),
                   default=-math.inf)  # fmt: skip
        for line in lines:
            if line["round"] == round:
                line["validation"] = means
        write(self.path / HISTORY, json.dumps(lines, indent=0))
        saved = self.load()
        if saved is not None and saved.server.round == round and how.better(means[how.select_on], best):
            with replacing(self.path / SELECTED) as file:
                np.savez(file, **pack(saved.server))

    def selected(self) -> ServerState | None:
        path = self.path / SELECTED
        if not path.exists():  # where an epsilon is stated devices tell no figures: the last round it is
            saved = self.load() if self.terms.private else None
            return None if saved is None else saved.server
        with np.load(path, allow_pickle=False) as stored:
            return unpack({n: stored[n] for n in stored.files})

    def grown(self, state: ServerState, server: Server) -> ServerState:
        """A state in a catalogue that has grown since: new items get the rows that they start with."""
        begun, slots = server.state, server.slots
        return replace(
            state,
            shared={n: _longer(v, begun.shared[n], slots[n]) for n, v in state.shared.items()},
            server={n: _longer(v, begun.server[n], slots[n]) for n, v in state.server.items()},
        )


def _longer(held: Array, begun: Array, slot: Slot) -> Array:
    if held.shape == begun.shape or not slot.rows:
        return held
    if held.shape[1:] != begun.shape[1:] or len(held) > len(begun):
        raise FedrecError("the checkpoint was written under other terms: its arrays differ")
    new = begun[len(held) :]
    return np.concatenate([held, np.zeros_like(new) if slot.unknown == "zero" else new])


def items_text(items: Sequence[Any], titles: Sequence[str] | None) -> str:
    import polars as pl

    ids = [str(i) for i in items]
    return pl.DataFrame({"item": ids, "title": list(titles) if titles else ids}).write_csv()


def read_items(path: Path) -> tuple[list[str], list[str]]:
    """Ids and titles of a catalogue, in its order."""
    import polars as pl

    try:
        table = pl.read_csv(path, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise FedrecError(f"cannot read the catalogue {path}: {str(error).splitlines()[0]}") from None
    name = next(
        (n for n in table.columns if n.lower() in ("item", "id", "itemid", "item_id")), table.columns[0]
    )
    ids = table[name].to_list()
    if any(i is None for i in ids) or len(set(ids)) < len(ids):
        raise FedrecError(f"{path} has an item twice, or one without an id")
    titles = table["title"].to_list() if "title" in table.columns else ids
    return ids, [t or i for t, i in zip(titles, ids, strict=True)]
