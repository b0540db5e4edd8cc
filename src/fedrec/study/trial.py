"""One trial of a search: a method trained and ranked on validation. The test items are not looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedrec.core.errors import FedrecError
from fedrec.data.split import Split
from fedrec.evaluate.exam import Exam
from fedrec.evaluate.metrics import summary
from fedrec.evaluate.ranking import rank_sampled
from fedrec.methods import make
from fedrec.methods.central.base import CentralAtOnce
from fedrec.runs.api import training_of
from fedrec.runs.config import RunConfig
from fedrec.runs.history import History
from fedrec.runs.train import train

AtRound = Callable[[int, float], None]  # may raise, to stop a trial that promises nothing


def validated(config: RunConfig, parts: Split, threads: int, at: AtRound) -> tuple[float, int | None]:
    """The best validation figure, by which the protocol selects, and its round."""
    method, metric = make(config.method, config.settings), config.protocol.select_on
    training = training_of(method, parts, config, threads)
    if training is None:
        assert isinstance(method, CentralAtOnce)
        scorer = method.fit(parts, config.seed, threads)
        return summary(rank_sampled(scorer, Exam(parts), "valid", threads))[metric], None

    def callback(record: Any, training: Any) -> None:
        if record.validation:
            at(record.round, record.validation[metric])

    stopped = train(training, History(None), None, config.eval_every, config.patience, callbacks=[callback])
    if training.selected is None:
        raise FedrecError(stopped or "no round was evaluated")
    return training.selected.value, training.selected.round
