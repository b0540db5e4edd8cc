"""FedALS: it minimises what centralised iALS minimises, in few rounds, also from sampled cohorts."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec.core.errors import FedrecError
from fedrec.data.split import Split, split
from fedrec.data.worlds import scalable
from fedrec.engine.interface import Ask
from fedrec.engine.round import Federation
from fedrec.methods import make
from fedrec.methods.central.ials import IALS
from fedrec.methods.fedals import FedALS

IALS_LIKE = {"scale": 0, "popularity": 0}


@pytest.fixture(scope="module")
def parts() -> Split:
    return split(scalable(150, 100, 4000))


def table(method: FedALS, parts: Split, rounds: int, clients: float | None = None) -> Federation:
    federation = Federation(method, parts, clients=clients)
    for _ in range(rounds):
        federation.play(evaluate=False)
    return federation


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
    federation = table(method, parts, 40)
    v = federation.state.shared["items"]
    w = federation.engine.held(federation.state, 0, federation.everyone, "global").private["user"]
    central = IALS(dim=8, alpha=alpha, lam=lam, sweeps=40).fit(parts)
    best = objective(central.users, central.items, parts, alpha, lam)
    assert objective(w, v, parts, alpha, lam) < 1.02 * best


def test_sampled_cohorts_come_near(parts: Split) -> None:
    method = FedALS(dim=8, alpha=4, lam=10, **IALS_LIKE)
    figures = []
    for clients, rounds in ((None, 15), (0.2, 60)):
        federation = table(method, parts, rounds, clients)
        v = federation.state.shared["items"]
        w = federation.engine.held(federation.state, 0, federation.everyone, "global").private["user"]
        figures.append(objective(w, v, parts, 4, 10))
    assert figures[1] < 1.05 * figures[0]


def test_uploads_are_the_positives_and_nothing_else(parts: Split) -> None:
    federation = Federation(FedALS(dim=4), parts)
    fitted = federation.engine.fit(federation.state, 1, np.array([3]), Ask(single=True))
    np.testing.assert_array_equal(fitted.sent.held.items, parts.trained.of(3))
    outer = fitted.sent.dense["outer"][0]
    values, vectors = np.linalg.eigh(outer)
    found = vectors[:, -1] * np.sqrt(values[-1])  # this is why it is meant for secure aggregation
    w = fitted.private["user"][0]
    np.testing.assert_allclose(found * np.sign(found @ w), w, atol=1e-5)


def test_settings_come_from_the_data_where_they_are_left_to_it(parts: Split) -> None:
    suited = FedALS().suited(parts)
    assert isinstance(suited.alpha, float)
    assert isinstance(suited.lam, float)
    assert suited.suited(parts) == suited
    assert FedALS(alpha=3, lam=7).suited(parts) == FedALS(alpha=3, lam=7)
    assert make("fedals", {"alpha": "2.5"}).alpha == 2.5  # type: ignore[attr-defined]


def test_bad_settings_are_one_sentence() -> None:
    with pytest.raises(FedrecError, match="lam=0 is not valid"):
        FedALS(lam=0)
    with pytest.raises(FedrecError, match="did you mean 'alpha'"):
        FedALS(alfa=1)
