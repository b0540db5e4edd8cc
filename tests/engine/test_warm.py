"""A warm start: what an earlier run learned is taken over, new items get a row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.data.split import split
from fedrec.data.worlds import two_tastes
from fedrec.engine.round import Federation
from fedrec.engine.warm import warm_start
from fedrec.methods import make

NEW = 4


def grown(data: Interactions) -> Interactions:
    """The same interactions in a catalogue with new items in front: every code changes."""
    ids = np.concatenate([1000 + np.arange(NEW), data.item_ids])
    return replace(data, items=data.items + np.int32(NEW), item_ids=ids)


@pytest.mark.parametrize("name", ["fedals", "pfedrec"])
def test_known_items_keep_their_rows_and_new_ones_get_one(name: str) -> None:
    data = two_tastes()
    run = fedrec.run(name, data, rounds=5, settings={"dim": 8})
    federation = Federation(make(name, {"dim": 8}), split(grown(data)))
    warm_start(federation, run)
    assert run.federation is not None
    assert run.federation.selected is not None
    before = run.federation.selected.moment.after
    table = federation.state.shared["items"]
    np.testing.assert_array_equal(table[NEW:], before.shared["items"])
    assert np.isfinite(table[:NEW]).all()
    for private, values in federation.state.private.items():
        np.testing.assert_array_equal(values, before.private[private])
    if name == "fedals":
        np.testing.assert_allclose(federation.state.shared["gram"], table.T @ table, rtol=1e-3, atol=1e-3)


def test_a_warm_run_is_as_good_after_a_round_as_the_earlier_one(tmp_path: Path) -> None:
    data = two_tastes()
    earlier = fedrec.run("fedals", data, rounds=8, settings={"dim": 8}, out=tmp_path / "earlier")
    warm = fedrec.run("fedals", grown(data), rounds=1, settings={"dim": 8}, start=earlier)
    cold = fedrec.run("fedals", grown(data), rounds=1, settings={"dim": 8})
    assert warm.lines[0]["loss"] < cold.lines[0]["loss"]
    assert warm.config.start == str(tmp_path / "earlier")


def test_another_shape_is_one_sentence() -> None:
    data = two_tastes()
    earlier = fedrec.run("fedals", data, rounds=1, settings={"dim": 8})
    with pytest.raises(FedrecError, match="has other tables"):
        fedrec.run("fedals", data, rounds=1, settings={"dim": 9}, start=earlier)
    strange = replace(data, item_ids=data.item_ids + 5000)
    with pytest.raises(FedrecError, match="shares no item"):
        fedrec.run("fedals", strange, rounds=1, settings={"dim": 8}, start=earlier)
    with pytest.raises(FedrecError, match="start does not apply to ease"):
        fedrec.run("ease", data, start=earlier)
