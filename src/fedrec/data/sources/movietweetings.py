"""MovieTweetings: ratings posted on Twitter, in the format of MovieLens 1M; items are IMDb numbers."""

from __future__ import annotations

from fedrec.data.sources.movielens import dat_ratings, read_dat
from fedrec.data.sources.source import Counts, Source

BASE = "https://raw.githubusercontent.com/sidooms/MovieTweetings/master/snapshots/100K"

SOURCES = (
    Source(
        name="movietweetings-100k",
        title="MovieTweetings 100K",
        files=("ratings.dat",),
        read=read_dat,
        home="https://github.com/sidooms/MovieTweetings",
        terms="MIT licence: free use, keep the copyright and permission notice with it",
        urls=(f"{BASE}/ratings.dat", f"{BASE}/movies.dat"),
        ratings=dat_ratings,
        counts=Counts(100_000, 16_554, 10_506),
    ),
)
