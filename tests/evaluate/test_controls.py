"""The counter catches a protocol that gives the test item away, and only that one."""

import json

import numpy as np
import pytest

from fedrec.core.protocol import PAPER, STRICT
from fedrec.data.interactions import from_codes
from fedrec.data.split import split
from fedrec.evaluate.controls import controls
from fedrec.methods.central.counter import Counter


def made(n_users=300, n_items=400, rows=30):
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(n_users), rows).astype(np.int32)
    items = np.concatenate([rng.choice(n_items, rows, replace=False) for _ in range(n_users)])
    times = np.arange(len(users))
    return from_codes("made", users, items.astype(np.int32), times, np.arange(n_users), np.arange(n_items))


def test_paper_leaks_and_strict_does_not():
    data = made()
    leaky = controls(split(data, "paper"), rounds=50)["counter"]
    assert leaky["leaks"]
    assert leaky["hr@10"] > 0.99
    honest = controls(split(data, "strict"), rounds=50)["counter"]
    assert not honest["leaks"]
    assert abs(honest["auc"] - 0.5) < 3 * honest["auc_se"]
    assert honest["hr@10"] < 0.15


def test_it_is_the_pool_of_negatives_that_leaks():
    data = made()
    mended = PAPER.model_copy(update={"negatives_from": "untrained"})
    assert not controls(split(data, mended), rounds=50)["counter"]["leaks"]
    spoiled = STRICT.model_copy(update={"negatives_from": "never-interacted"})
    assert controls(split(data, spoiled), rounds=50)["counter"]["leaks"]


def test_few_draws_hide_the_leak_from_hr_but_not_from_auc():
    found = controls(split(made(1500, 3000, 5), "paper"), rounds=30)["counter"]
    assert found["hr@10"] < 0.1
    assert found["leaks"]


def test_a_lucky_draw_is_no_leak(monkeypatch):
    """What stands out once is counted again with other draws, and these decide; a leak stands out each time."""
    lucky, plain = (0.505, 0.001), (0.501, 0.001)
    for second, leaks in ((plain, False), (lucky, True)):
        answers = iter([lucky, second])
        monkeypatch.setattr("fedrec.evaluate.controls.auc", lambda _, found=answers: next(found))
        counter = controls(split(made(), "strict"), rounds=2)["counter"]
        assert (counter["auc"], counter["leaks"]) == (second[0], leaks)


def test_the_second_count_has_draws_of_its_own(monkeypatch):
    seeds = []
    first = Counter.fit

    def fit(self, split, seed=0, threads=1):
        seeds.append(seed)
        return first(self, split, seed, threads)

    monkeypatch.setattr(Counter, "fit", fit)
    assert controls(split(made(), "paper"), rounds=5, seed=3)["counter"]["leaks"]
    assert seeds[0] == 3
    assert len(set(seeds)) == 2


def test_popularity_is_reported_and_all_of_it_is_json():
    found = controls(split(made()), rounds=3)
    assert {"hr@10", "ndcg@10"} <= set(found["popularity"])
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_nobody_has_candidates():
    found = controls(split(made(2, 6, 6)))
    assert found["counter"] == {"hr@10": 1.0, "auc": None, "auc_se": None, "leaks": False}


@pytest.mark.parametrize("protocol", ["strict", "paper"])
def test_same_bits_for_any_number_of_threads(protocol):
    parts = split(made(1200), protocol)
    assert controls(parts, 5, 0, threads=1) == controls(parts, 5, 0, threads=4)
