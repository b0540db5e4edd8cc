"""A number that lies is the worst defect: starts that leak, protocols under another's name, edited configs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.protocol import PAPER, STRICT, Protocol
from fedrec.data.interactions import Interactions
from fedrec.data.worlds import demo, two_tastes
from fedrec.figures.tables import notes, result_table


def test_a_start_from_a_leaking_run_is_said_to_leak(tastes: Interactions, tmp_path: Path) -> None:
    leaking = fedrec.run("fedmf", tastes, "paper", rounds=2, settings={"dim": 4}, out=tmp_path / "paper")
    run = fedrec.run(
        "fedmf", tastes, "strict", rounds=1, settings={"dim": 4}, start=leaking, out=tmp_path / "strict"
    )
    assert run.result["leaks"] is True
    assert run.result["start_leaks"] == tastes.n_users
    assert any("These figures leak" in note for note in notes(run.result))
    assert "LEAKING" in str(result_table(run.result).title)
    again = fedrec.run("fedmf", tastes, "strict", rounds=1, settings={"dim": 4}, start=run)
    assert again.result["start_leaks"] == tastes.n_users, "a leak is inherited"
    resumed = fedrec.resume(tmp_path / "strict", rounds=2, data=tastes)
    assert resumed.result["start_leaks"] == tastes.n_users, "a leak survives a resume"


def test_a_start_from_the_same_split_does_not_leak(tastes: Interactions) -> None:
    first = fedrec.run("fedmf", tastes, rounds=2, settings={"dim": 4})
    run = fedrec.run("fedmf", tastes, rounds=1, settings={"dim": 4}, start=first)
    assert run.result["leaks"] is False
    assert run.result["start_leaks"] == 0


def test_another_seed_splits_tied_times_otherwise_and_leaks() -> None:
    world = two_tastes()
    tied = Interactions(
        "tied", world.indptr, world.items, np.zeros(len(world), np.int64), world.user_ids, world.item_ids
    )
    first = fedrec.run("fedmf", tied, rounds=1, seed=0, settings={"dim": 4})
    run = fedrec.run("fedmf", tied, rounds=1, seed=1, settings={"dim": 4}, start=first)
    assert run.result["start_leaks"] > 0
    assert run.result["leaks"]


def test_a_start_on_another_catalogue_is_refused(tastes: Interactions) -> None:
    first = fedrec.run("fedals", demo(), rounds=1, settings={"dim": 4})
    titled = Interactions(
        "mine", tastes.indptr, tastes.items, tastes.times, tastes.user_ids, tastes.item_ids,
        titles=tuple(f"thing {i}" for i in range(tastes.n_items)),
    )  # fmt: skip
    with pytest.raises(FedrecError, match="share 0% of their items: start from a run on the same catalogue"):
        fedrec.run("fedals", titled, rounds=1, settings={"dim": 4}, start=first)


def test_a_changed_protocol_never_goes_by_anothers_name(tastes: Interactions) -> None:
    assert STRICT.with_(candidates=9).name == "strict+candidates=9"
    assert PAPER.with_(select_on="ndcg@10").name == "paper+select_on=ndcg@10"
    assert STRICT.with_().name == "strict"
    assert STRICT.with_(name="mine", candidates=9).name == "mine"
    for changed in (STRICT.model_copy(update={"candidates": 9}), Protocol(candidates=9)):
        assert fedrec.run("popularity", tastes, changed).result["protocol"] == "strict+candidates=9"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"candidatez": 9}, "Protocol has no setting 'candidatez': did you mean 'candidates'"),
        ({"candidates": 0}, "candidates=0 is not valid"),
        ({"select_on": "ndcg@5"}, "select_on=ndcg@5 is not valid"),
    ],
)
def test_a_protocol_of_ones_own_is_checked(tastes: Interactions, changes: Any, sentence: str) -> None:
    with pytest.raises(FedrecError, match=sentence):
        STRICT.with_(**changes)
    with pytest.raises(FedrecError, match=sentence):
        fedrec.run("popularity", tastes, STRICT.model_copy(update=changes))


def test_what_a_user_has_met_is_never_offered() -> None:
    run = fedrec.run("fedals", demo(), rounds=2, settings={"dim": 8})
    data = run.split.data
    users = data.user_ids[run.split.users].tolist()
    for user, table in zip(users, run.recommend(user=users, k=10), strict=True):
        met = set(data.item_ids[data.items_of(int(np.flatnonzero(data.user_ids == user)[0]))].tolist())
        assert not met & set(table["item"].to_list()), f"user {user} is offered what they have met"
    shown = run.recommend(user=users[:50], k=10, include_seen=True)
    assert any(set(t["item"].to_list()) & set(data.item_ids[data.items_of(u)]) for u, t in enumerate(shown))


def test_other_lengths_of_lists(tastes: Interactions) -> None:
    run = fedrec.run("fedals", tastes, rounds=1, settings={"dim": 4}, k=(5, 20))
    assert {"hr@5", "ndcg@5", "hr@10", "hr@20", "mrr@20"} <= run.test.keys()
    assert {"hr@5", "ndcg@20"} <= run.test["full"].keys()
    assert run.test["hr@5"] <= run.test["hr@10"] <= run.test["hr@20"]
    assert {f"{name}@{k}" for name in ("coverage", "gini", "novelty") for k in (5, 10, 20)} == set(
        run.result["beyond"]
    )
    with pytest.raises(FedrecError, match="k"):
        fedrec.run("fedals", tastes, rounds=1, k=(0,))
