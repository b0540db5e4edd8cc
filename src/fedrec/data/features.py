"""What is publicly known of items, as columns of numbers: genres, and the decade that a title ends with."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from fedrec.data.interactions import Interactions

YEAR = re.compile(r"\((\d{4})\)\s*$")
MOST = 64  # columns; of more values only the most common are kept
LEAST = 5  # items that a value must have to be a column


def item_features(data: Interactions) -> NDArray[np.float32] | None:
    """A row per item: its genres and its decade, 1/√k for each of k; None where neither is known."""
    values: list[list[str]] = [[] for _ in range(data.n_items)]
    if data.genres is not None:
        for own, genres in zip(values, data.genres, strict=True):
            own += [f"genre {name}" for name in genres]
    if data.titles is not None:
        for own, title in zip(values, data.titles, strict=True):
            if found := YEAR.search(title):
                own.append(f"decade {found[1][:3]}")
    counts: dict[str, int] = {}
    for name in (name for own in values for name in own):
        counts[name] = counts.get(name, 0) + 1
    common = sorted((n for n, c in counts.items() if c >= LEAST), key=lambda n: (-counts[n], n))[:MOST]
    if not common:
        return None
    place = {name: column for column, name in enumerate(common)}
    table = np.zeros((data.n_items, len(common)), np.float32)
    for row, own in zip(table, values, strict=True):
        at = [place[name] for name in own if name in place]
        if at:
            row[at] = 1 / np.sqrt(len(at))
    table.setflags(write=False)
    return table
