"""compare, tune and reproduce from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from fedrec.cli.main import app
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions


@pytest.fixture
def few(small: Interactions, tmp_path: Path) -> str:
    users = np.repeat(small.user_ids, small.counts)
    frame = pl.DataFrame({"user": users, "item": small.items, "timestamp": small.times})
    frame.write_csv(tmp_path / "few.csv")
    return str(tmp_path / "few.csv")


def fedrec(*words: str) -> str:
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_compare(few: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    words = ["compare", "fedmf", "popularity", "--data", few, "--seeds", "2", "--rounds", "2", "--jobs", "1"]
    words += ["--set", "fedmf.dim=4", "--out", out]
    text = fedrec(*words)
    assert "6 runs made" not in text
    assert "4 runs made" in text.replace("\n", " ")
    assert "negative" in text
    assert max(map(len, text.splitlines()[:-1])) <= 80
    again = json.loads(fedrec(*words, "--json"))
    assert again["runs_made"] == 0
    assert [line["method"] for line in again["lines"]][-1] == "negative counter"
    assert {path.name for path in Path(out).glob("comparison.*")} == {
        "comparison.csv", "comparison.md", "comparison.tex", "comparison.json",
    }  # fmt: skip


def test_a_grid_says_it_all(few: str, tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(f'methods = ["popularity"]\ndata = [{json.dumps(few)}]\nseeds = 1\n', encoding="utf-8")
    found = json.loads(
        fedrec("compare", "--grid", str(grid), "--jobs", "1", "--out", str(tmp_path / "o"), "--json")
    )
    assert found["runs_made"] == 1
    with pytest.raises(FedrecError, match="says it all: leave seeds out"):
        fedrec("compare", "--grid", str(grid), "--seeds", "3")
    with pytest.raises(FedrecError, match="says it all: leave methods out"):
        fedrec("compare", "fedmf", "--grid", str(grid))


def test_bad_words(tmp_path: Path) -> None:
    with pytest.raises(FedrecError, match="say which methods to compare"):
        fedrec("compare")
    with pytest.raises(
        FedrecError, match=r"--set dim is not key=value: write for example --set fedmf\.dim=64"
    ):
        fedrec("compare", "fedmf", "--set", "dim")
    with pytest.raises(FedrecError, match="there is no target"):
        fedrec("reproduce", "pfedrec-table-9")


def test_tune(few: str, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    words = ["tune", "fedmf", "--data", few, "--trials", "5", "--rounds", "2", "--set", "dim=4"]
    words += ["--threads", "1", "--out", str(tmp_path / "study")]
    text = fedrec(*words)
    assert "best of" in text
    assert "fedmf.eta" in text
    command = text.strip().splitlines()[-1]
    assert command.startswith("fedrec run fedmf --data")
    found = json.loads(fedrec(*words, "--json"))
    assert found["command"] == command
    assert found["trials"]["complete"] + found["trials"]["pruned"] == 5
    run = json.loads(fedrec(*command.split()[1:], "--out", str(tmp_path / "run"), "--json"))
    assert run["validation"]["ndcg@10"] == pytest.approx(found["value"])


def test_several_processes_of_one_search(few: str, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    words = ["tune", "fedmf", "--data", few, "--trials", "5", "--rounds", "2", "--jobs", "2", "--json"]
    found = json.loads(fedrec(*words, "--threads", "2", "--out", str(tmp_path / "study")))
    assert sum(found["trials"].values()) == 5


def test_reproduce_lists_what_there_is() -> None:
    text = fedrec("reproduce")
    assert "pfedrec-table-2" in text
    assert "min" in text
    found = json.loads(fedrec("reproduce", "--json"))
    assert set(found["targets"]) == set(found["minutes"])
