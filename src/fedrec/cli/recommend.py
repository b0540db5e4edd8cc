"""fedrec recommend, similar, export: what a finished run is for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from fedrec.cli.terminal import console, say, say_json

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")]
Number = Annotated[int, typer.Option("-k", "--k", help="How many.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]
Data = Annotated[
    str | None, typer.Option(help="The run's data, where it is no longer where the run found it.")
]
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
    to: Annotated[
        Path | None, typer.Option(help="For all users of the run, into a new .parquet or .csv file.")
    ] = None,
    data: Data = None,
    workers: Annotated[
        str | None, typer.Option(help="Open the run on workers: ray, or ray:HOST:PORT of a cluster.")
    ] = None,
    json: Json = False,
) -> None:
    """What to offer a user of a run, or a new person who likes a few items."""
    import fedrec
    from fedrec.core.errors import FedrecError, nearest
    from fedrec.core.federated import View

    if (user is not None) + bool(like) + (to is not None) != 1:
        raise FedrecError(
            'give --user ID, or --like "TITLE or ID" (as often as you like) for a new person, '
            "or --to FILE for all users"
        )
    views = get_args(View)
    if view is not None and view not in views:
        raise FedrecError(f"unknown view '{view}': {nearest(view, views)}")
    opened = fedrec.open(run, data, workers=workers)
    if to is not None:
        rows = opened.recommend_all(to, k, view, include_seen)  # type: ignore[arg-type]
        facts = {"file": str(to), "rows": rows, "users": opened.split.n_users}
        say_json(facts) if json else say(
            f"{to}: {rows:,} rows, the {k} best items of {opened.split.n_users:,} users"
        )
        return
    known = opened.split.data
    if user is not None:
        found = opened.recommend(user, k, view, include_seen)  # type: ignore[arg-type]
        known_here = workers is None  # what people met stays with the workers
        mine = opened.split.train.of(opened._user(user))[::-1].tolist() if known_here else []  # newest first
    else:
        from fedrec.serve.recommend import find_item

        found = opened.recommend(likes=like, k=k, view=view, include_seen=include_seen)  # type: ignore[arg-type]
        mine = [find_item(known, text) for text in like or []]
    liked = [{"item": _plain(known.item_ids[i]), "title": known.title(i)} for i in mine]
    who = f"user {user}" if user is not None else "a new person"
    if json:
        who_asks = None if user is None else _plain(opened.user_ids[opened._user(user)])
        facts = {"user": who_asks, "liked": liked, "recommended": found.to_dicts(), "view": view}
        say_json({**facts, "method": opened.config.method, "data": opened.config.data}, _plain)
        return
    more = f" and {len(liked) - LIKED} more" if len(liked) > LIKED else ""
    say(f"{who} liked: {'; '.join(i['title'] for i in liked[:LIKED])}{more}\n" if liked else f"for {who}:\n")
    _print_table(found)


def similar(
    run: RunFolder,
    item: Annotated[str, typer.Option("--item", help="Title or id of an item.")],
    k: Number = 10,
    data: Data = None,
    json: Json = False,
) -> None:
    """The items that the run puts next to an item."""
    import fedrec
    from fedrec.serve.recommend import find_item

    opened = fedrec.open(run, data)
    found = opened.similar(item, k)
    known = opened.split.data
    code = find_item(known, item)
    if json:
        asked = {"item": _plain(known.item_ids[code]), "title": known.title(code)}
        say_json({"like": asked, "similar": found.to_dicts(), "method": opened.config.method}, _plain)
        return
    say(f"like {known.title(code)}:\n")
    _print_table(found)


def export(
    run: RunFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New file, such as model.safetensors.")],
    data: Data = None,
    json: Json = False,
) -> None:
    """The shared part of a run as one file of plain arrays, for devices and browsers."""
    import fedrec
    from fedrec.serve.export import recipe_in

    path = fedrec.open(run, data).export(file)
    size, recipe = path.stat().st_size, recipe_in(path)
    if json:
        say_json({"file": str(path), "bytes": size, "recipe": recipe["score"] is not None})
        return
    say(f"{path}: {size / 2**20:.1f} MB; docs/export.md says how to read it")
    if recipe["score"] is None:
        say(recipe["words"][0])


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _print_table(found: Any) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("", "item", "title", box=None, pad_edge=False)
    table.add_column("score", justify="right")
    for place, row in enumerate(found.iter_rows(named=True), 1):
        table.add_row(str(place), Text(str(row["item"])), Text(row["title"]), f"{row['score']:.3f}")
    console().print(table)
