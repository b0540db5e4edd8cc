"""Whoever is taken away, the sum before the noise moves by no more than the bound: for every method with ``clip``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec.channel.clip import Clip
from fedrec.channel.gaussian import Gaussian
from fedrec.core.federated import Federated
from fedrec.core.upload import Total
from fedrec.data.interactions import from_codes
from fedrec.data.split import split
from fedrec.methods import make
from fedrec.simulate.simulation import Simulation

METHODS = {
    "fedmf": {"dim": 3},
    "pfedrec": {"dim": 3},
    "fcf": {"dim": 3},
    "fedals": {"dim": 3},
    "private-fedals": {"dim": 3},
    "fedncf": {"dim": 3, "hidden": (4,)},
    "fedrecon": {"dim": 3},
    "fedrap": {"dim": 3},
    "fednext": {"dim": 3},
}
N_ITEMS = 15


def world(seed: int, users: int) -> Any:
    """Users of very different activity, who meet things again."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(3, 30, users)
    who = np.repeat(np.arange(users), counts).astype(np.int32)
    items = rng.integers(N_ITEMS, size=len(who)).astype(np.int32)
    times = rng.permutation(len(who)).astype(np.int64)
    return from_codes("made", who, items, times, np.arange(users), np.arange(N_ITEMS))


def released(simulation: Simulation, users: Any) -> Total:
    """The sum of what these clients send, as it is before the noise."""
    server, total = simulation.server, simulation.server.empty()
    for answer in simulation.clients.fit(
        server.broadcast(simulation.moment.round + 1), users, None, server.receive
    ):
        total.add(answer.reply.sent)  # type: ignore[arg-type]
    simulation.clients.drop()
    return total


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=4)
@given(data=st.data())
def test_one_user_moves_the_release_by_no_more_than_the_bound(name: str, data: Any) -> None:
    radius = data.draw(st.sampled_from([0.05, 1.0, 1e4]), "radius")
    parts = split(world(data.draw(st.integers(0, 1000), "seed"), 6))
    method = make(name, METHODS[name])
    assert isinstance(method, Federated)
    channel = [Clip(radius=radius), Gaussian(sigma=data.draw(st.sampled_from([1e-3, 1.0]), "noise"))]
    simulation = Simulation(method, parts, channel=channel)
    for _ in range(data.draw(st.integers(0, 2), "rounds")):
        simulation.play(evaluate=False)
    huge = data.draw(st.sampled_from([1.0, 1e6, 1e30]), "size")
    shared = {
        n: v * np.float32(huge) if n == "items" else v for n, v in simulation.server.state.shared.items()
    }
    simulation.server.state = replace(simulation.server.state, shared=shared)
    everyone = simulation.clients.everyone
    gone = data.draw(st.sampled_from(everyone.tolist()), "who is taken away")
    with np.errstate(all="ignore"):
        both = [released(simulation, users) for users in (everyone, everyone[everyone != gone])]
    uploads = simulation.server.uploads
    moved = 0.0
    for array, values in both[0].sums.items():
        difference = values.astype(np.float64) - both[1].sums[array]
        moved += (uploads.norm(array) * np.linalg.norm(difference)) ** 2
    rounding = 1e-5 * len(everyone) * radius  # of sums in single precision
    assert np.sqrt(moved) <= radius + rounding
    assert all(np.isfinite(values).all() for values in both[0].sums.values())
