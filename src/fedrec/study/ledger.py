"""Figures of finished runs in one small file: a long table can be made over days, and on several machines.

A line of JSON for each run, under the name of its folder, which changes with anything that decides its figures
(``case.run_name``). It has what tables show of a run; nothing of single users is in it, and so tests with such a run
are paired over seeds.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedrec.core.errors import FedrecError
from fedrec.core.files import exists, write
from fedrec.runs.folder import alone, writing
from fedrec.study.board import Job
from fedrec.study.case import finished, nearly_of

# What tables read of a result.
TOLD = (
    "method", "data", "protocol", "seed", "preset", "engine", "rounds", "selected_round", "stopped", "validation",
    "test", "seconds_per_round", "evaluate_seconds_per_round", "bytes_up_per_client", "bytes_down_per_client",
    "peak_memory_mb", "users", "items", "leaks", "controls", "privacy", "versions",
)  # fmt: skip
DIGITS = 7


class Ledger:
    """What is known of runs by name. Whatever is noted is on disk at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        in_a_folder(path)
        self.known = self._read()

    def _read(self) -> dict[str, dict[str, Any]]:
        if not exists(self.path):
            return {}
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
            return {row["run"]: row for row in map(json.loads, filter(None, lines))}
        except OSError as error:
            raise FedrecError(f"cannot read the ledger {self.path}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise FedrecError(
                f"{self.path} is no ledger, or damaged: each of its lines is one run as JSON"
            ) from None

    def result(self, job: Job) -> dict[str, Any] | None:
        return self.known.get(job.path.name)

    def note(self, jobs: Iterable[Job]) -> None:
        """Add those that are finished in their folders and not known yet."""
        new = {
            job.path.name: self._row(job, result)
            for job in jobs
            if job.path.name not in self.known and (result := finished(job.path)) is not None
        }
        if not new:
            return
        with by_one(self.path), writing(self.path.parent):
            self.known = {**self._read(), **self.known, **new}  # others may have added to it
            lines = [json.dumps(self.known[name], separators=(",", ":")) for name in sorted(self.known)]
            write(self.path, "\n".join(lines) + "\n")

    def _row(self, job: Job, result: dict[str, Any]) -> dict[str, Any]:
        told = {name: _short(result[name]) for name in TOLD if name in result}
        return {"run": job.path.name, **told, "nearly": nearly_of(job.path, result)}


def in_a_folder(path: Path) -> None:
    """Said before anything runs: a ledger that could not be written would be missed after hours."""
    if not exists(path.parent):
        raise FedrecError(f"there is no folder {path.parent} for the ledger {path.name}: make it first")


@contextmanager
def by_one(path: Path) -> Iterator[None]:
    """Whoever reads a ledger and writes it anew does so alone."""
    name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:20]
    lock = Path(tempfile.gettempdir()) / f"fedrec-{getpass.getuser()}-{name}.lock"
    with alone(lock, f"another process holds {path}: try again"):
        yield


def _short(value: Any) -> Any:
    """Floats to so many digits as matter."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: _short(each) for name, each in value.items()}
    return value
