"""Text to columns, for the official files: fixed columns, no header."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedrec.core.errors import DataError

if TYPE_CHECKING:
    import polars as pl

    from fedrec.data.sources.find import Part


def delimited(part: Part, separator: str, columns: Sequence[str], text: Sequence[str] = ()) -> pl.DataFrame:
    """The named columns as integers (those in ``text`` as text); columns called ``_`` are not read.

    ``::`` is read as ``:`` with an empty column in between: no copy of the file; such columns are skipped.
    """
    import polars as pl

    form = separator.join("…" if name == "_" else name for name in columns)
    if separator == "::":
        columns = [name for column in columns for name in (column, "_")][:-1]
        separator = ":"
    wanted = [name for name in columns if name != "_"]
    layout = {name if name != "_" else f"_{i}": pl.String for i, name in enumerate(columns)}
    raw = part.raw()

    def scan(kinds: dict[str, type[pl.DataType]]) -> pl.DataFrame:
        lazy = pl.scan_csv(
            raw,
            has_header=False,
            separator=separator,
            quote_char=None,
            schema={**layout, **kinds},
            glob=False,
        )
        return lazy.select(wanted).collect()

    try:
        frame = scan({name: pl.Int64 for name in wanted if name not in text})
    except pl.exceptions.ComputeError as error:
        frame = drop_blank(scan({}))
        for name in wanted:
            if name not in text:
                whole_numbers(frame[name], part)
        raise DataError(f"cannot read {part}: {first_line(error)}") from error
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"{part} does not have rows of the form {form!r}: give the file as its publisher made it"
        ) from error
    return complete(frame, part)


def rating_column(part: Part, separator: str, columns: Sequence[str]) -> pl.Series:
    """The column called ``rating``, as text: some publishers have half stars."""
    wanted = [name if name == "rating" else "_" for name in columns]
    return delimited(part, separator, wanted, text=("rating",))["rating"]


def complete(frame: pl.DataFrame, part: Part | str) -> pl.DataFrame:
    """The rows, which must all be whole; blank lines are not rows."""
    frame = drop_blank(frame)
    if frame.height == 0:
        raise DataError(f"{part} is empty: give a file with at least one interaction")
    for column in frame.iter_columns():
        if column.null_count() and column.name not in ("title", "genres"):
            row = column.is_null().arg_true()[0] + 1
            raise DataError(f"row {row} of {part} has no {column.name}: fill it in or delete the row")
    return frame


def drop_blank(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    if not any(column.null_count() for column in frame.iter_columns()):
        return frame
    return frame.filter(~pl.all_horizontal(pl.all().is_null()))


def whole_numbers(column: pl.Series, part: Part) -> pl.Series:
    """Text as integers, or the sentence that names the first row that is not one."""
    import polars as pl

    numbers = column.cast(pl.Int64, strict=False)
    wrong = (numbers.is_null() & column.is_not_null()).arg_true()
    if len(wrong):
        row = wrong[0]
        raise DataError(
            f"row {row + 1} of {part} has {column[row]!r} as {column.name}, which is no whole number: "
            f"mend the row or fetch the file again"
        )
    return numbers


def first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
