"""From columns to Interactions: ids become codes, counts are compared with the published ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fedrec.core.errors import DataError
from fedrec.data.sources.source import Columns, Counts, Source
from fedrec.data.sources.table import rated

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from fedrec.data.interactions import Ids, Interactions
    from fedrec.data.sources.find import Place


def read_source(source: Source, place: Place, min_rating: float | None = None) -> Interactions:
    """Read a data set from where it lies; only rows rated high enough, where that is asked for."""
    part = place.part(*source.files)
    if part is None:
        raise DataError(f"{place.path} holds none of {', '.join(source.files)}: put one of them there")
    columns = source.read(place, part)
    data = _whole(source, columns)
    difference = compare(data, source.counts)  # before anything is left out on purpose
    if min_rating is not None:
        assert source.ratings is not None
        data = _whole(source, columns.only(rated(source.ratings(part), part, min_rating, len(columns.users))))
    return replace(data, notes=(*data.notes, difference)) if difference else data


def _whole(source: Source, columns: Columns) -> Interactions:
    data = build(source.name, columns)
    return data.at_least(source.minimum) if source.minimum > 1 else data


def compare(data: Interactions, counts: Counts | None) -> str:
    """How the data differ from their published size; empty where they do not."""
    if counts is None:
        return ""
    found = Counts(len(data), data.n_users, data.n_items if counts.items is not None else None)
    return "" if found == counts else f"{data.name} has {_size(found)}, the published set {_size(counts)}"


def _size(counts: Counts) -> str:
    items = "" if counts.items is None else f", {counts.items:,} items"
    return f"{counts.rows:,} rows, {counts.users:,} users{items}"


def build(name: str, columns: Columns) -> Interactions:
    """Number users and items in the order of their original ids."""
    from fedrec.data.interactions import from_codes

    if len(columns.users) == 0:
        raise DataError(f"{name} holds no interactions: give a file with at least one row")
    users, user_ids = encode(columns.users)
    items, item_ids = encode(columns.items)
    keys = item_ids.tolist()
    titles, genres = columns.titles, columns.genres
    return from_codes(
        name,
        users,
        items,
        None if columns.times is None else columns.times.to_numpy(),
        user_ids,
        item_ids,
        titles=None if titles is None else [titles.get(key) or str(key) for key in keys],
        genres=None if genres is None else [genres.get(key, ()) for key in keys],
    )


def encode(ids: pl.Series) -> tuple[NDArray[np.int32], Ids]:
    """Codes and the sorted distinct ids: by value where they are integers, else as text."""
    import numpy as np
    import polars as pl

    if ids.dtype == pl.String:
        distinct = ids.unique().sort()
        codes = ids.cast(pl.Enum(distinct)).to_physical().to_numpy().astype(np.int32)
        return codes, np.array(distinct.to_list(), dtype=object)
    values = ids.to_numpy()
    lowest, highest = int(values.min()), int(values.max())
    if highest - lowest > 4 * len(values) + 1_000_000:
        distinct_ids = np.unique(values)
        return np.searchsorted(distinct_ids, values).astype(np.int32), distinct_ids
    # Ids that lie close together need no sorting: a look-up table over their range is enough.
    offsets = values - lowest
    seen = np.zeros(highest - lowest + 1, dtype=bool)
    seen[offsets] = True
    code_of = np.cumsum(seen, dtype=np.int32) - np.int32(1)
    return code_of[offsets], np.flatnonzero(seen).astype(np.int64) + lowest
