"""Federations that state an epsilon: noise that nobody can draw again, as much as is stated, nothing told besides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fleets import Fleet
from scipy import stats

from fedrec.channel.budget import Budget
from fedrec.core.errors import FedrecError
from fedrec.core.slots import Catalog
from fedrec.deploy.owner import described
from fedrec.deploy.private import SPARE, stated, with_epsilon
from fedrec.deploy.terms import Terms
from fedrec.deploy.unseen import Unseen

NOTHING = "clip=1e-6"  # all that devices say is noise: it can be measured
BAR = 1e-6  # p-values below it are no chance


@pytest.mark.parametrize("rate", [0.3, 9.9, 10.0, 37.0, 1e4, 3e8])
def test_poisson_from_the_systems_randomness(rate: float) -> None:
    found = Unseen().poisson(rate, (100, 200))
    assert found.shape == (100, 200)
    edges = np.unique(stats.poisson.ppf(np.linspace(0, 1, 21)[1:-1], rate))
    expected = np.diff([0, *stats.poisson.cdf(edges, rate), 1]) * found.size
    counts = np.histogram(found, [-0.5, *(edges + 0.5), np.inf])[0]
    assert stats.chisquare(counts, expected).pvalue > BAR


def test_numbers_from_the_systems_randomness() -> None:
    drawn = Unseen()
    assert stats.kstest(drawn.standard_normal((100, 300)).ravel(), "norm").pvalue > BAR
    assert stats.kstest(drawn.random(30_000), "uniform").pvalue > BAR
    assert stats.kstest(drawn.laplace(0.0, 2.0, 30_000), "laplace", (0, 2)).pvalue > BAR
    assert not np.array_equal(Unseen().random(4), Unseen().random(4))


def sums_of(fleet: Fleet) -> np.ndarray[Any, np.dtype[np.float64]]:
    """What the server merges in a round: noise alone, where devices say nothing else."""
    kept: list[Any] = []
    server = fleet.rounds.server
    merged = server._merged
    server._merged = lambda total, context: kept.append(total) or merged(total, context)  # type: ignore[method-assign]
    fleet.rounds.play()
    (total,) = kept
    return np.concatenate([v.ravel() for _, v in sorted(total.sums.items())]).astype(np.float64)


@pytest.mark.parametrize(
    ("channel", "deviation"),
    [
        ((NOTHING, "gaussian=3,where=devices", "secure"), 3 * np.sqrt(8 / 4)),  # for sums of 4; 8 are there
        ((NOTHING, "gaussian=3", "fixed"), 3.0),
        ((NOTHING, "gaussian=3", "secure"), 3.0),
        ((NOTHING, "local=5,sigma=2", "secure"), 2 * np.sqrt(8)),
    ],
)
def test_there_is_as_much_noise_as_is_stated_and_never_the_same(
    channel: tuple[str, ...], deviation: float, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"threshold": 4, "answers": 3}
    first, second = (sums_of(Fleet(tmp_path / n, "fedmf", channel, **options)) for n in ("a", "b"))
    for found in (first, second):
        assert len(found) > 1000
        assert stats.kstest(found / deviation, "norm").pvalue > BAR
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.15, "the same seed, and other noise"


def test_nothing_is_told_besides_and_an_answer_is_given_once(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, "fedmf", (NOTHING, "gaussian=1,where=devices", "secure"), threshold=4, answers=2)
    for _ in range(2):
        fleet.rounds.play()
    assert fleet.rounds.score() is None
    assert all("validation" not in line for line in fleet.folder.history())
    chosen, last = fleet.folder.selected(), fleet.folder.load()
    assert chosen is not None
    assert last is not None
    assert chosen.round == last.server.round == 2
    with pytest.raises(FedrecError, match="as often as its epsilon allows: it sends no more"):
        fleet.rounds.play()
    device = next(iter(fleet.carrier.there[1].devices.values()))
    facts = described(device)
    assert facts["answers"] == "2 of 2"
    assert facts["promised"].startswith("ε=")


def test_a_lost_answer_is_said_again_with_the_same_noise(tmp_path: Path) -> None:
    """Fresh noise on the same numbers would be one more answer, of which the mean tells more."""
    fleet = Fleet(tmp_path, "fedmf", (NOTHING, "gaussian=1", "fixed"), answers=1)
    said: list[bytes] = []
    fleet.carrier.up = lambda node, data: said.append(data) or data
    device = next(iter(fleet.carrier.there[1].devices.values()))
    rounds = fleet.rounds
    rounds.hello()
    catalog, shared = fleet.folder.catalog, rounds.server.state.shared
    answers = [device.play(1, catalog, shared, 0, lambda row, _: row.tobytes()) for _ in range(2)]
    assert answers[0] == answers[1]
    assert device.file.fact("answers") == 1


@pytest.mark.parametrize(
    ("channel", "more", "said"),
    [
        (("clip=1", "gaussian=1,where=devices", "fixed"), {"answers": 3}, "end the channel with secure"),
        (("clip=1", "local=5", "secure"), {"answers": 3}, "does not say its noise"),
        (("clip=1", "gaussian=1", "secure"), {}, "how often a device answers"),
        (("gaussian=1", "secure"), {"answers": 3}, "needs clip before it"),
    ],
)
def test_what_states_nothing_is_refused(channel: tuple[str, ...], more: dict[str, Any], said: str) -> None:
    with pytest.raises(FedrecError, match=said):
        Terms(method="fedmf", channel=channel, **more).check()


@pytest.mark.parametrize("channel", [("secure",), ("fixed",), ("clip=2", "local=4", "secure")])
def test_the_least_noise_is_found_for_the_rounds(channel: tuple[str, ...]) -> None:
    catalog = Catalog(50, 40)
    asked = None if "local=4" in channel else 4.0
    found = with_epsilon("fedmf", {"dim": 4}, channel, catalog, 5, asked)
    terms = Terms(**found).check()
    assert terms.answers == 5 + SPARE
    budget = Budget(terms.stages, terms.made.uploads(catalog), 50, delta=terms.delta)
    assert 3.9 < budget.spent(5 + SPARE) <= 4 * (1 + 1e-6)
    assert f"{5 + SPARE} releases" in str(stated(terms, catalog))
    assert Terms(**found).text == terms.text, "noise is written as it is read"


def test_a_method_whose_uploads_nobody_bounded_is_asked_about() -> None:
    with pytest.raises(FedrecError, match="clip=R"):
        with_epsilon("fedrap", {}, ("secure",), Catalog(50, 40), 5, 4.0)
