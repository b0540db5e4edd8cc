"""Ranking against a naive reference, on scores full of ties, NaN and infinities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec.core.factors import Factors
from fedrec.core.ragged import Ragged
from fedrec.data.interactions import from_codes
from fedrec.data.split import split
from fedrec.evaluate.exam import Exam
from fedrec.evaluate.ranking import rank_full, rank_sampled, top_k


class Table:
    """A scorer that holds everything: fine for a test."""

    def __init__(self, scores):
        self.scores = np.asarray(scores, dtype=np.float32)

    def some(self, users, items):
        return self.scores[users[:, None], items]

    def all(self, users):
        return self.scores[users]


def make(rows, n_items):
    """A data set from one list of items per user, oldest first."""
    users = np.repeat(np.arange(len(rows)), [len(r) for r in rows]).astype(np.int32)
    items = np.concatenate(rows).astype(np.int32)
    return from_codes("made", users, items, np.arange(len(items)), np.arange(len(rows)), np.arange(n_items))


def naive(scores, positive, candidates):
    """(ahead, ties, among), one user, by definition."""
    p = scores[positive]
    ahead = sum(1 for c in candidates if not (np.isfinite(p) and np.isfinite(scores[c]) and scores[c] < p))
    ties = sum(1 for c in candidates if np.isfinite(p) and scores[c] == p)
    return ahead, ties, len(candidates)


@st.composite
def worlds(draw):
    n_items = draw(st.integers(1, 12))
    history = st.lists(st.integers(0, n_items - 1), min_size=5, max_size=12)
    rows = draw(st.lists(history, min_size=1, max_size=6))
    values = st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0, np.nan, np.inf, -np.inf])
    scores = draw(st.lists(values, min_size=len(rows) * n_items, max_size=len(rows) * n_items))
    return rows, n_items, np.array(scores, np.float32).reshape(len(rows), n_items)


@given(worlds())
@pytest.mark.parametrize("which", ["valid", "test"])
def test_equals_the_naive_ranking(which, world):
    rows, n_items, scores = world
    parts = split(make(rows, n_items), "paper")  # repeated rows kept: a held-out item may be trained on
    positives = parts.valid if which == "valid" else parts.test
    exam = Exam(parts)
    sampled = rank_sampled(Table(scores), exam, which)
    full = rank_full(Table(scores), exam, which)
    for u in range(parts.n_users):
        drawn = (parts.candidates.valid if which == "valid" else parts.candidates.test)[u]
        assert tuple(r[u] for r in sampled) == naive(scores[u], positives[u], drawn[drawn >= 0])
        masked = set(parts.train.of(u)) | ({parts.valid[u]} if which == "test" else set()) | {positives[u]}
        rest = [i for i in range(n_items) if i not in masked]
        assert tuple(r[u] for r in full) == naive(scores[u], positives[u], rest)


@given(worlds(), st.integers(1, 14), st.booleans())
def test_top_k_equals_sorting(world, k, include_seen):
    rows, n_items, scores = world
    parts = split(make(rows, n_items), "paper")
    items, values = top_k(Table(scores), parts.trained, k, include_seen=include_seen)
    for u in range(parts.n_users):
        seen = set() if include_seen else set(parts.train.of(u))
        free = [i for i in range(n_items) if i not in seen and np.isfinite(scores[u, i])]
        best = sorted(free, key=lambda i: (-scores[u, i], i))[:k]
        assert items[u].tolist() == best + [-1] * (k - len(best))
        assert values[u, : len(best)].tolist() == scores[u, best].tolist()
        assert np.isneginf(values[u, len(best) :]).all()


def test_non_finite_scores_rank_against_the_positive():
    parts = split(make([[0, 1, 2]], 8))
    exam = Exam(parts)
    for bad in (np.nan, np.inf, -np.inf):
        scores = np.zeros((1, 8))
        scores[0, parts.test[0]] = 1
        scores[0, 5] = bad  # a candidate that did not come out counts as ahead
        assert rank_full(Table(scores), exam, "test").ahead[0] == 1
        scores = np.zeros((1, 8))
        scores[0, parts.test[0]] = bad  # a positive that did not come out is last
        assert rank_full(Table(scores), exam, "test").ahead[0] == 5
        sampled = rank_sampled(Table(scores), exam, "test")
        assert sampled.ahead[0] == sampled.among[0] > 0


def test_one_item():
    parts = split(make([[0] * 5], 1), "paper")
    exam = Exam(parts)
    for ranks in (rank_full(Table([[1]]), exam, "test"), rank_sampled(Table([[1]]), exam, "test")):
        assert [int(r[0]) for r in ranks] == [0, 0, 0]
    assert top_k(Table([[1]]), parts.trained, 3)[0].tolist() == [[-1, -1, -1]]


def test_a_user_who_has_seen_everything_has_nothing_to_rank_against():
    exam = Exam(split(make([[0, 1, 2, 3], [0, 1, 2]], 4)))
    full = rank_full(Table(np.ones((2, 4))), exam, "test")
    assert full.among.tolist() == [0, 1]
    assert full.ahead.tolist() == [0, 1]  # a hit at rank 0; a tie against the other
    assert rank_sampled(Table(np.ones((2, 4))), exam, "test").among[0] == 0


@pytest.fixture
def factors():
    rng = np.random.default_rng(0)
    parts = split(make([rng.choice(900, 20, replace=False) for _ in range(700)], 900))
    tables = (rng.normal(size=s).astype(np.float32) for s in ((700, 24), (900, 24), 700, 900))
    return Factors(*tables), parts


def test_factors_score_as_defined(factors):
    model, _ = factors
    users = np.array([5, 3])
    wanted = model.users[users] @ model.items.T + model.item_bias + model.user_bias[users, None]
    assert np.allclose(model.all(users), wanted, atol=1e-5)
    items = np.array([[1, 2, -1], [899, -1, -1]], np.int32)
    assert np.array_equal(model.some(users, items)[items >= 0], model.all(users)[[0, 0, 1], [1, 2, 899]])


def test_factors_without_bias():
    model = Factors(np.eye(2, 3), np.ones((4, 3)))
    assert model.all(np.array([1])).tolist() == [[1, 1, 1, 1]]


def test_same_bits_for_any_number_of_threads(factors):
    model, parts = factors
    for rank in (rank_full, rank_sampled):
        one, many = (rank(model, Exam(parts), "test", threads) for threads in (1, 4))
        assert all(np.array_equal(a, b) for a, b in zip(one, many, strict=True))
    one, many = (top_k(model, parts.trained, 10, threads=threads) for threads in (1, 4))
    assert np.array_equal(one[0], many[0])
    assert np.array_equal(one[1], many[1])


def test_top_k_of_chosen_users_and_own_masks(factors):
    model, parts = factors
    everyone, scores = top_k(model, parts.trained, 10)
    chosen = top_k(model, parts.trained, 10, users=[600, 2])
    assert np.array_equal(chosen[0], everyone[[600, 2]])
    assert np.array_equal(chosen[1], scores[[600, 2]])
    assert top_k(model, parts.trained, 10, users=[])[0].shape == (0, 10)
    nothing = Ragged(np.zeros(701, np.int64), np.zeros(0, np.int32))
    assert np.array_equal(top_k(model, nothing, 5)[0], top_k(model, parts.trained, 5, include_seen=True)[0])


def test_an_error_in_a_thread_is_raised(factors):
    _, parts = factors

    class Broken(Table):
        def all(self, users):
            raise ValueError("no scores")

    with pytest.raises(ValueError, match="no scores"):
        rank_full(Broken([[0]]), Exam(parts), "test", threads=2)
