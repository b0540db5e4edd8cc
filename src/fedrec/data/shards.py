"""A worker's part of the data, read by the worker itself: no process ever hands interactions to another.

A made world and a Parquet file are read in parts: only the rows of the worker's own users. Anything else is read
as a whole, split, and all but the worker's cells is let go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from fedrec.core.errors import DataError
from fedrec.core.protocol import Protocol as Evaluation
from fedrec.core.ragged import Ids
from fedrec.data.cells import Cells, cell_borders, share_of
from fedrec.data.interactions import Interactions, Origin
from fedrec.data.load import load, made_world
from fedrec.data.outline import Piece, piece_of, without_rows
from fedrec.data.sources.parquet import parquet_users
from fedrec.data.split import Split, split
from fedrec.data.sums import cell_sums, fingerprint


@dataclass(frozen=True)
class Loading:
    """What to load, and how it is split: the same for all workers."""

    source: str
    options: Mapping[str, Any]
    protocol: Evaluation
    seed: int
    hold_out: bool = True


class InParts(Protocol):
    """Data of which any run of users can be had alone."""

    indptr: Ids

    def some(self, first: int, end: int) -> Interactions: ...


class Shard(NamedTuple):
    """The users of some cells."""

    split: Split  # numbered from 0; without the rows that it was made from
    cells: Cells
    piece: Piece


def in_parts(loading: Loading) -> InParts | None:
    """The data in parts, where they can be had so: a cut at a point of time, for one, needs all of them."""
    if loading.hold_out and loading.protocol.split == "temporal":
        return None
    if not loading.options and (made := made_world(loading.source)):
        return made
    return parquet_users(loading.source, loading.options)


def load_shard(loading: Loading, part: int, of: int) -> Shard:
    """The part of one worker out of so many."""
    parts = in_parts(loading)
    whole = None if parts is not None else load(loading.source, **loading.options)
    indptr = parts.indptr if parts is not None else whole.indptr  # type: ignore[union-attr]
    borders = cell_borders(indptr)
    cells = len(borders) - 1
    if of > cells:
        raise DataError(
            f"{loading.source} has {cells} cells of users: ask for at most as many workers, not {of}"
        )
    first, end = share_of(cells, part, of)
    mine = borders[first : end + 1]
    how, seed, hold_out = loading.protocol, loading.seed, loading.hold_out
    if parts is not None:
        data = parts.some(mine[0], mine[-1])
        sums = cell_sums(data, mine - mine[0])
        found = split(data, how, seed, hold_out, nobody=True)
    else:
        assert whole is not None
        sums = (fingerprint(whole),)
        found = split(whole, how, seed, hold_out).between(mine[0], mine[-1])
    mine_alone = Cells.over(mine - mine[0], found.users, first)
    origin = Origin(loading.source, dict(loading.options))
    piece = piece_of(found, np.diff(mine_alone.borders), sums, borders, origin)
    return Shard(replace(found, data=without_rows(found.data, found.data.user_ids)), mine_alone, piece)
