"""A Parquet copy of Interactions: the very same come back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrec.core.errors import DataError
from fedrec.data.interactions import Interactions, from_codes
from fedrec.data.kept import keep, read_kept
from fedrec.data.load import load
from fedrec.data.worlds import two_tastes


def same(a: Interactions, b: Interactions) -> None:
    for name in ("indptr", "items", "times", "user_ids", "item_ids"):
        first, second = getattr(a, name), getattr(b, name)
        assert (first is None) == (second is None), name
        if first is not None:
            assert first.dtype == second.dtype, name
            assert first.tolist() == second.tolist(), name
    assert (a.name, a.titles, a.genres, a.notes) == (b.name, b.titles, b.genres, b.notes)


def odd(times: bool, texts: bool) -> Interactions:
    """Ids in no order, users without rows, items nobody met."""
    users = np.array([1, 1, 3, 1, 4], np.int32)
    ids = [["9", "7", "8", "10", "a"], ["z", "y", "x", "w"]] if texts else [[9, 7, 8, 10, -5], [4, 3, 2, 1]]
    user_ids, item_ids = (np.array(one, dtype=object if texts else np.int64) for one in ids)
    items = np.array([3, 1, 1, 3, 0], np.int32)
    return from_codes("odd", users, items, np.array([5, 3, 1, 4, 0]) if times else None, user_ids, item_ids)


@pytest.mark.parametrize("times", [True, False])
@pytest.mark.parametrize("texts", [True, False])
def test_odd_data_come_back(tmp_path, times, texts):
    data = odd(times, texts)
    keep(data, tmp_path / "data.parquet")
    same(read_kept(tmp_path / "data.parquet", "odd"), data)
    assert [path.name for path in tmp_path.iterdir()] == ["data.parquet"]


@pytest.mark.parametrize("make", [load, two_tastes])
def test_titles_genres_and_notes_come_back(tmp_path, make):
    data = make()
    keep(data, tmp_path / "data.parquet")
    same(read_kept(tmp_path / "data.parquet", data.name), data)


def test_a_damaged_copy(tmp_path):
    keep(two_tastes(), tmp_path / "data.parquet")
    (tmp_path / "data.parquet").write_bytes((tmp_path / "data.parquet").read_bytes()[:-20])
    with pytest.raises(DataError, match=r"cannot read .*data\.parquet .*: give the data yourself"):
        read_kept(tmp_path / "data.parquet", "x")


def test_changed_data_are_no_longer_what_was_loaded():
    data = load("demo:30", core=5)
    assert data.origin is not None
    assert (data.origin.source, data.origin.options) == ("demo:30", {"core": 5})
    assert replace(data, name="other").origin is None
    assert data.at_least(40).origin is None
