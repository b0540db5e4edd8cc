"""Cases and lines of a comparison: a method on data under a protocol, and what its runs came to."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.protocol import Protocol
from fedrec.core.protocol import protocol as named_protocol
from fedrec.data.interactions import Interactions
from fedrec.evaluate.metrics import each_user
from fedrec.runs.config import RunConfig
from fedrec.runs.describe import Described, described
from fedrec.runs.folder import RunFolder, digest
from fedrec.runs.history import read_history

NEARLY = 0.99  # of the best validation figure: what a method costs to come so far is shown
UNFINISHED = "not finished so far"
K = 10  # length of the lists that are compared
# What says where data came from and which fix of a version made the run: it decides no figure.
NO_MATTER = ("fedrec", "preset", "data", "source", "load", "start_leaks")


@dataclass(frozen=True)
class Case:
    """One line of a comparison: a method on a data set under a protocol."""

    method: str
    data: str | Path | Interactions = "demo"
    protocol: str | Protocol = "strict"
    settings: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)  # of fedrec.run: rounds, clients, channel, local, …
    label: str = ""
    seeds: tuple[int, ...] | None = None  # other seeds than the comparison's

    @property
    def name(self) -> str:
        return self.label or self.method

    @property
    def data_name(self) -> str:
        return self.data.name if isinstance(self.data, Interactions) else str(self.data)

    @property
    def protocol_name(self) -> str:
        return named_protocol(self.protocol).name

    @property
    def local(self) -> bool:
        return bool(self.options.get("local"))

    def described(self, seed: int) -> Described:
        """Its run with a seed; a mistake is one sentence."""
        data = loaded_once(self.data)
        return described(self.method, data, self.protocol, seed=seed, settings=self.settings, **self.options)


@dataclass(frozen=True)
class Line:
    """A case with its results, one per seed; those that could not be made say why."""

    case: Case
    results: list[dict[str, Any]]
    folders: list[Path]
    failed: str = ""
    note: str = ""

    def values(self, name: str, full: bool = False) -> NDArray[np.float64]:
        """A test figure in each seed, as fractions."""
        found = [result["test"]["full"] if full else result["test"] for result in self.results]
        return np.array([test[name] for test in found])

    def mean(self, name: str, full: bool = False) -> float:
        return float(self.values(name, full).mean()) if self.results else math.nan

    def std(self, name: str, full: bool = False) -> float | None:
        """Over seeds; None where there is one seed only."""
        values = self.values(name, full)
        return float(values.std(ddof=1)) if len(values) > 1 else None

    def average(self, name: str) -> float | None:
        """Any other figure of the results, such as ``bytes_up_per_client``; None where a run has none."""
        found = [result[name] for result in self.results]
        return None if None in found or not found else float(np.mean(found))

    @property
    def seconds(self) -> float | None:
        """How long a run's rounds took, evaluation included, on average; None where there are none."""
        found = [run_seconds(result) for result in self.results]
        return None if None in found or not found else float(np.mean(np.array(found, float)))

    @property
    def nearly(self) -> tuple[float, float | None] | None:
        """Rounds, and bytes up and down of a client, to 99% of the best validation figure; None without rounds."""
        found = [nearly_of(*each) for each in zip(self.folders, self.results, strict=True)]
        whole = [one for one in found if one is not None]
        if not whole or len(whole) < len(found):
            return None
        sent = [size for _, size in whole if size is not None]
        rounds = float(np.mean([rounds for rounds, _ in whole]))
        return rounds, float(np.mean(sent)) if len(sent) == len(whole) else None

    @property
    def has_ranks(self) -> bool:
        """Whether it is known where every user's items came; a ledger has figures alone."""
        return not any("nearly" in result for result in self.results)

    def at(self, seeds: Sequence[int]) -> Line:
        """The same with these seeds only."""
        kept = [i for i, result in enumerate(self.results) if result["seed"] in seeds]
        return replace(self, results=[self.results[i] for i in kept], folders=[self.folders[i] for i in kept])

    @property
    def seeds(self) -> list[int]:
        return [int(result["seed"]) for result in self.results]

    def gains(self, metric: str = "ndcg", full: bool = False) -> NDArray[np.float64]:
        """What each user's test items gained, averaged over them and over seeds: 1 for a hit, or its discount."""
        import polars as pl

        per_seed = []
        for folder in self.folders:
            found, users = RunFolder(folder).ranks()["test_full_rank" if full else "test_rank"], None
            if isinstance(found.dtype, pl.List):  # several items of a user, or none
                users = np.repeat(np.arange(len(found)), found.list.len().to_numpy())
                found = found.explode().drop_nulls()
            ranks = found.to_numpy()
            hit = (ranks < K).astype(np.float64)
            per_seed.append(each_user(hit if metric == "hr" else hit / np.log2(ranks + 2.0), users))
        return np.asarray(np.mean(per_seed, axis=0))


def place(case: Case, folder: Path, seed: int) -> Path:
    """Where a run is kept: a name that changes with anything that decides its figures."""
    return folder / run_name(case.described(seed).config)


def run_name(config: RunConfig) -> str:
    """Words for people, and a sum over all that decides the figures."""
    table = {name: value for name, value in config.table().items() if name not in NO_MATTER}
    table["fedrec"] = fedrec.__version__.split(".")[:2]
    method = "+".join(Path(part).name for part in config.method.split("+"))
    words = f"{method}-{config.data}-{config.protocol.name}-s{config.seed}"[:100]
    return f"{re.sub(r'[^A-Za-z0-9._+-]+', '-', words)}-{digest(table)[:10]}"


def failure(path: Path) -> Path:
    """Where the sentence of a run that could not be made is kept, beside its folder."""
    return path.with_name(f"{path.name}.failed")


def read_failure(path: Path) -> dict[str, Any]:
    """Why a run could not be made; empty where nothing is known."""
    try:
        found = json.loads(failure(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def finished(path: Path, models: bool = False) -> dict[str, Any] | None:
    """The result of a finished run (with its model, where that is asked for); None where there is none."""
    if not (path / "config.toml").exists():
        return None
    if models and not ((path / "checkpoint" / "current.json").exists() or (path / "model.npz").exists()):
        return None
    try:
        return RunFolder.existing(path).result()
    except FedrecError:  # damaged: it is measured again
        return None


def run_seconds(result: dict[str, Any]) -> float | None:
    """How long the rounds of a run took; None for what has none."""
    parts = [result["seconds_per_round"], result["evaluate_seconds_per_round"]]
    return None if None in parts or not result["rounds"] else float(result["rounds"] * sum(parts))


def nearly_of(folder: Path, result: dict[str, Any]) -> tuple[int, float | None] | None:
    """The same for a run in a folder, or one of which a ledger tells."""
    if "nearly" in result:
        return tuple(result["nearly"]) if result["nearly"] else None
    return nearly_best(read_history(RunFolder(folder).history), result)


def nearly_best(history: Sequence[dict[str, Any]], result: dict[str, Any]) -> tuple[int, float | None] | None:
    """After which round a run's validation figure was within 1% of its best, and what a client had sent and fetched."""
    metric = result["protocol_settings"]["select_on"]
    figures = [(line["round"], line["validation"][metric]) for line in history if line.get("validation")]
    if not figures:
        return None
    best = max(value for _, value in figures)
    at = next(round for round, value in figures if value >= NEARLY * best)
    played = [line for line in history if line["round"] <= at]
    if any(line.get("bytes_up") is None or line.get("bytes_down") is None for line in played):
        return at, None
    return at, sum(line["bytes_up"] + line["bytes_down"] for line in played) / result["users"]


def loaded_once(data: str | Path | Interactions) -> Interactions:
    """A comparison asks for the same few data sets again and again."""
    if isinstance(data, Interactions):
        return data
    if str(data) not in _loaded:
        _loaded[str(data)] = fedrec.load(data)
    return _loaded[str(data)]


_loaded: dict[str, Interactions] = {}
