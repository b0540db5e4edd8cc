"""A user's own tables under a name of their own, kept as Parquet in the cache."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from fedrec.core.errors import DataError
from fedrec.data.sources.build import build
from fedrec.data.sources.find import cache
from fedrec.data.sources.table import part_of, read_table

if TYPE_CHECKING:
    from fedrec.data.interactions import Interactions


def imported_path(name: str) -> Path:
    return cache() / "imported" / f"{name}.parquet"


def imported_names() -> list[str]:
    return sorted(path.stem for path in (cache() / "imported").glob("*.parquet"))


def import_table(
    path: Path,
    name: str,
    *,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    taken: tuple[str, ...] = (),
    force: bool = False,
) -> Interactions:
    """Keep a table so that ``load(name)`` finds it; it is read completely before anything is written."""
    import polars as pl

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise DataError(f"'{name}' cannot be a name: use letters, digits, '.', '_' and '-'")
    if name in taken:
        raise DataError(f"'{name}' is the name of a data set fedrec knows: choose another --name")
    target = imported_path(name)
    if target.exists() and not force:
        raise DataError(f"'{name}' was imported before: choose another --name, or replace it with --force")
    columns = read_table(part_of(path), user, item, time)
    data = build(name, columns)
    table = {"user": columns.users, "item": columns.items}
    if columns.times is not None:
        table["time"] = columns.times
    frame = pl.DataFrame(table)
    if columns.titles is not None:
        titles = [columns.titles.get(item) for item in columns.items.to_list()]
        frame = frame.with_columns(pl.Series("title", titles, dtype=pl.String))
    draft = target.with_suffix(".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        frame.write_parquet(draft)
        os.replace(draft, target)
    except OSError as error:
        raise DataError(f"cannot write {target} ({error.strerror}): make the cache writable") from error
    finally:
        draft.unlink(missing_ok=True)
    return data
