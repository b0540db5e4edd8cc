"""Several held-out items per user: each is ranked by itself, users count equally."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import fedrec
from fedrec.core.errors import DataError
from fedrec.core.protocol import PAPER, STRICT, TEMPORAL, Protocol
from fedrec.data.interactions import Interactions, from_codes
from fedrec.data.split import split
from fedrec.data.worlds import scalable
from fedrec.evaluate.controls import controls
from fedrec.evaluate.exam import Exam, Which
from fedrec.evaluate.metrics import Ranks, auc, summary
from fedrec.evaluate.ranking import measure, rank_full, rank_sampled
from fedrec.figures.tables import about, result_table
from fedrec.methods import make
from fedrec.simulate.simulation import Simulation
from fedrec.simulate.warm import given_away
from fedrec.study.case import Case
from fedrec.study.compare import compare_cases, paired

TWO = STRICT.with_(held_out=2)
LATE = TEMPORAL.with_(test_share=0.2, valid_share=0.2, candidates=5)
SMALL = {"dim": 4}


@pytest.fixture(scope="module")
def mixed(small: Interactions) -> Interactions:
    """The same with users who come and go at any time."""
    times = np.random.default_rng(0).integers(10_000, size=len(small))
    for start, end in zip(small.indptr[:-1], small.indptr[1:], strict=True):
        times[start:end].sort()
    return replace(small, times=times)


class Table:
    """A scorer that holds everything."""

    def __init__(self, scores: Any) -> None:
        self.scores = np.asarray(scores, np.float32)

    def some(self, users: Any, items: Any) -> Any:
        return self.scores[users[:, None], items]

    def all(self, users: Any) -> Any:
        return self.scores[users]


def naive(scores: Any, positive: int, rest: list[int]) -> tuple[int, int, int]:
    p = scores[positive]
    ahead = sum(not (np.isfinite(p) and np.isfinite(scores[c]) and scores[c] < p) for c in rest)
    return ahead, sum(bool(np.isfinite(p) and scores[c] == p) for c in rest), len(rest)


@st.composite
def worlds(draw: Any) -> tuple[Interactions, Any]:
    n_items, n_users = draw(st.integers(4, 14)), draw(st.integers(2, 6))
    rows = draw(
        st.lists(
            st.lists(st.integers(0, n_items - 1), min_size=7, max_size=12), min_size=n_users, max_size=n_users
        )
    )
    users = np.repeat(np.arange(n_users), [len(r) for r in rows]).astype(np.int32)
    times = np.array(draw(st.permutations(range(len(users)))))
    values = st.sampled_from([-1.0, 0.0, 1.0, 2.0, np.nan, np.inf, -np.inf])
    scores = draw(st.lists(values, min_size=n_users * n_items, max_size=n_users * n_items))
    items = np.concatenate(rows).astype(np.int32)
    data = from_codes("made", users, items, times, np.arange(n_users), np.arange(n_items))
    return data, np.array(scores, np.float32).reshape(n_users, n_items)


@given(worlds())
@pytest.mark.parametrize("which", ["valid", "test"])
@pytest.mark.parametrize(
    "how",
    [PAPER.with_(held_out=3, candidates=4), PAPER.with_(split="temporal", test_share=0.3, valid_share=0.3)],
)
def test_equals_the_naive_ranking(how: Protocol, which: Which, world: Any) -> None:
    data, scores = world
    try:
        parts = split(
            data, how
        )  # repeated rows kept: an item may be trained on and held out, or held out twice
    except DataError:
        reject()
    scorer = Table(scores[parts.users])
    exam = Exam(parts)
    held = exam.held(which)
    blocks = [np.array(b) for b in np.array_split(np.arange(parts.n_users)[::-1], 2) if len(b)]  # any order
    sampled, full = (rank(scorer, exam, which, blocks=blocks) for rank in (rank_sampled, rank_full))
    at = 0
    for u, user in enumerate(parts.users):
        drawn = getattr(parts.candidates, which)[u]
        left_out = {*parts.train.of(u), *parts.valid_items.of(u)}
        left_out |= set(parts.test_items.of(u)) if which == "test" else set()
        rest = [i for i in range(data.n_items) if i not in left_out]
        for positive in held.of(u):
            assert tuple(r[at] for r in sampled) == naive(scores[user], positive, drawn[drawn >= 0].tolist())
            assert tuple(r[at] for r in full) == naive(scores[user], positive, rest)
            at += 1
    assert at == len(sampled.ahead) == len(full.ahead)
    assert (
        sampled.users is None
        or sampled.users.tolist() == np.repeat(np.arange(parts.n_users), np.diff(held.indptr)).tolist()
    )


def test_a_user_has_the_mean_of_its_items_and_users_count_equally() -> None:
    """User 0 has three items and two hits, user 2 one item and no hit, user 1 none at all."""
    counts = (np.array(c, np.int32) for c in ([0, 20, 2, 49], [0, 0, 0, 0], [99, 99, 99, 99]))
    ranks = Ranks(*counts, users=np.array([0, 0, 0, 2]))
    found = summary(ranks)
    assert ranks.n_users == 2
    assert found["hr@10"] == pytest.approx((2 / 3 + 0) / 2)
    assert found["ndcg@10"] == pytest.approx((1 + 1 / 2) / 3 / 2)
    assert found["mrr@10"] == pytest.approx((1 + 1 / 3) / 3 / 2)
    first, second = 1 - 22 / 3 / 99, 1 - 49 / 99
    area, error = auc(ranks)
    assert area == pytest.approx((first + second) / 2)
    assert error == pytest.approx(np.std([first, second], ddof=1) / np.sqrt(2))


@pytest.mark.parametrize("how", [TWO, LATE], ids=["two", "late"])
@pytest.mark.parametrize("spec", ["fedals", "pfedrec", "fedrap", "fedmf", "mf", "ease", "popularity"])
def test_a_run_from_end_to_end(mixed: Interactions, tmp_path: Path, spec: str, how: Protocol) -> None:
    rounds: dict[str, Any] = {} if spec in ("ease", "popularity") else {"rounds": 2, "settings": SMALL}
    run = fedrec.run(spec, mixed, how, out=tmp_path / "run", **rounds)
    assert run.result["protocol"] == how.name
    lists = run.ranks["test_rank"].list.len().to_list()
    assert lists == np.diff(run.split.test_items.indptr).tolist()
    assert run.result["users_tested"] == sum(count > 0 for count in lists)
    hits = [np.mean(np.array(mine) < 10) for mine in run.ranks["test_rank"].to_list() if mine]
    assert run.test["hr@10"] == pytest.approx(np.mean(hits))
    again = fedrec.open(tmp_path / "run", data=mixed)
    assert again.evaluate()["ndcg@10"] == run.test["ndcg@10"]
    assert again.evaluate(full=True)["ndcg@10"] == run.test["full"]["ndcg@10"]
    if rounds:
        longer = fedrec.run(spec, mixed, how, rounds=3, settings=SMALL)
        assert fedrec.resume(tmp_path / "run", 3, data=mixed).test == longer.test
    user = int(run.split.users[0])
    offered = run.recommend(user=mixed.user_ids[user], k=20)["item"].to_list()
    assert not set(offered) & set(mixed.item_ids[mixed.items_of(user)].tolist())
    assert result_table(run.result).row_count == 5
    assert ("with test items" in about(run.result)) == (how is LATE)


@pytest.mark.parametrize("how", [TWO, LATE], ids=["two", "late"])
def test_ranks_within_a_round_are_those_after_it(mixed: Interactions, how: Protocol) -> None:
    """PFedRec ranks its own rows while they are at hand; engines agree."""
    found = []
    for engine in ("fused", "plain"):
        simulation = Simulation(make("pfedrec", SMALL), split(mixed, how), view="own", engine=engine)  # type: ignore[arg-type]
        assert simulation.replays
        record = simulation.play(evaluate=True)
        assert simulation.selected is not None
        after = summary(simulation.ranks(simulation.selected.moment, "valid"))
        assert record.validation == {name: after[name] for name in ("hr@10", "ndcg@10")}
        found.append(record.validation)
    assert found[0] == pytest.approx(found[1], abs=0.02)


def test_known_items_may_be_several(mixed: Interactions) -> None:
    parts = split(mixed, LATE.with_(known="validation"))
    simulation = Simulation(make("fedals", SMALL), parts)  # type: ignore[arg-type]
    simulation.play(evaluate=True)
    found = measure(simulation.scorer(simulation.moment), Exam(parts))
    assert found.knew
    for u in range(parts.n_users):
        assert not set(found.top[u]) & {*parts.train.of(u), *parts.valid_items.of(u)}


def test_the_lie_detector_sees_several_held_out_items() -> None:
    data = scalable(120, 60, 3000)
    for leaks, how in ((False, TWO), (True, TWO.with_(negatives_from="never-interacted"))):
        assert controls(split(data, how))["counter"]["leaks"] is leaks


def test_a_start_gives_several_items_of_a_user_away_once(mixed: Interactions) -> None:
    one, two, late = (split(mixed, how) for how in ("strict", TWO, LATE))

    def leaks(old: Any, new: Any) -> int:
        users = np.intersect1d(old.users, new.users, return_indices=True)[1:]
        items = np.arange(mixed.n_items)
        return given_away(old, new, users, (items, items))

    assert leaks(one, one) == leaks(two, two) == leaks(late, late) == 0
    both = np.isin(two.users, one.users)
    assert leaks(one, two) == int(both.sum()), "what strict trained on is the older validation item"
    trained = {(int(user), int(i)) for u, user in enumerate(two.users) for i in two.train.of(u)}
    asked = [[*late.valid_items.of(u), *late.test_items.of(u)] for u in range(late.n_users)]
    by_hand = [any((int(late.users[u]), int(i)) in trained for i in mine) for u, mine in enumerate(asked)]
    assert leaks(two, late) == sum(by_hand) > 0


@pytest.mark.parametrize("how", ["temporal", "strict+held_out=2"])
def test_paired_tests_are_over_users(mixed: Interactions, tmp_path: Path, how: Any) -> None:
    cases = [Case(name, mixed, how) for name in ("popularity", "itemknn")]
    lines = compare_cases(cases, tmp_path, seeds=2, jobs=1).lines
    for line in lines:
        assert not line.failed
        gains = line.gains("ndcg", full=True)
        assert len(gains) == line.results[0]["users_tested"]
        assert gains.mean() == pytest.approx(line.mean("ndcg@10", full=True))
    assert paired(*lines).users == lines[0].results[0]["users_tested"]


def test_one_item_each_keeps_its_table(mixed: Interactions) -> None:
    table = fedrec.run("popularity", mixed).ranks
    assert table["test_rank"].dtype == pl.Int32
