"""fedrec recommend, similar, export: what a finished run is for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

import typer

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")]
Number = Annotated[int, typer.Option("-k", help="How many.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]
LIKED = 5  # how many of a user's own items are shown beside the recommendations


def recommend(
    run: RunFolder,
    user: Annotated[str | None, typer.Option("--user", help="Id of a user of the run.")] = None,
    like: Annotated[
        list[str] | None,
        typer.Option("--like", help="For a new person: title or id of a liked item; repeat."),
    ] = None,
    k: Number = 10,
    view: Annotated[str | None, typer.Option("--view", help="Rank with: own, global or random.")] = None,
    include_seen: Annotated[bool, typer.Option("--include-seen", help="Items met before as well.")] = False,
    json: Json = False,
) -> None:
    """What to offer a user of a run, or a new person who likes a few items."""
    import fedrec
    from fedrec.core.errors import FedrecError, nearest
    from fedrec.core.federated import View

    if (user is None) == (not like):
        raise FedrecError('give --user ID, or --like "TITLE or ID" (as often as you like) for a new person')
    views = get_args(View)
    if view is not None and view not in views:
        raise FedrecError(f"unknown view '{view}': {nearest(view, views)}")
    opened = fedrec.open(run)
    data = opened.split.data
    if user is not None:
        found = opened.recommend(user, k, view, include_seen)  # type: ignore[arg-type]
        mine = opened.split.train.of(opened._user(user))[::-1].tolist()  # newest first
    else:
        from fedrec.serve.recommend import find_item

        found = opened.recommend(likes=like, k=k, view=view, include_seen=include_seen)  # type: ignore[arg-type]
        mine = [find_item(data, text) for text in like or []]
    liked = [{"item": _plain(data.item_ids[i]), "title": data.title(i)} for i in mine]
    who = f"user {user}" if user is not None else "a new person"
    if json:
        facts = {"user": user, "liked": liked, "recommended": found.to_dicts(), "view": view}
        _print_json({**facts, "method": opened.config.method, "data": opened.config.data})
        return
    more = f" and {len(liked) - LIKED} more" if len(liked) > LIKED else ""
    typer.echo(f"{who} liked: {'; '.join(i['title'] for i in liked[:LIKED])}{more}\n")
    _print_table(found)


def similar(
    run: RunFolder,
    item: Annotated[str, typer.Option("--item", help="Title or id of an item.")],
    k: Number = 10,
    json: Json = False,
) -> None:
    """The items that the run's shared table puts next to an item."""
    import fedrec
    from fedrec.serve.recommend import find_item

    opened = fedrec.open(run)
    found = opened.similar(item, k)
    data = opened.split.data
    code = find_item(data, item)
    if json:
        asked = {"item": _plain(data.item_ids[code]), "title": data.title(code)}
        _print_json({"like": asked, "similar": found.to_dicts(), "method": opened.config.method})
        return
    typer.echo(f"like {data.title(code)}:\n")
    _print_table(found)


def export(
    run: RunFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New file, such as model.safetensors.")],
    json: Json = False,
) -> None:
    """The shared part of a run as one file of plain arrays, for devices and browsers."""
    import fedrec

    path = fedrec.open(run).export(file)
    size = path.stat().st_size
    if json:
        _print_json({"file": str(path), "bytes": size})
    else:
        typer.echo(f"{path}: {size / 2**20:.1f} MB; docs/export.md says how to read it")


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _print_json(facts: dict[str, Any]) -> None:
    import json

    typer.echo(json.dumps(facts, ensure_ascii=False, default=_plain))


def _print_table(found: Any) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "item", "title", box=None, pad_edge=False)
    table.add_column("score", justify="right")
    for place, row in enumerate(found.iter_rows(named=True), 1):
        table.add_row(str(place), Text(str(row["item"])), Text(row["title"]), f"{row['score']:.3f}")
    Console(highlight=False).print(table)
