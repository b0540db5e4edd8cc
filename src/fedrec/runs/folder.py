"""A run on disk: config.toml, history.jsonl, result.json, ranks.parquet, checkpoint/. No pickle."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fedrec.core.errors import FedrecError
from fedrec.core.files import exists, write
from fedrec.runs.config import RunConfig

if TYPE_CHECKING:
    import polars as pl

WAITS = 60.0  # seconds for another process to let go of what only one may have

DIGEST = "# digest: "  # of everything else in a config
LONGEST = 150  # letters of a folder's name, besides seed and date


class Locked(FedrecError):
    """Another process is writing the folder."""


class RunFolder:
    """A folder that one process at a time may write; the lock dies with its process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.history = path / "history.jsonl"
        self.checkpoint = path / "checkpoint"
        self._lock: IO[str] | None = None

    @classmethod
    def create(cls, path: Path | None, config: RunConfig) -> RunFolder:
        """A new folder; an existing one is refused. Without a path: a unique one under ``runs/``."""
        try:
            if path is None:
                path = _unique(config)
            elif path.exists():
                goes_on = (path / "config.toml").exists()
                advice = f", or go on with --resume {path}" if goes_on else ""
                raise FedrecError(f"{path} exists already: choose another --out{advice}")
            path.mkdir(parents=True)
        except OSError as error:
            where = path or "under runs/"
            raise FedrecError(f"cannot make the run folder {where}: {error.strerror}") from None
        folder = cls(path)
        with writing(path):
            folder.lock()
            folder.write_config(config)
        return folder

    @classmethod
    def existing(cls, path: Path) -> RunFolder:
        if not exists(path / "config.toml"):
            raise FedrecError(f"{path} is not a run folder: it has no config.toml")
        return cls(path)

    def lock(self) -> None:
        file = take_lock(self.path / ".lock")
        if file is None:
            raise Locked(f"another process is writing {self.path}: wait for it, or use another --out")
        self._lock = file

    def unlock(self) -> None:
        if self._lock:
            self._lock.close()
            self._lock = None

    def write_config(self, config: RunConfig) -> None:
        import tomli_w

        table = config.table()
        write(self.path / "config.toml", f"{tomli_w.dumps(table)}\n{DIGEST}{digest(table)}\n")

    def config(self) -> RunConfig:
        import fedrec

        try:
            text = (self.path / "config.toml").read_text(encoding="utf-8")
            values = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            raise FedrecError(f"{self.path}/config.toml is damaged: it is not valid TOML") from None
        made = str(values.get("fedrec", "unknown"))
        if made.split(".")[:2] != fedrec.__version__.split(".")[:2]:
            raise FedrecError(
                f"{self.path} was made by fedrec {made} and this is {fedrec.__version__}: "
                "start the run anew, or install that version"
            )
        config = RunConfig(**values)
        if f"{DIGEST}{digest(values)}" not in text.splitlines():
            raise FedrecError(
                f"{self.path}/config.toml was changed after the run was made, so that it no longer says what made "
                "the results: undo the change, or start a new run"
            )
        return config

    def write_result(self, result: dict[str, Any]) -> None:
        write(self.path / "result.json", json.dumps(result, indent=2) + "\n")

    def result(self) -> dict[str, Any] | None:
        """What was measured; None where the run is not finished."""
        path = self.path / "result.json"
        if not path.exists():
            return None
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            found["test"], found["rounds"]
        except (ValueError, KeyError, TypeError, OSError):
            raise FedrecError(
                f"{path} is damaged: fedrec run --resume {self.path} measures the run again from its checkpoint"
            ) from None
        return found

    def ranks(self) -> pl.DataFrame:
        """Every user's ranks."""
        import polars as pl

        path = self.path / "ranks.parquet"
        try:
            return pl.read_parquet(path, glob=False)
        except (OSError, pl.exceptions.PolarsError):
            what = "damaged" if path.exists() else "missing"
            raise FedrecError(
                f"{path} is {what}: fedrec run --resume {self.path} measures the run again from its checkpoint"
            ) from None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what the system refuses (a full disk, a folder that may not be written) into a sentence."""
    try:
        yield
    except OSError as error:
        raise FedrecError(
            f"cannot write in {path}: {error.strerror or error}; make room or choose another --out "
            "(what was saved before is still there)"
        ) from None


def make_folder(path: Path) -> None:
    """A folder that has runs in it, such as a comparison's or a search's."""
    if exists(path / "config.toml"):
        raise FedrecError(f"{path} is the folder of a run: choose another --out")
    try:
        path.mkdir(parents=True, exist_ok=True)
        if path.parent.name == "runs":
            _ignored(path.parent)
    except OSError as error:
        raise FedrecError(f"cannot make the folder {path}: {error.strerror}") from None


def take_lock(path: Path) -> IO[str] | None:
    """A file that is this process's while it is open; None where another process has it."""
    file = path.open("w", encoding="utf-8")
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


@contextmanager
def alone(lock: Path, sentence: str) -> Iterator[None]:
    """One process at a time, by a file that it locks; the sentence is for who has waited for a minute."""
    until = time.monotonic() + WAITS
    while (mine := take_lock(lock)) is None:
        if time.monotonic() > until:
            raise FedrecError(sentence)
        time.sleep(0.05)
    try:
        yield
    finally:
        mine.close()


def _unique(config: RunConfig) -> Path:
    """A new name under ``runs/``."""
    runs = Path("runs")
    runs.mkdir(exist_ok=True)
    _ignored(runs)
    method = "+".join(Path(part).name for part in config.method.split("+"))  # files without their folder
    words = (method, config.data, config.protocol.name)
    stem = "-".join(re.sub(r"[^A-Za-z0-9._+-]", "-", word) for word in words)[:LONGEST]
    stem += f"-s{config.seed}-{datetime.now():%Y%m%d-%H%M%S}"
    path, n = runs / stem, 1
    while path.exists():
        path, n = runs / f"{stem}-{n}", n + 1
    return path


def _ignored(runs: Path) -> None:
    """By git."""
    if not (runs / ".gitignore").exists():
        (runs / ".gitignore").write_text("*\n", encoding="utf-8")


def digest(table: dict[str, Any]) -> str:
    """A sum over everything that decides a run."""
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:16]
