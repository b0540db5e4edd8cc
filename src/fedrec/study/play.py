"""One run of a comparison: begun, gone on with, or left out because it would take too long."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedrec.core.errors import FedrecError
from fedrec.core.files import write
from fedrec.runs import api
from fedrec.runs.folder import Locked
from fedrec.study.board import Job
from fedrec.study.case import failure, finished, loaded_once, read_failure

AtRound = Callable[[int, int], None]
SURE = 3  # rounds, after the first that may compile, in which it is seen how long a run will take
CHECKPOINTS = 5.0  # seconds: what a kill may cost


class TooLong(FedrecError):
    """A run would take longer than it may."""


def play(job: Job, threads: int, keep_models: bool, longest: float | None, at: AtRound) -> None:
    """Make the run, from its checkpoint where there is one; a sentence that stops it is kept beside the folder."""
    path, case = job.path, job.case
    refuse_too_long(path, longest)
    worked: list[float] = []  # up to the end of each round, without what others made it wait

    def callback(record: Any, training: Any) -> None:
        at(record.round, training.rounds)
        worked.append(time.process_time() / threads)
        rounds = len(worked) - 1
        if longest is None or not rounds or rounds < min(SURE, training.rounds - 1):
            return
        expected = (worked[-1] - worked[0]) / rounds * training.rounds
        if expected > longest:
            write(failure(path), json.dumps({"too_long": expected}))
            refuse_too_long(path, longest)

    options: dict[str, Any] = {"threads": threads, "checkpoint_every": CHECKPOINTS, "callbacks": [callback]}
    try:
        if finished(path, keep_models) is not None:
            return
        if (path / "config.toml").exists() and finished(path) is None:
            api.resume(path, data=loaded_once(case.data), **options)
        else:
            shutil.rmtree(
                path, ignore_errors=True
            )  # killed before its config was written, or without its model
            asked = {**case.options, **options}
            data = loaded_once(case.data)
            api.run(
                case.method, data, case.protocol, seed=job.seed, settings=case.settings, out=path, **asked
            )
    except (TooLong, Locked):
        raise
    except FedrecError as error:
        with contextlib.suppress(OSError):  # no room for it either
            write(failure(path), json.dumps({"error": str(error)}))
        raise
    failure(path).unlink(missing_ok=True)
    if not keep_models:
        shutil.rmtree(path / "checkpoint", ignore_errors=True)


def refuse_too_long(path: Path, longest: float | None) -> None:
    """A run that is known to take longer than it may is not begun again."""
    expected = read_failure(path).get("too_long")
    if longest is not None and expected is not None and expected > longest:
        raise TooLong(
            f"left out, because a run takes about {_minutes(expected)}, more than the {_minutes(longest)} "
            "that it may"
        )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"
