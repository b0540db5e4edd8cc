"""Accuracy against ε: which runs are made, what is drawn, and that nothing is made twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.data.worlds import scalable
from fedrec.study.curve import POPULARITY, Curve, some_users


@pytest.fixture(scope="module")
def people() -> Interactions:
    return scalable(80, 120, 2400)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("curve")


def drawn(people: Interactions, runs: Path, **options: Any) -> Curve:
    return fedrec.curve(
        "fedals", people, [5, 500], [40, "all"], seeds=1, settings={"dim": 4}, out=runs, jobs=1, threads=1,
        **options,
    )  # fmt: skip


def test_every_point_is_a_run_that_is_found_again(people: Interactions, runs: Path) -> None:
    found = drawn(people, runs)
    assert (found.played, len(found.rows)) == (10, 10)
    points = {(row["users"], row["method"], row["epsilon"] and round(row["epsilon"])) for row in found.rows}
    for users in (40, 80):
        assert (users, "fedals without ε", None) in points
        for epsilon in (5, 500):
            assert {(users, "fedals", epsilon), (users, POPULARITY, epsilon)} <= points
    assert {row["data"] for row in found.rows} == {people.name}
    again = drawn(people, runs)
    assert again.played == 0
    assert again.rows == found.rows


def test_it_is_drawn_and_its_numbers_are_there(people: Interactions, runs: Path, tmp_path: Path) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    from fedrec.report.curve import write_curve

    found = drawn(people, runs)
    files = write_curve(found, tmp_path)
    assert len(files) == 1 + 2 * 3
    assert pl.read_csv(files[0]).height == len(found.rows)
    for path in files:
        assert path.stat().st_size > 100
    svg = next(path for path in files if path.name.endswith("-hr.svg")).read_text(encoding="utf-8")
    assert POPULARITY in svg
    assert "fedals without ε" in svg


def test_fewer_users_keep_the_catalogue_and_are_among_more(people: Interactions) -> None:
    few, more = some_users(people, 20), some_users(people, 50)
    assert (few.n_users, few.n_items) == (20, people.n_items)
    assert set(few.user_ids) < set(more.user_ids) < set(people.user_ids)
    for at, who in enumerate(few.user_ids):
        before = int(np.flatnonzero(people.user_ids == who)[0])
        np.testing.assert_array_equal(few.items_of(at), people.items_of(before))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"epsilons": [0]}, "--epsilon 0 is not above 0"),
        ({"epsilons": ["much"]}, "--epsilon much is no number"),
        ({"users": [5]}, "too small: give at least 10"),
        ({"users": [500]}, "--users 500 is more than the 80"),
        ({"method": "ease"}, "it is not federated"),
        ({"method": "fedmf", "settings": {"dimm": 3}}, "did you mean 'dim'"),
    ],
)
def test_a_mistake_is_one_sentence_before_anything_runs(
    options: dict[str, Any], sentence: str, people: Interactions, tmp_path: Path
) -> None:
    with pytest.raises(FedrecError, match=sentence):
        fedrec.curve(**{"data": people, "out": tmp_path / "none", **options})
    assert not (tmp_path / "none").exists()
