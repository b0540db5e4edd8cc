"""fedrec run: train, evaluate, save."""

from __future__ import annotations

import json as json_format
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fedrec.runs.run import Run
    from fedrec.runs.train import Callback

Rounds = Annotated[int | None, typer.Option(help="Rounds of a federated method [default: 100].")]


def run(
    context: typer.Context,
    method: Annotated[str, typer.Argument(help="Such as pfedrec, fedncf+dualper, ease, or file.py:Class.")],
    data: Annotated[str, typer.Option(help="Name, name:MINIMUM or file.")] = "demo",
    protocol: Annotated[str, typer.Option(help="strict (honest) or paper (as published, leaks).")] = "strict",
    rounds: Rounds = None,
    seed: Annotated[int, typer.Option(help="Everything random is a function of it.")] = 0,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting, key=value; repeatable.")] = None,
    clients: Annotated[
        str | None, typer.Option(help="Clients per round: a fraction (0.1) or a number (94) [default: all].")
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(help="What clients rank with: own, global or random [default: the method's]."),
    ] = None,
    channel: Annotated[
        list[str] | None, typer.Option(help="What uploads pass through, such as laplace=0.5; repeatable.")
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Control: the same model, never aggregated.")
    ] = False,
    eval_every: Annotated[int, typer.Option(help="Rounds from one validation to the next.")] = 1,
    patience: Annotated[
        int | None, typer.Option(help="Stop after so many validations without a better one [default: off].")
    ] = None,
    start: Annotated[
        Path | None, typer.Option(help="Begin with what the run in this folder learned, items matched by id.")
    ] = None,
    engine: Annotated[str, typer.Option(help="auto, plain or fused.")] = "auto",
    threads: Annotated[int | None, typer.Option(help="Threads; results do not depend on it.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run [default: a new one in runs/].")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
    checkpoint_every: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 30.0,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Train a method, evaluate the round selected on validation, save the run, print a table."""
    import fedrec
    from fedrec.core.errors import FedrecError

    if checkpoint_every < 0:
        raise FedrecError(
            f"--checkpoint-every {checkpoint_every:g} is no time: give seconds, 0 for every round"
        )
    if resume is not None:
        _refuse_changes(context, resume, method, _settings(set_))
        with _progress() as callback:
            finished = fedrec.resume(
                resume, rounds, threads=threads, checkpoint_every=checkpoint_every, callbacks=[callback]
            )
    else:
        with _progress() as callback:
            finished = fedrec.run(
                method,
                data,
                protocol,
                rounds,
                seed,
                settings=_settings(set_),
                engine=engine,
                threads=threads,
                clients=clients,
                channel=channel or (),
                view=view,  # type: ignore[arg-type]
                local=local,
                eval_every=eval_every,
                patience=patience,
                start=start,
                out=out or True,
                checkpoint_every=checkpoint_every,
                callbacks=[callback],
            )
    _print(finished, json)


def _settings(pairs: list[str] | None) -> dict[str, Any]:
    from fedrec.core.errors import FedrecError

    settings = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise FedrecError(f"--set {pair} is not key=value: write for example --set dim=64")
        settings[key.strip()] = value.strip()
    return settings


def _refuse_changes(context: typer.Context, folder: Path, method: str, settings: dict[str, Any]) -> None:
    """A resumed run keeps its configuration; only more rounds may be asked for."""
    from fedrec.core.errors import FedrecError
    from fedrec.methods import make, same_spec, settings_of
    from fedrec.runs.api import source_of
    from fedrec.runs.folder import RunFolder

    config = RunFolder.existing(folder).config()
    if not same_spec(method, config.method):
        raise FedrecError(f"{folder} is a run of {config.method}, not of {method}")
    kept = settings_of(make(config.method, config.settings))
    asked = settings_of(make(config.method, {**config.settings, **settings}))
    for key in (key for key, value in kept.items() if asked[key] != value):
        raise FedrecError(f"{folder} was made with {key}={kept[key]}: a resumed run keeps its settings")
    names = ("seed", "clients", "view", "local", "eval_every", "patience", "start", "engine", "channel")
    stored = {"data": config.source or config.data, "protocol": config.protocol.name}
    stored |= {name: getattr(config, name) for name in names}
    same: dict[str, Any] = {
        "channel": list,
        "data": source_of,
        "start": Path.resolve,
    }  # as the config has them
    for name, value in stored.items():
        given = context.params[name]
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        given = same[name](given) if name in same else given
        if str(given) != str(list(value) if name == "channel" else value):
            raise FedrecError(
                f"{folder} was made with --{name.replace('_', '-')} {value}: a resumed run keeps its "
                "options, only --rounds may grow"
            )
    if context.params["out"] is not None:
        raise FedrecError(f"--out and --resume exclude each other: --resume goes on in {folder}")


@contextmanager
def _progress() -> Iterator[Callback]:
    """A bar on stderr with the loss and the validation figures so far."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("preparing", total=None, figures="")

        def callback(record: Any, training: Any) -> None:
            figures = f"loss {record.loss:.3f}"
            best = training.selected
            if record.validation:
                figures += f"  HR@10 {100 * record.validation['hr@10']:.1f}"
            if best:
                figures += f"  best {100 * best.validation['hr@10']:.1f} in round {best.round}"
            if record.dropped:
                figures += f"  dropped {record.dropped}"
            bar.update(
                task,
                description=training.method.label,
                completed=record.round,
                total=training.rounds,
                figures=figures,
            )

        yield callback


def _print(finished: Run, json: bool) -> None:
    if json:
        typer.echo(json_format.dumps(finished.result))
        return
    from rich.console import Console

    from fedrec.figures.tables import about, notes, result_table

    console = Console(highlight=False)
    console.print(result_table(finished.result))
    console.print(about(finished.result))
    for note in notes(finished.result):
        console.print(note, style="yellow")
