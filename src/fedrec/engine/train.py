"""Rounds until the end: evaluation every k, early stopping, history, checkpoints, callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from fedrec.engine.checkpoint import save_checkpoint
from fedrec.engine.folder import RunFolder
from fedrec.engine.history import History
from fedrec.engine.passes import Passes
from fedrec.engine.round import Diverged, Federation, Round

Training = Federation | Passes
RARELY = 10  # writing checkpoints takes at most about a tenth of the time
Callback = Callable[[Round, Training], None]


def train(
    federation: Training,
    history: History,
    folder: RunFolder | None = None,
    eval_every: int = 1,
    patience: int | None = None,
    checkpoint_every: float = 30.0,
    callbacks: Sequence[Callback] = (),
) -> str:
    """Play the rounds that are left; returns why it stopped ("" when all were played)."""
    rounds = federation.rounds
    saved, took = time.monotonic(), 0.0
    stopped = ""
    federation.warm_up()
    if history.lines and isinstance(federation, Federation):
        federation.first_loss = history.lines[0]["loss"]
    before, record = federation.state, None
    while federation.state.round < rounds:
        number = federation.state.round + 1
        best = federation.selected
        if patience and best and federation.state.round - best.round >= patience * eval_every:
            stopped = f"stopped early: no better validation figure in {patience} evaluations"
            break
        current = federation.state
        try:
            record = federation.play(evaluate=number % eval_every == 0 or number == rounds)
        except Diverged as error:
            stopped = str(error)
            if best is None and record:  # nothing was evaluated so far: the state that is kept
                federation.evaluate(before, record)
            break
        before = current if federation.selected is None else federation.state
        history.append(record.line())
        for callback in callbacks:
            callback(record, federation)
        if folder and time.monotonic() - saved >= max(checkpoint_every, RARELY * took):
            start = time.monotonic()
            save_checkpoint(folder.checkpoint, federation.state, federation.selected)
            saved = time.monotonic()
            took = saved - start if checkpoint_every > 0 else 0.0
    if folder:
        save_checkpoint(folder.checkpoint, federation.state, federation.selected)
    return stopped
