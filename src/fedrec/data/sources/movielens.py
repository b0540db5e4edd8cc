"""MovieLens (GroupLens): every release in its own official format.

100K: ``u.data`` (tabs), ``u.item``, ``u.genre`` · 1M and 10M: ``ratings.dat``, ``movies.dat`` (``::``) ·
20M, 25M, 32M and latest-small: ``ratings.csv``, ``movies.csv``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from fedrec.data.sources.find import Part, Place
from fedrec.data.sources.rows import delimited, rating_column
from fedrec.data.sources.source import Columns, Counts, Source
from fedrec.data.sources.table import Table, read_table

if TYPE_CHECKING:
    import polars as pl

ROW = ("user", "item", "rating", "time")
Titles = dict[Hashable, str]
Genres = dict[Hashable, tuple[str, ...]]

BASE = "https://files.grouplens.org/datasets/movielens"
TERMS = (
    "research use; no commercial use and no redistribution without permission of GroupLens; "
    "acknowledge in publications (Harper and Konstan 2015)"
)


def read_100k(place: Place, part: Part) -> Columns:
    """``u.data``, or the same rows with commas in ``ratings.dat``."""
    separator = "\t" if part.name == "u.data" else ","
    frame = delimited(part, separator, ("user", "item", "_", "time"))
    films, genre_names = place.part("u.item"), place.part("u.genre")
    if films is None:
        return Columns(frame["user"], frame["item"], frame["time"])
    names = [line.split("|")[0] for line in genre_names.text().splitlines() if line] if genre_names else []
    titles: Titles = {}
    genres: Genres = {}
    for line in films.text().splitlines():
        fields = line.split("|")
        if len(fields) > 5 and fields[0].isdigit():
            film = int(fields[0])
            titles[film] = fields[1]
            flagged = zip(names, fields[5:], strict=False)
            genres[film] = tuple(name for name, flag in flagged if flag == "1")
    return Columns(frame["user"], frame["item"], frame["time"], titles, genres if names else None)


def read_dat(place: Place, part: Part) -> Columns:
    """``ratings.dat`` and ``movies.dat`` with ``::``, as 1M, 10M and MovieTweetings have them."""
    frame = delimited(part, "::", ("user", "item", "_", "time"))
    films = place.part("movies.dat")
    if films is None:
        return Columns(frame["user"], frame["item"], frame["time"])
    rows = [line.split("::") for line in films.text().splitlines()]
    titles, genres = _names(rows)
    return Columns(frame["user"], frame["item"], frame["time"], titles, genres)


def read_csv(place: Place, part: Part) -> Columns:
    """``ratings.csv`` and ``movies.csv``."""
    columns = read_table(part, user="userId", item="movieId", time="timestamp")
    films = place.part("movies.csv")
    if films is None:
        return columns
    titles, genres = _names(list(csv.reader(io.StringIO(films.text()))))
    return Columns(columns.users, columns.items, columns.times, titles, genres)


def tab_ratings(part: Part) -> pl.Series:
    return rating_column(part, "\t" if part.name == "u.data" else ",", ROW)


def dat_ratings(part: Part) -> pl.Series:
    return rating_column(part, "::", ROW)


def csv_ratings(part: Part) -> pl.Series:
    return Table(part).read({"rating": "rating"})["rating"]


def _names(rows: list[list[str]]) -> tuple[Titles, Genres]:
    """Titles and genres by id, from rows of id, title, genre|genre; a header has no number as id."""
    titles: Titles = {}
    genres: Genres = {}
    for row in rows:
        if len(row) > 2 and row[0].isdigit():
            titles[int(row[0])] = row[1].strip()
            names = row[2].strip().split("|")  # "(no genres listed)" is none
            genres[int(row[0])] = tuple(name for name in names if name and name[0] != "(")
    return titles, genres


def _release(
    name: str,
    title: str,
    read: Callable[[Place, Part], Columns],
    files: tuple[str, ...],
    counts: Counts | None,
    more_folders: tuple[str, ...] = (),
    more_terms: str = "",
) -> Source:
    return Source(
        name=name,
        title=title,
        files=files,
        read=read,
        home="https://grouplens.org/datasets/movielens/",
        terms=TERMS + more_terms,
        folders=(name, *more_folders),
        archives=(f"{name}.zip",),
        urls=(f"{BASE}/{name}.zip",),
        md5=True,
        counts=counts,
        ratings=RATINGS[files],
    )


TABS, DAT, CSV = ("u.data", "ratings.dat"), ("ratings.dat",), ("ratings.csv",)
RATINGS = {TABS: tab_ratings, DAT: dat_ratings, CSV: csv_ratings}
SOURCES = (
    _release("ml-100k", "MovieLens 100K", read_100k, TABS, Counts(100_000, 943, 1_682)),
    _release("ml-1m", "MovieLens 1M", read_dat, DAT, Counts(1_000_209, 6_040, 3_706)),
    _release("ml-10m", "MovieLens 10M", read_dat, DAT, Counts(10_000_054, 69_878, 10_677), ("ml-10M100K",)),
    _release("ml-20m", "MovieLens 20M", read_csv, CSV, Counts(20_000_263, 138_493, 26_744)),
    _release("ml-25m", "MovieLens 25M", read_csv, CSV, Counts(25_000_095, 162_541, 59_047)),
    _release("ml-32m", "MovieLens 32M", read_csv, CSV, Counts(32_000_204, 200_948, None)),
    # No counts: GroupLens renews this one, so it is not for results that others should reproduce.
    _release("ml-latest-small", "MovieLens latest", read_csv, CSV, None, more_terms="; changes over time"),
)
