"""Comparisons: any methods × data sets × protocols × seeds, with paired tests over per-user ranks.

Every run is a folder, named after everything that decides it: what is finished is read, what was
interrupted goes on, and only what is missing is trained.

    from fedrec.study.compare import Case, compare, paired
    table = compare([Case("pfedrec", "ml-100k"), Case("fedmf", "ml-100k")], "results", seeds=3)
    table[0].mean("hr@10"), table[0].std("hr@10"), paired(table[0], table[1]).p
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.core.protocol import protocol as named_protocol
from fedrec.data.interactions import Interactions
from fedrec.evaluate.metrics import each_user
from fedrec.methods import make, settings_of, spec_of
from fedrec.runs import api
from fedrec.runs.config import fingerprint
from fedrec.runs.folder import RunFolder

K = 10  # length of the lists that are compared
Say = Callable[[str], None]


@dataclass(frozen=True)
class Case:
    """One line of a comparison: a method on a data set under a protocol."""

    method: str
    data: str | Path | Interactions = "demo"
    protocol: str = "strict"
    settings: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)  # of fedrec.run: rounds, clients, channel, local, …
    label: str = ""

    @property
    def name(self) -> str:
        return self.label or self.method

    @property
    def data_name(self) -> str:
        return self.data.name if isinstance(self.data, Interactions) else str(self.data)


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

    def first(self, seeds: int) -> Line:
        """The same with its first seeds only."""
        return replace(self, results=self.results[:seeds], folders=self.folders[:seeds])

    def gains(self, metric: str = "ndcg", full: bool = False) -> NDArray[np.float64]:
        """What each user's test items gained, averaged over them and over seeds: 1 for a hit, or its discount."""
        import polars as pl

        per_seed = []
        for folder in self.folders:
            column = "test_full_rank" if full else "test_rank"
            found, users = pl.read_parquet(folder / "ranks.parquet", glob=False)[column], None
            if isinstance(found.dtype, pl.List):  # several items of a user, or none
                users = np.repeat(np.arange(len(found)), found.list.len().to_numpy())
                found = found.explode().drop_nulls()
            ranks = found.to_numpy()
            hit = (ranks < K).astype(np.float64)
            per_seed.append(each_user(hit if metric == "hr" else hit / np.log2(ranks + 2.0), users))
        return np.asarray(np.mean(per_seed, axis=0))


@dataclass(frozen=True)
class Paired:
    """The difference of two lines on the same users: mean, and how likely it would be by chance."""

    difference: float
    p: float
    users: int


def paired(a: Line, b: Line, metric: str = "ndcg", full: bool = False) -> Paired:
    """Wilcoxon's signed-rank test over users; seeds are averaged first, so that a user counts once."""
    from scipy.stats import wilcoxon

    where = (a.case.data_name, a.case.protocol, len(a.results))
    if where != (b.case.data_name, b.case.protocol, len(b.results)):
        raise FedrecError(
            f"{a.case.name} and {b.case.name} cannot be paired: they need the same data, protocol and seeds"
        )
    difference = a.gains(metric, full) - b.gains(metric, full)
    p = float(wilcoxon(difference).pvalue) if difference.any() else 1.0
    return Paired(float(difference.mean()), p, len(difference))


def holm(ps: Sequence[float]) -> list[float]:
    """p-values corrected for the number of tests (Holm, 1979), in the given order."""
    order = np.argsort(ps)
    corrected, worst = [0.0] * len(ps), 0.0
    for rank, at in enumerate(order):
        worst = max(worst, min(1.0, (len(ps) - rank) * ps[at]))
        corrected[at] = worst
    return corrected


def compare(
    cases: Sequence[Case],
    folder: str | Path,
    seeds: int | Sequence[int] = 3,
    *,
    threads: int | None = None,
    slow: float | None = None,
    local: bool = False,
    keep_models: bool = False,
    say: Say = lambda text: None,
) -> list[Line]:
    """Run what is missing and return all lines, in the order of the cases.

    ``slow``: a case whose first seed takes more seconds than this gets no others, and its line says so.
    ``local``: after each federated method the same model, never aggregated. An unknown method or setting
    is an error before anything runs; a run that fails leaves its sentence in the line, and the others go on.
    """
    numbers = range(seeds) if isinstance(seeds, int) else seeds
    return [
        _line(case, Path(folder), numbers, threads, slow, keep_models, say) for case in _checked(cases, local)
    ]


def finished(
    cases: Sequence[Case],
    folder: str | Path,
    seeds: int | Sequence[int] = 3,
    *,
    slow: float | None = None,
    local: bool = False,
) -> list[Line]:
    """Lines of what is finished already, or failed; nothing is run, cases not yet tried are left out."""
    numbers = range(seeds) if isinstance(seeds, int) else seeds
    lines = []
    for case in _checked(cases, local):
        try:
            places = [place(case, Path(folder), seed) for seed in numbers]
        except FedrecError:  # data that are not there
            continue
        found = [(path, result) for path in places if (result := _read(path)) is not None]
        failed = next((_failure(path).read_text("utf-8") for path in places if _failure(path).exists()), "")
        if found or failed:
            results, paths = [result for _, result in found], [path for path, _ in found]
            missing = len(results) < len(numbers)
            so_far = f"{len(results)} of {len(numbers)} seeds so far" if missing else ""
            lines.append(Line(case, results, paths, failed, _note(results, slow, numbers) or so_far))
    return lines


def _checked(cases: Sequence[Case], local: bool) -> list[Case]:
    """All cases, controls included; a method, setting or protocol that does not exist is an error now."""
    for case in cases:
        make(case.method, case.settings)
        named_protocol(case.protocol)
    return [one for case in cases for one in _with_control(case)] if local else [*cases]


def _with_control(case: Case) -> list[Case]:
    if case.options.get("local") or not isinstance(make(case.method, case.settings), Federated):
        return [case]
    # Alone there is nobody to sample from and nothing to send.
    options = {k: v for k, v in case.options.items() if k not in ("channel", "clients", "view")}
    alone = replace(case, options={**options, "local": True}, label=f"{case.name}, local only")
    return [case, alone]


def _line(
    case: Case,
    folder: Path,
    seeds: Sequence[int],
    threads: int | None,
    slow: float | None,
    keep_models: bool,
    say: Say,
) -> Line:
    results: list[dict[str, Any]] = []
    folders: list[Path] = []
    for seed in seeds:
        what = f"{case.name} on {case.data_name}, {case.protocol}, seed {seed}"
        try:
            path = place(case, folder, seed)
        except FedrecError as error:  # data that are not there
            say(f"{what}: {error}")
            return Line(case, [], [], failed=str(error))
        try:
            result = _result(case, path, seed, threads, keep_models, what, say)
        except FedrecError as error:
            say(f"{what}: {error}")
            _failure(path).write_text(str(error), encoding="utf-8")
            return Line(case, results, folders, failed=str(error))
        results.append(result)
        folders.append(path)
        if _note(results, slow, seeds):
            break
    return Line(case, results, folders, note=_note(results, slow, seeds))


def _note(results: Sequence[dict[str, Any]], slow: float | None, seeds: Sequence[int]) -> str:
    """Why a line has one seed only, where it is slow."""
    if slow is None or len(seeds) == 1 or len(results) != 1 or _seconds(results[0]) <= slow:
        return ""
    return f"one seed, because a run takes {_seconds(results[0]) / 60:.0f} minutes"


def place(case: Case, folder: Path, seed: int) -> Path:
    """Where a run is kept: a name that changes with anything that decides its figures."""
    method = make(case.method, case.settings)
    data = _data(case.data)
    decides = {
        "fedrec": fedrec.__version__.split(".")[:2],
        "method": spec_of(method),
        "settings": settings_of(method),
        "data": fingerprint(data),
        "protocol": named_protocol(case.protocol).model_dump(mode="json"),
        "seed": seed,
        "options": case.options,
    }
    digest = hashlib.sha256(json.dumps(decides, sort_keys=True, default=str).encode()).hexdigest()[:10]
    words = re.sub(r"[^\w+.-]+", "-", f"{case.method}-{case.data_name}-{case.protocol}-s{seed}")
    return folder / f"{words}-{digest}"


def _failure(path: Path) -> Path:
    """Where the sentence of a run that could not be made is kept, beside its folder."""
    return path.with_name(f"{path.name}.failed")


def _result(
    case: Case, path: Path, seed: int, threads: int | None, keep_models: bool, what: str, say: Say
) -> dict[str, Any]:
    """Read what is finished, go on with what was interrupted, or start."""
    if (path / "config.toml").exists():
        if (found := _read(path)) is not None:
            return found
        say(f"{what}: going on")
        run = api.resume(path, data=_data(case.data), threads=threads)
    else:
        say(what)
        shutil.rmtree(path, ignore_errors=True)  # killed before its config was written: nothing in it
        method, data = make(case.method, case.settings), _data(case.data)
        run = api.run(method, data, case.protocol, seed=seed, threads=threads, out=path, **case.options)
    _failure(path).unlink(missing_ok=True)
    if not keep_models:
        shutil.rmtree(path / "checkpoint", ignore_errors=True)
    return run.result


def _read(path: Path) -> dict[str, Any] | None:
    return RunFolder.existing(path).result() if (path / "config.toml").exists() else None


def _data(data: str | Path | Interactions) -> Interactions:
    """Loaded once: a comparison asks for the same few data sets again and again."""
    if isinstance(data, Interactions):
        return data
    if str(data) not in _loaded:
        _loaded[str(data)] = fedrec.load(data)
    return _loaded[str(data)]


_loaded: dict[str, Interactions] = {}


def _seconds(result: dict[str, Any]) -> float:
    """How long its rounds took."""
    parts = ("seconds_per_round", "evaluate_seconds_per_round")
    return float((result["rounds"] or 0) * sum(result[part] or 0 for part in parts))
