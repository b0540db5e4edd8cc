"""fedrec run: train, evaluate, save."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedrec.cli.compiling import told
from fedrec.cli.data import Core, Item, Items, MinRating, Time, User
from fedrec.cli.options import Preset, pairs
from fedrec.cli.terminal import complain, console, escape, say, say_json

if TYPE_CHECKING:
    from fedrec.runs.run import Run
    from fedrec.runs.train import Callback

LOADED = ("user", "item", "time", "items", "min_rating", "core")  # options of fedrec.load
Workers = Annotated[
    str | None,
    typer.Option(
        help=escape("Spread clients over workers: ray, or ray:HOST:PORT of a cluster [default: here].")
    ),
]
Rounds = Annotated[int | None, typer.Option(help=escape("Rounds of a federated method [default: 100]."))]


def run(
    context: typer.Context,
    method: Annotated[
        str | None,
        typer.Argument(help="Such as pfedrec, fedncf+dualper, ease, or file.py:Class; not with --resume."),
    ] = None,
    data: Annotated[str, typer.Option(help="Name, name:MINIMUM or file.")] = "demo",
    user: User = None,
    item: Item = None,
    time: Time = None,
    items: Items = None,
    min_rating: MinRating = None,
    core: Core = None,
    protocol: Annotated[
        str,
        typer.Option(
            help="strict (honest), next (validation item known for the test), temporal, or paper (as published, leaks)."
        ),
    ] = "strict",
    protocol_set: Annotated[
        list[str] | None,
        typer.Option(help="A choice of the protocol, such as held_out=5; repeatable."),
    ] = None,
    rounds: Rounds = None,
    seed: Annotated[int, typer.Option(help="Everything random is a function of it.")] = 0,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting, key=value; repeatable.")] = None,
    preset: Preset = None,
    clients: Annotated[
        str | None,
        typer.Option(help=escape("Clients per round: a fraction (0.1) or a number (94) [default: all].")),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(help=escape("What clients rank with: own, global or random [default: the method's].")),
    ] = None,
    channel: Annotated[
        list[str] | None, typer.Option(help="What uploads pass through, such as laplace=0.5; repeatable.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Privacy ε of a whole user's data that may be spent: the noise is found for it."),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help=escape("δ that goes with it [default: users^-1.1]."))
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Control: the same model, never aggregated.")
    ] = False,
    eval_every: Annotated[int, typer.Option(help="Rounds from one validation to the next.")] = 1,
    patience: Annotated[
        int | None,
        typer.Option(help=escape("Stop after so many validations without a better one [default: off].")),
    ] = None,
    all_data: Annotated[
        bool, typer.Option("--all-data", help="Hold nothing out: for recommendations, without figures.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option(help="Everything from a TOML file, such as a run's own config.toml.")
    ] = None,
    like_run: Annotated[
        Path | None,
        typer.Option(help="Method, settings, data and the selected number of rounds of an earlier run."),
    ] = None,
    k: Annotated[
        str, typer.Option("--k", help="Lengths of lists that are measured, such as 5,10,20.")
    ] = "10",
    start: Annotated[
        Path | None, typer.Option(help="Begin with what the run in this folder learned, items matched by id.")
    ] = None,
    engine: Annotated[str, typer.Option(help="auto, plain or fused.")] = "auto",
    threads: Annotated[int | None, typer.Option(help="Threads; results do not depend on it.")] = None,
    workers: Workers = None,
    out: Annotated[
        Path | None, typer.Option(help=escape("Folder of the run [default: a new one in runs/]."))
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
    checkpoint_every: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 30.0,
    log: Annotated[
        list[str] | None, typer.Option(help="Tell tensorboard or mlflow of every round; repeatable.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Train a method, evaluate the round selected on validation, save the run, print a table."""
    import fedrec
    from fedrec.core.errors import FedrecError
    from fedrec.core.protocol import protocol as named_protocol

    if resume is not None:
        _refuse_changes(context, resume, method, pairs(set_))
        if protocol_set:
            raise FedrecError(f"{resume} keeps its protocol: leave --protocol-set out")
        with _progress() as callback:
            finished = fedrec.resume(
                resume,
                rounds,
                epsilon=epsilon,
                threads=threads,
                checkpoint_every=checkpoint_every,
                callbacks=[callback],
                log=log or (),
                workers=workers,
            )
    else:
        if like_run is not None or config is not None:
            _print(_described(context, config, like_run, all_data, threads, out, log or ()), json)
            return
        if method is None:
            raise FedrecError("say which method to run, such as pfedrec: fedrec methods lists them")
        how = {name: context.params[name] for name in LOADED}
        plain = all(value is None for value in how.values())
        with _progress() as callback:
            finished = fedrec.run(
                method,
                data if plain else _read(data, how, workers),
                named_protocol(protocol).with_(**pairs(protocol_set, "--protocol-set", "candidates=999")),
                rounds,
                seed,
                settings=pairs(set_),
                preset=preset,
                engine=engine,
                threads=threads,
                clients=clients,
                channel=channel or (),
                epsilon=epsilon,
                delta=delta,
                view=view,  # type: ignore[arg-type]
                local=local,
                eval_every=eval_every,
                patience=patience,
                k=k,
                all_data=all_data,
                start=start,
                out=out or True,
                checkpoint_every=checkpoint_every,
                callbacks=[callback],
                log=log or (),
                workers=workers,
            )
    finished.close()
    _print(finished, json)


def _described(
    context: typer.Context,
    config: Path | None,
    like_run: Path | None,
    all_data: bool,
    threads: int | None,
    out: Path | None,
    log: Sequence[str],
) -> Run:
    """A run that a file or an earlier run describes: only where it is written may be said besides."""
    import fedrec
    from fedrec.core.errors import FedrecError
    from fedrec.runs.rerun import run_config

    free = ("threads", "out", "json", "log", *(("config",) if config else ("like_run", "all_data")))
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in free and source is not None and source.name == "COMMANDLINE":
            raise FedrecError(
                f"{config or like_run} says it all: leave {name.rstrip('_').replace('_', '-')} out"
            )
    with _progress() as callback:
        if config is not None:
            return run_config(config, threads=threads, out=out or True, callbacks=[callback], log=log)
        assert like_run is not None
        earlier = fedrec.open(like_run, threads=threads)
        return earlier.again(all_data=all_data, out=out or True, callbacks=[callback], log=log)


def _read(data: str, how: dict[str, Any], workers: str | None) -> Any:
    """Data that are not read as usual; workers read them themselves."""
    import fedrec
    from fedrec.data.interactions import Origin
    from fedrec.data.load import source_of

    if workers is None:
        return fedrec.load(data, **how)
    given = {n: str(v.resolve()) if isinstance(v, Path) else v for n, v in how.items() if v is not None}
    return Origin(source_of(data), given)


def _refuse_changes(
    context: typer.Context, folder: Path, method: str | None, settings: dict[str, Any]
) -> None:
    """A resumed run keeps its configuration; only more rounds may be asked for."""
    from fedrec.core.errors import FedrecError
    from fedrec.data.load import source_of
    from fedrec.methods import make, same_spec, settings_of
    from fedrec.runs.folder import RunFolder

    config = RunFolder.existing(folder).config()
    if method is not None and not same_spec(method, config.method):
        raise FedrecError(f"{folder} is a run of {config.method}, not of {method}")
    kept = settings_of(make(config.method, config.settings))
    asked = settings_of(make(config.method, {**config.settings, **settings}))
    for key in (key for key, value in kept.items() if asked[key] != value):
        raise FedrecError(f"{folder} was made with {key}={kept[key]}: a resumed run keeps its settings")
    names = (
        "preset",
        "seed",
        "clients",
        "view",
        "local",
        "eval_every",
        "patience",
        "start",
        "engine",
        "channel",
        "delta",
    )
    stored: dict[str, Any] = {"data": config.source or config.data, "protocol": config.protocol.name}
    stored |= {name: getattr(config, name) for name in names}
    stored |= {name: config.load.get(name) for name in LOADED}
    same: dict[str, Any] = {
        "channel": list,
        "data": source_of,
        "start": Path.resolve,
        "items": Path.resolve,
    }  # as the config has them
    for name, value in stored.items():
        given = context.params[name]
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        given = same[name](given) if name in same else given
        if str(given) != str(list(value) if name == "channel" else value):
            option = f"--{name.replace('_', '-')}"
            none = value is None or value is False or value == ()
            made = f"without {option}" if none else f"with {option} {value}"
            raise FedrecError(
                f"{folder} was made {made}: a resumed run keeps its options, only --rounds may grow"
            )
    if context.params["out"] is not None:
        raise FedrecError(f"--out and --resume exclude each other: --resume goes on in {folder}")


@contextmanager
def _progress() -> Iterator[Callback]:
    """A bar on stderr with the loss and the validation figures so far."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    from fedrec.core.errors import Interrupted

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}", markup=False),
    )
    shown = console(stderr=True)  # without a person who looks on there is no bar, and no empty line for it
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as bar:
        task = bar.add_task("preparing", total=None, figures="")

        def callback(record: Any, training: Any) -> None:
            figures = "" if record.loss is None else f"loss {record.loss:.3f}"
            best = training.selected
            if record.validation:
                figures += f"  HR@10 {100 * record.validation['hr@10']:.1f}"
            if best and best.validation:
                figures += f"  best {100 * best.validation['hr@10']:.1f} in round {best.round}"
            if team := getattr(training, "team", None):
                figures += f"  {team.says()}" if team.says() else ""
            if record.dropped:
                figures += f"  dropped {record.dropped}"
            bar.update(
                task,
                description=training.method.label,
                completed=record.round,
                total=training.rounds,
                figures=figures,
            )

        def compiled(name: str) -> None:
            bar.update(task, description=f"compiling {name}, the first time only" if name else "preparing")

        try:
            with told(compiled) if shown.is_terminal else nullcontext():
                yield callback
        except Interrupted as stop:
            bar.stop()
            complain(str(stop))
            raise typer.Exit(130) from None


def _print(finished: Run, json: bool) -> None:
    if json:
        say_json(finished.result)
        return
    from fedrec.figures.tables import about, notes, result_table

    console().print(result_table(finished.result))
    say(about(finished.result))
    for note in notes(finished.result):
        say(note, style="yellow")
