"""TensorBoard: event files in the run's own folder. ``tensorboard --logdir runs`` shows all runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedrec.core.errors import FedrecError
from fedrec.runs.config import RunConfig
from fedrec.runs.logs import figures_of, numbers_of
from fedrec.simulate.moment import Round


class TensorBoard:
    def __init__(self, config: RunConfig, folder: Path | None) -> None:
        from tensorboard.summary import Writer

        if folder is None:
            raise FedrecError(
                "log='tensorboard' writes into the run's folder: give out='folder', or out=True"
            )
        self.writer = Writer(str(folder / "tensorboard"))

    def __call__(self, record: Round, training: Any) -> None:
        for name, value in numbers_of(record).items():
            self.writer.add_scalar(name, value, record.round)

    def finish(self, result: dict[str, Any]) -> None:
        for name, value in figures_of(result).items():
            self.writer.add_scalar(name, value, result["selected_round"] or 0)

    def close(self) -> None:
        self.writer.close()
