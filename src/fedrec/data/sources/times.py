"""Times as integers: whole numbers stay, dates become microseconds since 1970."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrec.core.errors import DataError

if TYPE_CHECKING:
    import polars as pl

    from fedrec.data.sources.find import Part

# After 'T' and '/' were made ' ' and '-'; with and without an offset from UTC.
FORMATS = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f%z", "%Y-%m-%d %H:%M", "%Y-%m-%d")
MICROSECONDS = 1_000_000


def to_times(column: pl.Series, part: Part | str, name: str) -> pl.Series:
    """A time column of any usual kind as Int64, in an order that is the order of time."""
    import polars as pl

    kind = column.dtype
    if kind == pl.String:
        times = _from_text(column)
    elif kind.is_integer():
        times = column.cast(pl.Int64, strict=False)
    elif kind.is_float():
        times = _from_float(column)
    elif kind in (pl.Date, pl.Datetime):
        times = column.cast(pl.Datetime("us")).cast(pl.Int64)
    else:
        raise DataError(f"the time column '{name}' of {part} holds {kind}: give numbers or dates")
    if times.null_count():
        row = times.is_null().arg_true()[0]
        fits = times.is_not_null().arg_true()
        if kind == pl.String and len(fits) and not _from_text(column[row : row + 1]).null_count():
            raise DataError(
                f"the time column '{name}' of {part} mixes numbers and dates, {column[row]!r} in row {row + 1} and "
                f"{column[fits[0]]!r} in row {fits[0] + 1}: write all of them alike"
            )
        raise DataError(
            f"row {row + 1} of {part} has {column[row]!r} in the time column '{name}': give whole numbers or "
            f"dates such as 2024-05-31 18:00:00, or leave the times out with --no-time (in Python time='')"
        )
    return times


def _from_text(column: pl.Series) -> pl.Series:
    """As the kind that fits most rows, so that the error names the row that does not fit.

    Dates with and without a time of day are one kind: they can stand side by side.
    """
    import polars as pl

    whole = column.cast(pl.Int64, strict=False)
    if not whole.null_count():
        return whole
    dates = (
        column.str.strip_chars().str.replace_all("/", "-", literal=True).str.replace("T", " ", literal=True)
    )
    dates = dates.str.replace(r"\s*(Z|UTC)$", "")
    found = pl.Series(name=column.name, values=[None] * len(column), dtype=pl.Int64)
    for form in FORMATS:
        if not found.null_count():
            break
        parsed = dates.str.strptime(pl.Datetime("us"), form, strict=False).cast(pl.Int64)
        found = found.zip_with(found.is_not_null(), parsed)
    tries = [whole, _from_float(column.cast(pl.Float64, strict=False)), found]
    return min(tries, key=lambda times: times.null_count())


def _from_float(column: pl.Series) -> pl.Series:
    """Whole numbers as they are; fractions of a second are kept by counting microseconds."""
    import polars as pl

    finite = column.is_finite().fill_null(False)
    column = column.set(~finite, None)
    scale = 1 if (column.drop_nulls() % 1 == 0).all() else MICROSECONDS
    return (column * scale).round().cast(pl.Int64, strict=False)
