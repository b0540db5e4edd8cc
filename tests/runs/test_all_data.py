"""For people: the same method with nothing held out, for as many rounds as validation selected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.figures.tables import about, notes, result_table

SMALL = {"dim": 4}


@pytest.mark.parametrize("method", ["fedals", "pfedrec", "fedrap", "fedmf", "mf", "ease"])
def test_everything_is_trained_on_and_nothing_is_measured(
    tastes: Interactions, tmp_path: Path, method: str
) -> None:
    in_rounds: dict[str, Any] = {} if method == "ease" else {"rounds": 2, "settings": SMALL}
    run = fedrec.run(method, tastes, all_data=True, out=tmp_path / "run", **in_rounds)
    assert len(run.split.train.items) == len(tastes)
    assert run.result["test"] is None
    with pytest.raises(FedrecError, match="trained on all data: nothing was held out"):
        run.test  # noqa: B018
    with pytest.raises(FedrecError, match="trained on all data"):
        run.evaluate()
    assert "on all data" in repr(run)
    for shown in (result_table(run.result), about(run.result), notes(run.result)):
        assert shown is not None
    again = fedrec.open(tmp_path / "run", data=tastes)
    first, second = (r.recommend(user=3, k=3)["item"].to_list() for r in (run, again))
    assert first == second
    assert not set(first) & set(tastes.items_of(3).tolist())


def test_like_an_earlier_run(tastes: Interactions) -> None:
    measured = fedrec.run("fedals", tastes, rounds=4, seed=2, settings=SMALL)
    people = measured.again(all_data=True)
    assert people.result["rounds"] == measured.result["selected_round"]
    assert people.config.settings == measured.config.settings
    assert people.config.seed == 2
    once_more = measured.again()
    assert once_more.test == measured.test


def test_more_data_changes_what_is_learned(tastes: Interactions) -> None:
    a, b = (
        fedrec.run("fedals", tastes, rounds=2, settings=SMALL, all_data=x).scorer() for x in (False, True)
    )
    assert not np.allclose(a.all(np.arange(5)), b.all(np.arange(5)))


def test_there_is_nothing_to_validate_on(tastes: Interactions) -> None:
    for options in ({"patience": 2}, {"eval_every": 2}):
        with pytest.raises(FedrecError, match="--all-data has nothing to validate on"):
            fedrec.run("fedmf", tastes, rounds=4, all_data=True, **options)  # type: ignore[arg-type]
