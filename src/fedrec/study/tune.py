"""A search for settings on validation, with Optuna: ranges beside the settings, pruning, a study that is shared.

Trials are kept in ``study.db`` in the folder: an interrupted search goes on, and several processes work on one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fedrec.core.errors import FedrecError, Interrupted
from fedrec.data.interactions import Interactions
from fedrec.data.split import split
from fedrec.methods import full_names
from fedrec.runs import border
from fedrec.runs.command import command_of
from fedrec.runs.config import RunConfig
from fedrec.runs.describe import described
from fedrec.runs.folder import WAITS, alone, make_folder, take_lock, writing
from fedrec.study import space
from fedrec.study.case import NO_MATTER
from fedrec.study.trial import validated
from fedrec.study.trials import TrialLedger

if TYPE_CHECKING:
    import optuna
    import polars as pl

NAME = "fedrec"  # of the study in its file
RANDOM = 8  # trials before the search learns from them
UNPRUNED = 4  # complete trials before others are measured by their median

Heard = Callable[["Tuned", str], None]


@dataclass
class Tuned:
    """What a search has found so far."""

    config: RunConfig
    data: str
    fixed: dict[str, Any]
    study: optuna.Study
    folder: Path
    wanted: int
    ledger: TrialLedger | None = None

    def note(self) -> None:
        """Write down what was tried, where a ledger was asked for."""
        if self.ledger is not None:
            self.ledger.note(self.trials)

    @property
    def trials(self) -> list[Any]:
        """Those that count: all but the ones that were interrupted or killed, which failed without a word."""
        found = self.study.get_trials(deepcopy=False)
        return [t for t in found if t.state.name != "FAIL" or "error" in t.user_attrs]

    def count(self, state: str) -> int:
        return sum(trial.state.name == state for trial in self.trials)

    @property
    def ended(self) -> int:
        return len(self.trials) - self.count("RUNNING") - self.count("WAITING")

    @property
    def best(self) -> Any:
        """The best complete trial."""
        found = [trial for trial in self.trials if trial.state.name == "COMPLETE"]
        if not found:
            why = next((t.user_attrs["error"] for t in self.trials if "error" in t.user_attrs), "")
            raise FedrecError(f"no trial of {self.config.method} came to an end{f': {why}' if why else ''}")
        return max(found, key=lambda trial: (trial.value, -trial.number))

    @property
    def value(self) -> float:
        """The best validation figure."""
        return float(self.best.value)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the best trial, those that were fixed included."""
        return {**self.fixed, **json.loads(self.best.user_attrs["settings"])}

    @property
    def command(self) -> str:
        """What runs the best setting."""
        settings = {**self.config.settings, **self.settings}
        source = {} if self.config.source else {"data": self.data}
        return command_of(self.config.model_copy(update={"settings": settings, **source}))

    @property
    def importance(self) -> dict[str, float]:
        """How much of the difference between trials each setting explains; empty with too few of them."""
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        if self.count("COMPLETE") < UNPRUNED:
            return {}
        with _quiet():
            return dict(get_param_importances(self.study, evaluator=PedAnovaImportanceEvaluator()))

    @property
    def frame(self) -> pl.DataFrame:
        """A row a trial: its state, validation figure, round, and settings."""
        import polars as pl

        rows = []
        for trial in self.trials:
            facts = {"trial": trial.number, "state": trial.state.name.lower(), "value": trial.value}
            facts["round"] = trial.user_attrs.get("round")
            rows.append(facts | json.loads(trial.user_attrs.get("settings", "{}")))
        return pl.DataFrame(rows, infer_schema_length=None)


def tune(
    method: str,
    data: Any = "demo",
    protocol: str = "strict",
    trials: int = 40,
    *,
    settings: Mapping[str, Any] | None = None,
    preset: str | None = None,
    first: Sequence[Mapping[str, Any]] = (),
    rounds: int | None = None,
    seed: int = 0,
    clients: float | int | None = None,
    eval_every: int = 1,
    patience: int | None = None,
    out: str | Path | None = None,
    ledger: str | Path | None = None,
    threads: int | None = None,
    heard: Heard = lambda tuned, said: None,
) -> Tuned:
    """Search for settings until the study has so many trials; ``settings`` are fixed.

    The first trial has the preset's settings, those after it what ``first`` says, also where a study goes on.
    Trials that fall behind the median of others in the same round are stopped.
    Started again, or in another process, it goes on with the same study; with a ``ledger``, a file of what was
    tried, on another machine too.
    """
    trials, threads = border.whole("trials", trials, 1), border.threads_or_all(threads)
    tuned, loaded = open_study(
        method, data, protocol, trials, settings=settings, preset=preset, first=first, rounds=rounds, seed=seed,
        clients=clients, eval_every=eval_every, patience=patience, out=out, ledger=ledger,
    )  # fmt: skip
    dimensions = space.space(method, tuned.fixed, tuned.config.settings)
    parts = split(loaded, tuned.config.protocol, tuned.config.seed)
    try:
        with writing(tuned.folder):
            while (begun := _ask(tuned, dimensions)) is not None:
                said = _try(tuned, parts, threads, *begun)
                tuned.note()
                heard(tuned, said)
        tuned.note()
    except _optuna().exceptions.StorageInternalError as error:  # what SQLite says of a disk without room
        said = getattr(error.__cause__, "orig", error)
        raise FedrecError(
            f"cannot write in {tuned.folder}: {said}; make room, and the same command goes on"
        ) from None
    except KeyboardInterrupt:
        raise Interrupted(f"the same command: {tuned.ended} of {trials} trials are done") from None
    return tuned


def open_study(
    method: str, data: Any, protocol: str, trials: int, *, settings: Mapping[str, Any] | None,
    out: str | Path | None, first: Sequence[Mapping[str, Any]] = (), ledger: str | Path | None = None,
    **options: Any,
) -> tuple[Tuned, Interactions]:  # fmt: skip
    """The study of a search, new or gone on with, checked; and the data."""
    optuna = _optuna()
    fixed = full_names(border.method_name(method), border.settings_of(settings))
    found = described(method, data, protocol, settings=fixed, **options)
    if found.config.protocol.select_by == "test":
        raise FedrecError("a search never looks at test items: use a protocol with select_by=validation")
    asked = data if isinstance(data, str) else found.data.name
    dimensions = space.space(method, fixed, found.config.settings)
    begun = [space.parameters(method, found.config.settings, dimensions, each) for each in ({}, *first)]
    about = {name: v for name, v in found.config.table().items() if name not in NO_MATTER}
    about |= {"search": space.described(dimensions)}
    if out is None:
        words = "+".join(Path(part).name for part in method.split("+"))
        out = Path("runs") / f"tune-{words}-{Path(asked).name}-{found.config.protocol.name}"
    folder = border.path_of("out", out)
    known = None if ledger is None else TrialLedger(border.path_of("ledger", ledger), about)
    make_folder(folder)
    with _alone(folder), _quiet():
        try:
            storage = optuna.storages.RDBStorage(
                f"sqlite:///{folder / 'study.db'}", engine_kwargs={"connect_args": {"timeout": WAITS}}
            )
            study = optuna.create_study(
                storage=storage, study_name=NAME, direction="maximize", load_if_exists=True
            )
        except Exception as error:  # whatever SQLAlchemy says of a file that is none of Optuna's
            raise FedrecError(
                f"{folder / 'study.db'} is damaged or no study: choose another --out"
            ) from error
        tried = [] if known is None else [row["parameters"] for row in known.rows]
        _same_or_new(study, about, [values for values in begun if values not in tried], folder)
        if known is not None:
            known.into(study)
    rounds = found.config.rounds or 1
    study.pruner = optuna.pruners.MedianPruner(n_startup_trials=UNPRUNED, n_warmup_steps=rounds // 5)
    return Tuned(found.config, asked, fixed, study, folder, trials, known), found.data


def _same_or_new(study: Any, about: dict[str, Any], first: list[dict[str, Any]], folder: Path) -> None:
    """A study goes on with what it was begun with, or it is another."""
    before = study.user_attrs.get("about")
    if before is None:
        study.set_user_attr("about", json.dumps(about, sort_keys=True))
        for values in first:
            study.enqueue_trial(values)
        return
    asked_for = [
        trial.system_attrs.get("fixed_params", trial.params) for trial in study.get_trials(deepcopy=False)
    ]
    for values in first:
        if values not in asked_for:
            study.enqueue_trial(values)
    then = json.loads(before)
    now = json.loads(json.dumps(about))
    for name in sorted({*then, *now}):
        if then.get(name) != now.get(name):
            a, b = _difference(then.get(name), now.get(name))
            if name == "search":
                raise FedrecError(
                    f"{folder} holds a search over {', '.join(then[name])}, not over {', '.join(now[name])} "
                    "in the same ranges: choose another --out, or ask as before"
                )
            raise FedrecError(
                f"{folder} holds a search with {name} {a}, not {b}: choose another --out, or ask as before"
            )


def _difference(then: Any, now: Any) -> tuple[str, str]:
    """Of two values, the part in which they differ."""
    if isinstance(then, dict) and isinstance(now, dict):
        then, now = (
            {k: v for k, v in x.items() if (k, v) not in y.items()} for x, y in ((then, now), (now, then))
        )
    return tuple("unset" if x is None else json.dumps(x) for x in (then, now))  # type: ignore[return-value]


def _ask(tuned: Tuned, dimensions: list[Any]) -> tuple[Any, RunConfig, IO[str]] | None:
    """The next trial, with a lock that shows that its process lives; None where there are enough."""
    import optuna

    with _alone(tuned.folder), _quiet():
        for trial in tuned.trials:
            if trial.state.name == "RUNNING" and (lock := take_lock(_lock(tuned, trial.number))) is not None:
                lock.close()  # nobody has it: its process was killed
                tuned.study.tell(trial.number, state=optuna.trial.TrialState.FAIL, skip_if_finished=True)
                tuned.study.enqueue_trial({**trial.system_attrs.get("fixed_params", {}), **trial.params})
        if len(tuned.trials) - tuned.count("WAITING") >= tuned.wanted:
            return None
        # By the trial's number: processes that began together draw different settings.
        seed = 1000 * tuned.config.seed + len(tuned.study.get_trials(deepcopy=False))
        tuned.study.sampler = optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=RANDOM, constant_liar=True
        )
        trial = tuned.study.ask()
        alive = take_lock(_lock(tuned, trial.number))
        assert alive is not None
        found = {each.name: each.suggest(trial) for each in dimensions}
        trial.set_user_attr("settings", json.dumps(found))
    config = tuned.config.model_copy(update={"settings": {**tuned.config.settings, **found}})
    return trial, config, alive


def _try(tuned: Tuned, parts: Any, threads: int, trial: Any, config: RunConfig, alive: IO[str]) -> str:
    """Train it; what it came to, in words."""
    import optuna

    def at(round: int, value: float) -> None:
        trial.report(value, round)
        if trial.should_prune():
            raise optuna.TrialPruned

    try:
        with _quiet():
            value, round = validated(config, parts, threads, at)
        trial.set_user_attr("round", round)
        tuned.study.tell(trial, value)
        return f"trial {trial.number}: {100 * value:.2f}"
    except optuna.TrialPruned:
        tuned.study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        return f"trial {trial.number}: behind, stopped"
    except FedrecError as error:
        trial.set_user_attr("error", str(error))
        tuned.study.tell(trial, state=optuna.trial.TrialState.FAIL)
        return f"trial {trial.number}: {error}"
    except BaseException:  # Ctrl-C: as if it had never begun
        tuned.study.tell(trial, state=optuna.trial.TrialState.FAIL)
        tuned.study.enqueue_trial(trial.params)
        raise
    finally:  # from here on others may take it for dead, so that it is told before
        alive.close()
        _lock(tuned, trial.number).unlink(missing_ok=True)


def _lock(tuned: Tuned, number: int) -> Path:
    return tuned.folder / f".trial-{number}"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time: what is counted is still so when it is acted on."""
    with alone(folder / ".lock", f"another process holds {folder}: wait for it, or choose another --out"):
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's words about itself."""
    import warnings

    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise FedrecError(
            "a search needs Optuna, which is not installed: pip install 'fedrec[tune]'"
        ) from None
    return optuna
