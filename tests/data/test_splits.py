"""Splits other than leave-one-out: several newest items of each user, or everything after a point of time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec.core.errors import DataError, FedrecError
from fedrec.core.protocol import STRICT, TEMPORAL, protocol
from fedrec.data.interactions import Interactions, from_codes
from fedrec.data.split import split


def world(rows: list[list[tuple[int, int]]], n_items: int) -> Interactions:
    """A data set from (time, item) pairs, a list per user."""
    users = np.repeat(np.arange(len(rows)), [len(r) for r in rows]).astype(np.int32)
    times, items = (np.array([pair[i] for r in rows for pair in r], np.int64) for i in (0, 1))
    return from_codes("made", users, items.astype(np.int32), times, np.arange(len(rows)), np.arange(n_items))


def test_the_k_newest_are_for_test_and_as_many_before_for_validation() -> None:
    data = world([[(t, t) for t in range(7)], [(t, t) for t in range(5)], [(t, t) for t in range(4)]], 9)
    parts = split(data, STRICT.with_(held_out=2))
    assert parts.users.tolist() == [0, 1], "5 rows are needed: one to train on"
    assert parts.dropped == 1
    assert [parts.train.of(u).tolist() for u in (0, 1)] == [[0, 1, 2], [0]]
    assert [parts.valid_items.of(u).tolist() for u in (0, 1)] == [[3, 4], [1, 2]]
    assert [parts.test_items.of(u).tolist() for u in (0, 1)] == [[5, 6], [3, 4]]
    assert parts.known.of(0).tolist() == [0, 1, 2, 3, 4]
    assert parts.met.of(0).tolist() == list(range(7))


def test_one_held_out_is_strict(small: Interactions) -> None:
    mine, strict = split(small, STRICT.with_(name="mine", held_out=1)), split(small)
    for a, b in zip(
        (*mine.train, mine.valid, mine.test), (*strict.train, strict.valid, strict.test), strict=True
    ):
        assert np.array_equal(a, b)


def test_all_after_a_point_of_time_by_hand() -> None:
    """10 rows: the newest 2 (times 8 and 9) are for test, the 2 before (6 and 7) for validation."""
    data = world([[(0, 0), (1, 1), (8, 2), (9, 3)], [(2, 0), (3, 1), (4, 4)], [(5, 0), (6, 2), (7, 3)]], 6)
    parts = split(data, TEMPORAL.with_(test_share=0.2, valid_share=0.2))
    assert [parts.train.of(u).tolist() for u in range(3)] == [[0, 1], [0, 1, 4], [0]]
    assert [parts.valid_items.of(u).tolist() for u in range(3)] == [[], [], [2, 3]]
    assert [parts.test_items.of(u).tolist() for u in range(3)] == [[2, 3], [], []]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 20), st.integers(0, 7)), min_size=1, max_size=9),
        min_size=2,
        max_size=9,
    ),
    st.sampled_from([0.1, 0.2, 0.4]),
    st.sampled_from([0.1, 0.3, 0.5]),
)
def test_nothing_is_trained_on_that_came_after_what_is_asked(rows: Any, test: float, valid: float) -> None:
    data = world(rows, 8)
    how = TEMPORAL.with_(test_share=test, valid_share=valid)
    newest: list[dict[int, int]] = [{} for _ in rows]  # one row per item, the newest
    for mine, kept in zip(rows, newest, strict=True):
        for time, item in mine:
            kept[item] = max(kept.get(item, -1), time)
    try:
        parts = split(data, how)
    except DataError:
        return
    long = [kept for kept in newest if len(kept) >= how.min_interactions]
    total = sum(map(len, long))
    times = {
        name: [newest[user][item] for u, user in enumerate(parts.users) for item in runs.of(u)]
        for name, runs in (("train", parts.train), ("valid", parts.valid_items), ("test", parts.test_items))
    }
    assert max(times["train"]) < min(times["valid"]) <= max(times["valid"]) < min(times["test"])
    for share, name in ((test, "test"), (valid + test, "valid")):
        late = sum(time >= min(times[name]) for kept in long for time in kept.values())
        assert late <= share * total + 1e-9
    for u, user in enumerate(parts.users):
        assert len(parts.train.of(u)) >= 1
        mine = [*parts.train.of(u), *parts.valid_items.of(u), *parts.test_items.of(u)]
        assert sorted(mine) == sorted(newest[user])
        assert [newest[user][i] for i in mine] == sorted(newest[user].values())
    gone = [kept for user, kept in enumerate(newest) if user not in parts.users and kept in long]
    assert all(min(kept.values()) > max(times["train"]) for kept in gone), "who trains takes part"


def test_data_without_times_cannot_be_cut(small: Interactions) -> None:
    with pytest.raises(DataError, match="has no times, and protocol 'temporal' cuts at a point of time"):
        split(replace(small, times=None), "temporal")
    tied = replace(small, times=np.zeros(len(small), np.int64))
    with pytest.raises(DataError, match=r"leaves no user of .* with training and test items"):
        split(tied, "temporal")


def test_on_all_data_there_is_nothing_to_cut(small: Interactions) -> None:
    parts = split(replace(small, times=None), "temporal", hold_out=False)
    assert len(parts.train.items) == len(split(small, hold_out=False).train.items)
    assert len(parts.valid) == len(parts.test) == 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"split": "temporal", "held_out": 3}, "held_out=3 says nothing under split=temporal"),
        ({"test_share": 0.2}, "test_share=0.2 says nothing under split=leave-out"),
        ({"split": "temporal", "test_share": 0.6, "valid_share": 0.4}, "leave nothing to train on"),
        (
            {"split": "shuffled"},
            "split=shuffled is not valid: input should be 'leave-out', 'random' or 'temporal'",
        ),
        ({"held_out": 0}, "held_out=0 is not valid"),
    ],
)
def test_choices_that_make_no_sense_are_sentences(changes: Any, sentence: str) -> None:
    with pytest.raises(FedrecError, match=sentence):
        STRICT.with_(**changes)


def test_histories_too_short_for_k(small: Interactions) -> None:
    with pytest.raises(
        DataError, match=r"no user of .* has the 2001 interactions that protocol 'strict\+held_out=1000'"
    ):
        split(small, STRICT.with_(held_out=1000))


def test_a_changed_protocol_is_found_by_its_name() -> None:
    assert protocol("temporal") == TEMPORAL
    for mine in (
        STRICT.with_(held_out=5, candidates=999),
        TEMPORAL.with_(test_share=0.25, deduplicate=False),
        STRICT.with_(split="temporal"),
    ):
        assert protocol(mine.name) == mine
    with pytest.raises(
        FedrecError, match="is not name\\+key=value: write for example strict\\+candidates=999"
    ):
        protocol("strict+held_out")
    with pytest.raises(FedrecError, match="has no setting 'heldout': did you mean 'held_out'"):
        protocol("strict+heldout=5")
