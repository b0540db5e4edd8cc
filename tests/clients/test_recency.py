"""Vectors and contexts made from a history, against the same formulas written out in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec.clients.clients import Clients
from fedrec.clients.engine import Wish
from fedrec.clients.kernels.ages import ages_of
from fedrec.clients.kernels.nextitem import NextItems
from fedrec.clients.rehearsal import without_newest
from fedrec.core.messages import Broadcast
from fedrec.core.ragged import Ragged, run_ends
from fedrec.core.slots import Catalog
from fedrec.core.upload import Total, Upload
from fedrec.data.clients import ClientData, sorted_distinct
from fedrec.methods.fedals import FedALS
from fedrec.methods.fednext import DECAYS, SOON, FedNext

ITEMS = 40
LAM, SCALE, ALPHA = 0.7, 0.25, 3.0


def clients_of(histories: list[list[int]]) -> ClientData:
    items = np.array([i for h in histories for i in h], np.int32)
    train = Ragged(run_ends(np.array([len(h) for h in histories])), items)
    met = sorted_distinct(*train)
    return ClientData(np.arange(len(histories), dtype=np.uint64), train, met, met, ITEMS, 4)


def devices(histories: list[list[int]], method: FedALS, engine: str) -> Clients:
    catalog = Catalog(n_users=len(histories), n_items=ITEMS, positives=10)
    return Clients(method, clients_of(histories), catalog, secret=0, engine=engine)


def numbers(dim: int, **more: Any) -> dict[str, Any]:
    return {"dim": dim, "alpha": ALPHA, "lam": LAM, "scale": SCALE, "popularity": 0.3, **more}


def told(method: FedALS, half_life: float, floor: float) -> Broadcast:
    rng = np.random.default_rng(0)
    items = rng.normal(0, 0.3, (ITEMS, method.width)).astype(np.float32)
    shared = {
        "items": items,
        "gram": (items.T.astype(np.float64) @ items).astype(np.float32),
        "recency": np.array([half_life, floor], np.float32),
        "withheld": np.float32(0),
    }
    if isinstance(method, FedNext):
        shared["next"] = rng.normal(0, 0.3, (ITEMS, method.features)).astype(np.float32)
        shared["weight"] = np.array(0.7, np.float32)
    return Broadcast(1, shared)


def oldest_first(history: list[int]) -> list[int]:
    """Each item where it was met last."""
    return [*dict.fromkeys(reversed(history))][::-1]


def vector(history: list[int], v: Any, half_life: float, floor: float) -> Any:
    met, d = oldest_first(history), v.shape[1]
    lam = LAM * max(len(met), 1) ** SCALE
    left, right = v.T @ v + lam * np.eye(d), np.zeros(d)
    right[-1] = lam * 0.3
    for age, j in enumerate(reversed(met)):
        left += ALPHA * np.outer(v[j], v[j])
        right += (1 + ALPHA) * (floor + (1 - floor) * 0.5 ** (age / half_life)) * v[j]
    return np.linalg.solve(left, right)


def contexts(history: list[int], v: Any) -> list[Any]:
    """φ after each item, of rows of length 1."""
    found = []
    v = v / np.linalg.norm(v, axis=1, keepdims=True)
    met = oldest_first(history)
    for t in range(len(met)):
        parts = [(1 - g) * sum(g**k * v[met[t - k]] for k in range(t + 1)) for g in DECAYS]
        found.append(np.concatenate([*parts, [1.0]]))
    return found


def near(found: Any, wanted: Any, tolerance: float = 3e-5) -> None:
    assert np.linalg.norm(found - wanted) <= tolerance * np.linalg.norm(wanted) + 1e-5


people = st.lists(st.lists(st.integers(0, ITEMS - 1), max_size=60), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(people, st.integers(1, 24), st.floats(0.3, 40), st.floats(0, 1))
def test_newer_positives_aim_higher_when_ranking(
    histories: list[list[int]], dim: int, half_life: float, floor: float
) -> None:
    method = FedALS(**numbers(dim))
    clients, broadcast = devices(histories, method, "fused"), told(method, half_life, floor)
    users, v = clients.everyone, broadcast.shared["items"].astype(np.float64)
    fitted = clients.engine.fit(broadcast, clients.state, users, clients.plan(1), Wish())
    ranking = clients.part(broadcast, users, own=False).lines["user"]
    for u, history in enumerate(histories):
        near(fitted.lines["user"][u], vector(history, v, 1, 1))
        near(ranking[u], vector(history, v, *broadcast.shared["recency"].astype(np.float64)))


@settings(max_examples=40, deadline=None)
@given(people, st.integers(1, 10))
def test_what_follows_what_as_sums(histories: list[list[int]], dim: int) -> None:
    method = FedNext(**numbers(dim))
    clients, broadcast = devices(histories, method, "fused"), told(method, 3, 0.1)
    users, v = clients.everyone, broadcast.shared["items"].astype(np.float64)
    fitted = clients.engine.fit(broadcast, clients.state, users, clients.plan(1), Wish())
    followers, outer = np.zeros((ITEMS, method.features)), np.zeros((method.features, method.features))
    for u, history in enumerate(histories):
        met, phi = oldest_first(history), contexts(history, v)
        for t in range(1, len(met)):
            followers[met[t]] += sum(SOON**k * phi[t - 1 - k] for k in range(t))
        count, most = len(met) - 1, method.most(clients.setting.catalog)
        stride = -(-count // most) if count > 0 else 1
        some = [t for t in range(count) if (count - 1 - t) % stride == 0]
        assert len(some) <= most
        for t in some:
            outer += np.outer(phi[t], phi[t]) * count / len(some)
        near(fitted.lines["context"][u], phi[-1] if phi else np.zeros(method.features))
    assert isinstance(fitted.sent, Total)
    near(fitted.sent.sums["followers"], followers)
    near(fitted.sent.sums["contexts"], outer)


@settings(max_examples=15, deadline=None)
@given(people, st.integers(1, 8), st.sampled_from([FedALS, FedNext]))
def test_both_engines_agree(histories: list[list[int]], dim: int, kind: type[FedALS]) -> None:
    method = kind(**numbers(dim))
    broadcast, both = told(method, 2.5, 0.2), [devices(histories, method, e) for e in ("fused", "plain")]
    users = np.flatnonzero([len(h) > 0 for h in histories])
    if len(users) == 0:
        return
    plan = both[0].plan(1)
    for single in (False, True):
        fast, slow = (c.engine.fit(broadcast, c.state, users, plan, Wish(single=single)) for c in both)
        if isinstance(fast.sent, Total):
            assert isinstance(slow.sent, Total)
            pairs = [(fast.sent.sums[n], slow.sent.sums[n]) for n in slow.sent.sums]
        else:
            assert isinstance(slow.sent, Upload)
            pairs = [(fast.sent.rows[n], slow.sent.rows[n]) for n in slow.sent.rows]
            pairs += [(fast.sent.dense[n], slow.sent.dense[n]) for n in slow.sent.dense]
        for one, other in pairs:
            near(one, other)
    parts = [c.part(broadcast, users, own=False) for c in both]
    near(*(c.score(broadcast.shared, p) for c, p in zip(both, parts, strict=True)))
    lines = np.tile(np.arange(5, dtype=np.int32), (len(users), 1))
    near(*(c.score(broadcast.shared, p, lines) for c, p in zip(both, parts, strict=True)))


@pytest.mark.parametrize(
    ("met", "ages"), [([5, 2, 9], {5: 2, 2: 1, 9: 0}), ([4, 8, 4, 4, 1], {4: 1, 8: 2, 1: 0})]
)
def test_an_item_is_as_old_as_its_newest_meeting(met: list[int], ages: dict[int, int]) -> None:
    data = clients_of([met, [], [met[0]]])
    found = ages_of(data.train, data.trained, ITEMS)
    assert dict(zip(data.trained.of(0).tolist(), found.tolist(), strict=False)) == ages
    assert found[-1] == 0


def test_histories_without_their_newest() -> None:
    data = clients_of([[5, 2, 9], [], [7]])
    before = without_newest(data)
    assert [before.of(u).tolist() for u in range(3)] == [[5, 2], [], [7]]  # a single one stays


@pytest.mark.parametrize("engine", ["fused", "plain"])
def test_a_device_that_has_met_nothing(engine: str) -> None:
    method = FedNext(**numbers(4))
    clients = devices([[], []], method, engine)
    part = clients.part(told(method, 3, 0.1), clients.everyone, own=False)
    assert not part.lines["context"].any()
    np.testing.assert_allclose(
        part.lines["user"][0], vector([], told(method, 3, 0.1).shared["items"], 3, 0.1), 1e-4
    )


def test_uploads_one_by_one_need_no_table_of_all_items(monkeypatch: pytest.MonkeyPatch) -> None:
    method = FedNext(**numbers(3))
    clients, broadcast = devices([[5, 2, 9, 5], [7], [1, 2]], method, "fused"), told(method, 3, 0.1)
    sizes, sums = [], NextItems.sums

    def watched(self: NextItems, table: Any, users: Any) -> Any:
        sizes.append(len(table))
        return sums(self, table, users)

    total = clients.engine.fit(broadcast, clients.state, clients.everyone, clients.plan(1), Wish()).sent
    monkeypatch.setattr(NextItems, "sums", watched)
    contexts, followers = clients.engine.head.each(broadcast.shared["items"], clients.everyone)  # type: ignore[attr-defined]
    assert sizes == [3, 1, 2]
    assert isinstance(total, Total)
    near(contexts.sum(axis=0), total.sums["contexts"])
    every = np.zeros_like(total.sums["followers"])
    np.add.at(every, clients.data.trained.items, followers)
    near(every, total.sums["followers"])
