"""The Python surface: ``fedrec.run``, ``fedrec.resume`` and ``fedrec.open``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fedrec.channel import stage
from fedrec.channel.accountant import Release
from fedrec.core.errors import FedrecError, Interrupted
from fedrec.core.federated import Federated, View
from fedrec.core.method import ROUNDS, Method
from fedrec.core.protocol import Protocol
from fedrec.data.split import Split, split
from fedrec.evaluate.exam import Exam
from fedrec.evaluate.ranking import measure
from fedrec.methods import make
from fedrec.methods.central.base import Central, CentralAtOnce, CentralInRounds
from fedrec.runs import border
from fedrec.runs.config import RunConfig
from fedrec.runs.data import data_of, keep_data
from fedrec.runs.describe import described
from fedrec.runs.folder import RunFolder, writing
from fedrec.runs.history import History, cut_history, read_history
from fedrec.runs.logs import check_logs, logging_to
from fedrec.runs.private import spent_by, with_noise
from fedrec.runs.result import rank_table, result_of
from fedrec.runs.run import Run, write_run
from fedrec.runs.shared_out import check_apart, hired, hired_again, in_fixed_point
from fedrec.runs.train import Callback, Training, train
from fedrec.simulate.crew import Crew
from fedrec.simulate.passes import Passes
from fedrec.simulate.simulation import Simulation
from fedrec.simulate.warm import warm_start


def run(
    method: str | Method,
    data: Any = "demo",
    protocol: str | Protocol = "strict",
    rounds: int | None = None,
    seed: int = 0,
    *,
    settings: dict[str, Any] | None = None,
    preset: str | None = None,
    engine: str = "auto",
    threads: int | None = None,
    clients: float | int | str | None = None,
    channel: Sequence[str] = (),
    epsilon: float | None = None,
    delta: float | None = None,
    view: View | None = None,
    local: bool = False,
    eval_every: int = 1,
    patience: int | None = None,
    k: int | str | Sequence[int] = (10,),
    all_data: bool = False,
    start: str | Path | Run | None = None,
    out: str | Path | bool | None = None,
    checkpoint_every: float = 30.0,
    callbacks: Sequence[Callback] = (),
    log: str | Sequence[str] = (),
    workers: str | None = None,
) -> Run:
    """Train a method on data under a protocol, and evaluate it; with ``out`` the run is kept in that folder.

    A method by name begins with the settings of its ``preset``: "paper" under the protocol paper, else "honest".
    ``data`` are Interactions, or what ``fedrec.load`` takes: a name, a path or a frame of polars or pandas.
    ``out=True`` makes a new folder under ``runs/``. The reported round is selected on validation; test is
    read for that round only. With ``all_data`` nothing is held out: the last round ranks, for people, and there are
    no figures. ``epsilon`` is the privacy of a whole user's data that may be spent: the noise is found for it, and
    the last round is reported. ``start`` is an earlier run whose tables are taken over, items matched by id. ``log``
    passes rounds and figures on to ``"tensorboard"`` or ``"mlflow"``. ``workers`` is ``"ray"`` (or ``"ray:HOST:PORT"``
    of a cluster): clients are spread over its nodes, who load their part of the data themselves, with ``threads`` each.
    """
    given, callbacks = threads, border.callbacks_of(callbacks)
    threads = border.threads_or_all(threads)
    checkpoint_every = border.seconds("--checkpoint-every", checkpoint_every)
    check_logs(logs := border.texts(log))
    crew = None
    if workers is not None:
        check_apart(method, settings, local, start)
        crew = hired(workers, data, protocol, seed, all_data, None if given is None else threads)
        data, channel, threads = crew.outline, in_fixed_point(channel), crew.threads
    folder = training = None
    try:
        method, data, config = described(
            method, data, protocol, rounds, seed, settings=settings, preset=preset, engine=engine, clients=clients,
            channel=channel, epsilon=epsilon, delta=delta, view=view, local=local, eval_every=eval_every,
            patience=patience, k=k, all_data=all_data, start=_name_of(start),
        )  # fmt: skip
        parts: Any = crew.outline if crew else split(data, config.protocol, config.seed, not config.all_data)
        earlier = start if isinstance(start, Run) or start is None else open(start)
        if isinstance(method, Federated):
            stages = [stage.parse(text) for text in config.channel]
            config = with_noise(config, method, parts, spent_by(earlier, stages, config.epsilon))
        training = training_of(method, parts, config, threads, crew)
        _check_budget(training, config)
        if earlier is not None:
            if not isinstance(training, Simulation):
                raise FedrecError(f"start does not apply to {method.label}: it is not federated")
            leaks = _start(training, earlier)
            config = config.model_copy(update={"start_leaks": leaks})
        if out is not None and out is not False:
            folder = RunFolder.create(None if out is True else border.path_of("out", out), config)
        with writing(folder.path) if folder else nullcontext():
            if folder and crew is None:
                keep_data(folder.path, data)
            history = History(folder.history if folder else None)
            return _finish(
                method, parts, config, threads, training, history, folder, checkpoint_every, callbacks, logs
            )
    except BaseException as error:
        if crew is not None:
            crew.close()
        if isinstance(error, KeyboardInterrupt) and folder is not None:
            raise _interrupted(folder, training) from None
        raise
    finally:
        if folder:
            folder.unlock()


def resume(
    path: str | Path,
    rounds: int | None = None,
    *,
    epsilon: float | None = None,
    data: Any = None,
    threads: int | None = None,
    checkpoint_every: float = 30.0,
    callbacks: Sequence[Callback] = (),
    log: str | Sequence[str] = (),
    workers: str | None = None,
) -> Run:
    """Go on with an interrupted run from its last checkpoint, or extend a finished one to more rounds.

    More rounds of a run with an epsilon cost more: ``epsilon`` is what may be spent in all. ``workers`` may be others
    than before, or none.
    """
    given, callbacks = threads, border.callbacks_of(callbacks)
    threads = border.threads_or_all(threads)
    checkpoint_every = border.seconds("--checkpoint-every", checkpoint_every)
    check_logs(logs := border.texts(log))
    rounds = None if rounds is None else border.whole("rounds", rounds, 1)
    folder, training, crew = RunFolder.existing(border.path_of("path", path)), None, None
    folder.lock()
    try:
        config = folder.config()
        if rounds is not None:
            if config.rounds is None or rounds < config.rounds:
                raise FedrecError(
                    f"{path} has {config.rounds} rounds: --resume can only extend them, not to {rounds}"
                )
            config = config.model_copy(update={"rounds": rounds})
        if epsilon is not None:
            config = config.model_copy(update={"epsilon": border.number("--epsilon", epsilon)})
        method, parts, crew = _rebuild(config, data, str(path), workers, None if given is None else threads)
        threads = threads if crew is None else crew.threads
        training = training_of(method, parts, config, threads, crew)
        _check_budget(training, config)
        with writing(folder.path):
            history = History(folder.history)
            if training is not None:
                if (folder.checkpoint / "current.json").exists():
                    training.load(folder.checkpoint)
                elif config.start and isinstance(training, Simulation):
                    _start(training, open(config.start))
                history.close()
                lines = cut_history(folder.history, training.moment.round)
                history = History(folder.history, lines)
            folder.write_config(config)  # a result stays until there is a newer one
            return _finish(
                method, parts, config, threads, training, history, folder, checkpoint_every, callbacks, logs
            )
    except BaseException as error:
        if crew is not None:
            crew.close()
        if isinstance(error, KeyboardInterrupt):
            raise _interrupted(folder, training) from None
        raise
    finally:
        folder.unlock()


def open(path: str | Path, data: Any = None, threads: int | None = None, workers: str | None = None) -> Run:
    """A finished run from its folder. ``data`` are needed only where they cannot be found again."""
    given, threads = threads, border.threads_or_all(threads)
    folder = RunFolder.existing(border.path_of("path", path))
    config = folder.config()
    result = folder.result()
    if result is None:
        raise FedrecError(f"{path} is not finished: go on with fedrec run --resume {path}")
    method, parts, crew = _rebuild(config, data, str(path), workers, None if given is None else threads)
    training = training_of(method, parts, config, threads if crew is None else crew.threads, crew)
    if training is not None:
        training.load(folder.checkpoint)
        if training.moment.round != result["rounds"]:
            raise FedrecError(
                f"{path} is being extended to {config.rounds} rounds and is at {training.moment.round}: go on with "
                f"fedrec run --resume {path}; the figures of its first {result['rounds']} are in result.json"
            )
    ranks, lines = folder.ranks(), read_history(folder.history)
    if len(lines) < (result["rounds"] or 0):
        warnings.warn(
            f"{folder.history} is damaged: {len(lines)} of {result['rounds']} rounds can be read; figures, ranks and "
            "recommendations are not affected",
            stacklevel=2,
        )
    return Run(config, method, parts, result, ranks, lines, threads, folder.path, training)


def _check_budget(training: Training | None, config: RunConfig) -> None:
    """Rounds that an epsilon does not allow are refused before anything is written."""
    if not isinstance(training, Simulation):
        return
    if training.budget is not None:
        training.budget.check(training.rounds)
    elif config.epsilon is not None:
        raise FedrecError("--epsilon needs clip and noise in the channel: leave the others out")


def _name_of(start: str | Path | Run | None) -> str | None:
    """How the config names the run that this one started from."""
    if isinstance(start, Run):
        return str(Path(start.path).resolve()) if start.path else "a run that was not kept"
    return None if start is None else str(border.path_of("start", start).resolve())


def _interrupted(folder: RunFolder, training: Training | None) -> Interrupted:
    round = training.moment.round if training and (folder.checkpoint / "current.json").exists() else None
    return Interrupted(f"fedrec run --resume {folder.path}", round)


def _start(training: Simulation, run: Run) -> int:
    """Take over what an earlier run learned; for how many users that gives a held-out item away."""
    if run.federated is None:
        raise FedrecError(f"a run of {run.method.label} cannot be gone on with: it is not federated")
    return max(warm_start(training, run.federated), run.config.start_leaks)


def training_of(
    method: Method, parts: Split, config: RunConfig, threads: int, crew: Crew | None = None
) -> Training | None:
    """What plays the rounds; None for a yardstick that has none."""
    if isinstance(method, CentralInRounds):
        return Passes(method, parts, config.seed, threads, config.rounds or ROUNDS)
    if isinstance(method, Central):
        return None
    assert isinstance(method, Federated)
    return Simulation(
        method,
        parts,
        seed=config.seed,
        threads=threads,
        clients_per_round=config.clients,
        channel=[stage.parse(text) for text in config.channel],
        view=config.view,
        local=config.local,
        rounds=config.rounds or ROUNDS,
        engine=config.engine,
        epsilon=config.epsilon,
        delta=config.delta,
        spent_before=[Release(*one) for one in config.spent_before or ()],
        crew=crew,
    )


def _rebuild(
    config: RunConfig, data: Any, path: str, workers: str | None = None, threads: int | None = None
) -> tuple[Method, Any, Crew | None]:
    method = make(config.method, config.settings)
    if workers is not None:
        crew = hired_again(workers, config, data, path, threads)
        return method, crew.outline, crew
    found = data_of(config, data, path)
    return method, split(found, config.protocol, config.seed, hold_out=not config.all_data), None


def _finish(
    method: Method,
    parts: Split,
    config: RunConfig,
    threads: int,
    training: Training | None,
    history: History,
    folder: RunFolder | None,
    checkpoint_every: float,
    callbacks: Sequence[Callback],
    logs: Sequence[str],
) -> Run:
    """Train what is left to train, evaluate the selected round, write the result, and tell other tools."""
    path = folder.path if folder else None
    with logging_to(logs, config, path) as told:
        stopped = ""
        if training is not None:
            stopped = train(
                training, history, folder, config.eval_every, config.patience,
                checkpoint_every, [*callbacks, *told],
            )  # fmt: skip
            history.close()
            if training.selected is None:
                raise FedrecError(stopped or "no round was evaluated")
            central = None
        else:
            assert isinstance(method, CentralAtOnce)
            assert isinstance(parts, Split)
            history.close()
            central = method.fit(parts, config.seed, threads)
        measured, short = None, 0
        if parts.held_out and training is not None:
            measured, short = training.measure(max(config.k))
        elif parts.held_out:
            assert central is not None
            assert isinstance(parts, Split)
            measured = measure(central, Exam(parts), threads, None, max(config.k))
            short = parts.candidates.short
        result = result_of(method, parts, config, training, history, measured, short, stopped, threads)
        result["run"] = str(path) if path else None
        ranks = rank_table(parts, measured)
        finished = Run(config, method, parts, result, ranks, history.lines, threads, path, training, central)
        if folder:
            write_run(folder, finished)
        for each in told:
            each.finish(finished.result)
    return finished
