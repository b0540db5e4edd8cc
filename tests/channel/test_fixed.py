"""Sums in fixed point: no order matters, nothing overflows unsaid, and what the stage says of bytes is true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedrec
from fedrec.channel.stage import parse
from fedrec.core.errors import FedrecError
from fedrec.core.fixed import Grid
from fedrec.core.ragged import Ragged
from fedrec.core.slots import sent
from fedrec.core.upload import Upload, summed
from fedrec.data.split import split
from fedrec.data.worlds.two_tastes import two_tastes
from fedrec.methods import make
from fedrec.simulate.simulation import Simulation
from fedrec.testing import different, fleet

DECLARED = {"items": sent(9, 3, rows=True), "count": sent(9, rows=True), "layer": sent(4), "bias": sent()}


def uploads(seed: int, clients: int = 7, size: float = 1.0) -> Upload:
    rng = np.random.default_rng(seed)
    runs = [np.sort(rng.choice(9, rng.integers(0, 9), replace=False)) for _ in range(clients)]
    items = Ragged(
        np.concatenate([[0], np.cumsum([len(r) for r in runs])]), np.concatenate(runs).astype(np.int32)
    )
    n = len(items.items)
    draw = lambda *shape: (size * rng.standard_normal(shape)).astype(np.float32)  # noqa: E731
    rows, dense = {"items": draw(n, 3), "count": draw(n)}, {"layer": draw(clients, 4), "bias": draw(clients)}
    return Upload(items, rows, dense, rng.integers(1, 50, clients).astype(np.float32))


@given(st.integers(0, 10**6), st.permutations(range(7)), st.integers(0, 7))
def test_any_order_and_any_blocks_give_the_same_whole_numbers(seed: int, order: list[int], cut: int) -> None:
    grid, all_of = Grid(16, 64), uploads(seed)
    at_once = grid.summed(all_of, DECLARED)
    total = grid.empty(DECLARED)
    for c in order[:cut]:
        total.add(grid.summed(all_of.one(c), DECLARED))
    kept = np.zeros(7, np.bool_)
    kept[order[cut:]] = True
    total.add(grid.summed(all_of.only(kept), DECLARED))
    assert total.weight == at_once.weight
    assert total.clients == at_once.clients == 7
    for name, words in at_once.sums.items():
        assert words.dtype == np.int64
        np.testing.assert_array_equal(total.sums[name], words)
    near, opened = summed(all_of, DECLARED), grid.opened(at_once)
    assert opened.weight == near.weight
    for name, values in near.sums.items():
        np.testing.assert_allclose(opened.sums[name], values, atol=7 * 2.0**-17 + 1e-4)


@given(st.integers(16, 64), st.integers(1, 10**6))
def test_so_many_clients_at_the_limit_stay_in_the_word(word: int, clients: int) -> None:
    grid = Grid(4, word)
    try:
        most = grid.most(clients)
    except FedrecError:
        assert clients * 2**4 >= 2 ** (word - 1) * (1 - 2.0**-39)
        return
    assert clients * int(grid.encode(np.array([most]))[0]) < 2 ** (word - 1)


def test_words_that_wrapped_around_come_back_with_their_sign() -> None:
    grid, rng = Grid(8, 24), np.random.default_rng(0)
    values = rng.uniform(-100, 100, 1000)
    mask = rng.integers(0, 2**63, 1000, dtype=np.uint64)
    there = (grid.encode(values).view(np.uint64) + mask) & np.uint64(2**24 - 1)
    back = (there - mask) & np.uint64(2**24 - 1)
    np.testing.assert_allclose(grid.decode(back.view(np.int64)), values, atol=2.0**-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1e30, 40.0])
@pytest.mark.parametrize("name", ["items", "count", "layer", "bias", "weights"])
def test_a_client_with_a_number_that_does_not_fit_is_left_out(name: str, bad: float) -> None:
    grid, all_of = Grid(16, 32), uploads(3, size=0.01)
    all_of.weights[:] = 1
    assert grid.fits(all_of, 1000).all()
    whose = 4
    if name == "weights":
        all_of.weights[whose] = bad
    elif name in all_of.rows:
        at = all_of.items.indptr[whose]
        assert at < all_of.items.indptr[whose + 1]
        all_of.rows[name][at] = bad
    else:
        all_of.dense[name][whose] = bad
    assert grid.fits(all_of, 1000).tolist() == [c != whose for c in range(7)]


def simulated(method: str, channel: str, rounds: int = 2, **options: Any) -> Simulation:
    data = two_tastes(30, 60)
    simulation = Simulation(make(method), split(data, "strict", 0), channel=[parse(channel)], **options)
    for _ in range(rounds):
        simulation.play(evaluate=False)
    return simulation


COMPILED = ["fedmf", "pfedrec", "fedrap", "fedncf", "fedals", "fcf"]


@pytest.mark.parametrize("method", COMPILED)
def test_one_client_at_a_time_is_the_simulation_to_the_bit(method: str) -> None:
    """Neither blocks nor threads: a federation of single devices has the simulator's bits."""
    parts = split(two_tastes(30, 60), "strict", 0)
    alone = fleet(make(method), parts, channel=[parse("secure")])
    for _ in range(2):
        alone.play()
    there = simulated(method, "secure").moment
    for name, values in there.server.held.items():
        assert alone.server.state.held[name].tobytes() == values.tobytes(), name
    for name, lines in there.devices.lines.items():
        mine = np.concatenate([phone.state.lines[name] for phone in alone.phones])
        assert mine.tobytes() == lines.tobytes(), name


def test_fixed_and_secure_are_the_same_but_for_what_they_send() -> None:
    fixed, secure = simulated("fedmf", "fixed"), simulated("fedmf", "secure", threads=2)
    assert different(fixed.moment, secure.moment) == []
    sparse, dense = (s.play(evaluate=False).bytes_up for s in (fixed, secure))
    assert dense == 30 * 60 * 32 * 8
    assert sparse < dense
    assert simulated("fedmf", "secure,word=32").play(evaluate=False).bytes_up == dense / 2


def test_a_finer_grid_is_nearer_to_sums_of_floats() -> None:
    exact = Simulation(make("fedals"), split(two_tastes(30, 60), "strict", 0))
    for _ in range(2):
        exact.play(evaluate=False)
    far = [
        np.abs(
            simulated("fedals", f"fixed={bits}").server.state.shared["items"]
            - exact.server.state.shared["items"]
        )
        for bits in (6, 20)
    ]
    assert far[1].max() < 1e-5
    assert far[1].max() < far[0].max() / 100


@pytest.mark.parametrize(
    ("channel", "method", "says"),
    [
        (["secure"], "metamf", "looks at single uploads"),
        (["fixed"], "fedpergnn", "looks at single uploads"),
        (["secure", "laplace=0.1"], "fedmf", "after all other stages"),
        (["secure", "fixed"], "fedmf", "after all other stages"),
        (["secure=16,word=16"], "fedmf", "have no room for the sum of"),
        (["secure,word=20"], "fedmf", "multiple of 8"),
    ],
)
def test_what_cannot_be_summed_is_refused(channel: list[str], method: str, says: str) -> None:
    with pytest.raises(FedrecError, match=says):
        fedrec.run(method, two_tastes(30, 60), rounds=1, channel=channel)


def test_noise_goes_before_the_grid() -> None:
    both = [parse("laplace=0.01"), parse("secure")]
    noisy = Simulation(make("fedmf"), split(two_tastes(30, 60), "strict", 0), channel=both)
    noisy.play(evaluate=False)
    moved = noisy.server.state.shared["items"] - simulated("fedmf", "secure", 1).server.state.shared["items"]
    assert moved.std() == pytest.approx(0.01 * np.sqrt(2 / 30), rel=0.1)
