"""Last.fm of HetRec 2011: the tag log as PFedRec uses it, the listening counts as FedRAP does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrec.core.errors import DataError
from fedrec.data.sources.find import Part, Place
from fedrec.data.sources.rows import delimited
from fedrec.data.sources.source import Columns, Counts, Source
from fedrec.data.sources.table import NO_TIME, Table, read_table

if TYPE_CHECKING:
    from collections.abc import Hashable

    import polars as pl

FOLDERS = ("lastfm-2k", "hetrec2011-lastfm-2k")
ARCHIVE = "hetrec2011-lastfm-2k.zip"
URL = f"https://files.grouplens.org/datasets/hetrec2011/{ARCHIVE}"
HOME = "https://grouplens.org/datasets/hetrec-2011/"
TERMS = "made available for non-commercial use; redistribution is not mentioned"


def read_tags(place: Place, part: Part) -> Columns:
    """One row per (user, artist, tag), time in milliseconds."""
    titles = _artists(place)
    if part.name == "ratings.dat":
        frame = delimited(part, ",", ("user", "item", "_", "time"))
        return Columns(frame["user"], frame["item"], frame["time"], titles)
    if "timestamps" in part.name:
        columns = read_table(part, user="userID", item="artistID", time="timestamp")
        return Columns(columns.users, columns.items, columns.times, titles)
    frame = Table(part).read({"user": "userID", "item": "artistID"}, extra=("day", "month", "year"))
    return Columns(frame["user"], frame["item"], _midnights(frame, part), titles)


def read_listens(place: Place, part: Part) -> Columns:
    """One row per (user, artist). There are no times: as in FedRAP's public code, the order in which
    artists first appear in the file stands for them."""
    import polars as pl

    columns = read_table(part, user="userID", item="artistID", time=NO_TIME)
    rows = pl.DataFrame({"item": columns.items}).with_row_index("row")
    first = rows.select(pl.col("row").min().over("item")).to_series()
    order = first.rank("dense").cast(pl.Int64) - 1
    return Columns(columns.users, columns.items, order, _artists(place))


def _midnights(frame: pl.DataFrame, part: Part) -> pl.Series:
    """Days as the official time stamps have them: midnight in Madrid, in milliseconds."""
    import polars as pl

    day, month, year = (pl.col(name).cast(pl.Int32) for name in ("day", "month", "year"))
    midnight = pl.datetime(year, month, day, time_zone="Europe/Madrid", time_unit="ms")
    try:
        return frame.select(midnight.cast(pl.Int64)).to_series()
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{part} has a day, month and year that are no date: fetch the file again") from error


def _artists(place: Place) -> dict[Hashable, str] | None:
    part = place.part("artists.dat")
    if part is None:
        return None
    rows = (line.split("\t") for line in part.text().split("\n")[1:])
    return {int(row[0]): row[1].strip() for row in rows if len(row) > 1 and row[0].isdigit()}


SOURCES = (
    Source(
        name="lastfm-2k",
        title="Last.fm 2K, tags",
        files=("ratings.dat", "user_taggedartists-timestamps.dat", "user_taggedartists.dat"),
        read=read_tags,
        home=HOME,
        terms=TERMS,
        folders=FOLDERS,
        archives=(ARCHIVE,),
        urls=(URL,),
        md5=True,
        counts=Counts(185_650, 1_600, 12_454),
        minimum=5,
    ),
    Source(
        name="lastfm-listens",
        title="Last.fm 2K, listens",
        files=("user_artists.dat",),
        read=read_listens,
        home=HOME,
        terms=TERMS,
        folders=FOLDERS,
        archives=(ARCHIVE,),
        urls=(URL,),
        md5=True,
        counts=Counts(92_834, 1_892, 17_632),
    ),
)
