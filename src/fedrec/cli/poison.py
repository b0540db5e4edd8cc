"""fedrec poison: devices that lie to promote an item, and defences."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedrec.cli.run import pairs
from fedrec.cli.terminal import console, escape, say, say_json


def poison(
    method: Annotated[str, typer.Argument(help="Such as fedmf or fedals.")],
    data: Annotated[str, typer.Option(help="Name, name:MINIMUM or file.")] = "demo",
    protocol: Annotated[str, typer.Option(help="strict, next, temporal or paper.")] = "strict",
    rounds: Annotated[
        int | None, typer.Option(help=escape("Rounds; the last is measured [default: 20]."))
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds, each with its own target.")] = 3,
    first: Annotated[int, typer.Option("--first-seed", help="The first of the seeds.")] = 0,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting, key=value; repeatable.")] = None,
    ways: Annotated[
        list[str] | None,
        typer.Option(
            "--attack",
            help=escape("random, boosting, popular, matching, or absent; repeatable [default: all]."),
        ),
    ] = None,
    shares: Annotated[
        list[float] | None,
        typer.Option("--share", help=escape("Of devices that lie; repeatable [default: 0.01, 0.05, 0.1].")),
    ] = None,
    defences: Annotated[
        list[str] | None,
        typer.Option(
            "--defence",
            help="Of the server: rowcap, verify, normbound, krum, median or trimmed, several joined by +; repeatable.",
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help=escape("Id or title of the item to promote [default: a rare one]."))
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads; results do not depend on it.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the tables.")] = Path("runs/poison"),
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Train with devices that promote an item: how many people get to see it, and what that costs them."""
    import fedrec
    from fedrec.study.poison.poison import SHARES, terminal, write

    shown = console(stderr=True)
    with shown.status(f"{method}: preparing") as status:
        found = fedrec.poison(
            method, data, protocol, rounds, seeds, settings=pairs(set_), ways=ways or (), shares=shares or SHARES,
            defences=defences or (), target=target, first=first, threads=threads,
            tell=lambda text: status.update(text),
        )  # fmt: skip
    stem = write(found, out)
    if json:
        say_json({**found.facts(), "files": [f"{stem}{ending}" for ending in (".csv", ".md", ".json")]})
        return
    say(found.about())
    console().print(terminal(found))
    say(f"ER@10: people who get the target among their ten. Tables: {stem}.csv, .md, .json")
