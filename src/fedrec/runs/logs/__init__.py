"""Where people already look: a run's rounds and figures, passed on to other tools. One small file for each."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from fedrec.core.errors import FedrecError, nearest
from fedrec.runs.config import RunConfig
from fedrec.simulate.moment import Round

LOGS = {"tensorboard": "fedrec.runs.logs.tensorboard:TensorBoard", "mlflow": "fedrec.runs.logs.mlflow:MLflow"}


class Log(Protocol):
    """What a tool is told."""

    def __call__(self, record: Round, training: Any) -> None: ...

    def finish(self, result: dict[str, Any]) -> None: ...

    def close(self) -> None: ...


def check_logs(names: Sequence[str]) -> None:
    """Before anything is trained: the tools are known and installed."""
    for name in names:
        if name not in LOGS:
            raise FedrecError(f"unknown log '{name}': {nearest(name, LOGS)}")
        try:
            importlib.import_module(name)
        except ImportError:
            raise FedrecError(
                f"--log {name} needs {name}, which is not installed: pip install 'fedrec[{name}]'"
            ) from None


@contextmanager
def logging_to(names: Sequence[str], config: RunConfig, folder: Path | None) -> Iterator[list[Log]]:
    """The tools, told of a run; closed whatever happens."""
    logs: list[Log] = []
    try:
        for name in names:
            module, _, attribute = LOGS[name].partition(":")
            logs.append(getattr(importlib.import_module(module), attribute)(config, folder))
        yield logs
    finally:
        for log in logs:
            log.close()


def numbers_of(record: Round) -> dict[str, float]:
    """What a round says, by name: loss, validation figures, seconds, bytes, what the method adds."""
    said = {**record.line(), **{f"validation/{k}": v for k, v in (record.validation or {}).items()}}
    kept = {name: value for name, value in said.items() if name != "round"}
    return {name: float(value) for name, value in kept.items() if isinstance(value, int | float)}


def figures_of(result: dict[str, Any]) -> dict[str, float]:
    """The test figures of a result, sampled and full."""
    test = result["test"] or {}
    figures = {f"test/{name}": value for name, value in test.items() if name != "full"}
    figures |= {f"test/full/{name}": value for name, value in test.get("full", {}).items()}
    return {name: float(value) for name, value in figures.items() if value is not None}
