"""FedALS: it minimises what centralised iALS minimises, in few rounds, also from sampled cohorts."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec.clients.engine import Wish
from fedrec.core.errors import FedrecError
from fedrec.data.split import Split, split
from fedrec.data.worlds import scalable
from fedrec.methods import make
from fedrec.methods.central.ials import IALS
from fedrec.methods.fedals import FedALS
from fedrec.simulate.simulation import Simulation

IALS_LIKE = {"scale": 0, "popularity": 0, "recency": "off"}


@pytest.fixture(scope="module")
def parts() -> Split:
    return split(scalable(150, 100, 4000))


def table(method: FedALS, parts: Split, rounds: int, clients: float | None = None) -> Simulation:
    simulation = Simulation(method, parts, clients_per_round=clients)
    for _ in range(rounds):
        simulation.play(evaluate=False)
    return simulation


def users_of(simulation: Simulation) -> np.ndarray:
    """The vectors that the clients rank with."""
    clients = simulation.clients
    return clients.part(simulation.server.standing(), clients.everyone, own=False).lines["user"]


def objective(w: np.ndarray, v: np.ndarray, parts: Split, alpha: float, lam: float) -> float:
    scores = (w @ v.T).astype(np.float64)
    total = (scores**2).sum() + lam * ((w**2).sum() + (v**2).sum())
    for u in range(parts.n_users):
        s = scores[u, parts.trained.of(u)]
        total += ((1 + alpha) * (1 - s) ** 2 - s**2).sum()
    return float(total)


@pytest.mark.parametrize(("alpha", "lam"), [(1, 10), (10, 20), (100, 100)])
def test_reaches_the_centralised_optimum(parts: Split, alpha: float, lam: float) -> None:
    method = FedALS(dim=8, alpha=alpha, lam=lam, **IALS_LIKE)
    simulation = table(method, parts, 40)
    v = simulation.server.state.shared["items"]
    w = users_of(simulation)
    central = IALS(dim=8, alpha=alpha, lam=lam, sweeps=40).fit(parts)
    best = objective(central.users, central.items, parts, alpha, lam)
    assert objective(w, v, parts, alpha, lam) < 1.02 * best


def test_sampled_cohorts_come_near(parts: Split) -> None:
    method = FedALS(dim=8, alpha=4, lam=10, **IALS_LIKE)
    figures = []
    for clients, rounds in ((None, 15), (0.2, 60)):
        simulation = table(method, parts, rounds, clients)
        v = simulation.server.state.shared["items"]
        w = users_of(simulation)
        figures.append(objective(w, v, parts, 4, 10))
    assert figures[1] < 1.05 * figures[0]


def test_uploads_are_the_positives_and_nothing_else(parts: Split) -> None:
    simulation = Simulation(FedALS(dim=4), parts)
    clients, told = simulation.clients, simulation.server.broadcast(1)
    fitted = clients.engine.fit(told, clients.state, np.array([3]), clients.plan(1), Wish(single=True))
    np.testing.assert_array_equal(fitted.sent.items.items, parts.trained.of(3))
    outer = fitted.sent.dense["outer"][0]
    values, vectors = np.linalg.eigh(outer)
    found = vectors[:, -1] * np.sqrt(values[-1])  # this is why it is meant for secure aggregation
    w = fitted.lines["user"][0]
    np.testing.assert_allclose(found * np.sign(found @ w), w, atol=1e-5)


def test_settings_come_from_the_data_where_they_are_left_to_it(parts: Split) -> None:
    alpha, lam = FedALS().numbers(parts.catalog)
    assert isinstance(alpha, float)
    assert isinstance(lam, float)
    assert FedALS(alpha=alpha, lam=lam).numbers(parts.catalog) == (alpha, lam)
    assert FedALS(alpha=3, lam=7).numbers(parts.catalog) == (3, 7)
    assert make("fedals", {"alpha": "2.5"}).alpha == 2.5  # type: ignore[attr-defined]


def test_bad_settings_are_one_sentence() -> None:
    with pytest.raises(FedrecError, match="lam=0 is not valid"):
        FedALS(lam=0)
    with pytest.raises(FedrecError, match="did you mean 'alpha'"):
        FedALS(alfa=1)
