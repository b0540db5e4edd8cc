"""The random split and the selection on test, which some papers have: to be had, and said loudly."""

from __future__ import annotations

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.protocol import STRICT
from fedrec.data.interactions import Interactions
from fedrec.data.split import split
from fedrec.figures.tables import notes, result_table
from fedrec.study.tune import tune


def test_a_random_split_holds_any_row_out(small: Interactions) -> None:
    newest, drawn = (split(small, how, 0) for how in (STRICT, STRICT.with_(split="random")))
    again, other = (split(small, STRICT.with_(split="random"), seed) for seed in (0, 1))
    assert np.array_equal(drawn.test, again.test)
    assert not np.array_equal(drawn.test, other.test)
    assert not np.array_equal(drawn.test, newest.test)
    assert newest.catalog.ordered
    assert not drawn.catalog.ordered
    assert all(set(drawn.met.of(u)) == set(newest.met.of(u)) for u in range(newest.n_users))


def test_the_best_round_on_test_is_reported_and_the_result_says_so(small: Interactions) -> None:
    how = STRICT.with_(select_by="test")
    asked = {"rounds": 6, "settings": {"dim": 4}}
    run, honest = (fedrec.run("fedmf", small, protocol, **asked) for protocol in (how, STRICT))  # type: ignore[arg-type]
    seen = run.history["ndcg@10"].to_list()
    assert run.test["ndcg@10"] == pytest.approx(max(seen))
    assert run.result["selected_round"] == 1 + int(np.argmax(seen))
    assert run.test["ndcg@10"] >= honest.test["ndcg@10"]
    assert run.result["selected_on_test"]
    assert not honest.result["selected_on_test"]
    assert "SELECTED ON TEST" in str(result_table(run.result).title)
    assert any("SELECTED ON THE TEST ITEMS" in note for note in notes(run.result))
    assert not any("SELECTED ON THE TEST ITEMS" in note for note in notes(honest.result))


def test_a_search_refuses_it(small: Interactions) -> None:
    with pytest.raises(FedrecError, match="a search never looks at test items"):
        tune("fedmf", small, STRICT.with_(select_by="test"), trials=1)  # type: ignore[arg-type]


def test_validation_items_may_be_trained_on_as_well(small: Interactions) -> None:
    how = STRICT.with_(known="validation-trained", select_by="test")
    usual, more = split(small), split(small, how)
    assert np.array_equal(usual.test, more.test)
    assert np.array_equal(usual.valid, more.valid)
    for u in range(usual.n_users):
        assert [*usual.train.of(u), *usual.valid_items.of(u)] == [*more.train.of(u)]
    assert np.array_equal(usual.met.items, more.met.items)
    run = fedrec.run("fedmf", small, how, rounds=2, preset="paper")
    assert any("Validation items were trained on" in note for note in run.result["notes"])


def test_without_validation_a_round_is_selected_on_test_alone() -> None:
    with pytest.raises(FedrecError, match="it goes with select_by=test"):
        STRICT.with_(known="validation-trained")
