"""Noise that devices add is the noise that is accounted for: what n devices draw, what a simulator draws for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ks_2samp, kstest

from fedrec.channel.gaussian import Gaussian
from fedrec.channel.local import Local
from fedrec.channel.quantize import Quantize
from fedrec.channel.secure import Secure
from fedrec.channel.stage import Stage
from fedrec.core.fixed import Grid
from fedrec.core.ragged import Ragged
from fedrec.core.slots import sent
from fedrec.core.upload import Total, Upload, Uploads, joined, summed

CLIENTS = 20
UPLOADS = Uploads(
    {"items": sent(500, 4, rows=True), "layer": sent(2000)}, norms={"layer": 4.0}, share=2.0, clients=CLIENTS
)
STAGES = {
    "gaussian": Gaussian(sigma=3.0, where="devices"),
    "half honest": Gaussian(sigma=3.0, where="devices", honest=0.5),
    "local": Local(epsilon=1.0, sigma=0.7),
}


def nothing() -> Upload:
    """A device that touched one row, with nothing in it: what comes out is its noise."""
    rows, dense = np.zeros((1, 4), np.float32), np.zeros((1, 2000), np.float32)
    items = Ragged(np.array([0, 1]), np.array([7], np.int32))
    return Upload(items, {"items": rows}, {"layer": dense}, np.ones(1, np.float32))


def of_devices(stage: Stage, clients: int, rng: np.random.Generator) -> Total:
    return summed(joined([stage.on_device(nothing(), UPLOADS, rng) for _ in range(clients)]), UPLOADS.arrays)


@pytest.mark.parametrize("name", ["items", "layer"])
@pytest.mark.parametrize("kind", STAGES)
def test_devices_together_add_the_noise_that_is_accounted_for(kind: str, name: str) -> None:
    stage, rng = STAGES[kind], np.random.default_rng(0)
    noise = of_devices(stage, CLIENTS, rng).sums[name].ravel()
    wanted = stage.deviation(UPLOADS, name) * (np.sqrt(2) if kind == "half honest" else 1)
    assert kstest(noise, "norm", (0, wanted)).pvalue > 0.01
    assert kstest(noise, "norm", (0, 1.25 * wanted)).pvalue < 0.01, "the test can tell"
    at_once = (
        stage.in_sum(replace(Total.empty(UPLOADS.arrays), clients=CLIENTS), UPLOADS, rng).sums[name].ravel()
    )
    assert ks_2samp(noise, at_once).pvalue > 0.01, (
        "the simulator's shortcut has the distribution of n devices"
    )
    assert ks_2samp(noise, 1.25 * at_once).pvalue < 0.01


@pytest.mark.parametrize("name", ["items", "layer"])
def test_dropouts_leave_as_much_noise_as_the_honest_share_promises(name: str) -> None:
    stage = STAGES["half honest"]
    noise = of_devices(stage, CLIENTS // 2, np.random.default_rng(1)).sums[name]
    assert noise.std() == pytest.approx(stage.deviation(UPLOADS, name), rel=0.05)


def test_noise_is_in_whole_steps_and_masked_sums_are_the_same_to_the_bit() -> None:
    stage, rng, grid = STAGES["gaussian"], np.random.default_rng(0), Grid(16, 64)
    ones = [stage.on_device(nothing(), UPLOADS, rng) for _ in range(CLIENTS)]
    for one in ones:
        steps = one.dense["layer"].astype(np.float64) * 2**16
        assert (steps == np.rint(steps)).all()
    forward, backward = (grid.summed(joined(some), UPLOADS.arrays) for some in (ones, ones[::-1]))
    for name, words in forward.sums.items():
        np.testing.assert_array_equal(words, backward.sums[name])
        mask = rng.integers(-(2**62), 2**62, words.shape)  # two masks that cancel
        masked = (words + mask) - mask
        np.testing.assert_array_equal(grid.decode(masked), grid.decode(words))


def test_the_shortcut_adds_whole_steps_to_whole_numbers() -> None:
    stage, words = STAGES["gaussian"], Grid(16, 64).empty(UPLOADS.arrays)
    noisy = stage.in_sum(replace(words, clients=CLIENTS), UPLOADS, np.random.default_rng(0))
    assert noisy.sums["layer"].dtype == np.int64
    opened = Secure().on_server(noisy, UPLOADS, np.random.default_rng(0))
    assert opened.sums["layer"].std() == pytest.approx(stage.deviation(UPLOADS, "layer"), rel=0.05)


def test_whatever_leaves_a_device_has_noise_on_every_row() -> None:
    for stage in STAGES.values():
        one = stage.on_device(nothing(), UPLOADS, np.random.default_rng(0))
        assert len(one.items.items) == 500
        assert one.rows["items"].any(axis=1).all()


def test_random_rounding_is_right_on_average_and_within_its_steps() -> None:
    stage, rng = Quantize(bits=4, range=1.0), np.random.default_rng(0)
    value = 0.3
    one = replace(nothing(), dense={"layer": np.full((1, 2000), value, np.float32)})
    found = np.concatenate([stage.on_device(one, UPLOADS, rng).dense["layer"][0] for _ in range(20)])
    assert found.mean() == pytest.approx(value, abs=0.002)
    assert len(np.unique(found)) == 2
    assert np.abs(found - value).max() <= stage.step
    assert stage.on_device(one, UPLOADS, rng).rows["items"].sum() == 0, "zero stays zero"
    beyond = replace(nothing(), dense={"layer": np.full((1, 2000), 7.0, np.float32)})
    assert stage.on_device(beyond, UPLOADS, rng).dense["layer"].max() == pytest.approx(1.0)
