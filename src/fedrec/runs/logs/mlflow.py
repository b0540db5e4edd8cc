"""MLflow: a run in the experiment ``fedrec``, wherever ``MLFLOW_TRACKING_URI`` points."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from fedrec.core.files import write
from fedrec.runs.config import RunConfig
from fedrec.runs.logs import figures_of, numbers_of
from fedrec.simulate.moment import Round

EXPERIMENT = "fedrec"
KEPT = "mlflow.txt"  # in the run's folder: a resumed run goes on there


class MLflow:
    def __init__(self, config: RunConfig, folder: Path | None) -> None:
        from mlflow import MlflowClient

        self.client, self.ended = MlflowClient(), False
        kept = None if folder is None else folder / KEPT
        if kept is not None and kept.exists():
            self.id = kept.read_text(encoding="utf-8").strip()
            self.client.update_run(self.id, status="RUNNING")
            return
        found = self.client.get_experiment_by_name(EXPERIMENT)
        experiment = found.experiment_id if found else self.client.create_experiment(EXPERIMENT)
        title = f"{config.method} on {config.data}, {config.protocol.name}, seed {config.seed}"
        self.id = self.client.create_run(experiment, run_name=title).info.run_id
        facts = {"method": config.method, "data": config.data, "protocol": config.protocol.name}
        facts |= {name: getattr(config, name) for name in ("seed", "rounds", "clients", "local")}
        for name, value in {**facts, **config.settings}.items():
            self.client.log_param(self.id, name, value)
        if kept is not None:
            write(kept, self.id + "\n")

    def _log(self, numbers: dict[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(_name(name), value, now, step) for name, value in numbers.items()]
        self.client.log_batch(self.id, metrics=metrics)

    def __call__(self, record: Round, training: Any) -> None:
        self._log(numbers_of(record), record.round)

    def finish(self, result: dict[str, Any]) -> None:
        self._log(figures_of(result), result["selected_round"] or 0)
        self.client.set_tag(self.id, "leaks", result["leaks"])
        self.client.set_terminated(self.id)
        self.ended = True

    def close(self) -> None:
        if not self.ended:
            self.client.set_terminated(self.id, status="KILLED")


def _name(name: str) -> str:
    """MLflow's names have no @."""
    return name.replace("@", "_at_")
