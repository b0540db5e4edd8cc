"""Recommendations: for users, for newcomers with a few likes, and items like an item."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError
from fedrec.core.files import replacing
from fedrec.core.ragged import Ragged
from fedrec.core.scorer import FromHistory, Scorer
from fedrec.core.slots import Array, Arrays, Slot
from fedrec.data.interactions import Interactions
from fedrec.evaluate.ranking import top_k
from fedrec.methods.central.popularity import SameForAll

if TYPE_CHECKING:
    import polars as pl


def recommend(
    scorer: Scorer,
    data: Interactions,
    seen: Ragged,
    k: int,
    users: Sequence[int] | None = None,
    include_seen: bool = False,
    threads: int = 1,
) -> list[pl.DataFrame]:
    """The k best items of each user (by number; all, if none are named), best first."""
    at_least_one(k)
    items, scores = top_k(scorer, seen, k, users, include_seen, threads)
    return [frame(data, *line) for line in zip(items, scores, strict=True)]


def write_all(
    scorer: Scorer,
    data: Interactions,
    user_ids: Any,
    seen: Ragged,
    k: int,
    path: Path,
    include_seen: bool = False,
    threads: int = 1,
) -> int:
    """The k best items of every user, a row for each, into a new Parquet or CSV file."""
    import polars as pl

    if path.suffix not in (".parquet", ".csv"):
        raise FedrecError(f"{path} is neither .parquet nor .csv: choose one of them")
    if path.exists():
        raise FedrecError(f"{path} exists already: choose another file")
    items, scores = top_k(scorer, seen, k, None, include_seen, threads)
    real = items >= 0
    users, places = np.nonzero(real)
    table = pl.DataFrame(
        {
            "user": user_ids[users].tolist(),
            "rank": places + 1,
            "item": data.item_ids[items[real]].tolist(),
            "title": [data.title(i) for i in items[real]],
            "score": scores[real],
        }
    )
    try:
        with replacing(path) as file:
            table.write_csv(file) if path.suffix == ".csv" else table.write_parquet(file)
    except OSError as error:
        raise FedrecError(f"cannot write {path}: {error.strerror}") from None
    return len(table)


def joined_centrally(label: str, scorer: Scorer, seen: Ragged) -> Scorer:
    """A yardstick for new people who like these items, where it can rank for them."""
    if isinstance(scorer, FromHistory):
        return scorer.knowing(seen)
    if isinstance(scorer, SameForAll):
        return scorer
    raise FedrecError(f"nobody can join a run of {label}: it is a yardstick of known users only")


def similar_by(data: Interactions, like: Callable[[int], Array], item: Any, k: int) -> pl.DataFrame:
    """The items that a model puts next to this one."""
    at_least_one(k)
    code = find_item(data, item)
    return _nearest(data, like(code).copy(), code, k)


def similar(data: Interactions, rows: Array, item: Any, k: int) -> pl.DataFrame:
    """The items whose rows of a table point most in the direction of this one's (cosine)."""
    at_least_one(k)
    code = find_item(data, item)
    norms = np.linalg.norm(rows, axis=1)
    cosine = np.where(norms > 0, rows @ rows[code] / np.maximum(norms * norms[code], 1e-12), -np.inf)
    return _nearest(data, cosine, code, k)


def _nearest(data: Interactions, near: Array, code: int, k: int) -> pl.DataFrame:
    near[code] = -np.inf
    best = np.argsort(-near, kind="stable")[:k]
    best = best[np.isfinite(near[best])]
    return frame(data, best, near[best])


def item_rows(label: str, slots: dict[str, Slot], shared: Arrays) -> Array:
    """The shared item tables, one flat row per item."""
    tables = [v.reshape(len(v), -1) for n, v in shared.items() if slots[n].rows]
    if not tables:
        raise FedrecError(f"this run of {label} has no shared item table")
    return np.concatenate(tables, axis=1)


def find_item(data: Interactions, wanted: Any) -> int:
    """An item by its original id or its title; case and a missing year do not matter."""
    text = str(wanted).strip()
    at = np.flatnonzero(data.item_ids.astype(str) == text)
    if len(at):
        return int(at[0])
    titles = [] if data.titles is None else list(data.titles)
    low = text.lower()
    exact = [i for i, title in enumerate(titles) if title.lower() == low]
    starts = [i for i, title in enumerate(titles) if title.lower().rpartition(" (")[0] == low]
    if exact or len(starts) == 1:
        return (exact or starts)[0]
    if starts:
        raise FedrecError(f"several items are called '{text}': {_quoted([titles[i] for i in starts[:5]])}")
    by_low = {title.lower(): title for title in titles}
    near = [t for t in by_low if low and low in t][:3] or difflib.get_close_matches(low, by_low, 3, 0.5)
    hint = f"nearest titles: {_quoted([by_low[t] for t in near])}" if near else "give an id or a title"
    raise FedrecError(f"no item of {data.name} is called '{text}': {hint}")


def frame(data: Interactions, items: NDArray[Any], scores: NDArray[Any]) -> pl.DataFrame:
    """Items with ids and titles; padding is left out."""
    import polars as pl

    real = items >= 0
    return pl.DataFrame(
        {
            "item": [data.item_ids[i] for i in items[real]],
            "title": [data.title(i) for i in items[real]],
            "score": scores[real].astype(np.float32),
        }
    )


def _quoted(titles: Sequence[str]) -> str:
    return ", ".join(f"'{title}'" for title in titles)


def at_least_one(k: int) -> None:
    if k < 1:
        raise FedrecError(f"k={k} asks for no recommendation: give at least 1")
