"""Devices that lie carry an item to people; a cap on rows takes that from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.data.worlds import scalable
from fedrec.study.poison import WAYS
from fedrec.study.poison.poison import Line, line_of, markdown


@pytest.fixture(scope="module")
def people() -> Interactions:
    return scalable(120, 200, 3600)


@pytest.fixture(scope="module")
def lines(people: Interactions) -> dict[tuple[str, str], Line]:
    found = fedrec.poison(
        "fedals",
        people,
        rounds=6,
        seeds=1,
        shares=[0.05],
        first=1,
        defences=["rowcap=0.5", "verify"],
        settings={"dim": 8},
        threads=1,
    )
    assert "| popular | 5% | rowcap=0.5 |" in markdown(found)
    return {(line.way, line.defence): line for line in found.lines}


def test_every_way_is_played(lines: dict[tuple[str, str], Line]) -> None:
    assert set(lines) == {(way, text) for way in ("", *WAYS) for text in ("", "rowcap=0.5", "verify")}
    assert lines["", ""].lost == 0
    assert lines["", ""].er < 0.1


def test_who_stays_away_is_as_if_the_others_were_alone(people: Interactions) -> None:
    from fedrec.data.split import split
    from fedrec.methods.fedals import FedALS
    from fedrec.simulate.simulation import Simulation
    from fedrec.study.poison.campaign import Poisoned

    parts, away = split(people, "strict", 0), np.array([3, 70])
    method, others = FedALS(dim=8), np.setdiff1d(np.arange(parts.n_users), away)
    without = Poisoned(method, parts, 0, 1, rounds=1, liars=away, way="absent")
    without.play(evaluate=False)
    alone = Simulation(method, parts, 0, 1, rounds=1)
    alone.server.cohort = lambda number: others  # type: ignore[method-assign]
    alone.play(evaluate=False)
    for name, values in without.server.state.shared.items():
        np.testing.assert_allclose(values, alone.server.state.shared[name], rtol=1e-5, atol=1e-6)


def test_a_line_of_several_seeds_has_standard_errors() -> None:
    one, two = [0.0, 0.5, 0.5, 0.01], [0.02, 0.5, 0.5, 0.03]
    line = line_of(("random", 0.05, ""), [one, two])
    assert (line.er, line.lost) == pytest.approx((0.01, 0.02))
    assert line.lost_error == pytest.approx(0.01)  # √(0.0002 / 2)
    assert line.cells()[3::3] == ["1.0 ± 1.0", "2.0 ± 1.0"]
    assert line_of(("random", 0.05, ""), [one]).cells()[3::3] == ["0.0", "1.0"]


@pytest.mark.parametrize("way", ["boosting", "popular"])
def test_a_lengthened_row_carries_the_target_and_a_cap_takes_it_back(
    way: str, lines: dict[tuple[str, str], Line]
) -> None:
    assert lines[way, ""].er > 0.3
    assert lines[way, "rowcap=0.5"].er < 0.1
    assert lines[way, "verify"].er < 0.01


def test_verify_costs_nothing_where_nobody_lies(lines: dict[tuple[str, str], Line]) -> None:
    assert lines["", "verify"].lost == 0
    assert lines["", "verify"].valid_hr == lines["", ""].valid_hr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ways": ["popluar"]}, "unknown way to poison 'popluar': did you mean 'popular'"),
        ({"shares": [0.7]}, "--share 0.7 is not between 0 and 0.5"),
        ({"defences": ["clip=1"]}, "'clip' is no defence: devices that lie skip it"),
        ({"method": "ease"}, "it is not federated"),
        ({"method": "metamf"}, "makes something for each client"),
        ({"target": "no such film"}, "no such film"),
    ],
)
def test_mistakes_are_one_sentence(options: dict[str, Any], sentence: str, people: Interactions) -> None:
    with pytest.raises(FedrecError, match=sentence):
        fedrec.poison(**{"method": "fedmf", "data": people, "rounds": 1, "seeds": 1, "threads": 1, **options})
