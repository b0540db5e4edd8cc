"""Secure aggregation in one process: sums are exact, dropouts at any step, and devices that refuse to be tricked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("cryptography")
pytest.importorskip("Crypto")

from fedrec.core.errors import FedrecError
from fedrec.deploy import masks
from fedrec.deploy.session import Gathering, Party
from fedrec.deploy.terms import Terms
from fedrec.deploy.vector import packed, unpacked

LENGTH = 50


def terms(**options: Any) -> Terms:
    return Terms(**{"method": "fedmf", "threshold": 3, **options})


def a_round(
    n: int,
    agreed: Terms,
    silent: set[int] = frozenset(),
    mute: set[int] = frozenset(),
    lost: set[int] = frozenset(),
) -> tuple[Any, Any, dict[str, Party], Gathering]:
    """``silent`` devices share nothing, ``mute`` ones share and do not answer, ``lost`` ones reveal nothing."""
    rng = np.random.default_rng(n)
    names = [f"d{i:02}" for i in range(n)]
    rows = {name: rng.integers(-(2**40), 2**40, LENGTH) for name in names}
    parties = {name: Party.begin("s1", name) for name in names}
    server = Gathering("s1", agreed, {name: p.keys for name, p in parties.items()})
    for i, name in enumerate(names):
        if i not in silent:
            server.hear_share(name, parties[name].share(server.roster, agreed))
    for i, name in enumerate(names):
        if i in silent | mute:
            continue
        party = Party.read(parties[name].text)  # killed and started again in between
        party.take(server.shares_for(name), agreed)
        server.masked[name] = unpacked(packed(party.masked(rows[name]), 64), 64, LENGTH)
        parties[name] = party
    for i, name in enumerate(names):
        if name in server.masked and i not in lost:
            server.hear_reveal(name, parties[name].reveal(server.alive, server.dead, agreed))
    return rows, server.alive, parties, server


@pytest.mark.parametrize("n", [3, 4, 9])
def test_masks_cancel(n: int) -> None:
    rows, alive, _, server = a_round(n, terms())
    assert len(alive) == n
    np.testing.assert_array_equal(server.sum(), sum(rows.values()))
    for name, hidden in server.masked.items():
        assert (hidden != rows[name]).all(), "a masked row must not show a number"


@pytest.mark.parametrize("neighbours", [8, 32])
def test_dropouts_before_and_after_sharing(neighbours: int) -> None:
    rows, alive, _, server = a_round(12, terms(neighbours=neighbours), silent={3}, mute={7}, lost={1})
    assert len(alive) == 10
    np.testing.assert_array_equal(server.sum(), sum(rows[name] for name in alive))


def test_too_few_that_reveal_is_said() -> None:
    _, _, _, server = a_round(6, terms(), lost={1, 2, 3})
    with pytest.raises(FedrecError, match="does not count"):
        server.sum()


def test_narrow_words_are_a_ring_too() -> None:
    rng = np.random.default_rng(0)
    rows, seeds = rng.integers(-1000, 1000, (3, LENGTH)), [masks.new_key() for _ in range(3)]
    hidden = [r.view(np.uint64) + masks.mask(s, LENGTH) for r, s in zip(rows, seeds, strict=True)]
    sent = [unpacked(packed(h.view(np.int64), 24), 24, LENGTH).view(np.uint64) for h in hidden]
    back = np.sum(sent, axis=0, dtype=np.uint64) - np.sum(
        [masks.mask(s, LENGTH) for s in seeds], axis=0, dtype=np.uint64
    )
    np.testing.assert_array_equal((back.view(np.int64) << 40) >> 40, rows.sum(axis=0))


@pytest.mark.parametrize(
    ("alive", "dead", "says"),
    [
        (["d00", "d01", "d02", "d03"], ["d03"], "answered and not"),
        (["d01", "d02", "d03"], ["d00"], "it answered and is said not to have"),
        (["d00", "d01"], ["d02", "d03"], "ask for 3 at least"),
        (["d00", "d01", "d02", "d03", "x"], [], "do not take part"),
    ],
)
def test_a_reveal_that_contradicts_itself_is_refused(alive: list[str], dead: list[str], says: str) -> None:
    _, _, parties, _ = a_round(4, terms(), lost={0, 1, 2, 3})
    with pytest.raises(FedrecError, match=says):
        parties["d00"].reveal(alive, dead, terms())


def test_only_one_reveal_of_a_round() -> None:
    _, _, parties, server = a_round(5, terms())
    assert parties["d00"].reveal(server.alive, [], terms())  # the same question again
    with pytest.raises(FedrecError, match="says nothing more"):
        parties["d00"].reveal(server.alive[:4], server.alive[4:], terms())


def test_a_session_with_few_devices_or_changed_keys_is_refused() -> None:
    party, other = Party.begin("s", "a"), Party.begin("s", "b")
    with pytest.raises(FedrecError, match="ask for 3 at least"):
        party.share({"a": party.keys, "b": other.keys}, terms())
    with pytest.raises(FedrecError, match="changed on their way"):
        party.share({"a": other.keys, "b": other.keys, "c": other.keys}, terms())
    with pytest.raises(FedrecError, match="same key"):
        party.share({"a": party.keys, "b": other.keys, "c": other.keys}, terms())


def test_a_share_that_was_changed_is_refused() -> None:
    _, _, parties, server = a_round(4, terms(), silent={0, 1, 2, 3})
    for name, party in parties.items():
        server.hear_share(name, party.share(server.roster, terms()))
    shares = server.shares_for("d00")
    shares["d01"] = shares["d02"]
    with pytest.raises(FedrecError, match="changed on its way"):
        parties["d00"].take(shares, terms())


def test_half_of_the_neighbours_learn_nothing_of_a_secret() -> None:
    secret = masks.new_key()
    parts = masks.shares(secret, masks.enough(8), 8)
    assert masks.combined(parts[:5]) == masks.combined(parts[3:]) == secret
    assert masks.combined(parts[:4]) != secret


def test_the_graph_is_the_same_for_all_and_mutual() -> None:
    names = [f"d{i}" for i in range(40)]
    graph = masks.neighbours("s", names, 8)
    assert graph == masks.neighbours("s", names[::-1], 8)
    assert {len(near) for near in graph.values()} == {8}
    assert all(name in graph[other] for name, near in graph.items() for other in near)
    assert graph != masks.neighbours("t", names, 8)
