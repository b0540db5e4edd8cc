"""A file beside the interactions that names the items: titles and genres by item id."""

from __future__ import annotations

from dataclasses import replace

from fedrec.core.errors import DataError
from fedrec.data.sources.source import Columns
from fedrec.data.sources.table import USUAL, Table, ids, names_of, plain

ITEM = [*USUAL["item"].split(), "id"]
TITLE = [*USUAL["title"].split(), "name", "itemname", "productname", "artistname"]
GENRES = [*USUAL["genres"].split(), "category", "categories"]


def with_names(columns: Columns, table: Table, item: str | None = None) -> Columns:
    """The columns with titles and genres from another table; what it does not have stays as it was.

    ``item`` is what the interactions call their items: the same name is looked for here first.
    """
    import polars as pl

    key = item if item in table.names else _pick(table, ITEM)
    wanted = {"title": _pick(table, TITLE), "genres": _pick(table, GENRES)}
    found = {what: name for what, name in wanted.items() if name is not None and name != key}
    header = f"(its columns: {', '.join(table.names)})"
    if key is None:
        raise DataError(f"{table.part} has no column that looks like the item {header}: call it item or id")
    if not found:
        raise DataError(f"{table.part} has neither titles nor genres {header}: call a column title or genres")
    frame = table.read({"id": key, **found})
    keys = frame["id"] if frame["id"].dtype == pl.String else ids(frame["id"])
    # As the interactions have their ids: as numbers, or as they are written.
    frame = frame.with_columns(keys.cast(columns.items.dtype, strict=False).alias("item"))
    met = frame.join(pl.DataFrame({"item": columns.items.unique()}), on="item", how="semi")
    if met.height == 0:
        raise DataError(
            f"{table.part} names no item of the interactions (its first id is {keys[0]!r}, theirs "
            f"{columns.items[0]!r}): give the file that belongs to them"
        )
    titles, genres = names_of(met)
    return replace(columns, titles=titles or columns.titles, genres=genres or columns.genres)


def _pick(table: Table, usual: list[str]) -> str | None:
    """The first column with a usual name."""
    called = {plain(name): name for name in reversed(table.names)}
    return next((called[name] for name in usual if name in called), None)
