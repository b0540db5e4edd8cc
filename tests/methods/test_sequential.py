"""Yardsticks that see the order of things: the linear Markov chain and SASRec."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.ragged import Ragged, run_ends
from fedrec.core.scorer import FromHistory, Scorer
from fedrec.core.slots import Catalog
from fedrec.data.interactions import Interactions, from_codes
from fedrec.data.sequences import draw_sequences
from fedrec.data.split import Split, split
from fedrec.evaluate.exam import Exam
from fedrec.evaluate.ranking import rank_full
from fedrec.methods.central import markov, sasrec
from fedrec.methods.central.ease import EASE
from fedrec.methods.central.markov import Markov
from fedrec.methods.central.sasrec import Attentive, Dropout, SASRec
from fedrec.simulate.passes import Passes

WALK = list(range(3, 13))
SMALL = SASRec(dim=16, length=10, dropout=0.1, lr=0.01, batch_size=16)


def there_and_back(users: int = 120, items: int = 40, held: int = 14) -> Interactions:
    """Items stand in a ring. Half of the users walk along it, half against: sets alone do not tell which."""
    rng = np.random.default_rng(0)
    steps = np.arange(held)
    lists = [(rng.integers(items) + (1 if u % 2 else -1) * steps) % items for u in range(users)]
    codes = np.concatenate(lists).astype(np.int32)
    people = np.repeat(np.arange(users, dtype=np.int32), held)
    return from_codes("walks", people, codes, np.tile(steps, users), np.arange(users), np.arange(items))


@pytest.fixture(scope="module")
def walks() -> Split:
    return split(there_and_back())


def histories(*runs: list[int]) -> Ragged:
    flat = np.array([item for run in runs for item in run], np.int32)
    return Ragged(run_ends(np.array([len(run) for run in runs])), flat)


def trained(method: SASRec, parts: Split, rounds: int) -> Attentive:
    passes = Passes(method, parts)
    for _ in range(rounds):
        passes.play(evaluate=False)
    return method.scorer(passes.state.server, parts.train)


def first_places(scorer: Scorer, parts: Split) -> float:
    """How often the validation item, which came next, is ahead of all others."""
    return float(np.mean(rank_full(scorer, Exam(parts), "valid").ahead == 0))


def test_where_only_the_order_tells_they_find_the_next_item_and_ease_cannot(walks: Split) -> None:
    assert first_places(EASE(lam=5).fit(walks), walks) < 0.65
    assert first_places(Markov(lam=5).fit(walks), walks) > 0.95
    assert first_places(trained(SMALL, walks, 40), walks) > 0.95


@pytest.mark.parametrize("name", ["markov", "sasrec"])
def test_told_what_came_since_they_rank_from_there(name: str, walks: Split) -> None:
    scorer: Any = Markov(lam=5).fit(walks) if name == "markov" else trained(SMALL, walks, 40)
    assert isinstance(scorer, FromHistory)
    knowing = scorer.knowing(walks.known)
    assert np.mean(rank_full(knowing, Exam(walks), "test").ahead == 0) > 0.95
    forward, back = knowing.knowing(histories(WALK, WALK[::-1])).all(np.arange(2))
    assert forward[13] > forward[2]
    assert back[2] > back[13]


@pytest.mark.parametrize("name", ["markov", "sasrec"])
def test_under_next_only_the_test_item_is_ranked_otherwise(name: str, small: Interactions) -> None:
    options: dict[str, Any] = {"rounds": 2, "settings": {"dim": 8, "length": 20}} if name == "sasrec" else {}
    strict, known = (fedrec.run(name, small, protocol=how, **options) for how in ("strict", "next"))
    assert known.validation == strict.validation
    assert known.test != strict.test
    assert not any("cannot use it without training" in note for note in known.result["notes"])


# --- the linear chain


@pytest.mark.parametrize("protocol", ["strict", "paper"])
def test_markov_is_the_ridge_regression_over_all_prefixes(protocol: str) -> None:
    rng = np.random.default_rng(1)  # under `paper`, items that were met again stay
    people, codes = np.repeat(np.arange(25, dtype=np.int32), 9), rng.integers(0, 12, 225).astype(np.int32)
    made = from_codes("made", people, codes, np.tile(np.arange(9), 25), np.arange(25), np.arange(12))
    parts = split(made, protocol)
    contexts, following, last = [], [], []
    for u in range(parts.n_users):
        run = parts.train.of(u)
        for t in range(len(run)):
            context = np.zeros(12)
            for k in range(min(3, t + 1)):
                context[run[t - k]] += 0.8**k
            if t + 1 < len(run):
                contexts.append(context)
                following.append(np.eye(12)[run[t + 1]])
        last.append(context)
    c, n = np.array(contexts), np.array(following)
    z = np.linalg.solve(c.T @ c + 2.0 * np.eye(12), c.T @ n)
    chain = Markov(decay=0.8, window=3, lam=2.0).fit(parts)
    np.testing.assert_allclose(chain.weights, z, atol=1e-5)
    np.testing.assert_allclose(chain.all(np.arange(parts.n_users)), np.array(last) @ z, atol=1e-5)


def test_markov_opened_from_its_file_is_the_same_and_takes_newcomers(tmp_path: Path) -> None:
    data = there_and_back()
    run = fedrec.run("markov", data, settings={"lam": 5}, out=tmp_path / "run")
    opened = fedrec.open(tmp_path / "run", data=data)
    assert np.array_equal(opened.scorer().all(np.arange(9)), run.scorer().all(np.arange(9)))
    assert opened.recommend(likes=WALK, k=1)["item"].to_list() == [13]
    assert opened.recommend(likes=WALK[::-1], k=1)["item"].to_list() == [2]


def test_markov_refuses_too_many_items(walks: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markov, "MOST", 39)
    with pytest.raises(FedrecError, match="markov solves for 40 × 40 weights and is made for 39 items"):
        Markov().fit(walks)


@pytest.mark.parametrize("name", ["markov", "sasrec"])
def test_data_without_an_order_are_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "data.csv"
    file.write_text("user,item\n" + "".join(f"{u},{i}\n" for u in range(6) for i in range(u, u + 5)))
    with pytest.raises(FedrecError, match=f"{name} learns from the order of things"):
        fedrec.run(name, str(file), rounds=1 if name == "sasrec" else None)


# --- SASRec


def by_hand(held: dict[str, Any], blocks: int, run: list[int]) -> Any:
    """States of a sequence as the paper has it: filled up with zeros at the start, which are never looked at."""
    p = {name: values.astype(np.float64) for name, values in held.items()}
    n, d = p["positions"].shape
    run = run[-n:]
    empty = n - len(run)

    def norm(x: Any, name: str) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return (
            centred
            / np.sqrt((x**2).mean(-1, keepdims=True) - x.mean(-1, keepdims=True) ** 2 + 1e-8)
            * p[f"{name}.scale"]
            + p[f"{name}.shift"]
        )

    x = np.zeros((n, d))
    for t, item in enumerate(run, empty):
        x[t] = p["items"][item] * math.sqrt(d) + p["positions"][t]
    for b in range(blocks):
        q = norm(x, f"attend{b}")
        out = q.copy()
        for t in range(empty, n):
            query = p[f"query{b}"] @ q[t] + p[f"query{b}.bias"]
            logits = [
                query @ (p[f"key{b}"] @ x[s] + p[f"key{b}.bias"]) / math.sqrt(d) for s in range(empty, t + 1)
            ]
            weights = np.exp(logits) / np.exp(logits).sum()
            for s, weight in zip(range(empty, t + 1), weights, strict=True):
                out[t] += weight * (p[f"value{b}"] @ x[s] + p[f"value{b}.bias"])
        x = norm(out, f"feed{b}")
        inner = np.maximum(x @ p[f"in{b}"].T + p[f"in{b}.bias"], 0)
        x = x + inner @ p[f"out{b}"].T + p[f"out{b}.bias"]
        x[:empty] = 0
    return norm(x, "last")[empty:]


def shaken(method: SASRec, n_items: int) -> dict[str, Any]:
    """A model none of whose arrays is 0 or 1."""
    rng = np.random.default_rng(2)
    slots = method.slots(Catalog(10, n_items))
    return {
        name: (s.starting(name, 0) + rng.normal(0, 0.3, s.shape)).astype(np.float32)
        for name, s in slots.items()
    }


def test_states_are_those_computed_by_hand() -> None:
    method = SASRec(dim=6, blocks=2, length=5)
    held = shaken(method, 20)
    runs = [[3, 1, 4], [7], [2, 7, 1, 8, 2, 8, 1, 9], [], [5, 6, 5, 3, 5]]
    scores = method.scorer(held, histories(*runs)).all(np.arange(5))
    for run, found in zip(runs, scores, strict=True):
        wanted = by_hand(held, 2, run)[-1] @ held["items"].T if run else np.zeros(20)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_the_loss_is_the_cross_entropy_of_what_came_next_and_one_that_did_not(small_split: Split) -> None:
    method = SASRec(dim=6, length=5, dropout=0)
    held = shaken(method, small_split.n_items) | {"adam.t": np.float32(0)}
    held |= {name: np.zeros_like(values) for name, values in held.items() if name.startswith("adam.")}
    data = small_split.clients(np.arange(4))
    samples = draw_sequences(data, 0, 1)
    total, count = 0.0, 0
    for u in range(4):
        run, others = (
            data.train.of(u)[-6:],
            samples.negatives[data.train.indptr[u] : data.train.indptr[u + 1]][-6:],
        )
        logits = by_hand(held, 2, list(run[:-1])) @ held["items"].T if len(run) > 1 else np.zeros((0, 1))
        for t, scores in enumerate(logits):
            total += np.log1p(np.exp(-scores[run[t + 1]])) + np.log1p(np.exp(scores[others[t + 1]]))
            count += 1
    assert method.one_pass(held, samples)[1] == pytest.approx(total / count, rel=1e-4)


def test_each_item_has_a_negative_that_its_user_has_not_trained_on(small_split: Split) -> None:
    first, second = (draw_sequences(small_split.clients(), 0, round) for round in (1, 2))
    assert not np.array_equal(first.negatives, second.negatives)
    assert sorted(first.order) == list(
        np.flatnonzero(small_split.train.counts(np.arange(small_split.n_users)) > 1)
    )
    for u in range(small_split.n_users):
        drawn = first.negatives[small_split.train.indptr[u] : small_split.train.indptr[u + 1]]
        assert not np.isin(drawn, small_split.train.of(u)).any()
        assert drawn.min() >= 0


def test_users_who_have_met_everything_train_without_negatives() -> None:
    order = np.concatenate([np.random.default_rng(u).permutation(8) for u in range(6)]).astype(np.int32)
    people = np.repeat(np.arange(6, dtype=np.int32), 8)
    made = from_codes("all", people, order, np.tile(np.arange(8), 6), np.arange(6), np.arange(8))
    parts = split(made, hold_out=False)
    assert (draw_sequences(parts.clients(), 0, 1).negatives == -1).all()
    held, loss = Passes(SMALL, parts).state.server, Passes(SMALL, parts).play(evaluate=False).loss
    assert 0 < loss < 2
    assert held["items"].shape == (8, 16)


def test_how_sequences_are_grouped_changes_nothing(
    small_split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = SASRec(dim=6, length=7, dropout=0, batch_size=16)
    found = []
    for group in (1, 5, 16):
        monkeypatch.setattr(sasrec, "GROUP", group)
        passes = Passes(method, small_split)
        found.append((passes.play(evaluate=False).loss, passes.state.server["query0"]))
    for loss, query in found[1:]:
        assert loss == pytest.approx(found[0][0], rel=1e-5)
        np.testing.assert_allclose(query, found[0][1], atol=1e-4)


def test_threads_change_no_bit(small_split: Split) -> None:
    method = SASRec(dim=6, length=7, batch_size=40)
    one, many = Passes(method, small_split), Passes(method, small_split, threads=3)
    for passes in (one, many):
        passes.play(evaluate=False)
    assert all(np.array_equal(one.state.server[name], many.state.server[name]) for name in one.state.server)


def test_a_group_draws_the_dropout_that_was_set_aside_for_it(small_split: Split) -> None:
    torch = pytest.importorskip("torch")
    method = SASRec(dim=6, blocks=3, length=7)
    model = {name: torch.as_tensor(values) for name, values in shaken(method, small_split.n_items).items()}
    dropout = Dropout(0.5, 1)
    own = dropout.part(method._units(4, 7))
    sasrec.states(model, 3, torch.zeros((4, 7), dtype=torch.int32), np.full(4, 7), own)
    assert own.drawn == dropout.drawn


def test_only_the_newest_items_are_seen(walks: Split) -> None:
    scorer = trained(SASRec(dim=8, length=4), walks, 1)
    same = scorer.knowing(histories([1, 2, 3, 4, 5, 6], [9, 9, 3, 4, 5, 6], [3, 4, 5, 7])).all(np.arange(3))
    np.testing.assert_allclose(same[0], same[1], rtol=1e-5)
    assert not np.allclose(same[0], same[2], rtol=1e-3)


def test_dropout_leaves_out_its_share_anew_each_time() -> None:
    torch = pytest.importorskip("torch")
    dropout = Dropout(0.2, 7)
    first, second = dropout(torch.ones(100, 333)), dropout(torch.ones(100, 333))
    assert not torch.equal(first, second)
    assert torch.equal(first, Dropout(0.2, 7)(torch.ones(100, 333)))
    for kept in (first, second, Dropout(0.5, 3)(torch.ones(100, 333))):
        assert kept.mean().item() == pytest.approx(1, abs=0.02)
    assert (first == 0).float().mean().item() == pytest.approx(0.2, abs=0.01)
    assert (first[:, 330:] == 0).float().mean().item() == pytest.approx(0.2, abs=0.1)


def test_auto_takes_the_papers_settings_by_the_length_of_histories() -> None:
    for positives, length in ((163.6, 200), (50, 200), (8, 50)):
        assert SASRec().slots(Catalog(10, 20, positives))["positions"].shape == (length, 50)
    assert SASRec(length=30).slots(Catalog(10, 20, 163.6))["positions"].shape == (30, 50)


def test_sasrec_takes_newcomers_and_knows_items_that_are_alike() -> None:
    run = fedrec.run(SMALL, there_and_back(), rounds=40, eval_every=20)
    assert run.recommend(likes=WALK, k=1)["item"].to_list() == [13]
    assert run.recommend(likes=WALK[::-1], k=1)["item"].to_list() == [2]
    assert run.similar(3, k=2).height == 2
