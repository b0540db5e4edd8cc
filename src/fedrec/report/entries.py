"""The runs of a report, as they are on disk: a folder that cannot be read is one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fedrec.core.errors import FedrecError
from fedrec.runs.config import RunConfig
from fedrec.runs.folder import RunFolder
from fedrec.runs.history import read_history

COMPARISON = "comparison.json"  # what a comparison writes beside its runs
DEEP = 3  # folders within folders that are looked into
NEEDED = ("method", "seed", "users", "items", "test", "validation", "controls", "versions", "rounds", "leaks")


@dataclass(frozen=True, eq=False)
class Entry:
    """One finished run."""

    path: Path
    config: RunConfig
    result: dict[str, Any]

    @cached_property
    def ranks(self) -> Any:
        return RunFolder(self.path).ranks()

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        return read_history(self.path / "history.jsonl")

    @property
    def has_model(self) -> bool:
        """Whether what it learned is there: comparisons keep figures, and models only where asked to."""
        return (self.path / "checkpoint" / "current.json").exists()


def read_entries(paths: Iterable[Path]) -> tuple[list[Entry], list[str]]:
    """All runs in the order given, folders of runs opened up; and what was left out, in sentences."""
    entries: dict[Path, Entry] = {}
    left: list[str] = []
    for path in paths:
        if (path / "config.toml").exists():
            entry = _read(path)
            if isinstance(entry, str):
                raise FedrecError(entry)
            entries[path.resolve()] = entry
            continue
        if not path.is_dir():
            raise FedrecError(f"{path} is no folder: give folders of runs, such as runs/mine")
        found = _runs_in(path)
        if told := _told(path):
            left.append(f"{told} runs of {path} are known from a ledger alone: a report needs their folders")
        if not found and not told:
            raise FedrecError(f"{path} is not a run and holds none: there is no config.toml in it")
        for inner in found:
            entry = _read(inner)
            if isinstance(entry, str):
                left.append(entry)
            else:
                entries[inner.resolve()] = entry
    if not entries:
        raise FedrecError(f"there is nothing to report: {left[0]}" if left else "give at least one run")
    return list(entries.values()), left


def _told(path: Path) -> int:
    """How many runs of a comparison a ledger told of."""
    try:
        lines = json.loads((path / COMPARISON).read_text(encoding="utf-8"))["lines"]
        return sum(result is not None for line in lines for result in line.get("told", ()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0


def baseline_of(paths: Iterable[Path]) -> str | None:
    """What a comparison among the folders was tested against."""
    for path in paths:
        try:
            found = json.loads((path / COMPARISON).read_text(encoding="utf-8"))["baselines"][0]
        except (OSError, ValueError, LookupError, TypeError):
            continue
        if isinstance(found, str):
            return found
    return None


def _runs_in(path: Path) -> list[Path]:
    found: list[Path] = []
    level: Sequence[Path] = [path]
    for _ in range(DEEP):
        inner = [p for folder in level for p in sorted(folder.iterdir()) if p.is_dir()]
        found += [p for p in inner if (p / "config.toml").exists()]
        level = [p for p in inner if not (p / "config.toml").exists()]
    return found


def _read(path: Path) -> Entry | str:
    """A run, or why it has no figures; damage is an error wherever it is met."""
    folder = RunFolder.existing(path)
    config, result = folder.config(), folder.result()
    if result is None:
        return f"{path} is not finished: go on with fedrec run --resume {path}"
    if config.all_data:
        return f"{path} was trained on all data: nothing was held out, so there are no figures to report"
    if config.protocol.held_out > 1 or config.protocol.split == "temporal":
        why = f"holds out several items of a user ({config.protocol.name})"
        return f"{path} {why}: a report draws runs that hold out one"
    lacking = [name for name in NEEDED if result.get(name, ...) is ...]
    if lacking or not isinstance(result["test"], dict) or not result["controls"]:
        raise FedrecError(
            f"{path}/result.json is damaged: it lacks {', '.join(lacking) or 'test figures'}; "
            f"fedrec run --resume {path} measures the run again from its checkpoint"
        )
    return Entry(path, config, result)
