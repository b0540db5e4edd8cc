"""A run on disk: config.toml, history.jsonl, result.json, ranks.parquet, checkpoint/. No pickle."""

from __future__ import annotations

import json
import os
import tomllib
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from fedrec.core.errors import FedrecError
from fedrec.core.files import write
from fedrec.runs.config import RunConfig


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
        if path is None:
            runs = Path("runs")
            runs.mkdir(exist_ok=True)
            if not (runs / ".gitignore").exists():
                (runs / ".gitignore").write_text("*\n", encoding="utf-8")
            method = "+".join(
                Path(part).name for part in config.method.split("+")
            )  # files without their folder
            method, data = (text.replace("/", "-").replace(":", "-") for text in (method, config.data))
            stem = f"{method}-{data}-{config.protocol.name}-s{config.seed}-{datetime.now():%Y%m%d-%H%M%S}"
            path, n = runs / stem, 1
            while path.exists():
                path, n = runs / f"{stem}-{n}", n + 1
        elif path.exists():
            raise FedrecError(f"{path} exists already: choose another --out, or go on with --resume {path}")
        try:
            path.mkdir(parents=True)
        except OSError as error:
            raise FedrecError(f"cannot make the run folder {path}: {error.strerror}") from None
        folder = cls(path)
        folder.lock()
        folder.write_config(config)
        return folder

    @classmethod
    def existing(cls, path: Path) -> RunFolder:
        if not (path / "config.toml").exists():
            raise FedrecError(f"{path} is not a run folder: it has no config.toml")
        return cls(path)

    def lock(self) -> None:
        file = (self.path / ".lock").open("w", encoding="utf-8")
        try:
            if os.name == "nt":
                import msvcrt

                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
            else:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise FedrecError(
                f"another process is writing {self.path}: wait for it, or use another --out"
            ) from None
        self._lock = file

    def unlock(self) -> None:
        if self._lock:
            self._lock.close()
            self._lock = None

    def write_config(self, config: RunConfig) -> None:
        import tomli_w

        write(self.path / "config.toml", tomli_w.dumps(config.table()))

    def config(self) -> RunConfig:
        import fedrec

        try:
            values = tomllib.loads((self.path / "config.toml").read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            raise FedrecError(f"{self.path}/config.toml is damaged: it is not valid TOML") from None
        made = str(values.get("fedrec", "unknown"))
        if made.split(".")[:2] != fedrec.__version__.split(".")[:2]:
            raise FedrecError(
                f"{self.path} was made by fedrec {made} and this is {fedrec.__version__}: "
                "start the run anew, or install that version"
            )
        return RunConfig(**values)

    def write_result(self, result: dict[str, Any]) -> None:
        write(self.path / "result.json", json.dumps(result, indent=2) + "\n")

    def drop_result(self) -> None:
        """The run goes on: what it had reached so far is no longer its result."""
        (self.path / "result.json").unlink(missing_ok=True)

    def result(self) -> dict[str, Any] | None:
        path = self.path / "result.json"
        if not path.exists():
            return None
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
