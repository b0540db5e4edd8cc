"""The yardsticks: each against its definition, the made world, and known figures on real data."""

import os
from pathlib import Path

import numpy as np
import pytest

from fedrec.core.errors import FedrecError
from fedrec.core.rng import client_key, stream
from fedrec.data.interactions import from_codes
from fedrec.data.load import load
from fedrec.data.negatives import draw, make_free
from fedrec.data.split import split
from fedrec.data.worlds import two_tastes
from fedrec.evaluate.controls import controls
from fedrec.evaluate.exam import Exam
from fedrec.evaluate.metrics import summary
from fedrec.evaluate.ranking import rank_full, rank_sampled
from fedrec.methods.central import itemitem
from fedrec.methods.central.counter import Counter
from fedrec.methods.central.ease import EASE
from fedrec.methods.central.ials import IALS
from fedrec.methods.central.itemknn import ItemKNN
from fedrec.methods.central.popularity import Popularity

PERSONAL = [EASE(lam=5), ItemKNN(k=10), IALS(dim=4, lam=1)]
ALL = [Popularity(), Counter(rounds=3), *PERSONAL]


def name_of(method):
    return method.name


@pytest.fixture(scope="module")
def made():
    """600 items: more than one block of anything; item 599 is nobody's."""
    rng = np.random.default_rng(0)
    rows = [np.unique(rng.zipf(1.3, 40) % 599) for _ in range(300)]
    users = np.repeat(np.arange(300), [len(r) for r in rows]).astype(np.int32)
    items = np.concatenate(rows).astype(np.int32)
    return split(from_codes("made", users, items, np.arange(len(users)), np.arange(300), np.arange(600)))


@pytest.fixture(scope="module")
def dense(made):
    """The training matrix in full."""
    x = np.zeros((made.n_users, made.n_items))
    for u in range(made.n_users):
        x[u, made.train.of(u)] = 1
    return x


def everyone(parts):
    return np.arange(parts.n_users)


@pytest.mark.parametrize("method", PERSONAL, ids=name_of)
def test_learns_two_tastes(method):
    parts = split(two_tastes())
    scores = method.fit(parts, seed=0, threads=1).all(everyone(parts))
    wrong = np.arange(parts.n_items) % 2 != parts.users[:, None] % 2
    median = [np.median(row[bad]) for row, bad in zip(scores, wrong, strict=True)]
    assert np.mean(scores[everyone(parts), parts.test] > median) >= 0.9


@pytest.mark.parametrize("method", ALL, ids=name_of)
def test_some_are_the_same_as_all(method, made):
    model = method.fit(made, seed=0, threads=1)
    users = np.array([7, 3])
    items = np.array([[5, 599, 0, -1], [1, -1, -1, -1]], np.int32)
    some, full = model.some(users, items), model.all(users)
    assert some.dtype == full.dtype == np.float32
    assert np.array_equal(some[items >= 0], full[[0, 0, 0, 1], [5, 599, 0, 1]])
    assert np.isfinite(full).all()


@pytest.mark.parametrize("method", ALL, ids=name_of)
def test_same_seed_same_bits_for_any_number_of_threads(method, made):
    one, many = (method.fit(made, seed=4, threads=threads).all(everyone(made)) for threads in (1, 4))
    assert np.array_equal(one, many)


def test_popularity_counts_training_users(made, dense):
    assert np.array_equal(Popularity().fit(made).all(np.array([0]))[0], dense.sum(0))


def test_ease_is_its_closed_form(made, dense):
    p = np.linalg.inv(dense.T @ dense + 20 * np.eye(made.n_items))
    b = -p / np.diag(p)
    np.fill_diagonal(b, 0)
    assert np.allclose(EASE(lam=20).fit(made).all(everyone(made)), dense @ b, atol=1e-5)


def test_itemknn_is_its_definition(made, dense):
    norms = np.sqrt(dense.sum(0))
    sims = (dense.T @ dense / (np.outer(norms, norms) + 3)).astype(np.float32)
    np.fill_diagonal(sims, 0)
    for j in range(made.n_items):
        sims[np.argsort(-sims[:, j], kind="stable")[7:], j] = 0
    assert np.allclose(ItemKNN(k=7, shrink=3).fit(made).all(everyone(made)), dense @ sims, atol=1e-5)


def test_ials_users_are_at_their_optimum(made, dense):
    model = IALS(dim=5, alpha=2, lam=3, sweeps=2).fit(made)
    w, v = model.users.astype(float), model.items.astype(float)
    residual = (1 + 2 * dense) * (dense - w @ v.T)
    assert np.allclose(residual @ v, 3 * w, atol=1e-3)


def test_ials_loss_falls_with_every_sweep(made, dense):
    losses = []
    for sweeps in range(1, 6):
        model = IALS(dim=5, sweeps=sweeps, lam=1).fit(made)
        fit = ((1 + dense) * (dense - model.users @ model.items.T) ** 2).sum()
        losses.append(fit + (model.users**2).sum() + (model.items**2).sum())
    assert losses == sorted(losses, reverse=True)


def test_ials_start_depends_on_the_seed(made):
    one, other = (IALS(dim=4, sweeps=1).fit(made, seed).users for seed in (0, 1))
    assert not np.array_equal(one, other)


def test_counter_counts_the_negatives_that_training_draws(made):
    times = np.zeros(made.n_items)
    for round in (1, 2, 3):
        key = np.uint64(client_key(np.uint64(stream(9, "negatives", round)), made.keys[5]))
        drawn = np.empty(4 * len(made.train.of(5)), np.int32)
        draw(key, made.trained.of(5), made.n_items, make_free(made.n_items), drawn)
        np.add.at(times, drawn, 1)
    assert np.array_equal(Counter(rounds=3).fit(made, seed=9).all(np.array([5]))[0], -times)


@pytest.mark.parametrize("method", [EASE(), ItemKNN(k=600)], ids=name_of)
def test_a_catalogue_too_large_for_memory_is_one_sentence(method, made, monkeypatch):
    monkeypatch.setattr(itemitem, "available_memory", lambda: 2.0**20)
    with pytest.raises(FedrecError, match=rf"^{method.name} needs 0\.0 GB .* 600 items .* available: use "):
        method.fit(made)


def test_available_memory_is_a_sensible_figure():
    assert itemitem.available_memory() > 2**24


def test_settings_are_checked():
    with pytest.raises(FedrecError, match="lam=-1"):
        EASE(lam=-1)
    with pytest.raises(FedrecError, match="did you mean 'lam'"):
        EASE(lamda=1)


@pytest.mark.parametrize("method", ALL, ids=name_of)
def test_one_item(method):
    zeros, ids = np.zeros(5, np.int32), np.array([1])
    parts = split(from_codes("one", zeros, zeros, None, ids, ids), "paper")
    assert np.isfinite(method.fit(parts).all(np.array([0]))).all()


# Known figures on real data, one seed; bounds as wide as the seeds spread.


def real(name):
    folders = os.environ.get("FEDREC_DATA", "").split(os.pathsep)
    if not any(folder and (Path(folder) / name).is_dir() for folder in folders):
        pytest.skip(f"{name} is in no folder of FEDREC_DATA")
    return load(name)


def within(ranks, low, high):
    """Whether (HR, NDCG) at 10, in percent, lie between two pairs."""
    found = 100 * np.array([summary(ranks)["hr@10"], summary(ranks)["ndcg@10"]])
    assert (found >= low).all(), found
    assert (found <= high).all(), found


def test_figures_on_ml_100k():
    parts = split(real("ml-100k"))
    exam = Exam(parts)
    popularity, ease, ials = (m.fit(parts, 0, 2) for m in (Popularity(), EASE(), IALS()))
    within(rank_sampled(popularity, exam, "test"), [37, 0], [44, 100])
    within(rank_sampled(ease, exam, "test"), [61.5, 35], [68, 40])
    within(rank_sampled(ials, exam, "test"), [61.5, 35], [68.5, 40])
    within(rank_full(ease, exam, "test"), [11.5, 0], [16.5, 100])


def test_ease_on_ml_1m():
    parts = split(real("ml-1m"))
    exam = Exam(parts)
    ease = EASE(lam=1000).fit(parts, 0, 2)
    within(rank_sampled(ease, exam, "test", 2), [68.5, 41.5], [71, 44])


def test_counter_on_ml_100k():
    data = real("ml-100k")
    assert controls(split(data, "paper"), 100)["counter"]["hr@10"] >= 0.99
    honest = controls(split(data), 100)["counter"]
    assert honest["hr@10"] <= 0.12
    assert abs(honest["auc"] - 0.5) <= 3 * honest["auc_se"]
    assert not honest["leaks"]


def test_counter_reveals_the_leak_on_sparse_data():
    data = real("amazon-video")
    leaky = controls(split(data, "paper"), 100)["counter"]
    assert leaky["hr@10"] < 0.05  # all ties
    assert leaky["leaks"]
    assert leaky["auc"] == pytest.approx(0.584, abs=0.01)
    assert not controls(split(data), 100)["counter"]["leaks"]
