"""A user's own tables under a name of their own, kept as Parquet in the cache."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from fedrec.core.errors import DataError
from fedrec.core.files import write_parquet
from fedrec.data.sources.build import build
from fedrec.data.sources.find import cache
from fedrec.data.sources.frame import table_of
from fedrec.data.sources.reading import Reading, at_least_one

if TYPE_CHECKING:
    from fedrec.data.interactions import Interactions


def imported_path(name: str) -> Path:
    return cache() / "imported" / f"{name}.parquet"


def imported_names() -> list[str]:
    return sorted(path.stem for path in (cache() / "imported").glob("*.parquet"))


def imported_counts(name: str) -> dict[str, int | None]:
    """Rows, users and items of an imported set; None where its file cannot be read."""
    import polars as pl

    counts = [pl.len().alias("rows"), pl.n_unique("user").alias("users"), pl.n_unique("item").alias("items")]
    try:
        return pl.scan_parquet(imported_path(name), glob=False).select(counts).collect().row(0, named=True)
    except (pl.exceptions.PolarsError, OSError):
        return dict.fromkeys(("rows", "users", "items"))


def import_table(
    path: str | Path,
    name: str,
    *,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    items: str | Path | None = None,
    min_rating: float | None = None,
    core: int | None = None,
    taken: tuple[str, ...] = (),
    force: bool = False,
) -> Interactions:
    """Keep a table so that ``load(name)`` finds it; it is read completely before anything is written.

    The options are those of ``fedrec.load``; rows that they leave out are not kept.
    """
    import polars as pl

    from fedrec.data.kcore import k_core

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise DataError(f"'{name}' cannot be a name: use letters, digits, '.', '_' and '-'")
    if name in taken:
        raise DataError(f"'{name}' is the name of a data set fedrec knows: choose another --name")
    target = imported_path(name)
    if target.exists() and not force:
        raise DataError(f"'{name}' was imported before: choose another --name, or replace it with --force")
    at_least_one("core", core)
    columns = Reading(user, item, time, items, min_rating).read(table_of(path))
    data = build(name, columns)
    table = {"user": columns.users, "item": columns.items}
    if columns.times is not None:
        table["time"] = columns.times
    frame = pl.DataFrame(table)
    if columns.titles is not None:
        titles = [columns.titles.get(item) for item in columns.items.to_list()]
        frame = frame.with_columns(pl.Series("title", titles, dtype=pl.String))
    if columns.genres is not None:
        genres = [list(columns.genres.get(item, ())) for item in columns.items.to_list()]
        frame = frame.with_columns(pl.Series("genres", genres, dtype=pl.List(pl.String)))
    if core is not None:  # exactly the rows whose user and item are both left
        data = k_core(data, core)
        left = pl.col("user").is_in(data.user_ids.tolist()) & pl.col("item").is_in(data.item_ids.tolist())
        frame = frame.filter(left)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_parquet(target, frame)
    except OSError as error:
        raise DataError(f"cannot write {target} ({error.strerror}): make the cache writable") from error
    return data
