"""Interactions as one Parquet file from which the very same come back: for data that have no source.

First a row per item (no user), in order, with its title and genres; then the interactions, user by user,
oldest first. A user without any has a row without an item. Notes are rows of their own at the end.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedrec.core.errors import DataError
from fedrec.core.files import write_parquet
from fedrec.data.interactions import Ids, Interactions
from fedrec.data.sources.build import encode
from fedrec.data.sources.rows import first_line

if TYPE_CHECKING:
    import polars as pl


def keep(data: Interactions, path: Path) -> None:
    """Write the data, all of them or nothing."""
    import polars as pl

    user_ids, item_ids = _series(data.user_ids), _series(data.item_ids)
    catalogue = {"item": item_ids}
    if data.titles is not None:
        catalogue["title"] = pl.Series(data.titles, dtype=pl.String)
    if data.genres is not None:
        genres = [list(names) for names in data.genres]
        catalogue["genres"] = pl.Series(genres, dtype=pl.List(pl.String))
    users = np.repeat(np.arange(data.n_users), data.counts)
    rows = {"user": user_ids.gather(users), "item": item_ids.gather(data.items)}
    if data.times is not None:
        rows["time"] = pl.Series(data.times, dtype=pl.Int64)
    idle = np.flatnonzero(data.counts == 0)
    order = np.argsort(np.concatenate([users, idle]), kind="stable")
    met = pl.concat([pl.DataFrame(rows), pl.DataFrame({"user": user_ids.gather(idle)})], how="diagonal")
    notes = pl.DataFrame({"note": pl.Series(data.notes, dtype=pl.String)})
    frame = pl.concat([pl.DataFrame(catalogue), met[order], notes], how="diagonal")
    write_parquet(path, frame)


def read_kept(path: Path, name: str) -> Interactions:
    """The data that ``keep`` wrote, under their name."""
    import polars as pl

    try:
        frame = pl.read_parquet(path, glob=False)
        notes = tuple(frame["note"].drop_nulls().to_list())
        frame = frame.filter(pl.col("note").is_null())
        catalogue = frame.filter(pl.col("user").is_null())
        met = frame.filter(pl.col("user").is_not_null())
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"cannot read {path} ({first_line(error)}): give the data yourself") from error
    rows = met.filter(pl.col("item").is_not_null())
    codes, _ = encode(pl.concat([catalogue["item"], rows["item"]]))
    place = np.argsort(codes[: catalogue.height])  # from the order of ids to the order of the catalogue
    users, _ = encode(met["user"])
    starts = np.flatnonzero(np.diff(users, prepend=-1))
    real = np.concatenate([[0], np.cumsum(met["item"].is_not_null().to_numpy())])
    titled, sorted_out = "title" in frame.columns, "genres" in frame.columns
    return Interactions(
        name=name,
        indptr=real[np.append(starts, met.height)].astype(np.int64),
        items=place[codes[catalogue.height :]].astype(np.int32),
        times=rows["time"].to_numpy().copy() if "time" in frame.columns else None,
        user_ids=_ids(met["user"].gather(starts)),
        item_ids=_ids(catalogue["item"]),
        titles=tuple(catalogue["title"].to_list()) if titled else None,
        genres=tuple(tuple(names) for names in catalogue["genres"].to_list()) if sorted_out else None,
        notes=notes,
    )


def _series(ids: Ids) -> pl.Series:
    import polars as pl

    if ids.dtype == object:
        return pl.Series([str(one) for one in ids], dtype=pl.String)
    return pl.Series(ids.astype(np.int64))


def _ids(series: pl.Series) -> Ids:
    import polars as pl

    return np.array(series.to_list(), dtype=object) if series.dtype == pl.String else series.to_numpy().copy()
