"""Rows that clients keep between rounds."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec.clients.store import Rows, RowStore, StoredRows, overlay
from fedrec.core.ragged import Ragged


def rows(*of_clients: dict[int, float]) -> Rows:
    """One number per row, by item."""
    counts = [len(held) for held in of_clients]
    items = [item for held in of_clients for item in sorted(held)]
    values = [[held[item]] for held in of_clients for item in sorted(held)]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Rows(Ragged(indptr, np.array(items, np.int32)), np.array(values, np.float32).reshape(-1, 1))


def content(store: RowStore, user: int) -> dict[int, float]:
    found = store.get(np.array([user]))
    return dict(zip(found.items.items.tolist(), found.values[:, 0].tolist(), strict=True))


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
    assert later.get(np.array([3])).items.items.tolist() == [0, 1, 4], "sorted, so that they can be found"


def test_unknown_clients_hold_nothing(store: RowStore) -> None:
    assert content(store, 4) == {}
    nobody = store.get(np.array([], np.int64))
    assert len(nobody.values) == 0


def test_arrays_give_the_store_again(store: RowStore) -> None:
    again = RowStore.from_pieces({n: np.asarray(v) for n, v in store.pieces().items()})
    assert len(again) == len(store) == 2
    assert all(content(again, u) == content(store, u) for u in (3, 4, 5))
    empty = RowStore.from_pieces({n: np.asarray(v) for n, v in RowStore((2,)).pieces().items()})
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


def test_places_of_rows_that_nobody_holds_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedrec.clients.pool.CHUNK", 64)  # sixteen rows of one number
    users = np.array([0, 1])
    last = selected = RowStore((1,))
    for turn in range(50):
        last = last.put(users, rows({1: turn, 2: 2.0}, {3: 3.0}), keep_others=True)
        selected = last if turn == 10 else selected
    assert content(last, 0) == {1: 49.0, 2: 2.0}
    assert content(selected, 0) == {1: 10.0, 2: 2.0}, "the selected round is still there"
    assert last.pool.capacity <= 32, "150 rows were written, at most nine of them held at a time"


def test_clients_that_are_put_beside_others_leave_them_as_they_are(store: RowStore) -> None:
    change = store.change()
    change.put(np.array([7, 3]), rows({6: 6.0}, {4: -4.0}), only=np.array([True, False]))
    change.put(np.array([0]), rows({}))
    later = change.done(keep_others=True)
    assert [content(later, u) for u in (0, 3, 5, 7)] == [{}, {1: 1.0, 4: 4.0}, {2: 2.0}, {6: 6.0}]


def test_rows_beyond_the_limit_lie_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedrec.clients.pool.CHUNK", 64)
    monkeypatch.setenv("FEDREC_ROWS_IN_MEMORY", "128")
    many = {item: float(item) for item in range(100)}
    store = RowStore((1,)).put(np.array([0]), rows(many), keep_others=True)
    assert store.pool.mapped == store.pool.capacity // 16 - 2
    assert content(store, 0) == many
    found = overlay(
        np.zeros((200, 1), np.float32), StoredRows(store, np.array([0])), np.array([[3, 150, 99]], np.int32)
    )
    assert found[0, :, 0].tolist() == [3.0, 0.0, 99.0]
