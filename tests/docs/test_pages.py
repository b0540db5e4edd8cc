"""Every command and every Python block that is shown, on every page, is run: on small data, for a round.

A page's blocks are run in their order, in a folder of their own. The names of data sets stand for small files
in their publishers' formats. `write-your-own-method.md` has a test of its own.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import typer.main
from typer.testing import CliRunner

from fedrec.cli.main import app
from fedrec.core.federated import Federated
from fedrec.data.interactions import Interactions
from fedrec.data.worlds import scalable
from fedrec.methods import make
from fedrec.methods.central.base import CentralInRounds
from fedrec.study import targets

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
    if path.name != "write-your-own-method.md"
}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.M | re.S)
KINDS = {"console", "python", "toml", "js", ""}
COMMAND = re.compile(r"^(?:\$ )?((?:fedrec|make|pip|python|tensorboard) .*)$", flags=re.M)

# What stands for something of the reader's own, or takes long: the pages' numbers are for people.
STANDS_FOR = {
    "runs/…": "runs/some",
    "export RUN": "export runs/some",
    "page RUN": "page runs/some",
    "users=1_000_000, items=100_000, interactions=50_000_000": "users=100, items=200, interactions=2_000",
    "PFedRec(dim=32)": "PFedRec(dim=4)",
    "rounds=100": "rounds=2",
    "bench --all": "bench",
    "benchmarks/growth.py": "benchmarks/growth.py --largest 10000",
    "docs/device.py": str(ROOT / "docs" / "device.py"),
}
QUICKER = {
    "compare": ["--seeds", "1", "--rounds", "1", "--jobs", "1"],
    "tune": ["--trials", "1", "--rounds", "1"],
    "reproduce": ["--jobs", "1"],
    "report": ["--models", "0"],
    "bench": ["pfedrec", "--loop-seconds", "0"],
    "attack": ["--targets", "4", "--shadows", "4", "--threads", "1"],
    "curve": ["--seeds", "1", "--epsilon", "5", "--users", "all", "--jobs", "1"],
    "poison": ["--seeds", "1", "--rounds", "1", "--share", "0.05", "--threads", "1"],
}
# Runs that a page speaks of as made before.
BEFORE = {
    "README.md": ["run fedmf --data demo --out runs/some"],
    "docs/export.md": ["run fedals --data ml-100k --out runs/some"],
    "docs/page.md": ["run fedals --data ml-100k --out runs/some"],
    "docs/report.md": [
        *(f"run {m} --data ml-100k --seed {s} --out runs/{m}-{s}" for m in ("fedmf", "pfedrec") for s in (0, 1)),
        *(f"run {m} --data ml-100k --out runs/demo-1/strict/{m}" for m in ("ease", "fedmf")),
    ],
}  # fmt: skip
FILES = [  # of publishers: the folder, the file, what is between columns, and how many there are
    ("ml-100k", "ratings.dat", ",", 4), ("ml-1m", "ratings.dat", "::", 4),
    ("amazon-video", "ratings.dat", ",", 4), ("filmtrust", "ratings.txt", " ", 3),
]  # fmt: skip
# Commands that speak to each other for as long as they run: tests/deploy and tests/ray start them.
FEDERATIONS = ("deploy", "device", "node", "cluster")
# Those that take longest: in `make slow-test`. What they show is on the front page too, or is one more method.
LONG = {f"docs/{name}.md" for name in ("engines", "tune", "report", "compare", "privacy", "data")} | {
    page for page in PAGES if "/methods/" in page
}
NEEDS = {
    "docs/report.md": "altair",
    "docs/privacy.md": "altair",
    "docs/tune.md": "optuna",
    "README.md": "optuna",
}


def commands(code: str) -> list[str]:
    return [found.partition("  #")[0].strip() for found in COMMAND.findall(code)]


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A folder of one's own, small data under the names of large ones; gives what a page calls by name."""
    (here := tmp_path / "here").mkdir()
    (here / "docs").mkdir()
    (here / "docs" / "engines.md").write_text(
        PAGES["docs/engines.md"], encoding="utf-8"
    )  # a command writes into it
    (here / "benchmarks").symlink_to(ROOT / "benchmarks")
    monkeypatch.chdir(here)
    monkeypatch.setenv("FEDREC_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache")
    frame = small_frame(scalable(60, 120, 1500))
    for name, file, separator, columns in FILES:
        (tmp_path / "data" / name).mkdir(parents=True)
        rows = [separator.join(map(str, row[:columns])) + "\n" for row in frame.rows()]
        (tmp_path / "data" / name / file).write_text("".join(rows))
    (tmp_path / "data" / "ml-100k" / "u.item").write_text("42|some title|a|b|c|1\n")
    frame.write_csv(here / "ratings.csv")
    frame.write_csv(here / "my.csv")
    frame.select("item", title=pl.format("film {}", "item")).unique().write_csv(here / "movies.csv")
    log = frame.select(who="user", what="item", when="timestamp", user="user", item="item")
    log.write_csv(here / "log.csv")
    aim = targets.TARGETS["pfedrec-table-2"]
    few = replace(
        aim, methods=[("fedmf", "", {"dim": 4}, {"rounds": 1, "preset": None})], data=("ml-100k",), seeds=1
    )
    monkeypatch.setitem(targets.TARGETS, aim.name, few)
    return {"frame": frame}


def small_frame(data: Interactions) -> pl.DataFrame:
    """With the ids that the pages name: user 196, items 1, 42, 50 and 181."""
    users = np.repeat(np.arange(150, 150 + data.n_users), data.counts)
    items = np.where(data.items + 1 == data.n_items, 181, data.items + 1)
    return pl.DataFrame({"user": users, "item": items, "rating": 5, "timestamp": data.times})


def invoke(words: list[str]) -> None:
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, f"fedrec {shlex.join(words)}\n{done.output}"


def quicker(words: list[str]) -> list[str]:
    if len(words) == 1:
        return []
    if words[0] == "run" and not words[1].startswith("-"):
        method = make(words[1])
        rounds = "2" if "--epsilon" in words else "1"  # counts, then factors
        return ["--rounds", rounds] if isinstance(method, Federated | CentralInRounds) else []
    return QUICKER.get(words[0], [])


def play(command: str, page: str) -> None:
    program, *words = shlex.split(command)
    if program == "fedrec" and (words[0] in FEDERATIONS or any(word.startswith("ray") for word in words)):
        exists(command, page)
    elif program == "fedrec":
        invoke([*words, *quicker(words)])
    elif program == "make":
        assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(), flags=re.M), command
    elif program == "pip":
        known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        (asked,) = re.findall(r"\[(.*)\]", command)
        assert set(asked.split(",")) <= set(known), command
    elif program == "python":
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow) if page in LONG else page for page in PAGES]
)
def test_what_is_shown_runs(page: str, reader: dict[str, Any]) -> None:
    if page in NEEDS:
        pytest.importorskip(NEEDS[page])
    for before in BEFORE.get(page, []):
        invoke([*before.split(), *quicker(before.split())])
    for language, code in BLOCK.findall(PAGES[page]):
        assert language in KINDS, f"a block of {language} on {page} is tested by nothing"
        for text, small in STANDS_FOR.items():
            code = code.replace(text, small)
        if language == "python":
            exec(compile(code, page, "exec"), reader)
        elif language in ("console", ""):
            for command in commands(code):
                play(command, page)


def exists(command: str, page: str) -> None:
    """Down to its options."""
    found: Any = typer.main.get_command(app)
    words = command.split()[1:]
    while words and hasattr(found, "commands") and words[0] in found.commands:
        found = found.commands[words.pop(0)]
    assert found.name != "fedrec" or not words or words[0].startswith("-"), f"{command} on {page}"
    known = {option for parameter in found.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= known, f"{command} on {page}"


def named(text: str) -> list[str]:
    """Commands within sentences."""
    return re.findall(r"`(fedrec [^\d`][^`]*)`", BLOCK.sub("", text).replace("\n", " "))


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if named(text)])
def test_commands_within_sentences_exist(page: str) -> None:
    for command in named(PAGES[page]):
        exists(command, page)
