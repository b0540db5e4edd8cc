"""Any table with a header: CSV, TSV or Parquet, its columns found by their usual names or given."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedrec.core.errors import DataError, nearest
from fedrec.data.sources.find import Part, members
from fedrec.data.sources.rows import complete, first_line
from fedrec.data.sources.source import Columns
from fedrec.data.sources.times import to_times

if TYPE_CHECKING:
    import polars as pl

# Compared without case, spaces and underscores; the first that occurs is taken.
USUAL = {
    "user": "user userid uid reviewer reviewerid customer customerid visitor visitorid member memberid "
    "account accountid client clientid sessionid username",
    "item": "item itemid iid movie movieid mid product productid asin parentasin artist artistid track "
    "trackid song songid book bookid isbn article articleid business businessid sku imdbid videoid",
    "time": "timestamp time ts date datetime unixreviewtime createdat eventtime ratedat ratingtimestamp",
    "title": "title itemtitle movietitle",
}
NO_TIME = ""  # ``time=NO_TIME`` leaves the times out


def part_of(path: Path) -> Part:
    """The file itself, or the one file in a zip."""
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise DataError(f"{path} {problem}: give the path of a CSV, TSV or Parquet file")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty: give a file with at least one interaction")
    if path.suffix != ".zip":
        return Part(path)
    inside = [name for name in members(path) if not name.startswith("__MACOSX")]
    if len(inside) != 1:
        raise DataError(f"{path} holds {len(inside)} files: unpack it and give the one with the interactions")
    return Part(path, inside[0])


def read_table(
    part: Part, user: str | None = None, item: str | None = None, time: str | None = None
) -> Columns:
    """Users, items and, where there are any, times and titles."""
    table = Table(part)
    columns = {
        "user": table.pick("user", user),
        "item": table.pick("item", item),
        "time": None if time == NO_TIME else table.pick("time", time, needed=time is not None),
        "title": table.pick("title", None, needed=False),
    }
    frame = table.read({what: name for what, name in columns.items() if name is not None})
    titles = None
    if "title" in frame.columns:
        named = frame.select("item", "title").unique("item", keep="first")
        titles = dict(zip(named["item"].to_list(), named["title"].cast(str).to_list(), strict=True))
        frame = frame.drop("title")
    times = to_times(frame["time"], part, columns["time"] or "time") if "time" in frame.columns else None
    return Columns(frame["user"], frame["item"], times, titles)


class Table:
    """One file with a header, of which only the wanted columns are read."""

    def __init__(self, part: Part) -> None:
        import polars as pl

        self.part = part
        self.raw = part.raw()
        self.parquet = part.name.lower().endswith((".parquet", ".pq"))
        self.separator = "," if self.parquet else _separator(part.name, self.raw)
        try:
            self.names = self._scan({}).collect_schema().names()
        except pl.exceptions.NoDataError as error:
            raise DataError(f"{part} is empty: give a file with at least one interaction") from error
        except (pl.exceptions.PolarsError, OSError) as error:
            raise DataError(f"cannot read {part}: {first_line(error)}") from error

    def pick(self, what: str, given: str | None, needed: bool = True) -> str | None:
        """The name of a column: as given, else by its usual names."""
        if given is not None:
            if given in self.names:
                return given
            raise DataError(f"{self.part} has no column '{given}': {nearest(given, self.names)}")
        plain = {_plain(name): name for name in reversed(self.names)}
        for usual in USUAL[what].split():
            if usual in plain:
                return plain[usual]
        if not needed:
            return None
        raise DataError(
            f"{self.part} has no column that looks like the {what} (its columns: {', '.join(self.names)}): "
            f"name it with --{what} COLUMN, in Python {what}='COLUMN'"
        )

    def read(self, columns: dict[str, str], extra: Sequence[str] = ()) -> pl.DataFrame:
        """The columns under fedrec's names, ids as integers where all of them are, else as text."""
        import polars as pl

        numbers = {name: pl.Int64 for what, name in columns.items() if what != "title"}
        for name in (*columns.values(), *extra):
            self.pick("", name)
        wanted = [pl.col(name).alias(what) for what, name in columns.items()] + [pl.col(x) for x in extra]
        try:
            try:
                frame = self._scan(numbers).select(wanted).collect()
            except pl.exceptions.ComputeError:  # not all are integers: as text, then
                frame = self._scan({}).select(wanted).collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            advice = "save it as UTF-8" if "utf" in str(error).lower() else "give every row the same columns"
            raise DataError(f"cannot read {self.part} ({first_line(error)}): {advice}") from error
        frame = complete(frame, self.part)
        return frame.with_columns(ids(frame["user"]), ids(frame["item"]))

    def _scan(self, kinds: Mapping[str, type[pl.DataType]]) -> pl.LazyFrame:
        import polars as pl

        if self.parquet:
            return pl.scan_parquet(self.raw)
        return pl.scan_csv(self.raw, separator=self.separator, infer_schema_length=0, schema_overrides=kinds)


def ids(column: pl.Series) -> pl.Series:
    """Ids as Int64 where every one of them is an integer that fits, else as text."""
    import polars as pl

    kind = column.dtype
    if kind.is_integer() or kind == pl.String:
        numbers = column.cast(pl.Int64, strict=False)
        if not numbers.null_count():
            return numbers
    return column.cast(pl.String)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _separator(name: str, raw: Path | bytes) -> str:
    if name.lower().endswith((".tsv", ".tab")):
        return "\t"
    if isinstance(raw, bytes):
        start = raw[:65536]
    else:
        with raw.open("rb") as file:
            start = file.read(65536)
    header = start.split(b"\n", 1)[0].decode("utf-8", "replace")
    return max(",\t;|", key=header.count)
