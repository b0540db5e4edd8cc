"""The one file of a device: interactions, key, private state. SQLite, so that killing it at any moment loses nothing.

A round is one transaction that is on disk before the reply leaves: the state before and after it, the reply, and what
it was an answer to. That makes a round happen exactly once, whatever is lost, sent twice, or asked again.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrec.core.errors import FedrecError

NAME = "device.sqlite"
KEPT = 3  # rounds that can be taken back
_TABLES = """
CREATE TABLE fact (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE item (code INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, title TEXT);
CREATE TABLE met (place INTEGER PRIMARY KEY AUTOINCREMENT, code INTEGER NOT NULL REFERENCES item, time INTEGER);
CREATE TABLE round (number INTEGER PRIMARY KEY, earlier INTEGER NOT NULL, digest BLOB NOT NULL,
                    before BLOB NOT NULL, after BLOB NOT NULL, reply BLOB NOT NULL);
CREATE TABLE session (name TEXT PRIMARY KEY, number INTEGER NOT NULL, value BLOB NOT NULL);
"""


@dataclass(frozen=True)
class Played:
    """A round that the device took part in."""

    number: int
    earlier: int  # the round whose state it began with
    digest: bytes
    before: bytes
    after: bytes
    reply: bytes


class DeviceFile:
    """What a device stores. Only its owner may read it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / NAME
        if not self.path.is_file():
            raise FedrecError(f"{folder} is no device: make one with fedrec device init {folder}")
        if os.name == "posix" and self.path.stat().st_mode & 0o077:
            raise FedrecError(f"others may read {self.path}, which is private: chmod 600 {self.path}")
        self._db = _opened(self.path)
        with self._clear():
            if self._db.execute("PRAGMA quick_check").fetchone()[0] != "ok":
                raise sqlite3.DatabaseError("its pages do not fit together")

    @classmethod
    def make(cls, folder: Path, facts: dict[str, Any]) -> DeviceFile:
        path = folder / NAME
        if path.exists():
            raise FedrecError(
                f"{folder} is a device already: choose another folder, or fedrec device forget {folder}"
            )
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            db = _opened(path)
            with db:
                db.executescript(_TABLES)
                db.executemany(
                    "INSERT INTO fact VALUES (?, ?)", [(n, json.dumps(v)) for n, v in facts.items()]
                )
            db.close()
            return cls(folder)
        except BaseException:
            _remove(folder)
            raise

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """All of it is on disk at the end, or nothing is."""
        with self._clear():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _clear(self) -> Iterator[None]:
        """What is wrong with the file or the disk, in a sentence."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise FedrecError(f"cannot write {self.path}: {error}; nothing of this round was kept") from None
        except sqlite3.DatabaseError as error:
            raise FedrecError(
                f"{self.path} is damaged ({error}): restore it from a copy, or begin anew with fedrec device forget "
                f"{self.folder} and fedrec device init"
            ) from None

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._clear():
            return self._db.execute(query, values).fetchall()

    # -- facts, items, interactions ------------------------------------------------------------

    def fact(self, name: str, default: Any = None) -> Any:
        rows = self._rows("SELECT value FROM fact WHERE name = ?", name)
        return json.loads(rows[0][0]) if rows else default

    def blob(self, name: str) -> bytes | None:
        rows = self._rows("SELECT value FROM fact WHERE name = ?", name)
        return bytes(rows[0][0]) if rows else None

    def catalogue(self) -> tuple[list[str], list[str | None]]:
        rows = self._rows("SELECT id, title FROM item ORDER BY code")
        return [r[0] for r in rows], [r[1] for r in rows]

    def name_items(self, ids: Sequence[str], titles: Sequence[str | None] | None) -> None:
        """The catalogue, or what it has grown by."""
        begin = self._rows("SELECT COUNT(*) FROM item")[0][0]
        named = titles or [None] * len(ids)
        with self.writing() as db:
            db.executemany(
                "INSERT INTO item VALUES (?, ?, ?)",
                [
                    (begin + i, str(item), title)
                    for i, (item, title) in enumerate(zip(ids, named, strict=True))
                ],
            )

    def met(self) -> list[tuple[int, int | None]]:
        """Codes of items and their times, oldest first: in the order in which they were told, whatever a clock says."""
        return self._rows("SELECT code, time FROM met ORDER BY place")

    def meet(self, rows: Sequence[tuple[int, int | None]]) -> None:
        with self.writing() as db:
            db.executemany("INSERT INTO met (code, time) VALUES (?, ?)", rows)

    # -- rounds --------------------------------------------------------------------------------

    def rounds(self) -> list[Played]:
        rows = self._rows("SELECT number, earlier, digest, before, after, reply FROM round ORDER BY number")
        return [Played(*row) for row in rows]

    def play(self, played: Played, broadcast: bytes) -> None:
        """The round counts from here on: before anything leaves."""
        with self.writing() as db:
            row = (played.number, played.earlier, played.digest, played.before, played.after, played.reply)
            db.execute("DELETE FROM round WHERE number > ?", (played.earlier,))
            db.execute("INSERT INTO round VALUES (?, ?, ?, ?, ?, ?)", row)
            db.execute(
                "DELETE FROM round WHERE number NOT IN (SELECT number FROM round ORDER BY number DESC LIMIT ?)",
                (KEPT,),
            )
            db.execute("INSERT OR REPLACE INTO fact VALUES ('broadcast', ?)", (broadcast,))
            db.execute("INSERT OR IGNORE INTO fact VALUES ('answers', '0')")
            db.execute(
                "UPDATE fact SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE name = 'answers'"
            )

    def remember(self, number: int, **values: bytes) -> None:
        """What a masked round needs until it is over; those of earlier rounds go."""
        with self.writing() as db:
            db.execute("DELETE FROM session WHERE number < ?", (number,))
            rows = [(name, number, value) for name, value in values.items()]
            db.executemany("INSERT OR REPLACE INTO session VALUES (?, ?, ?)", rows)

    def remembered(self, name: str) -> bytes | None:
        rows = self._rows("SELECT value FROM session WHERE name = ?", name)
        return bytes(rows[0][0]) if rows else None


def forget(folder: Path) -> None:
    """Everything of a device is gone."""
    if not (folder / NAME).exists():
        raise FedrecError(f"{folder} is no device: nothing to forget")
    _remove(folder)


def _remove(folder: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        (folder / (NAME + ending)).unlink(missing_ok=True)


def _opened(path: Path) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(path, isolation_level=None, timeout=10, check_same_thread=False)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA secure_delete = ON")
        return db
    except sqlite3.OperationalError as error:
        raise FedrecError(f"cannot open {path}: {error}") from None
    except sqlite3.DatabaseError as error:
        raise FedrecError(f"{path} is damaged ({error}): restore it from a copy, or begin anew") from None
