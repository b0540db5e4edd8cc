"""Ta Feng groceries, cut into baskets: ``user,basket,item``; the number of the visit is the time."""

from __future__ import annotations

from fedrec.data.sources.find import Part, Place
from fedrec.data.sources.source import Columns, Counts, Source
from fedrec.data.sources.table import read_table


def read_baskets(place: Place, part: Part) -> Columns:
    return read_table(part, user="user", item="item", time="basket")


SOURCES = (
    Source(
        name="tafeng",
        title="Ta Feng baskets",
        files=("baskets.csv",),
        read=read_baskets,
        home="https://github.com/liming-7/A-Next-Basket-Recommendation-Reality-Check",
        terms="no licence text was found: research use, do not pass on",
        folders=("tafeng-baskets",),
        by_hand="no official direct download is known",
        counts=Counts(571_933, 13_858, 11_997),
    ),
)
