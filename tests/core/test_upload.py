"""Sums of uploads, and the bytes that cross the network, counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedrec
from fedrec.channel.stage import parse
from fedrec.core.ragged import Ragged
from fedrec.core.slots import Slot, shared, zeros
from fedrec.core.upload import Total, Upload, summed
from fedrec.data.interactions import Interactions
from fedrec.data.split import split
from fedrec.methods import make
from fedrec.simulate.simulation import Simulation
from fedrec.testing import Spy

DECLARED: dict[str, Slot] = {
    "items": shared(4, 2, start=zeros(), rows=True),
    "layer": shared(3, start=zeros()),
}


@pytest.fixture
def upload() -> Upload:
    """Three clients that send rows {0, 2}, {2} and {1, 3}."""
    return Upload(
        items=Ragged(np.array([0, 2, 3, 5]), np.array([0, 2, 2, 1, 3], np.int32)),
        rows={"items": np.array([[1, 1], [2, 2], [3, 3], [4, 4], [5, 5]], np.float32)},
        dense={"layer": np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)},
        weights=np.array([1, 10, 100], np.float32),
    )


def test_rows_are_summed_by_item_with_the_clients_weights(upload: Upload) -> None:
    total = summed(upload, DECLARED)
    np.testing.assert_array_equal(total.sums["items"], [[1, 1], [400, 400], [32, 32], [500, 500]])
    np.testing.assert_array_equal(total.sums["layer"], [1, 10, 100])
    assert (total.weight, total.clients) == (111.0, 3)


def test_clients_that_are_not_kept_leave_no_trace(upload: Upload) -> None:
    total = summed(upload.only(np.array([True, False, True])), DECLARED)
    np.testing.assert_array_equal(total.sums["items"], [[1, 1], [400, 400], [2, 2], [500, 500]])
    np.testing.assert_array_equal(total.sums["layer"], [1, 0, 100])
    assert (total.weight, total.clients) == (101.0, 2)


def test_blocks_add_up(upload: Upload) -> None:
    total = Total.empty(DECLARED)
    for kept in ([True, False, False], [False, True, True]):
        total.add(summed(upload.only(np.array(kept)), DECLARED))
    whole = summed(upload, DECLARED)
    np.testing.assert_array_equal(total.sums["items"], whole.sums["items"])
    np.testing.assert_array_equal(total.sums["layer"], whole.sums["layer"])
    assert (total.weight, total.clients) == (whole.weight, whole.clients)


def sent_by_hand(tastes: Interactions, method: str, settings: dict[str, Any]) -> tuple[int, int, int]:
    """Bytes of a round as counted by the engine, and the rows and clients that a spy saw."""
    made, spy = make(method, settings), Spy()
    record = Simulation(made, split(tastes), channel=[spy]).play(evaluate=False)  # type: ignore[arg-type]
    rows = sum(len(upload.items.items) for upload in spy.seen)
    return record.bytes_up, rows, sum(upload.clients for upload in spy.seen)


def test_touched_rows_are_sent_with_their_item_codes(tastes: Interactions) -> None:
    found, rows, clients = sent_by_hand(tastes, "pfedrec", {"dim": 8})
    assert clients == 40
    assert 40 * 13 < rows < 40 * 40, "touched rows, not whole tables"
    assert found == rows * (8 * 4 + 4)


def test_layers_are_sent_whole(tastes: Interactions) -> None:
    found, rows, clients = sent_by_hand(tastes, "fedncf", {"dim": 8, "hidden": (6,)})
    layers = (16 * 6 + 6) + (6 * 1 + 1)
    assert found == rows * (8 * 4 + 4) + clients * layers * 4


@pytest.mark.parametrize("engine", ["plain", "fused"])
def test_a_spy_changes_nothing(tastes: Interactions, engine: str) -> None:
    method = make("pfedrec", {"dim": 8})
    plain, spied = (
        Simulation(method, split(tastes), channel=channel, engine=engine)  # type: ignore[arg-type]
        for channel in ([], [Spy()])
    )
    for simulation in (plain, spied):
        simulation.play(evaluate=False)
    found, expected = (s.server.state.shared["items"] for s in (spied, plain))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_noise_everywhere_means_whole_tables(tastes: Interactions) -> None:
    method = make("pfedrec", {"dim": 8})
    silent, touched, everywhere = (
        Simulation(method, split(tastes), channel=list(map(parse, stages))).play(evaluate=False).bytes_up  # type: ignore[arg-type]
        for stages in ([], ["laplace=0.1,rows=touched"], ["laplace=0.1"])
    )
    assert touched == silent
    assert everywhere == 40 * 40 * 8 * 4


def test_the_result_states_bytes_up_and_down(tastes: Interactions) -> None:
    run = fedrec.run("pfedrec", tastes, rounds=2, settings={"dim": 8})
    assert run.result["bytes_up_per_client"] == pytest.approx(run.history["bytes_up"].sum() / 80)
    assert run.result["bytes_down_per_client"] == 40 * 8 * 4
    alone = fedrec.run("pfedrec", tastes, rounds=2, settings={"dim": 8}, local=True)
    assert alone.result["bytes_up_per_client"] == alone.result["bytes_down_per_client"] == 0
