"""fedrec device: one owner's device, its file, and what it recommends. Nothing here touches a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedrec.cli.terminal import console, escape, say, say_facts, say_json

app = typer.Typer(
    help="A device: make it, tell it what was met, see what it stores, ask it.", no_args_is_help=True
)
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the device.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]


@app.command("init")
def init(
    folder: Folder,
    items: Annotated[Path, typer.Option(help="The federation's catalogue (items.csv).")],
    data: Annotated[
        Path | None, typer.Option(help="What its owner has met: a CSV file with item and, if known, time.")
    ] = None,
    federation: Annotated[
        Path | None,
        typer.Option(help=escape("The federation's terms [default: federation.json beside the catalogue].")),
    ] = None,
) -> None:
    """Make a device: a file that only its owner can read, and a key that never leaves it."""
    from fedrec.deploy.device import Device
    from fedrec.deploy.owner import read_met
    from fedrec.deploy.state import read_items
    from fedrec.deploy.terms import NAME, terms_in

    terms = terms_in(federation or items.with_name(NAME))
    ids, titles = read_items(items)
    met = [] if data is None else read_met(data, ids)
    device = Device.make(folder, terms, ids, titles, met)
    say(f"device {device.name} in {folder}: {len(met)} interactions, {len(ids):,} items, {terms.method}")
    device.close()


@app.command("add")
def add(
    folder: Folder,
    item: Annotated[
        list[str], typer.Option(help="Id or title of an item that was met; repeat, newest last.")
    ],
) -> None:
    """Tell a device what its owner met. It stays there."""
    import time

    from fedrec.deploy.device import Device
    from fedrec.serve.recommend import find_item

    device = Device(folder)
    known = device.data()
    codes = [find_item(known, text) for text in item]
    last = max((when for _, when in device.file.met() if when is not None), default=0)
    now = max(int(time.time()), last)  # a clock that jumps back changes no order
    device.file.meet([(code, now) for code in codes])
    say(f"{len(codes)} added; {len(device.file.met())} in all")
    device.close()


@app.command("show")
def show(folder: Folder, json: Json = False) -> None:
    """What a device stores, and what would leave it."""
    from fedrec.deploy.device import Device
    from fedrec.deploy.owner import described

    device = Device(folder)
    facts = described(device)
    device.close()
    say_json(facts) if json else say_facts({name: str(value) for name, value in facts.items()})


@app.command("recommend")
def recommend(
    folder: Folder,
    k: Annotated[int, typer.Option("-k", help="How many.")] = 10,
    json: Json = False,
) -> None:
    """What to look at next: from the last table it was told, without asking anybody."""
    from rich.table import Table
    from rich.text import Text

    from fedrec.deploy.device import Device
    from fedrec.deploy.owner import best

    device = Device(folder)
    found = best(device, k)
    device.close()
    if json:
        say_json({"recommended": found})
        return
    table = Table("", "item", "title", box=None, pad_edge=False)
    table.add_column("score", justify="right")
    for place, row in enumerate(found, 1):
        table.add_row(str(place), Text(row["item"]), Text(row["title"]), f"{row['score']:.3f}")
    console().print(table)


@app.command("forget")
def forget(folder: Folder) -> None:
    """Everything that a device stores is gone; what sums already hold of it is not."""
    from fedrec.deploy.file import forget as remove

    remove(folder)
    say(
        f"{folder}: interactions, key and model are gone; tables that were learned with them cannot forget them"
    )
