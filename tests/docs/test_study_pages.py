"""The pages on comparing and reproducing: the grid that is shown runs, and every target is listed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from fedrec.cli.main import app
from fedrec.data.interactions import Interactions
from fedrec.study import targets

DOCS = Path(__file__).parents[2] / "docs"


def test_the_grid_runs(small: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    users = np.repeat(small.user_ids, small.counts)
    pl.DataFrame({"user": users, "item": small.items, "timestamp": small.times}).write_csv("my.csv")
    page = (DOCS / "compare.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```toml\n(.*?)^```$", page, flags=re.M | re.S)
    Path("grid.toml").write_text(code.replace('["demo"]', '["my.csv"]'), encoding="utf-8")
    words = ["compare", "--grid", "grid.toml", "--out", "runs/mine", "--jobs", "1"]
    assert " ".join(words[:-2]) in page
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "pfedrec, small" in Path("runs/mine/comparison.md").read_text(encoding="utf-8")


def test_every_target_is_on_the_page() -> None:
    page = (DOCS / "reproduce.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`([\w-]+)`", page.split("|---|---|")[1].split("\n\n")[0]))
    assert listed == set(targets.TARGETS)
