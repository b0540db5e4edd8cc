"""FilmTrust: ``user item rating`` with spaces. There are no times: the order of the file is all there is."""

from __future__ import annotations

from fedrec.data.sources.find import Part, Place
from fedrec.data.sources.rows import delimited, rating_column
from fedrec.data.sources.source import Columns, Counts, Source


def read_ratings(place: Place, part: Part) -> Columns:
    frame = delimited(part, " ", ("user", "item", "_"))
    return Columns(frame["user"], frame["item"])


SOURCES = (
    Source(
        name="filmtrust",
        title="FilmTrust",
        files=("ratings.txt",),
        read=read_ratings,
        home="https://guoguibing.github.io/librec/datasets.html",
        terms="no licence text was found: research use, do not pass on",
        archives=("filmtrust.zip",),
        urls=("https://guoguibing.github.io/librec/datasets/filmtrust.zip",),
        ratings=lambda part: rating_column(part, " ", ("user", "item", "rating")),
        counts=Counts(35_497, 1_508, 2_071),
    ),
)
