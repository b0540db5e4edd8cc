"""The pages on comparing, searching and reproducing say what is true: their commands and blocks are run."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from fedrec.cli.main import app
from fedrec.data.interactions import Interactions
from fedrec.study import targets

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {name: (DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("compare", "tune", "reproduce")}
BLOCKS = [
    (page, language, code)
    for page, text in PAGES.items()
    for language, code in re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.M | re.S)
]
COMMANDS = [
    line.removeprefix("$ ").partition("  #")[0].strip()
    for _, language, code in BLOCKS
    for line in code.splitlines()
    if language == "console" and line.startswith("$ fedrec ")
]
# Quick ones stand for long ones: the pages' numbers are for people who look at the result.
FEWER = {
    "compare": ["--seeds", "1", "--rounds", "1", "--jobs", "1"],
    "tune": ["--trials", "1", "--rounds", "1"],
    "reproduce": ["--jobs", "1"],
}


@pytest.fixture
def inside(small: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own, with a few users in two files."""
    monkeypatch.chdir(tmp_path)
    users = np.repeat(small.user_ids, small.counts)
    frame = pl.DataFrame({"user": users, "item": small.items, "timestamp": small.times})
    frame.write_csv("ml-100k.csv")
    frame.write_csv("my.csv")
    (tmp_path / "docs").mkdir()
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(inside: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "tune" in command:
        pytest.importorskip("optuna")
    aim = targets.TARGETS["pfedrec-table-2"]
    methods = [("fedmf", "", {"dim": 4}, {"rounds": 1})]
    quick = replace(aim, methods=methods, data=("my.csv",), quick_data=("my.csv",), seeds=1)
    if aim.name in command:
        monkeypatch.setitem(targets.TARGETS, aim.name, quick)
    words = [word.replace("ml-100k", "ml-100k.csv") for word in shlex.split(command)[1:]]
    fewer = FEWER[words[0]] if len(words) > 1 else []
    done = CliRunner().invoke(app, [*words, *fewer], catch_exceptions=False)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("code", [code for _, language, code in BLOCKS if language == "python"])
def test_code_runs(inside: Path, code: str) -> None:
    exec(compile(code, "docs", "exec"), {})


def test_the_grid_runs(inside: Path) -> None:
    (code,) = [code for _, language, code in BLOCKS if language == "toml"]
    (inside / "grid.toml").write_text(code.replace('["demo"]', '["my.csv"]'), encoding="utf-8")
    words = ["compare", "--grid", "grid.toml", "--out", "runs/mine", "--jobs", "1"]
    assert " ".join(words[:-2]) in PAGES["compare"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "pfedrec, small" in (inside / "runs" / "mine" / "comparison.md").read_text(encoding="utf-8")


def test_every_target_is_on_the_page() -> None:
    listed = set(re.findall(r"`([\w-]+)`", PAGES["reproduce"].split("|---|---|")[1].split("\n\n")[0]))
    assert listed == set(targets.TARGETS)
