"""Rows that clients keep between rounds."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec.data.split import Ragged
from fedrec.engine.store import Rows, RowStore, overlay


def rows(*of_clients: dict[int, float]) -> Rows:
    """One number per row, by item."""
    counts = [len(held) for held in of_clients]
    items = [item for held in of_clients for item in sorted(held)]
    values = [[held[item]] for held in of_clients for item in sorted(held)]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Rows(Ragged(indptr, np.array(items, np.int32)), np.array(values, np.float32).reshape(-1, 1))


def content(store: RowStore, user: int) -> dict[int, float]:
    found = store.get(np.array([user]))
    return dict(zip(found.held.items.tolist(), found.values[:, 0].tolist(), strict=True))


@pytest.fixture
def store() -> RowStore:
    return RowStore((1,)).put(np.array([3, 5]), rows({1: 1.0, 4: 4.0}, {2: 2.0}), keep_others=False)


def test_rows_of_the_last_round_replace_those_before(store: RowStore) -> None:
    later = store.put(np.array([3]), rows({4: 40.0, 9: 9.0}), keep_others=False)
    assert content(later, 3) == {4: 40.0, 9: 9.0}
    assert content(later, 5) == {2: 2.0}
    assert content(store, 3) == {1: 1.0, 4: 4.0}, "a store is a value"


def test_persistent_rows_stay_beside_newer_ones(store: RowStore) -> None:
    later = store.put(np.array([3]), rows({0: 0.5, 4: 40.0}), keep_others=True)
    assert content(later, 3) == {0: 0.5, 1: 1.0, 4: 40.0}
    assert later.get(np.array([3])).held.items.tolist() == [0, 1, 4], "sorted, so that they can be found"


def test_unknown_clients_hold_nothing(store: RowStore) -> None:
    assert content(store, 4) == {}
    nobody = store.get(np.array([], np.int64))
    assert len(nobody.values) == 0


def test_arrays_give_the_store_again(store: RowStore) -> None:
    again = RowStore.from_arrays(store.arrays())
    assert len(again) == len(store) == 2
    assert all(content(again, u) == content(store, u) for u in (3, 4, 5))
    empty = RowStore.from_arrays(RowStore((2,)).arrays())
    assert len(empty) == 0
    assert empty.width == (2,)


def test_overlay_takes_own_rows_where_there_are_some(store: RowStore) -> None:
    table = np.arange(0, -12, -1, dtype=np.float32).reshape(6, 2)
    own = Rows(
        Ragged(np.array([0, 2, 2]), np.array([1, 4], np.int32)), np.array([[1, 1], [4, 4]], np.float32)
    )
    items = np.array([[0, 1, 4, 5], [1, 4, -1, 0]], np.int32)
    found = overlay(table, own, items)
    np.testing.assert_array_equal(found[0], [[0, -1], [1, 1], [4, 4], [-10, -11]])
    np.testing.assert_array_equal(found[1, [0, 1, 3]], table[[1, 4, 0]])
    np.testing.assert_array_equal(overlay(table, None, items)[0], table[[0, 1, 4, 5]])
