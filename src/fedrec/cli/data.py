"""fedrec data: which data sets there are, what is in them, getting them, bringing your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedrec.cli.terminal import complain, console, say, say_facts, say_json

app = typer.Typer(help="Data sets: list, look into, get, bring your own.", no_args_is_help=True)

FREE = "made data, free to use"
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]
User = Annotated[str | None, typer.Option("--user", help="Column of a file that holds the user.")]
Item = Annotated[str | None, typer.Option("--item", help="Column of a file that holds the item.")]
Time = Annotated[str | None, typer.Option("--time", help="Column of a file that holds the time.")]
Items = Annotated[
    Path | None, typer.Option("--items", help="File with titles and genres of a file's items, by their id.")
]
MinRating = Annotated[float | None, typer.Option("--min-rating", help="Leave out rows that are rated lower.")]
Core = Annotated[
    int | None, typer.Option("--core", help="Leave out users and items with fewer rows, repeatedly.")
]
NoTime = Annotated[bool, typer.Option("--no-time", help="Leave the times of a file out.")]


@app.command("list")
def list_(json: Json = False) -> None:
    """All data sets fedrec knows by name, and where they are."""
    from fedrec.data.load import DEMO
    from fedrec.data.sources.catalog import SOURCES
    from fedrec.data.sources.find import find
    from fedrec.data.sources.imported import imported_counts, imported_names, imported_path

    rows: list[dict[str, Any]] = [
        {"name": DEMO, "title": "made world, the default", "rows": 100_000, "users": 950, "items": 1_700}
        | {"where": "made by fedrec", "state": "ready", "terms": FREE}
    ]
    for source in SOURCES.values():
        place, counts = find(source), source.counts
        rows.append(
            {
                "name": source.name,
                "title": source.title,
                "rows": counts.rows if counts else None,
                "users": counts.users if counts else None,
                "items": counts.items if counts else None,
                "where": str(place.path) if place else None,
                "state": "ready" if place else "download" if source.urls else "by hand",
                "terms": source.terms,
            }
        )
    for name in imported_names():
        rows.append(
            {"name": name, "title": "imported", **imported_counts(name)}
            | {"where": str(imported_path(name)), "state": "ready", "terms": "yours"}
        )
    if json:
        say_json({"data": rows})
        return
    from rich.table import Table

    table = Table("name", "what", box=None, pad_edge=False)
    for heading in ("rows", "users", "items"):
        table.add_column(heading, justify="right")
    table.add_column("state")
    for row in rows:
        table.add_row(
            row["name"], row["title"], *(_count(row[key]) for key in ("rows", "users", "items")), row["state"]
        )
    console().print(table)
    say("\nready: found · download: on first use, or with 'get NAME' · by hand: 'info NAME' says from where")


@app.command()
def info(
    name: Annotated[str, typer.Argument(help="Name, name:MINIMUM or file.")],
    user: User = None,
    item: Item = None,
    time: Time = None,
    no_time: NoTime = False,
    items: Items = None,
    min_rating: MinRating = None,
    core: Core = None,
    json: Json = False,
) -> None:
    """Counts, activity, density, time and terms of a data set."""
    from fedrec.data.load import DEMO, locate
    from fedrec.data.sources.reading import Reading
    from fedrec.data.summary import summary

    found = locate(name, Reading(user, item, _time(time, no_time), items, min_rating), core=core)
    data = found.read()
    source = found.source
    own = FREE if found.name.split(":")[0] == DEMO else "yours"
    facts: dict[str, Any] = {
        "name": data.name,
        "title": source.title if source else None,
        **summary(data),
        "titles": data.titles is not None,
        "genres": data.genres is not None,
        "where": found.where,
        "terms": source.terms if source else own,
        "home": source.home if source else None,
        "notes": list(data.notes),
    }
    if json:
        say_json(facts)
        return
    say_facts(_readable(facts))


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="Name of a data set.")],
    force: Annotated[bool, typer.Option("--force", help="Fetch it again, even if renewed.")] = False,
    json: Json = False,
) -> None:
    """Download a data set into the cache, where it is not found already."""
    from fedrec.core.errors import DataError, nearest
    from fedrec.data.load import DEMO, split_name
    from fedrec.data.sources.catalog import SOURCES
    from fedrec.data.sources.download import download
    from fedrec.data.sources.find import find

    base, _ = split_name(name)
    if base == DEMO:
        _tell({"name": base, "where": None, "downloaded": False}, "demo is made here and needs no file", json)
        return
    if base not in SOURCES:
        raise DataError(f"unknown data set '{base}': {nearest(base, SOURCES)}")
    source = SOURCES[base]
    place = None if force else find(source)
    new = place is None
    if place is None:
        complain(f"{base}: {source.terms} ({source.home})")
        place = download(source, renewed=force)
    _tell({"name": base, "where": str(place.path), "downloaded": new}, f"{base} is at {place.path}", json)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="CSV, TSV or Parquet with a header; gzip or zip is fine.")],
    name: Annotated[str, typer.Option("--name", help="Name to load it by afterwards.")],
    user: User = None,
    item: Item = None,
    time: Time = None,
    no_time: NoTime = False,
    items: Items = None,
    min_rating: MinRating = None,
    core: Core = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier import of this name.")] = False,
    json: Json = False,
) -> None:
    """Keep a table of your own under a name, so that it loads like any other data set."""
    from fedrec.data.load import BUILT_IN
    from fedrec.data.sources.imported import import_table, imported_path

    data = import_table(
        file,
        name,
        user=user,
        item=item,
        time=_time(time, no_time),
        items=items,
        min_rating=min_rating,
        core=core,
        taken=BUILT_IN,
        force=force,
    )
    where = str(imported_path(name))
    facts = {"name": name, "rows": len(data), "users": data.n_users, "items": data.n_items, "where": where}
    size = f"{len(data):,} rows, {data.n_users:,} users, {data.n_items:,} items"
    _tell(facts, f"{name}: {size}; use it as --data {name}", json)


def _time(column: str | None, left_out: bool) -> str | None:
    """The time column as ``load`` takes it: empty where times are to be left out."""
    from fedrec.core.errors import DataError

    if left_out and column:
        raise DataError(f"--time {column} and --no-time contradict each other: give one of them")
    return "" if left_out else column


def _readable(facts: dict[str, Any]) -> dict[str, str]:
    """The facts as a person reads them."""
    active, span = facts["per_user"], facts["time"]
    ties = facts["tied_newest"]
    when = "none: the order of the file stands for it"
    if span is not None:
        when = f"{span['from'] or span['first']} to {span['to'] or span['last']}"
    lines = {key: _count(facts[key]) for key in ("rows", "users", "items", "pairs")}
    lines |= {
        "per user": f"{active['min']:,} to {active['max']:,}, median {active['median']:g}",
        "density": f"{facts['density']:.3%}",
        "time": when,
        "newest is tied": "-" if ties is None else f"{ties:,} users ({ties / facts['users']:.1%})",
        "titles, genres": ", ".join("yes" if facts[key] else "no" for key in ("titles", "genres")),
        "found at": facts["where"],
        "terms": facts["terms"],
    }
    if facts["home"]:
        lines["home"] = facts["home"]
    if facts["notes"]:
        lines["note"] = "; ".join(facts["notes"])
    title = f" ({facts['title']})" if facts["title"] else ""
    return {"data": f"{facts['name']}{title}", **lines}


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _tell(facts: dict[str, Any], sentence: str, json: bool) -> None:
    if json:
        say_json(facts)
    else:
        say(sentence)
