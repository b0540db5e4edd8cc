"""Amazon ratings: ``reviewer,asin,rating,time`` without a header."""

from __future__ import annotations

from fedrec.data.sources.find import Part, Place
from fedrec.data.sources.rows import delimited, rating_column
from fedrec.data.sources.source import Columns, Counts, Source


def read_ratings(place: Place, part: Part) -> Columns:
    frame = delimited(part, ",", ("user", "item", "_", "time"), text=("user", "item"))
    return Columns(frame["user"], frame["item"], frame["time"])


SOURCES = (
    Source(
        name="amazon-video",
        title="Amazon Instant Video",
        files=("ratings.dat", "ratings_Amazon_Instant_Video.csv"),
        read=read_ratings,
        home="https://github.com/Zhangcx19/IJCAI-23-PFedRec",
        terms="no licence text was found: research use, do not pass on",
        by_hand="no official direct download of these rows is known",
        ratings=lambda part: rating_column(part, ",", ("user", "item", "rating", "time")),
        counts=Counts(63_836, 8_072, 11_830),
        minimum=5,
    ),
)
