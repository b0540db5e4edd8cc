"""How a table of one's own is to be read: its columns, the names of its items, the ratings that count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from fedrec.core.errors import DataError
from fedrec.data.sources.frame import table_of
from fedrec.data.sources.items import with_names
from fedrec.data.sources.source import Columns
from fedrec.data.sources.table import Table, read_table


@dataclass(frozen=True)
class Reading:
    """The options of ``fedrec.load`` that only tables of one's own have; None: not given."""

    user: str | None = None
    item: str | None = None
    time: str | None = None
    items: Any = None  # path or frame
    min_rating: float | None = None

    def __post_init__(self) -> None:
        least = self.min_rating
        if least is None:
            return
        if isinstance(least, str) or not math.isfinite(least):
            raise DataError(f"min_rating={least} is no rating: give a number")
        object.__setattr__(self, "min_rating", float(least))

    def read(self, table: Table) -> Columns:
        columns = read_table(table, self.user, self.item, self.time, self.min_rating)
        return columns if self.items is None else with_names(columns, table_of(self.items), self.item)

    def options(self) -> dict[str, str | int | float] | None:
        """What was given, as plain values that a file can hold; None where a frame was."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        if "items" in given:
            if not isinstance(self.items, str | Path):
                return None
            given["items"] = str(Path(self.items).expanduser().resolve())
        return given

    def refuse_for(self, name: str, ratings: bool) -> None:
        """A data set with a name is read as it is known; a lowest rating is for those that have ratings."""
        if any(column is not None for column in (self.user, self.item, self.time)):
            raise DataError(f"the columns of '{name}' are known: name columns for files of your own only")
        if self.items is not None:
            raise DataError(
                f"the items of '{name}' come with it: name items for files of your own only, "
                f"or when you import one"
            )
        if self.min_rating is not None and not ratings:
            raise DataError(
                f"'{name}' has no ratings: leave --min-rating out (of a file of your own, give it at the import)"
            )


def at_least_one(what: str, number: int | None) -> None:
    if number is not None and not (isinstance(number, Integral) and number >= 1):
        raise DataError(f"the {what} is {number}: give a whole number of at least 1")
