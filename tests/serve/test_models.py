"""Yardsticks are opened without being fitted again, and know which items are alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.methods.central.ease import EASE
from fedrec.methods.central.ials import IALS
from fedrec.methods.central.itemknn import ItemKNN
from fedrec.methods.central.popularity import Popularity


@pytest.mark.parametrize("kind", [EASE, ItemKNN, IALS, Popularity])
def test_a_yardstick_is_not_fitted_again(
    tastes: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    run = fedrec.run(kind(), tastes, out=tmp_path / "run")
    everyone = np.arange(tastes.n_users)
    expected = run.scorer().all(everyone)

    def again(*_: object) -> None:
        pytest.fail("fitted again")

    monkeypatch.setattr(kind, "fit", again)
    opened = fedrec.open(tmp_path / "run", data=tastes)
    np.testing.assert_array_equal(opened.scorer().all(everyone), expected)
    assert opened.recommend(user=1, k=3).equals(run.recommend(user=1, k=3))


@pytest.mark.parametrize("name", ["ease", "itemknn", "ials"])
def test_items_of_one_taste_are_alike(tastes: Interactions, name: str) -> None:
    near = fedrec.run(name, tastes).similar(4, k=5)["item"].to_list()
    assert len(near) == 5
    assert all(item % 2 == 0 and item != 4 for item in near)


def test_popularity_knows_no_items_by_themselves(tastes: Interactions) -> None:
    with pytest.raises(FedrecError, match="popularity knows no items by themselves"):
        fedrec.run("popularity", tastes).similar(4)


def test_a_damaged_model_says_what_to_do(tastes: Interactions, tmp_path: Path) -> None:
    fedrec.run("ease", tastes, out=tmp_path / "run")
    (tmp_path / "run" / "model.npz").write_bytes(b"nothing")
    opened = fedrec.open(tmp_path / "run", data=tastes)
    with pytest.raises(FedrecError, match=r"model.npz is damaged: remove it"):
        opened.recommend(user=1)
    (tmp_path / "run" / "model.npz").unlink()
    assert len(opened.recommend(user=1, k=3)) == 3


def test_ids_keep_their_type(tastes: Interactions, tmp_path: Path) -> None:
    import json

    path = fedrec.run("fedals", tastes, rounds=1, settings={"dim": 4}).export(tmp_path / "model.safetensors")
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    about = json.loads(raw[8 : 8 + size])["__metadata__"]
    assert json.loads(about["items"]) == tastes.item_ids.tolist()
