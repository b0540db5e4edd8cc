"""The result of a run: one record of plain values, the same shape for every method."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedrec.channel.budget import no_epsilon
from fedrec.channel.bytes import downloaded
from fedrec.channel.order import why_none
from fedrec.channel.stage import Stage
from fedrec.core.kernel import LeastSquares
from fedrec.core.method import ROUNDS, Method
from fedrec.core.wrapper import chain
from fedrec.data.outline import Outline
from fedrec.data.split import Split
from fedrec.evaluate.beyond import beyond
from fedrec.evaluate.controls import Controls, controls, stated
from fedrec.evaluate.metrics import Ranks, summary
from fedrec.evaluate.ranking import Measured
from fedrec.methods import named_by_alias
from fedrec.runs.config import RunConfig
from fedrec.runs.history import History
from fedrec.runs.presets import preset
from fedrec.runs.train import Training
from fedrec.simulate.simulation import Simulation

LIBRARIES = ("numpy", "numba", "polars", "torch")
TRAINED = "Validation items were trained on as well: figures of validation say nothing, and test items chose the round."


def figures(ranks: Ranks, ks: Sequence[int] = (10,)) -> dict[str, float]:
    """The metrics that a result states, for lists of these lengths."""
    stated = {f"{name}@{k}" for k in ks for name in ("hr", "ndcg", "mrr")} | {"auc"}
    return {name: value for name, value in summary(ranks, ks).items() if name in stated}


def speed(lines: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """Means over the rounds of a history: time, clients per second, bytes."""
    names = ("seconds_per_round", "evaluate_seconds_per_round", "clients_per_second", "bytes_up_per_client")
    if not lines:
        return dict.fromkeys(names)
    fit = sum(line["fit_seconds"] for line in lines)
    evaluate = sum(line["evaluate_seconds"] for line in lines)
    clients = sum(line["clients"] for line in lines)
    sent = clients - sum(line["dropped"] for line in lines)
    return {
        "seconds_per_round": fit / len(lines),
        "evaluate_seconds_per_round": evaluate / len(lines),
        "clients_per_second": clients / fit if fit else None,
        "bytes_up_per_client": sum(line["bytes_up"] for line in lines) / sent if sent else None,
    }


def peak_memory_mb() -> float | None:
    """The largest memory this process has held; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def versions() -> dict[str, str]:
    import fedrec

    found = {"fedrec": fedrec.__version__, "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def result_of(
    method: Method,
    parts: Split | Outline,
    config: RunConfig,
    training: Training | None,
    history: History,
    measured: Measured | None,
    short: int,
    stopped: str,
    threads: int,
) -> dict[str, Any]:
    played = training.moment.round if training else None
    checks = _controls(parts, training, played or ROUNDS, config, threads) if measured else None
    down = None
    if isinstance(training, Simulation):  # rows that are zero are not sent: the mean over the rounds
        asked = sum(line["clients"] for line in history.lines)
        fetched = sum(line["bytes_down"] for line in history.lines)
        down = fetched / asked if asked else downloaded(dict(training.team.slots), training.given)
    return {
        "method": config.method if named_by_alias(config.method) else method.label,
        "settings": {k: list(v) if isinstance(v, tuple) else v for k, v in config.settings.items()},
        "preset": config.preset,
        "preset_changed": _changed(config),
        "resolved": _resolved(training),
        "data": config.data,
        "protocol": config.protocol.name,
        "protocol_settings": config.protocol.model_dump(mode="json"),
        "seed": config.seed,
        "engine": training.team.engine if isinstance(training, Simulation) else "central",
        "view": training.view if training else None,
        "local": config.local,
        "channel": list(config.channel),
        "privacy": _privacy(method, config, training),
        "start": config.start,
        "start_leaks": config.start_leaks,
        "rounds": played,
        "selected_round": training.selected.round if training and training.selected else None,
        "stopped": stopped or None,
        "all_data": config.all_data,
        **(
            _figures(measured, parts, config.k)
            if measured
            else {"validation": None, "test": None, "beyond": None}
        ),
        **speed(history.lines),
        "bytes_down_per_client": down,
        "peak_memory_mb": peak_memory_mb(),
        "users": parts.n_users,
        "items": parts.n_items,
        "users_dropped": parts.dropped,
        "users_tested": measured.test.n_users if measured else None,
        "users_short_of_candidates": short,
        "clients_dropped": sum(line["dropped"] for line in history.lines) if training else None,
        "notes": [said for part in chain(method) if (said := part.note(parts.catalog))]
        + [said for s in _remarkable(training) if (said := s.says())]
        + ([] if measured is None or measured.knew else [_knew_less(method, config)])
        + ([TRAINED] if measured and config.protocol.known == "validation-trained" else [])
        + list(parts.data.notes),
        "selected_on_test": measured is not None
        and training is not None
        and config.protocol.select_by == "test",
        "leaks": checks is not None and (checks["counter"]["leaks"] or config.start_leaks > 0),
        "controls": checks,
        "threads": threads,
        "workers": training.team.about() if isinstance(training, Simulation) else None,
        "versions": versions(),
    }


def _controls(
    parts: Split | Outline, training: Training | None, rounds: int, config: RunConfig, threads: int
) -> Controls:
    if isinstance(parts, Split):
        return controls(parts, rounds, config.seed, threads, config.k)
    assert isinstance(training, Simulation)
    team, met_by = training.team, parts.met_by.astype(np.float32)
    return stated(lambda draws: team.controls(met_by, rounds, draws), config.seed, config.k)


def _remarkable(training: Training | None) -> Sequence[Stage]:
    """Stages that have something to say; what sums alone do not hide is hidden where noise states an epsilon."""
    stages = training.channel if training else ()
    private = isinstance(training, Simulation) and training.private
    return [stage for stage in stages if not (private and stage.hides_single)]


def _privacy(method: Method, config: RunConfig, training: Training | None) -> dict[str, Any]:
    """What was spent, and on which terms; without noise, why there is no epsilon."""
    if not isinstance(training, Simulation):
        return no_epsilon(f"{method.label} sees all interactions in one place")
    if training.budget is None:
        return no_epsilon(why_none(training.channel, config.local))
    return training.budget.record(training.moment.round)


def _knew_less(method: Method, config: RunConfig) -> str:
    return (
        f"Protocol {config.protocol.name} lets a device know its validation item when the test item is ranked; "
        f"{method.label} cannot use it without training, and ranked from the training items alone."
    )


def _changed(config: RunConfig) -> list[str]:
    """Settings that are not as the run's preset has them."""
    if config.preset is None:
        return []
    return preset(config.method, config.preset).changed(config.method, config.settings)


def _resolved(training: Training | None) -> dict[str, float]:
    """What a setting ``auto`` stands for on these data: what a solver of clients' vectors is told."""
    if not isinstance(training, Simulation):
        return {}
    form = training.method.kernel(training.server.catalog)
    if not isinstance(form, LeastSquares):
        return {}
    if form.bounded is not None:
        alpha, lam, _ = map(float, training.server.state.shared[form.bounded.numbers])
        return {"alpha": alpha, "lam": lam}
    return {"alpha": form.alpha, "lam": form.lam}


def _figures(measured: Measured, parts: Split | Outline, ks: Sequence[int]) -> dict[str, Any]:
    return {
        "validation": figures(measured.valid, ks),
        "test": {**figures(measured.test, ks), "full": figures(measured.full, ks)},
        "beyond": {n: v for k in ks for n, v in beyond(measured.top[:, :k], parts).items()},
    }


def rank_table(parts: Split | Outline, measured: Measured | None) -> Any:
    import polars as pl

    ids = parts.data.user_ids[parts.users]
    columns: dict[str, Any] = {"user": ids if ids.dtype != object else [str(i) for i in ids]}
    kinds = (
        {}
        if measured is None
        else {"valid": measured.valid, "test": measured.test, "test_full": measured.full}
    )
    for name, ranks in kinds.items():
        for count, values in zip(("rank", "ties", "among"), ranks, strict=True):
            columns[f"{name}_{count}"] = _of_users(values, ranks, parts.n_users)
    return pl.DataFrame(columns)


def _of_users(values: Any, ranks: Ranks, n_users: int) -> Any:
    """A number per user, or where several items are held out a list of them."""
    import polars as pl

    if ranks.users is None:
        return values
    ends = np.cumsum(np.bincount(ranks.users, minlength=n_users))[:-1]
    return pl.Series([part.tolist() for part in np.split(values, ends)], dtype=pl.List(pl.Int32))
