"""Options that would do nothing are refused, not ignored."""

from __future__ import annotations

from typing import Any

import pytest

import fedrec
from fedrec.core.errors import FedrecError, Interrupted
from fedrec.data.interactions import Interactions


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"engine": "fused"}, "--engine does not apply to popularity: it is not federated"),
        ({"engine": "plain"}, "--engine does not apply to popularity: it is not federated"),
        ({"eval_every": 3}, "--eval-every does not apply to popularity: it is not trained in rounds"),
        ({"patience": 3}, "--patience does not apply to popularity: it is not trained in rounds"),
    ],
)
def test_what_does_nothing_for_a_yardstick(tastes: Interactions, options: Any, sentence: str) -> None:
    with pytest.raises(FedrecError, match=sentence):
        fedrec.run("popularity", tastes, **options)


def test_a_yardstick_in_rounds_is_evaluated_as_asked(tastes: Interactions) -> None:
    run = fedrec.run("mf", tastes, rounds=4, eval_every=2)
    assert [line["round"] for line in run.lines if line.get("validation")] == [2, 4]


def test_stopping_a_resumed_run_says_how_to_go_on(tastes: Interactions, tmp_path: Any) -> None:
    fedrec.run("fedmf", tastes, rounds=1, out=tmp_path / "run")

    def stop(record: Any, training: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="--resume"):
        fedrec.resume(tmp_path / "run", rounds=3, data=tastes, callbacks=[stop])
