"""Recommendations: for users, for newcomers with a few likes, and items like an item."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError
from fedrec.core.factors import Factors
from fedrec.core.files import write, write_parquet
from fedrec.core.ragged import Ids, Ragged
from fedrec.core.scorer import FromHistory, Scorer
from fedrec.core.slots import Array, Arrays, Slot
from fedrec.data.interactions import Interactions
from fedrec.evaluate.ranking import top_k
from fedrec.methods.central.base import Central, Solves
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


def check_new(path: Path) -> None:
    """A file that does not exist yet, of a kind that can be written."""
    if path.suffix not in (".parquet", ".csv"):
        raise FedrecError(f"{path} is neither .parquet nor .csv: choose one of them")
    if path.exists():
        raise FedrecError(f"{path} exists already: choose another file")


def write_all(data: Interactions, user_ids: Any, items: NDArray[np.int32], scores: Array, path: Path) -> int:
    """The best items of every user (padded with -1), a row for each, into a new Parquet or CSV file."""
    import polars as pl

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
        write(path, table.write_csv()) if path.suffix == ".csv" else write_parquet(path, table)
    except OSError as error:
        raise FedrecError(f"cannot write {path}: {error.strerror}") from None
    return len(table)


def joined_centrally(method: Central, scorer: Scorer, seen: Ragged, popular: Array) -> Scorer:
    """A yardstick for new people who like these items, oldest first, where it can rank for them."""
    solves = method.solves()
    if isinstance(scorer, FromHistory):
        scorer = scorer.knowing(seen)
    elif isinstance(scorer, Factors) and solves is not None:
        scorer = Factors(_solved(solves, scorer.items, seen), scorer.items)
    elif not isinstance(scorer, SameForAll):
        raise FedrecError(f"nobody can join a run of {method.label}: it is a yardstick of known users only")
    return Joined(scorer, seen, popular)


def _solved(solves: Solves, items: Array, seen: Ragged) -> Array:
    """New people's vectors, each solved from the rows of the items it likes."""
    gram = items.T.astype(np.float64) @ items + solves.lam * np.eye(items.shape[1])
    users = np.zeros((len(seen.indptr) - 1, items.shape[1]), np.float32)
    for u in range(len(users)):
        own = items[seen.of(u)].astype(np.float64)
        users[u] = np.linalg.solve(gram + solves.alpha * own.T @ own, (1 + solves.alpha) * own.sum(axis=0))
    return users


@dataclass(frozen=True, eq=False)
class Joined:
    """New people of a yardstick; who likes nothing gets what most users have met."""

    scorer: Scorer
    seen: Ragged
    popular: Array

    def some(self, users: Ids, items: NDArray[np.int32]) -> Array:
        return np.where(self._likes(users), self.scorer.some(users, items), self.popular[items])

    def all(self, users: Ids) -> Array:
        return np.where(self._likes(users), self.scorer.all(users), self.popular)

    def _likes(self, users: Ids) -> NDArray[np.bool_]:
        return (self.seen.counts(users) > 0)[:, None]


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
    text = id_text(wanted, data.item_ids)
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


def id_text(wanted: Any, ids: NDArray[Any]) -> str:
    """An id as text; where ids are whole numbers 3.0, as from a table with gaps, is 3."""
    if (
        isinstance(wanted, float | np.floating)
        and np.issubdtype(ids.dtype, np.integer)
        and wanted == wanted // 1
    ):
        return str(int(wanted))
    return str(wanted).strip()


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
