"""Private FedALS: both engines alike, its gate, its filter, and what never leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrec.channel.clip import Clip
from fedrec.channel.gaussian import Gaussian
from fedrec.core.errors import FedrecError
from fedrec.core.slots import Catalog
from fedrec.data.interactions import Interactions
from fedrec.data.split import Split, split
from fedrec.evaluate.metrics import summary
from fedrec.methods import private_form
from fedrec.methods.fedals import FedALS
from fedrec.methods.private_fedals import ALONE, PrivateFedALS, filtered, positive
from fedrec.simulate.simulation import Simulation
from fedrec.testing.tools import check_alike


def after(
    parts: Split, rounds: int, noise: float | None = None, engine: str = "auto", **settings: Any
) -> Simulation:
    channel = [Clip(radius=1.0)] + ([Gaussian(sigma=noise)] if noise else [])
    simulation = Simulation(PrivateFedALS(**{"dim": 4, **settings}), parts, channel=channel, engine=engine)
    for _ in range(rounds):
        simulation.play(evaluate=False)
    return simulation


@pytest.mark.parametrize("rounds", [1, 3])
def test_both_engines_send_the_same(small_split: Split, rounds: int) -> None:
    fused, plain = (after(small_split, rounds, engine=engine) for engine in ("fused", "plain"))
    check_alike(fused.server.state.held, plain.server.state.held, 1e-4)


def test_without_noise_it_learns(tastes: Interactions) -> None:
    simulation = after(split(tastes), 6, dim=8)
    popularity = after(split(tastes), 1, dim=8)
    hits = [summary(s.ranks(s.moment, "test"))["hr@10"] for s in (simulation, popularity)]
    assert hits[0] > hits[1] + 0.1


def test_where_factors_cannot_win_all_rounds_count(small_split: Split) -> None:
    simulation = after(small_split, 4, noise=3.0)
    shared, server = simulation.server.state.shared, simulation.server.state.server
    assert shared["numbers"][2] == 0
    assert not shared["omega"].any()
    assert not shared["items"][:, :4].any()
    method = simulation.method
    assert isinstance(method, PrivateFedALS)
    whole = sum(method.share(r) for r in range(1, 5)) / 3.0**2
    assert server["precision"] == pytest.approx(whole, rel=1e-5), "as precise as all of the budget allows"


def test_where_factors_cannot_win_public_columns_still_rank(tastes: Interactions) -> None:
    """Genres that say what people like beat popularity at any noise, and weigh less than beside factors."""
    liked = replace(tastes, genres=tuple((f"taste {item % 2}",) for item in range(tastes.n_items)))
    parts = split(liked)
    alone, popular = (after(parts, 4, noise=4.0, features=weight) for weight in (2.0, 0.0))
    columns = alone.server.state.shared["items"][:, 5:]
    assert not alone.server.state.shared["items"][:, :4].any()
    np.testing.assert_allclose(
        columns, 2.0 * ALONE * parts.catalog.features * alone.server.state.shared["items"][:, 4:5], rtol=1e-6
    )
    hits = [summary(s.ranks(s.moment, "test"))["hr@10"] for s in (alone, popular)]
    assert hits[0] > hits[1] + 0.05


def test_little_noise_trains_the_rows_that_are_met_most(small_split: Split) -> None:
    simulation = after(small_split, 4, noise=0.02)
    shared, counted = simulation.server.state.shared, simulation.server.state.server["counted"]
    assert shared["numbers"][2] == 1
    kept = shared["omega"] > 0
    assert counted[kept].min() >= counted[~kept].max(initial=-np.inf)
    assert not shared["items"][~kept, :4].any()
    assert shared["items"][kept, :4].any(axis=1).all()


def test_public_columns_are_fixed_and_never_leave() -> None:
    features = np.eye(6, 3, dtype=np.float32)
    method, catalog = PrivateFedALS(dim=4), Catalog(10, 6, features=features)
    arrays = method.uploads(catalog).arrays
    assert arrays["corrections"].shape == (6, 4)
    assert arrays["outer"].shape == (4 + 1 + 3, 4)
    assert PrivateFedALS(dim=4, features=0).uploads(catalog).arrays["outer"].shape == (5, 4)


def test_a_tenth_of_the_budget_counts() -> None:
    method = PrivateFedALS(sweeps=5)
    shares = [method.share(r) for r in range(1, 7)]
    assert shares[0] / sum(shares) == pytest.approx(0.1)
    assert shares[1:] == sorted(shares[1:])


def test_the_filter_is_nearer_to_the_truth_than_what_was_measured() -> None:
    rng = np.random.default_rng(0)
    n = rng.uniform(5, 500, 400)
    true = n[:, None] * rng.normal(size=5) + np.sqrt(n)[:, None] * rng.normal(size=(400, 5)) * [
        3,
        2,
        1,
        0.1,
        0.1,
    ]
    noise = rng.uniform(10, 60, 400)
    seen = true + noise[:, None] * rng.normal(size=(400, 5))
    found = filtered(seen, n, noise)
    assert np.linalg.norm(found - true) < 0.7 * np.linalg.norm(seen - true)
    np.testing.assert_array_equal(filtered(seen, n, np.zeros(400)), seen)


def test_the_nearest_matrix_without_negative_directions() -> None:
    s = positive(np.diag([2.0, -1.0, 0.5]))
    np.testing.assert_allclose(s, np.diag([2.0, 0.0, 0.5]), atol=1e-12)


def test_epsilon_makes_it_of_fedals() -> None:
    form = private_form(FedALS(popularity=0.2), None, 100)
    assert isinstance(form.method, PrivateFedALS)
    assert (form.rounds, form.clip) == (4, 1.0)
    assert form.method.popularity == 0.2
    assert form.method.trials(Catalog(10, 10)) is None, "what devices try out would be one more release"
    assert private_form(FedALS(), 6, 100).method.share(6) == pytest.approx(1.5**4)


def test_what_noisy_counts_decide_cannot_be_set() -> None:
    with pytest.raises(FedrecError, match="alpha has no place under --epsilon, where noisy counts decide"):
        private_form(FedALS(alpha=3.0), None, 100)


def test_one_round_is_private_popularity(small_split: Split) -> None:
    form = private_form(FedALS(), 1, 100)
    assert (form.rounds, form.method.sweeps, form.method.share(1)) == (1, 0, 1.0)
    shared = after(small_split, 1, noise=0.02, sweeps=0).server.state.shared
    assert shared["numbers"][2] == 0
    assert not shared["items"][:, :4].any()
