"""The result of a run: one record of plain values, the same shape for every method."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Sequence
from typing import Any

from fedrec.evaluate.metrics import Ranks, summary

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
