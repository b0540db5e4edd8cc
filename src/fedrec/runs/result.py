"""The result of a run: one record of plain values, the same shape for every method."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedrec.channel.bytes import downloaded
from fedrec.core.method import ROUNDS, Method
from fedrec.data.split import Split
from fedrec.evaluate.controls import controls
from fedrec.evaluate.metrics import Ranks, summary
from fedrec.methods import named_by_alias
from fedrec.runs.config import RunConfig
from fedrec.runs.history import History
from fedrec.runs.train import Training
from fedrec.simulate.simulation import Simulation

LIBRARIES = ("numpy", "numba", "polars", "torch")


def figures(ranks: Ranks) -> dict[str, float]:
    """The metrics that a result states."""
    return {
        name: value for name, value in summary(ranks).items() if name in ("hr@10", "ndcg@10", "mrr@10", "auc")
    }


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
    parts: Split,
    config: RunConfig,
    training: Training | None,
    history: History,
    valid: Ranks,
    test: Ranks,
    full: Ranks,
    stopped: str,
    threads: int,
) -> dict[str, Any]:
    played = training.moment.round if training else None
    down = None
    if isinstance(training, Simulation):  # rows that are zero are not sent: the mean over the rounds
        asked = sum(line["clients"] for line in history.lines)
        fetched = sum(line["bytes_down"] for line in history.lines)
        down = fetched / asked if asked else downloaded(training.clients.slots, training.given)
    return {
        "method": config.method if named_by_alias(config.method) else method.label,
        "settings": {k: list(v) if isinstance(v, tuple) else v for k, v in config.settings.items()},
        "data": config.data,
        "protocol": config.protocol.name,
        "protocol_settings": config.protocol.model_dump(mode="json"),
        "seed": config.seed,
        "engine": training.clients.engine.name if isinstance(training, Simulation) else "central",
        "view": training.view if training else None,
        "local": config.local,
        "channel": list(config.channel),
        "start": config.start,
        "rounds": played,
        "selected_round": training.selected.round if training and training.selected else None,
        "stopped": stopped or None,
        "validation": figures(valid),
        "test": {**figures(test), "full": figures(full)},
        **speed(history.lines),
        "bytes_down_per_client": down,
        "peak_memory_mb": peak_memory_mb(),
        "users": parts.n_users,
        "items": parts.n_items,
        "users_dropped": parts.dropped,
        "users_short_of_candidates": parts.candidates.short,
        "clients_dropped": sum(line["dropped"] for line in history.lines) if training else None,
        "notes": [said for s in (training.channel if training else ()) if (said := s.says())],
        "controls": controls(parts, played or ROUNDS, config.seed, threads),
        "threads": threads,
        "versions": versions(),
    }


def rank_table(parts: Split, valid: Ranks, test: Ranks, full: Ranks) -> Any:
    import polars as pl

    ids = parts.data.user_ids[parts.users]
    columns: dict[str, Any] = {"user": ids if ids.dtype != object else [str(i) for i in ids]}
    for name, ranks in (("valid", valid), ("test", test), ("test_full", full)):
        columns |= {f"{name}_rank": ranks.ahead, f"{name}_ties": ranks.ties, f"{name}_among": ranks.among}
    return pl.DataFrame({k: np.asarray(v) if k != "user" else v for k, v in columns.items()})
