"""Rounds until the end: evaluation every k, early stopping, history, checkpoints, callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from fedrec.core.freed import give_back, keep_freed_memory
from fedrec.core.interrupt import held_back
from fedrec.runs.folder import RunFolder
from fedrec.runs.history import History
from fedrec.server.divergence import Diverged
from fedrec.simulate.moment import Round
from fedrec.simulate.passes import Passes
from fedrec.simulate.simulation import Simulation

Training = Simulation | Passes
RARELY = 10  # writing checkpoints takes at most about a tenth of the time
Callback = Callable[[Round, Training], None]


def train(
    training: Training,
    history: History,
    folder: RunFolder | None = None,
    eval_every: int = 1,
    patience: int | None = None,
    checkpoint_every: float = 30.0,
    callbacks: Sequence[Callback] = (),
) -> str:
    """Play the rounds that are left; returns why it stopped ("" when all were played)."""
    keep_freed_memory()
    try:
        return _play(training, history, folder, eval_every, patience, checkpoint_every, callbacks)
    except KeyboardInterrupt:  # between two rounds: one that is cut short leaves no trace
        if folder:
            with held_back():  # Ctrl-C once more does not cost what is being saved
                training.save(folder.checkpoint)
        raise
    finally:
        give_back()


def _play(
    training: Training,
    history: History,
    folder: RunFolder | None,
    eval_every: int,
    patience: int | None,
    checkpoint_every: float,
    callbacks: Sequence[Callback],
) -> str:
    rounds = training.rounds
    saved, took = time.monotonic(), 0.0
    stopped = ""
    training.warm_up()
    if history.lines and isinstance(training, Simulation):
        training.watch.first_loss = history.lines[0].get("loss")
    budget = training.budget if isinstance(training, Simulation) else None
    allowed = rounds if budget is None or budget.affords(rounds) else budget.most_rounds(rounds)
    before, record = training.moment, None
    while training.moment.round < rounds:
        current = training.moment
        number = current.round + 1
        best = training.selected
        if number > allowed:
            stopped = f"stopped before round {number}: it would spend more than --epsilon {budget.limit:g}"  # type: ignore[union-attr]
            break
        if patience and best and current.round - best.round >= patience * eval_every:
            stopped = f"stopped early: no better validation figure in {patience} evaluations"
            break
        try:
            with held_back():  # a round that counts is evaluated and has its line
                record = training.play(evaluate=number % eval_every == 0 or number == rounds)
                history.append(record.line())
        except Diverged as error:
            stopped = str(error)
            if best is None and record:  # nothing was evaluated so far: the state that is kept
                training.evaluate(before, record)
            break
        before = current if training.selected is None else training.moment
        for callback in callbacks:
            callback(record, training)
        if folder and time.monotonic() - saved >= max(checkpoint_every, RARELY * took):
            start = time.monotonic()
            training.save(folder.checkpoint)
            saved = time.monotonic()
            took = saved - start if checkpoint_every > 0 else 0.0
    if folder:
        training.save(folder.checkpoint)
    return stopped
