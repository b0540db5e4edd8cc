"""Exported recipes: docs/device.py, which is NumPy alone, gives the lists of ``run.recommend(likes=…)``."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.methods.fedmf import FedMF
from fedrec.serve.export import recipe_in

DEVICE = Path(__file__).parents[2] / "docs" / "device.py"
LIKES = [16, 4, 23, 8, 4]  # the newest last, one named twice
SMALL: dict[str, dict[str, Any]] = {
    "fedmf": {"dim": 4},
    "pfedrec": {"dim": 4, "batch_size": 8},
    "pfedrec-layers": {"dim": 4, "hidden": (5, 3)},
    "fedmf+dualper": {"dim": 4},
    "fedmf+gel": {"dim": 4, "radius_private": 0.3},
    "fedmf+plgc": {"dim": 4},
    "fedmf+gel+plgc": {"dim": 4},
    "fedrecon": {"dim": 4, "batch_size": 8},
    "fedrecon+dualper": {"dim": 4},
    "fedrecon+gel": {"dim": 4, "radius_private": 0.3},
    "fedrecon+plgc": {"dim": 4},
    "fedrap": {"dim": 4},
    "fedrap-l2": {"dim": 4, "regularizer": "l2", "weight_decay": 0.01, "batch_size": 8, "lam": 0.1},
    "fedrap-common": {"dim": 4, "parts": "common", "tolerance": 0.01},
    "fedrap+gel": {"dim": 4, "radius_private": 0.1},
    "fedrap+dualper": {"dim": 4},
    "fedncf": {"dim": 4, "hidden": (6, 3)},
    "fedncf+gel+plgc": {"dim": 4, "hidden": (6, 3)},
    "fedneumf": {"dim": 3, "dim_mlp": 4, "hidden": (6, 3)},
    "fedncf-adam": {"dim": 4, "hidden": (6, 3), "batch_size": 8},
    "fedrecgel": {"dim": 3, "dim_mlp": 4, "hidden": (6, 3), "radius_private": 0.2},
    "fcf": {"dim": 4},
    "fedals": {"dim": 4, "recency": 2.0},
    "fedals-alike": {"dim": 4, "recency": "off"},
    "fednext": {"dim": 4, "weight": 0.7},
    "fedmf+recent": {"dim": 4, "half_life": 1.0},
    "fedrecon+recent": {"dim": 4, "half_life": 1.0},
    "fedrap+recent": {"dim": 4, "half_life": 1.0},
    "fedncf-adam+recent": {"dim": 4, "hidden": (6, 3), "batch_size": 8, "half_life": 1.0},
    "popularity": {},
    "ease": {},
    "itemknn": {},
    "ials": {"dim": 4},
}


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


def exported(name: str, data: Interactions, path: Path, likes: list[int]) -> tuple[Path, Any]:
    spec = name if "-adam" in name else name.partition("-")[0]
    rounds = {} if name in ("popularity", "ease", "itemknn", "ials") else {"rounds": 2}
    run = fedrec.run(spec, data, settings=SMALL[name], **rounds)
    return run.export(path / "model.safetensors"), run.recommend(likes=likes, k=12)


# One of each kind of recipe; `make slow-test` has the others.
QUICK = (
    "fedmf",
    "pfedrec",
    "fedals",
    "fednext",
    "fedrap",
    "fedncf",
    "fedrecon",
    "ease",
    "popularity",
    "fedmf+plgc",
)


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
