"""A frame given in Python, read like a file: of polars, or of pandas, which fedrec does not need installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrec.core.errors import DataError
from fedrec.data.sources.table import Table, part_of

if TYPE_CHECKING:
    import polars as pl


def table_of(given: Any) -> Table:
    """A file by its path, or a frame."""
    if isinstance(given, str | Path):
        return Table(part_of(Path(given).expanduser()))
    return FrameTable(given)


def is_frame(given: Any) -> bool:
    """Whether it is a frame of polars or pandas, told by where its class comes from."""
    kind = type(given)
    return kind.__module__.split(".")[0] in ("polars", "pandas") and kind.__name__ in (
        "DataFrame",
        "LazyFrame",
    )


class FrameTable(Table):
    """A frame, of which only the wanted columns are converted."""

    def __init__(self, frame: Any) -> None:
        import polars as pl

        if not is_frame(frame):
            raise DataError(
                f"data of type {type(frame).__name__} cannot be read: give a name, the path of a file, "
                f"or a polars or pandas DataFrame"
            )
        self.frame = frame
        self.part = "the DataFrame"
        if isinstance(frame, pl.LazyFrame):
            self.names = frame.collect_schema().names()
        else:
            self.names = [str(name) for name in frame.columns]

    def _scan(self, kinds: Mapping[str, type[pl.DataType]], wanted: Sequence[str] = ()) -> pl.LazyFrame:
        import polars as pl

        if isinstance(self.frame, pl.DataFrame | pl.LazyFrame):
            return self.frame.lazy()
        at = {name: self.names.index(name) for name in wanted}
        return pl.LazyFrame([from_pandas(self.frame.iloc[:, i], name) for name, i in at.items()])


def from_pandas(column: Any, name: str) -> pl.Series:
    """One column of pandas, without pyarrow: numbers and dates as they are, all else by value."""
    import numpy as np
    import polars as pl

    kind = str(column.dtype)
    if kind.startswith("datetime64"):
        if getattr(column.dt, "tz", None) is not None:
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        return pl.Series(name, column.to_numpy())
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf":
        return pl.Series(name, column.to_numpy(), nan_to_null=True)
    values = [None if gone else value for gone, value in zip(column.isna(), column.tolist(), strict=True)]
    try:
        return pl.Series(name, values)
    except TypeError:  # a column of several kinds
        return pl.Series(name, [None if value is None else str(value) for value in values])
