"""Exported recipes: docs/device.py, which is NumPy alone, gives the lists of ``run.recommend(likes=…)``."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from serve_runs import LIKES, QUICK, SMALL, exported

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.methods.fedmf import FedMF
from fedrec.serve.export import recipe_in

DEVICE = Path(__file__).parents[2] / "docs" / "device.py"


@pytest.fixture(scope="module")
def device() -> Any:
    spec = importlib.util.spec_from_file_location("device", DEVICE)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_the_reader_is_numpy_alone() -> None:
    found = {
        alias.name.partition(".")[0] if isinstance(node, ast.Import) else str(node.module)
        for node in ast.walk(ast.parse(DEVICE.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert found == {"json", "sys", "numpy"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in SMALL]
)
def test_a_device_ranks_as_the_run_does(name: str, tastes: Interactions, device: Any, tmp_path: Path) -> None:
    path, expected = exported(name, tastes, tmp_path, LIKES)
    items, scores = device.recommend(path, LIKES, k=12)
    np.testing.assert_allclose(scores, expected["score"].to_numpy(), rtol=1e-4, atol=1e-4)
    at = dict(zip(expected["item"].to_list(), expected["score"].to_list(), strict=True))
    assert items == expected["item"].to_list() or all(  # equal scores may stand in any order
        abs(at[item] - score) < 2e-4 for item, score in zip(items, scores, strict=True)
    )


@pytest.mark.parametrize("likes", [list(range(24)), list(range(40))])
def test_who_likes_most_of_the_catalogue(
    likes: list[int], tastes: Interactions, device: Any, tmp_path: Path
) -> None:
    """Where few items are left negatives are drawn from a list of them; where none are, there are no negatives."""
    run = fedrec.run("fedmf", tastes, rounds=1, settings=SMALL["fedmf"])
    arrays, about = device.read(run.export(tmp_path / "model.safetensors"))
    scores = device.rank(arrays, json.loads(about["recipe"]), likes)
    expected = run.join([tastes.item_ids[likes].tolist()]).all(np.array([0]))[0]
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["fedmf", "fedals", "ials", "ease", "itemknn", "popularity"])
def test_who_likes_nothing_gets_what_most_have_met(
    name: str, small: Interactions, device: Any, tmp_path: Path
) -> None:
    path, expected = exported(name, small, tmp_path, [])
    items, scores = device.recommend(path, [], k=12)
    assert scores.tolist() == expected["score"].to_list()
    assert items == expected["item"].to_list()
    assert scores[0] > scores[-1]


def test_nothing_private_leaves(tastes: Interactions, device: Any, tmp_path: Path) -> None:
    run = fedrec.run("fedrap", tastes, rounds=2, settings={"dim": 4})
    arrays, about = device.read(run.export(tmp_path / "model.safetensors"))
    assert set(arrays) == {"common", "start.user", "popularity"}, "the shared part, and what all start from"
    assert about["format"] == "fedrec 2"
    assert all(len(word) > 20 for word in json.loads(about["recipe"])["words"])


@pytest.mark.parametrize("name", ["mf", "counter"])
def test_yardsticks_of_known_users_are_not_exported(name: str, tastes: Interactions, tmp_path: Path) -> None:
    run = fedrec.run(name, tastes, **({"rounds": 1} if name == "mf" else {}))
    with pytest.raises(
        FedrecError, match=f"{name} cannot be exported for devices: it is a yardstick of known"
    ):
        run.export(tmp_path / "model.safetensors")


class Twice(FedMF):
    """Changes a verb, and so is promised nothing by FedMF's kernel."""

    name: ClassVar[str] = "twice"

    def logits(self, p: Any, i: Any) -> Any:
        return 2 * super().logits(p, i)


@pytest.mark.parametrize("method", [Twice(dim=4), "fedpergnn", "fedrap+plgc"])
def test_where_there_is_no_recipe_a_sentence_says_so(
    method: Any, tastes: Interactions, tmp_path: Path
) -> None:
    run = fedrec.run(method, tastes, rounds=1)
    recipe = recipe_in(run.export(tmp_path / "model.safetensors"))
    label = run.method.label
    said = f"no recipe: {label} does not say how a device joins and ranks with plain arrays alone"
    assert recipe == {"words": [said], "private": None, "score": None}
