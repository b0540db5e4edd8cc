"""The modules of the page, outside of a browser: they follow every recipe to the scores of ``run.recommend(likes=…)``,
and the parts of a score add up to it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serve_runs import LIKES, QUICK, SMALL, exported

import fedrec.serve
from fedrec.data.interactions import Interactions

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="there is no node on this machine")
MODULES = Path(fedrec.serve.__file__).parent / "browser"
SCRIPT = """
import fs from "node:fs";
import { read } from "./model.js";
import { best, device } from "./rank.js";
const [file, wanted] = process.argv.slice(2), raw = fs.readFileSync(file);
const model = read(raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.byteLength));
const likes = [...new Set(JSON.parse(wanted).map((id) => model.items.indexOf(id)).reverse())].reverse();
const mine = device(model, likes), found = await best(mine, 12, likes);
const said = found.map(({ item, score }) => ({ item: model.items[item], score, ...mine.explain(item) }));
console.log(JSON.stringify(said));
"""


def said(path: Path, likes: list[int], folder: Path) -> list[dict[str, Any]]:
    shutil.copytree(MODULES, folder, ignore=shutil.ignore_patterns("page.*", "__pycache__"))
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "main.js").write_text(SCRIPT)
    done = subprocess.run(
        [str(NODE), "main.js", str(path), json.dumps(likes)], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in SMALL]
)
def test_scores_are_the_runs_and_parts_add_up(name: str, tastes: Interactions, tmp_path: Path) -> None:
    path, expected = exported(name, tastes, tmp_path, LIKES)
    found = said(path, LIKES, tmp_path / "js")
    scores = np.array([row["score"] for row in found])
    np.testing.assert_allclose(scores, expected["score"].to_numpy(), rtol=1e-4, atol=1e-4)
    at = dict(zip(expected["item"].to_list(), expected["score"].to_list(), strict=True))
    for row, score in zip(found, scores, strict=True):  # equal scores may stand in any order
        assert abs(at.get(row["item"], score) - score) < 2e-4
        parts = sum(row["shares"]) + sum(value for _, value in row["others"])
        assert parts == pytest.approx(score, abs=1e-9)
        assert len(row["shares"]) in (0, len(set(LIKES)))


def test_a_like_has_a_part_of_its_own(tastes: Interactions, tmp_path: Path) -> None:
    """FedALS without recency: what changes with a like's place is nothing; with it, the newest counts most."""
    path, _ = exported("fedals", tastes, tmp_path, LIKES)
    first = {row["item"]: row for row in said(path, [16, 4, 23], tmp_path / "a")}
    last = {row["item"]: row for row in said(path, [23, 4, 16], tmp_path / "b")}
    common = first.keys() & last.keys()
    assert common
    for item in common:  # the share of 16 as the oldest, and as the newest, against the same equations
        assert abs(first[item]["shares"][0]) < abs(last[item]["shares"][2])


@pytest.mark.parametrize("name", ["fedmf", "fedals", "ease"])
def test_who_likes_nothing_gets_what_most_have_met(name: str, tastes: Interactions, tmp_path: Path) -> None:
    path, expected = exported(name, tastes, tmp_path, [])
    found = said(path, [], tmp_path / "js")
    assert [row["item"] for row in found] == expected["item"].to_list()
    assert [row["score"] for row in found] == expected["score"].to_list()
