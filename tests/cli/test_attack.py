"""attack from the command line: a table, files, and a code that a script can trust."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedrec.channel.budget import Budget
from fedrec.data.interactions import Interactions

fedrec = runpy.run_path(str(Path(__file__).with_name("here.py")))["fedrec"]

QUICK = ("--data", "few.csv", "--rounds", "2", "--threads", "1", "--targets", "10", "--set", "dim=4")


@pytest.fixture
def here(tmp_path: Path, small: Interactions) -> Path:
    users = np.repeat(small.user_ids, small.counts)
    frame = pl.DataFrame({"user": users, "item": small.items, "timestamp": small.times})
    frame.write_csv(tmp_path / "few.csv")
    return tmp_path


def test_a_table_and_its_files(here: Path) -> None:
    done = fedrec(here, "attack", "fedmf", *QUICK, "--attack", "sign", "--attack", "senders")
    assert done.returncode == 0, done.stderr
    assert "senders does not apply" in done.stdout
    assert "No epsilon is stated" in done.stdout
    (found,) = (here / "runs" / "attack").glob("*.json")
    assert json.loads(found.read_text())["attacks"][0]["value"] > 0.4
    assert {path.suffix for path in found.parent.iterdir()} == {".json", ".csv", ".md"}
    made = fedrec(
        here, "run", "fedmf", "--data", "few.csv", "--rounds", "2", "--set", "dim=4", "--out", "some"
    )
    assert made.returncode == 0, made.stderr
    again = fedrec(here, "attack", "some", "--threads", "1", "--targets", "5", "--attack", "sign", "--json")
    assert json.loads(again.stdout)["rounds"] == 2
    assert fedrec(here, "attack", "some", "--data", "demo").stderr.endswith("leave data out\n")


def test_a_broken_guarantee_ends_with_code_1(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "spent", lambda self, rounds: 0.1)
    channel = ("--channel", "clip=1", "--channel", "gaussian=0.05")
    done = fedrec(here, "attack", "fedals", *QUICK, *channel, "--attack", "presence")
    assert done.returncode == 1
    assert "EXCEEDED" in done.stderr
