"""Sums over the content of data: two data sets of one name can differ."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from fedrec.core.ragged import Ids
from fedrec.data.cells import cell_borders
from fedrec.data.interactions import Interactions

LENGTH = 16
BY_CELLS = "cells-"  # begins a fingerprint that workers made who each had a part of the data


def fingerprint(data: Interactions) -> str:
    """A sum over ids, items and times."""
    held = [array.tobytes() for array in (data.indptr, data.items, data.times) if array is not None]
    return digest(*held, ids_text(data.user_ids), ids_text(data.item_ids))[:LENGTH]


def cell_sums(data: Interactions, borders: Ids) -> tuple[str, ...]:
    """A sum for each cell, which whoever has its rows can make."""
    return tuple(_cell_sum(data, a, b) for a, b in pairwise(borders))


def _cell_sum(data: Interactions, first: int, end: int) -> str:
    rows = slice(data.indptr[first], data.indptr[end])
    held = [array[rows].tobytes() for array in (data.items, data.times) if array is not None]
    ends = data.indptr[first : end + 1] - data.indptr[first]
    return digest(ends.tobytes(), *held, ids_text(data.user_ids[first:end]))


def joined_sums(sums: Sequence[tuple[str, ...]], item_ids: Any) -> str:
    """The fingerprint of data whose workers found these: each that of all data, or those of its cells."""
    texts = [text for one in sums for text in one]
    if all(len(text) == LENGTH for text in texts):
        return texts[0]
    return BY_CELLS + digest("".join(texts).encode(), ids_text(item_ids))[:LENGTH]


def matches(data: Interactions, expected: str) -> bool:
    """Whether data are those of a fingerprint, of either kind."""
    if not expected.startswith(BY_CELLS):
        return fingerprint(data) == expected
    return joined_sums([cell_sums(data, cell_borders(data.indptr))], data.item_ids) == expected


def ids_text(ids: Any) -> bytes:
    return "\n".join(map(str, ids.tolist())).encode() + b"\0"  # a user's random streams hang on its id


def digest(*parts: bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()
