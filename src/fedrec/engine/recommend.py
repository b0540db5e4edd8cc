"""Recommendations of a run: for its users, for newcomers with a few likes, and items like an item."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated, View
from fedrec.core.slots import Array, Catalog
from fedrec.data.interactions import Interactions
from fedrec.data.split import Ragged
from fedrec.engine.join import Newcomers, join
from fedrec.evaluate.ranking import top_k
from fedrec.methods.central.itemitem import ItemItem
from fedrec.methods.central.popularity import SameForAll

if TYPE_CHECKING:
    import polars as pl

    from fedrec.engine.run import Run
    from fedrec.evaluate.scorer import Scorer


def recommend(
    run: Run, users: Sequence[Any], k: int, view: View | None = None, include_seen: bool = False
) -> list[pl.DataFrame]:
    """The k best items of each user (original ids)."""
    _at_least_one(k)
    chosen = [run._user(user) for user in users]
    items, scores = top_k(run.scorer(view), run.split, k, chosen, include_seen, run.threads)
    return [frame(run.split.data, *line) for line in zip(items, scores, strict=True)]


def recommend_new(
    run: Run, likes: Sequence[Sequence[Any]], k: int, include_seen: bool = False
) -> list[pl.DataFrame]:
    """The k best items of new people who like these items (ids or titles)."""
    _at_least_one(k)
    codes = [[find_item(run.split.data, like) for like in mine] for mine in likes]
    seen, scorer = joined(run, codes)
    items, scores = top_k(scorer, seen, k, None, include_seen, run.threads)
    return [frame(run.split.data, *line) for line in zip(items, scores, strict=True)]


def joined(run: Run, likes: Sequence[Sequence[int]]) -> tuple[Ragged, Scorer]:
    """New clients (by item codes) as a scorer, and what they have seen."""
    if isinstance(run.method, Federated):
        assert run.federation is not None
        assert run.federation.selected is not None
        state = run.federation.selected.moment.after
        found: Newcomers = join(run.method, state, run.split, likes, run.config.seed)
        return found.likes, found
    from fedrec.engine.join import newcomers

    parts = newcomers(run.split, likes)
    scorer = run.scorer()
    if isinstance(scorer, ItemItem):
        from fedrec.methods.central.itemitem import training_matrix

        return parts.trained, ItemItem(training_matrix(parts), scorer.weights)
    if isinstance(scorer, SameForAll):
        return parts.trained, scorer
    raise FedrecError(f"nobody can join a run of {run.method.label}: it is a yardstick of known users only")


def similar(run: Run, item: Any, k: int) -> pl.DataFrame:
    """The items whose rows of the shared table point most in the direction of this one's (cosine)."""
    _at_least_one(k)
    code = find_item(run.split.data, item)
    rows = item_rows(run)
    norms = np.linalg.norm(rows, axis=1)
    cosine = np.where(norms > 0, rows @ rows[code] / np.maximum(norms * norms[code], 1e-12), -np.inf)
    cosine[code] = -np.inf
    best = np.argsort(-cosine, kind="stable")[:k]
    best = best[np.isfinite(cosine[best])]
    return frame(run.split.data, best, cosine[best])


def item_rows(run: Run) -> Array:
    """The shared item table of the selected round, one flat row per item."""
    if not isinstance(run.method, Federated):
        raise FedrecError(f"{run.method.label} has no shared item table: it is not federated")
    assert run.federation is not None
    assert run.federation.selected is not None
    slots = run.method.slots(Catalog(run.split.n_users, run.split.n_items))
    shared = run.federation.selected.moment.after.shared
    tables = [shared[n].reshape(run.split.n_items, -1) for n, s in slots.items() if s.rows and n in shared]
    if not tables:
        raise FedrecError(f"this run of {run.method.label} has no shared item table")
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


def _at_least_one(k: int) -> None:
    if k < 1:
        raise FedrecError(f"k={k} asks for no recommendation: give at least 1")
