"""The made worlds: what they look like, that they repeat, and that their known answers are right."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from numpy.typing import NDArray

from fedrec.core.errors import DataError
from fedrec.data.interactions import Interactions
from fedrec.data.split import Split, split
from fedrec.data.worlds import World, demo, demo_world, scalable, two_tastes, two_tastes_world
from fedrec.evaluate.exam import Exam
from fedrec.evaluate.metrics import hr
from fedrec.evaluate.ranking import rank_sampled


class Table:
    """A scorer that holds all its scores: for small worlds only."""

    def __init__(self, scores: NDArray[np.float64]) -> None:
        self.scores = scores.astype(np.float32)

    def all(self, users: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.scores[users]

    def some(self, users: NDArray[np.int64], items: NDArray[np.int32]) -> NDArray[np.float32]:
        return self.scores[users[:, None], items]


def training(s: Split) -> NDArray[np.float64]:
    dense = np.zeros((s.n_users, s.n_items))
    dense[np.repeat(np.arange(s.n_users), np.diff(s.train.indptr)), s.train.items] = 1
    return dense


def ease(x: NDArray[np.float64], penalty: float = 500.0) -> NDArray[np.float64]:
    inverse = np.linalg.inv(x.T @ x + penalty * np.eye(x.shape[1]))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    return x @ weights


def checksum(data: Interactions) -> str:
    assert data.times is not None
    parts = (data.indptr.astype("<i8"), data.items.astype("<i4"), data.times.astype("<i8"))
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:16]


def repeats(data: Interactions) -> int:
    users = np.repeat(np.arange(data.n_users), data.counts)
    return len(data) - len(np.unique(users * data.n_items + data.items))


def share_of_top_tenth(counts: NDArray[np.int64]) -> float:
    return float(np.sort(counts)[-(len(counts) // 10) :].sum() / counts.sum())


@pytest.fixture(scope="module")
def world() -> World:
    return demo_world()


def test_demo_has_the_shape_of_movielens_100k(world: World) -> None:
    data = world.data
    assert (data.n_users, data.n_items, len(data)) == (950, 1_700, 100_000)
    assert data.counts.min() >= 20
    assert repeats(data) == 0
    popularity = np.bincount(data.items, minlength=data.n_items)
    assert (popularity > 0).mean() > 0.98
    assert share_of_top_tenth(popularity) > 0.4
    assert share_of_top_tenth(data.counts) > 0.3
    assert data.counts.mean() > 1.5 * np.median(data.counts)


def test_demo_is_the_same_on_every_machine(world: World) -> None:
    assert checksum(world.data) == "254c21a1045252c6"
    assert world.data.titles is not None
    assert world.data.titles[0] == "No Orbit for Amonelle"


def test_another_seed_is_another_demo(world: World) -> None:
    other = demo(seed=1)
    assert checksum(other) != checksum(world.data)
    assert len(other) == len(world.data)


def test_demo_titles_are_distinct_and_genres_known(world: World) -> None:
    titles, genres = world.data.titles, world.data.genres
    assert titles is not None
    assert genres is not None
    assert len(set(titles)) == world.data.n_items
    assert all(1 <= len(of_item) <= 2 for of_item in genres)


def test_demo_times_rise_and_seldom_tie(world: World) -> None:
    data = world.data
    assert data.times is not None
    gaps = np.delete(np.diff(data.times), data.indptr[1:-1] - 1)  # within users
    assert gaps.min() == 0
    assert 0.001 < (gaps == 0).mean() < 0.05


def test_demo_tastes_drift(world: World) -> None:
    """A user's first and last films differ more in genre than two samples of one time do."""
    data = world.data
    assert data.genres is not None
    names = sorted({g for of_item in data.genres for g in of_item})
    of_item = np.array([[g in mine for g in names] for mine in data.genres], dtype=float)

    def likeness(a: NDArray[np.int32], b: NDArray[np.int32]) -> float:
        x, y = of_item[a].sum(axis=0), of_item[b].sum(axis=0)
        return float(x @ y / np.sqrt((x @ x) * (y @ y)))

    apart, together = [], []
    for user in np.flatnonzero(data.counts >= 40):
        mine = data.items_of(user)
        half = len(mine) // 2
        apart.append(likeness(mine[:half], mine[half:]))
        together.append(likeness(mine[::2], mine[1::2]))
    assert np.mean(apart) < np.mean(together) - 0.1


def test_in_demo_learning_beats_popularity_and_nothing_beats_the_best(world: World) -> None:
    s = split(world.data, "strict", seed=0)
    x = training(s)
    popularity = np.tile(x.sum(axis=0), (s.n_users, 1))
    scorers = {"popularity": Table(popularity), "ease": Table(ease(x)), "best": world.best}
    hit = {name: hr(rank_sampled(by, Exam(s), "test"), 10) for name, by in scorers.items()}
    assert 0.35 < hit["popularity"] < 0.45
    assert hit["ease"] > hit["popularity"] + 0.15
    assert hit["best"] > hit["ease"] + 0.08


def test_best_scores_the_same_items_alike_either_way(world: World) -> None:
    users = np.array([3, 900])
    items = np.array([[0, 5, 1_699], [7, 7, 2]], dtype=np.int32)
    assert np.array_equal(
        world.best.some(users, items), np.take_along_axis(world.best.all(users), items, axis=1)
    )


@pytest.mark.parametrize(("users", "items"), [(40, 40), (6, 16), (7, 17), (101, 30), (12, 200)])
@pytest.mark.parametrize("seed", [0, 1])
def test_two_tastes_can_be_learned_from_others(users: int, items: int, seed: int) -> None:
    s = split(two_tastes(users, items, seed), "strict")
    assert s.dropped == 0
    x = training(s)
    scores = x @ (x.T @ x)  # items met by those who met mine
    wins = [
        scores[u, s.test[u]] > np.median(scores[u, 1 - u % 2 :: 2])  # the items of the other taste
        for u in range(users)
    ]
    assert all(wins)


def test_two_tastes_keep_to_their_own() -> None:
    made = two_tastes_world()
    data, everyone = made.data, np.arange(40)
    assert repeats(data) == 0
    for user in everyone:
        mine = data.items_of(user)
        assert (mine % 2 == user % 2).all()
        assert 10 < len(mine) < 20  # most of the twenty, not all
        assert made.best.all(everyone)[user, mine].min() == 1
    assert made.best.all(everyone).sum() == 40 * 20
    popularity = np.bincount(data.items, minlength=40)
    assert popularity.min() == popularity.max()


def test_two_tastes_withhold_the_newest() -> None:
    data = two_tastes()
    s = split(data, "strict", seed=5)
    assert s.test.tolist() == [data.items_of(u)[-1] for u in range(40)]
    assert s.valid.tolist() == [data.items_of(u)[-2] for u in range(40)]


def test_two_tastes_refuse_too_few() -> None:
    with pytest.raises(DataError, match="at least 6 users and 16 items, not 2 and 40"):
        two_tastes(users=2)


@pytest.mark.parametrize(
    ("users", "items", "rows"), [(2_000, 1_000, 60_000), (300, 50, 7_000), (100, 6, 300), (1, 2_000, 1_000)]
)
def test_scalable_gives_what_was_asked_for(users: int, items: int, rows: int) -> None:
    data = scalable(users, items, rows)
    assert (data.n_users, data.n_items, len(data)) == (users, items, rows)
    assert 3 <= data.counts.min() <= data.counts.max() <= items // 2
    assert repeats(data) == 0
    assert data.times is not None
    assert (np.delete(np.diff(data.times), data.indptr[1:-1] - 1) >= 0).all()


def test_scalable_is_long_tailed_and_repeats_itself() -> None:
    data = scalable(2_000, 1_000, 60_000)
    assert share_of_top_tenth(np.bincount(data.items, minlength=1_000)) > 0.35
    assert share_of_top_tenth(data.counts) > 0.3
    assert checksum(data) == "337f9560587c48b7"
    assert checksum(scalable(2_000, 1_000, 60_000, seed=1)) != checksum(data)


def test_scalable_has_tastes_to_learn() -> None:
    s = split(scalable(2_000, 600, 60_000), "strict")
    x = training(s)
    popularity = Table(np.tile(x.sum(axis=0), (s.n_users, 1)))
    hit = [hr(rank_sampled(by, Exam(s), "test"), 10) for by in (popularity, Table(ease(x, 200.0)))]
    assert hit[1] > hit[0] + 0.05


@pytest.mark.parametrize(
    ("users", "items", "rows"), [(10, 100, 20), (10, 100, 501), (0, 100, 0), (10, 4, 30)]
)
def test_scalable_refuses_what_cannot_be(users: int, items: int, rows: int) -> None:
    with pytest.raises(DataError, match="at least 3 a user and at most half of the items"):
        scalable(users, items, rows)
