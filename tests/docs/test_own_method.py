"""The page "How do I write a method of my own?" says what is true: its code is run as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from fedrec.cli.main import app
from fedrec.data.interactions import Interactions

PAGE = Path(__file__).parents[2] / "docs" / "write-your-own-method.md"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
PYTHON = [code for language, code in BLOCKS if language == "python"]
COMMANDS = [line for language, code in BLOCKS if language == "" for line in code.splitlines()]


def file_name(code: str) -> str | None:
    """Blocks that are files begin with their name."""
    named = re.match(r"# (\w+\.py)\n", code)
    return named.group(1) if named else None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    for code in PYTHON:
        if name := file_name(code):
            (folder / name).write_text(code, encoding="utf-8")
    return folder


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a reader would be: in the folder with the files."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    return folder


def test_the_page_has_a_method_a_test_and_a_wrapper(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir() if path.suffix == ".py") == [
        "fedbpr.py", "proximal.py", "test_fedbpr.py",
    ]  # fmt: skip


@pytest.mark.parametrize("code", [code for code in PYTHON if file_name(code) is None])
def test_code_runs(inside: Path, code: str) -> None:
    exec(compile(code, str(PAGE), "exec"), {})


@pytest.mark.slow  # the contract by itself is what tests/contract runs
@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith("pytest ")])
def test_its_contract_holds(folder: Path, command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command.split(), "-p", "no:cacheprovider"],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"1\d passed", done.stdout)


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith("fedrec ")])
def test_commands_run(inside: Path, command: str, small: Interactions, tmp_path: Path) -> None:
    """For one round on a few users: the page's numbers are for people who look at the result."""
    users = np.repeat(small.user_ids, small.counts)
    data = pl.DataFrame({"user": users, "item": small.items, "timestamp": small.times})
    data.write_csv(tmp_path / "few.csv")
    quick = ["--rounds", "1", "--data", str(tmp_path / "few.csv"), "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, [*command.split()[1:], *quick])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "run" / "result.json").exists()
