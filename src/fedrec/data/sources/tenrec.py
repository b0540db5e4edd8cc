"""Tenrec QB-article: the official CSV. Rows are exposures in order of time; those that were clicked count."""

from __future__ import annotations

from fedrec.core.errors import DataError
from fedrec.data.sources.find import Part, Place
from fedrec.data.sources.source import Columns, Source
from fedrec.data.sources.table import Table


def read_clicks(place: Place, part: Part) -> Columns:
    import polars as pl

    frame = Table(part).read({"user": "user_id", "item": "item_id"}, extra=("click",))
    clicks = frame.filter(pl.col("click").cast(pl.Float64, strict=False) > 0)
    if clicks.height == 0:
        raise DataError(f"{part} holds no row with click above 0: give the official QB-article.csv")
    return Columns(clicks["user"], clicks["item"])


SOURCES = (
    Source(
        name="qb-article",
        title="Tenrec QB-article",
        files=("QB-article.csv",),
        read=read_clicks,
        home="https://github.com/yuangh-x/2022-NIPS-Tenrec",
        terms="CC BY-NC 4.0; the licence is accepted with the owner",
        folders=("qb-article", "Tenrec"),
        archives=("Tenrec.zip",),
        by_hand="its licence must be accepted with the owner",
    ),
)
