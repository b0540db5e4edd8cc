"""Any table with a header: CSV, TSV, Parquet or a frame, its columns found by their usual names or given."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedrec.core.errors import DataError, nearest
from fedrec.core.files import exists
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
    "genres": "genres genre",
    "rating": "rating stars score overall",
}
NO_TIME = ""  # ``time=NO_TIME`` leaves the times out


def part_of(path: Path) -> Part:
    """The file itself, or the one file in a zip."""
    if not exists(path) or path.is_dir():
        problem = "is a folder" if exists(path) else "does not exist"
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
    table: Part | Table,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    min_rating: float | None = None,
) -> Columns:
    """Users, items and, where there are any, times, titles and genres; only of rows rated high enough."""
    table = table if isinstance(table, Table) else Table(table)
    columns = {
        "user": table.pick("user", user),
        "item": table.pick("item", item),
        "time": None if time == NO_TIME else table.pick("time", time, needed=time is not None),
        "title": table.pick("title", None, needed=False),
        "genres": table.pick("genres", None, needed=False),
        "rating": None if min_rating is None else table.pick("rating", None),
    }
    check_distinct(table.part, columns)
    frame = table.read({what: name for what, name in columns.items() if name is not None})
    titles, genres = names_of(frame)
    times = to_times(frame["time"], table.part, columns["time"] or "time") if columns["time"] else None
    found = Columns(frame["user"], frame["item"], times, titles, genres)
    if min_rating is None:
        return found
    return found.only(rated(frame["rating"], table.part, min_rating, frame.height))


def check_distinct(part: Part | str, columns: Mapping[str, str | None]) -> None:
    """One column cannot be two things."""
    for what, other in (("item", "user"), ("time", "user"), ("time", "item")):
        if columns[what] is not None and columns[what] == columns[other]:
            raise DataError(
                f"the column '{columns[what]}' of {part} cannot be both the {other} and the {what}: "
                f"name another with --{what} COLUMN, in Python {what}='COLUMN'"
            )


def rated(ratings: pl.Series, part: Part | str, least: float, rows: int) -> pl.Series:
    """Which of the rows are rated ``least`` or more; every row must have a number as its rating."""
    import polars as pl

    if len(ratings) != rows:
        raise DataError(f"{rows - len(ratings)} rows of {part} have no rating: give numbers")
    numbers = ratings.cast(pl.Float64, strict=False).fill_nan(None)
    if numbers.null_count():
        row = numbers.is_null().arg_true()[0]
        raise DataError(f"row {row + 1} of {part} has {ratings[row]!r} as its rating: give numbers")
    liked = numbers >= least
    if not liked.any():
        raise DataError(
            f"no row of {part} is rated {least:g} or more (the highest is {float(numbers.to_numpy().max()):g}): "
            f"ask for a lower rating"
        )
    return liked


def names_of(
    frame: pl.DataFrame,
) -> tuple[dict[Hashable, str] | None, dict[Hashable, tuple[str, ...]] | None]:
    """Titles and genres by item, from the first row of each; None where there is no such column."""
    wanted = [name for name in ("title", "genres") if name in frame.columns]
    if not wanted:
        return None, None
    named = frame.select("item", *wanted).unique("item", keep="first", maintain_order=True)
    items = named["item"].to_list()
    titles = genres = None
    if "title" in wanted:
        titles = dict(zip(items, named["title"].cast(str).to_list(), strict=True))
    if "genres" in wanted:
        genres = dict(zip(items, _genres(named["genres"]), strict=True))
    return titles, genres


def _genres(column: pl.Series) -> list[tuple[str, ...]]:
    """Genres separated by ``|``, or by ``,`` where no row has a ``|``; "(no genres listed)" is none."""
    import polars as pl

    if column.dtype == pl.List:
        lists = column.to_list()
    else:
        text = column.cast(pl.String)
        separator = "|" if text.str.contains("|", literal=True).any() else ","
        lists = text.str.split(separator).to_list()
    stripped = ([str(name).strip() for name in names or ()] for names in lists)
    return [tuple(name for name in names if name and name[0] != "(") for names in stripped]


class Table:
    """One table with a header, of which only the wanted columns are read."""

    part: Part | str

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
        called = {plain(name): name for name in reversed(self.names)}
        for usual in USUAL[what].split():
            if usual in called:
                return called[usual]
        if not needed:
            return None
        if what == "rating":
            raise DataError(
                f"{self.part} has no column that looks like the rating (its columns: "
                f"{', '.join(self.names)}): call it rating, or leave --min-rating out"
            )
        raise DataError(
            f"{self.part} has no column that looks like the {what} (its columns: {', '.join(self.names)}): "
            f"name it with --{what} COLUMN, in Python {what}='COLUMN'"
        )

    def read(self, columns: dict[str, str], extra: Sequence[str] = ()) -> pl.DataFrame:
        """The columns under fedrec's names, ids as integers where all of them are, else as text."""
        import polars as pl

        numbers = {name: pl.Int64 for what, name in columns.items() if what in ("user", "item", "time")}
        for name in (*columns.values(), *extra):
            self.pick("", name)
        wanted = [pl.col(name).alias(what) for what, name in columns.items()] + [pl.col(x) for x in extra]
        try:
            try:
                frame = self._scan(numbers, (*columns.values(), *extra)).select(wanted).collect()
            except pl.exceptions.ComputeError:  # not all are integers: as text, then
                frame = self._scan({}, (*columns.values(), *extra)).select(wanted).collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            advice = "save it as UTF-8" if "utf" in str(error).lower() else "give every row the same columns"
            raise DataError(f"cannot read {self.part} ({first_line(error)}): {advice}") from error
        frame = complete(frame, self.part)
        return frame.with_columns(ids(frame[what]) for what in ("user", "item") if what in columns)

    def _scan(self, kinds: Mapping[str, type[pl.DataType]], wanted: Sequence[str] = ()) -> pl.LazyFrame:
        """The table, of which ``wanted`` will be asked for, with columns of the given kinds."""
        import polars as pl

        if self.parquet:
            return pl.scan_parquet(self.raw, glob=False)
        return pl.scan_csv(
            self.raw, separator=self.separator, infer_schema_length=0, schema_overrides=kinds, glob=False
        )


def ids(column: pl.Series) -> pl.Series:
    """Ids as Int64 where every one of them is an integer that fits, else as text."""
    import polars as pl

    kind = column.dtype
    whole = kind.is_float() and (column.is_finite() & (column % 1 == 0)).all()
    if whole or kind.is_integer() or kind == pl.String:
        numbers = column.cast(pl.Int64, strict=False)
        if not numbers.null_count():
            return numbers
    return column.cast(pl.String)


def plain(name: str) -> str:
    """A column's name without case, spaces and underscores."""
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
