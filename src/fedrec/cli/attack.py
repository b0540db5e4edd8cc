"""fedrec attack: what can be found out from what a run shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedrec.cli.options import pairs
from fedrec.cli.terminal import complain, console, escape, say, say_json

if TYPE_CHECKING:
    from fedrec.study.attacks.attack import Attacked

OF_RUN = (
    "what",
    "rounds",
    "attacks",
    "targets",
    "shadows",
    "threads",
    "out",
    "json",
)  # what a run leaves open
Channel = Annotated[
    list[str] | None, typer.Option(help="What uploads pass through, such as secure; repeatable.")
]


def attack(
    context: typer.Context,
    what: Annotated[str, typer.Argument(metavar="RUN|METHOD", help="A run's folder, or such as fedmf.")],
    data: Annotated[str, typer.Option(help="Name, name:MINIMUM or file.")] = "demo",
    protocol: Annotated[str, typer.Option(help="strict, next, temporal or paper.")] = "strict",
    rounds: Annotated[
        int | None,
        typer.Option(
            help=escape("Rounds; the last one is attacked [default: 10; the run's own; those of ε].")
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Everything random is a function of it.")] = 0,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting, key=value; repeatable.")] = None,
    clients: Annotated[
        str | None, typer.Option(help=escape("Clients per round: a fraction or a number [default: all]."))
    ] = None,
    channel: Channel = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy ε of a whole user's data: the noise is found for it.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help=escape("δ that goes with it [default: users^-1.1]."))
    ] = None,
    attacks: Annotated[
        list[str] | None,
        typer.Option(
            "--attack", help=escape("Such as sign, differencing or user; repeatable [default: all].")
        ),
    ] = None,
    targets: Annotated[int, typer.Option(help="People whose uploads are looked into.")] = 100,
    shadows: Annotated[int, typer.Option(help="Runs that are played for likelihood ratios.")] = 32,
    threads: Annotated[int | None, typer.Option(help="Threads; results do not depend on it.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the tables.")] = Path("runs/attack"),
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Attack uploads, sums and released tables; ends with code 1 where an attack finds more than ε allows."""
    import fedrec
    from fedrec.core.errors import FedrecError
    from fedrec.study.attacks.table import write

    if (Path(what) / "config.toml").exists():
        for name in context.params:
            source = context.get_parameter_source(name)
            if name not in OF_RUN and source is not None and source.name == "COMMANDLINE":
                raise FedrecError(f"{what} is a run and says it all: leave {name.rstrip('_')} out")
    shown = console(stderr=True)
    with shown.status(f"{what}: preparing") as status:
        found = fedrec.attack(
            what, data, protocol, rounds, seed, settings=pairs(set_), clients=clients, channel=channel or (),
            epsilon=epsilon, delta=delta, attacks=attacks or (), targets=targets, shadows=shadows, threads=threads,
            tell=lambda text: status.update(text),
        )  # fmt: skip
    stem = write(found, out)
    if json:
        say_json({**found.facts(), "files": [f"{stem}{ending}" for ending in (".csv", ".md", ".json")]})
    else:
        _show(found, stem)
    if found.exceeded:
        from fedrec.study.attacks.table import verdict

        complain(verdict(found))
        raise typer.Exit(1)


def _show(found: Attacked, stem: Path) -> None:
    from fedrec.study.attacks.table import about, terminal, verdict

    say(about(found))
    console().print(terminal(found))
    for name, why in found.left_out.items():
        say(f"{name} does not apply: {why}", style="yellow")
    say(verdict(found))
    say(f"F1: of the n things a user met, by an adversary that is told n. Tables: {stem}.csv, .md, .json")
