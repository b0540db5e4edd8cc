"""What fedrec knows about a data set before it has seen a single row of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import polars as pl

    from fedrec.data.sources.find import Part, Place


class Counts(NamedTuple):
    """The published size of a data set; None where its publisher does not state it."""

    rows: int
    users: int
    items: int | None


@dataclass(frozen=True)
class Columns:
    """What a reader hands over: parallel columns in file order, and the names of items on the side."""

    users: pl.Series
    items: pl.Series
    times: pl.Series | None = None
    titles: Mapping[Hashable, str] | None = None
    genres: Mapping[Hashable, tuple[str, ...]] | None = None

    def only(self, rows: pl.Series) -> Columns:
        """The same with these rows alone."""
        times = None if self.times is None else self.times.filter(rows)
        return replace(self, users=self.users.filter(rows), items=self.items.filter(rows), times=times)


@dataclass(frozen=True)
class Source:
    """A data set: which files hold it, how they are read, where it is published and on what terms."""

    name: str
    title: str
    files: tuple[str, ...]  # any one of these holds the interactions; the best form first
    read: Callable[[Place, Part], Columns]
    home: str  # the page a person would open
    terms: str
    folders: tuple[str, ...] = ()  # folders it may lie in; its name where empty
    archives: tuple[str, ...] = ()  # zips it may lie in
    urls: tuple[str, ...] = ()  # what a download fetches; none where fedrec may not
    md5: bool = False  # the publisher puts URL.md5 beside URL
    by_hand: str = ""  # why it is not downloaded
    counts: Counts | None = None
    ratings: Callable[[Part], pl.Series] | None = (
        None  # of the rows in file order; none where it has no ratings
    )
    minimum: int = 1  # rows per user that belong to the definition of the set

    @property
    def folder(self) -> str:
        """The folder it is kept in: what a user should call theirs, and what the cache uses."""
        return self.folders[0] if self.folders else self.name
