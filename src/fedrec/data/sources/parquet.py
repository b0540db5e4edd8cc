"""A Parquet file of one's own, user by user: only the rows of some users are read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrec.core.ragged import Ids, run_ends
from fedrec.data.sources.rows import complete
from fedrec.data.sources.table import NO_TIME, Table, ids, part_of
from fedrec.data.sources.times import to_times

if TYPE_CHECKING:
    import polars as pl

    from fedrec.data.interactions import Interactions

COLUMNS = {"user", "item", "time"}  # options of fedrec.load that it can follow


def parquet_users(source: str, options: Mapping[str, Any]) -> ParquetUsers | None:
    """The file in parts; None where it has to be read as a whole, as when titles stand beside the rows."""
    path = Path(source).expanduser()
    if path.suffix.lower() not in (".parquet", ".pq") or not path.is_file() or options.keys() - COLUMNS:
        return None
    table = Table(part_of(path))
    if table.pick("title", None, needed=False) or table.pick("genres", None, needed=False):
        return None
    found = ParquetUsers(path, table, options)
    return found if found.simple else None


class ParquetUsers:
    """Who is in the file and with how many rows; numbered as ``build`` numbers them, by their ids."""

    def __init__(self, path: Path, table: Table, options: Mapping[str, Any]) -> None:
        import polars as pl

        self.name, self.part = path.name.split(".")[0] or path.name, table.part
        time = options.get("time")
        columns = {
            "user": table.pick("user", options.get("user")),
            "item": table.pick("item", options.get("item")),
            "time": None if time == NO_TIME else table.pick("time", time, needed=time is not None),
        }
        self.time = columns["time"]
        wanted = [pl.col(name).alias(what) for what, name in columns.items() if name is not None]
        self.rows = pl.scan_parquet(path, glob=False).select(wanted)
        kinds = self.rows.collect_schema()
        self.simple = all(kinds[what].is_integer() or kinds[what] == pl.String for what in ("user", "item"))
        self.simple &= self.time is None or kinds["time"].is_integer()
        if self.simple:
            self._count(kinds)

    def _count(self, kinds: Any) -> None:
        import polars as pl

        users = self.rows.group_by("user").len().collect(engine="streaming")
        items = self.rows.select("item").unique().collect(engine="streaming")["item"]
        coded = {"user": ids(users["user"]), "item": ids(items)}
        for column in coded.values():  # "7" and "07" are one number: no longer one id each
            self.simple &= not column.null_count() and column.n_unique() == len(column)
        self.kinds = {what: column.dtype for what, column in coded.items()}
        users = users.with_columns(coded["user"].alias("user")).sort("user")
        self.user_ids, self.item_ids = users["user"], coded["item"].sort()
        self.indptr: Ids = run_ends(users["len"].to_numpy().astype(np.int64))
        self.rows = self.rows.with_columns(pl.col(w).cast(k) for w, k in self.kinds.items() if k != kinds[w])

    def some(self, first: int, end: int) -> Interactions:
        """The rows of users from ``first`` up to ``end``."""
        import polars as pl

        from fedrec.data.interactions import from_codes

        who = self.user_ids[first:end]
        mine = pl.col("user").is_between(pl.lit(who[0]), pl.lit(who[-1]))
        frame = complete(self.rows.filter(mine).collect(), self.part)  # in the order of the file
        times = to_times(frame["time"], self.part, self.time or "time").to_numpy() if self.time else None
        return from_codes(
            self.name, _codes(frame["user"], who), _codes(frame["item"], self.item_ids), times,
            _array(who), _array(self.item_ids),
        )  # fmt: skip


def _codes(column: pl.Series, distinct: pl.Series) -> Any:
    """Where each id stands among the sorted distinct ones."""
    import polars as pl

    if column.dtype == pl.String:
        return column.cast(pl.Enum(distinct)).to_physical().to_numpy().astype(np.int32)
    return np.searchsorted(distinct.to_numpy(), column.to_numpy()).astype(np.int32)


def _array(distinct: pl.Series) -> Any:
    import polars as pl

    if distinct.dtype == pl.String:
        return np.array(distinct.to_list(), dtype=object)
    return distinct.to_numpy().copy()
