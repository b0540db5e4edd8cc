"""All data sets by name. A new family is one file and one line here."""

from __future__ import annotations

from fedrec.data.sources import amazon, filmtrust, lastfm, movielens, movietweetings, tafeng, tenrec
from fedrec.data.sources.source import Source

FAMILIES = (movielens, lastfm, amazon, filmtrust, movietweetings, tenrec, tafeng)
SOURCES: dict[str, Source] = {source.name: source for family in FAMILIES for source in family.SOURCES}
