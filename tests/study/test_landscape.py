"""Landscapes: the plane is what it says, its centre is the model, and a trained model lies in a valley."""

from __future__ import annotations

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.study.landscape import directions, landscape


def test_directions_have_zero_mean_right_angles_and_the_length_of_the_rows():
    rng = np.random.default_rng(0)
    shared = {"items": rng.normal(size=(7, 5)).astype(np.float32), "bias": np.ones(4, np.float32)}
    first, second = directions(shared, seed=0)
    for way in (first, second):
        np.testing.assert_allclose(way["items"].mean(1), 0, atol=1e-6)
        lengths = np.linalg.norm(shared["items"], axis=1)
        np.testing.assert_allclose(np.linalg.norm(way["items"], axis=1), lengths, rtol=1e-5)
        assert not way["bias"].any()
    np.testing.assert_allclose((first["items"] * second["items"]).sum(1), 0, atol=1e-5)
    assert (directions(shared, seed=1)[0]["items"] != first["items"]).any()


@pytest.mark.parametrize("method", ["fedmf", "fedrecon", "fedmf+plgc", "fedncf"])
def test_of_a_run(tastes: Interactions, method: str):
    run = fedrec.run(method, tastes, rounds=5, settings={"dim": 6}, threads=1)
    found = landscape(run, radius=2.0, clients=10)
    assert found.loss.shape == (21, 21)
    assert np.isfinite(found.loss).all()
    assert (found.steps[0], found.steps[10], found.steps[-1]) == (-2, 0, 2)
    assert found.radius == 2
    assert found.clients == 10
    np.testing.assert_array_equal(found.loss, landscape(run, radius=2.0, clients=10).loss)


def test_a_trained_model_lies_in_a_valley(tastes: Interactions):
    trained = fedrec.run("fedmf", tastes, rounds=30, settings={"dim": 6}, threads=1)
    found = landscape(trained, radius=3.0)
    assert found.rise > 0
    wider = landscape(trained, radius=6.0)
    assert wider.centre == found.centre, "other samples"
    assert wider.rise > found.rise


def test_bad_input_gets_a_sentence(tastes: Interactions):
    run = fedrec.run("fedmf", tastes, rounds=1, settings={"dim": 4}, threads=1)
    for wrong, words in (
        ({"radius": 0}, "radius=0 makes no plane"),
        ({"points": 20}, "points=20 per side"),
        ({"points": 11}, "points=11 per side"),
        ({"clients": 0}, "clients=0 samples nobody"),
    ):
        with pytest.raises(FedrecError, match=words):
            landscape(run, **wrong)
    with pytest.raises(FedrecError, match="popularity is not federated"):
        landscape(fedrec.run("popularity", tastes))
