"""Clip, cap and Gaussian noise: what one device can move, and how much noise there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from fedrec.channel.clip import Cap, Clip, norms_of
from fedrec.channel.gaussian import Gaussian
from fedrec.channel.order import check_order, states_epsilon
from fedrec.channel.stage import parse, sent_through
from fedrec.core.errors import FedrecError
from fedrec.core.ragged import Ragged, run_ends
from fedrec.core.slots import sent
from fedrec.core.upload import Total, Upload, Uploads, summed

ROWS, WIDTH = 12, 3
UPLOADS = Uploads({"items": sent(ROWS, WIDTH, rows=True), "layer": sent(2, 2)}, norms={"layer": 4.0})
RNG = np.random.default_rng(0)


@st.composite
def uploads_of_clients(draw: Any) -> Upload:
    """Some clients with repeated items, no items, huge, tiny and senseless numbers, and weights of their own."""
    counts = draw(st.lists(st.integers(0, 6), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    total, size = sum(counts), 10.0 ** draw(st.sampled_from([-30, -3, 0, 3, 18, 37]))
    rows = (rng.normal(size=(total, WIDTH)) * size).astype(np.float32)
    dense = (rng.normal(size=(len(counts), 2, 2)) * size).astype(np.float32)
    if draw(st.booleans()) and total:
        rows[rng.integers(total)] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    items = rng.integers(ROWS, size=total).astype(np.int32)
    weights = rng.integers(1, 1000, len(counts)).astype(np.float32)
    return Upload(Ragged(run_ends(np.array(counts)), items), {"items": rows}, {"layer": dense}, weights)


def moved(total: Total) -> float:
    """How far a sum is from nothing, as the accountant measures it."""
    squares = [(UPLOADS.norm(n) * np.linalg.norm(v.astype(np.float64))) ** 2 for n, v in total.sums.items()]
    return float(np.sqrt(sum(squares)))


@given(uploads_of_clients(), st.sampled_from([0.01, 1.0, 50.0]))
def test_no_device_moves_a_sum_by_more_than_the_bound(upload: Upload, radius: float) -> None:
    clipped = Clip(radius=radius).on_device(upload, UPLOADS, RNG)
    assert clipped.clients == upload.clients
    for c in range(upload.clients):
        assert moved(summed(clipped.one(c), UPLOADS.arrays)) <= radius
        alone = Clip(radius=radius).on_device(upload.one(c), UPLOADS, RNG)
        np.testing.assert_array_equal(alone.dense["layer"][0], clipped.dense["layer"][c])


@given(uploads_of_clients())
def test_what_is_within_the_bound_is_left_alone(upload: Upload) -> None:
    norms = norms_of(Clip(radius=1e-9).on_device(upload, UPLOADS, RNG), UPLOADS)
    assert (norms <= 1e-9).all()
    once = Clip(radius=1.0).on_device(upload, UPLOADS, RNG)
    again = Clip(radius=2.0).on_device(once, UPLOADS, RNG)
    np.testing.assert_array_equal(again.rows["items"], once.rows["items"])
    np.testing.assert_array_equal(again.dense["layer"], once.dense["layer"])


def test_a_clipped_upload_keeps_its_direction_and_counts_as_one_client() -> None:
    items = Ragged(np.array([0, 2]), np.array([1, 3], np.int32))
    rows = np.array([[3, 0, 0], [0, 4, 0]], np.float32)
    one = Upload(
        items, {"items": rows}, {"layer": np.zeros((1, 2, 2), np.float32)}, np.full(1, 9, np.float32)
    )
    clipped = Clip(radius=1.0).on_device(one, UPLOADS, RNG)
    np.testing.assert_allclose(clipped.rows["items"], rows / 5, rtol=1e-5)
    assert clipped.weights.tolist() == [1.0]
    dense = Upload(
        items, {"items": rows * 0}, {"layer": np.ones((1, 2, 2), np.float32)}, np.ones(1, np.float32)
    )
    layer = Clip(radius=1.0).on_device(dense, UPLOADS, RNG).dense["layer"]
    np.testing.assert_allclose(layer, 1 / 8, rtol=1e-5)  # its norm is 2 and counts four times


def test_cap_keeps_the_rows_that_weigh_most() -> None:
    items = Ragged(np.array([0, 4, 5]), np.array([0, 1, 2, 3, 7], np.int32))
    rows = np.array([[1, 0, 0], [5, 0, 0], [2, 0, 0], [9, 0, 0], [1, 1, 1]], np.float32)
    both = Upload(items, {"items": rows}, {"layer": np.zeros((2, 2, 2), np.float32)}, np.ones(2, np.float32))
    capped = Cap(rows=2).on_device(both, UPLOADS, RNG)
    assert capped.items.items.tolist() == [1, 3, 7]
    assert capped.items.indptr.tolist() == [0, 2, 3]
    assert capped.rows["items"][:, 0].tolist() == [5, 9, 1]


@pytest.mark.parametrize("share", [1.0, 4.0])
def test_the_noise_is_that_which_is_accounted_for(share: float) -> None:
    """σ/√share in a part that counts once, a quarter of it in one that counts four times; in every number."""
    uploads = Uploads(
        {"items": sent(2000, 10, rows=True), "layer": sent(100, 100)}, norms={"layer": 4.0}, share=share
    )
    stage = Gaussian(sigma=3.0)
    noisy = stage.on_server(Total.empty(uploads.arrays), uploads, np.random.default_rng(0))
    for name, times in (("items", 1.0), ("layer", 4.0)):
        deviation = 3.0 / np.sqrt(share) / times
        assert stage.deviation(uploads, name) == pytest.approx(deviation)
        noise = noisy.sums[name].ravel()
        assert kstest(noise, "norm", (0, deviation)).pvalue > 0.01
        assert kstest(noise, "norm", (0, deviation * 1.05)).pvalue < 0.01, "the test can tell"
    assert not stage.at_device


def test_a_block_is_clipped_at_once_as_each_device_would() -> None:
    rng = np.random.default_rng(1)
    items = Ragged(np.array([0, 3, 3, 5]), np.array([4, 4, 1, 0, 2], np.int32))
    block = Upload(
        items,
        {"items": rng.normal(size=(5, WIDTH)).astype(np.float32)},
        {"layer": rng.normal(size=(3, 2, 2)).astype(np.float32)},
        np.ones(3, np.float32),
    )
    keys = np.arange(3).astype(np.uint64)
    together = sent_through([Clip(radius=0.5)], block, UPLOADS, 0, 1, keys)
    for c in range(3):
        alone = sent_through([Clip(radius=0.5)], block.one(c), UPLOADS, 0, 1, keys[c : c + 1])
        np.testing.assert_array_equal(alone.rows["items"], together.one(c).rows["items"])


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (["gaussian=1"], "gaussian needs clip before it"),
        (["gaussian=1", "clip=1"], "gaussian needs clip before it"),
        (
            ["clip=1", "gaussian=1", "laplace=1"],
            "laplace adds to every upload what nothing bounds",
        ),
        (
            ["laplace=1", "clip=1", "gaussian=1"],
            "laplace stands before clip: noise that is clipped afterwards",
        ),
        (["clip=1", "clip=1", "gaussian=1"], "clip is there twice"),
        (["clip=1", "gaussian=1", "gaussian=1"], "gaussian is there twice"),
        (["clip=0"], "clip: radius=0 is not valid"),
        (["cap=0"], "cap: rows=0 is not valid"),
        (["gaussian=-1"], "gaussian: sigma=-1 is not valid"),
    ],
)
def test_orders_that_void_the_guarantee_are_refused(texts: list[str], sentence: str) -> None:
    with pytest.raises(FedrecError) as error:
        check_order([parse(text) for text in texts])
    assert sentence in str(error.value)


def test_only_noise_behind_clip_states_an_epsilon() -> None:
    def states(*texts: str) -> bool:
        stages = [parse(text) for text in texts]
        check_order(stages)
        return states_epsilon(stages)

    assert states("clip=1", "gaussian=1")
    assert states("cap=5", "clip=1", "gaussian=1")
    assert not states("clip=1")
    assert not states("laplace=1")
    assert not states("clip=1", "laplace=1")
