"""Run folders: what they hold, and which are refused."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.protocol import STRICT
from fedrec.data.interactions import Interactions
from fedrec.data.sums import fingerprint
from fedrec.methods import make
from fedrec.runs.config import RunConfig
from fedrec.runs.presets import preset


@pytest.fixture
def path(tmp_path: Path, tastes: Interactions) -> Path:
    fedrec.run("pfedrec", tastes, rounds=2, settings={"dim": 4, "hidden": (3,)}, out=tmp_path / "run")
    return tmp_path / "run"


def edit(path: Path, old: str, new: str) -> None:
    config = path / "config.toml"
    text = config.read_text(encoding="utf-8")
    assert old in text
    config.write_text(text.replace(old, new), encoding="utf-8")


def test_a_run_folder_holds_what_it_takes_to_run_it_again(path: Path, tastes: Interactions) -> None:
    assert {p.name for p in path.iterdir()} - {".lock"} == {
        "config.toml", "history.jsonl", "result.json", "ranks.parquet", "checkpoint", "data.parquet",
    }  # fmt: skip
    config = RunConfig(**tomllib.loads((path / "config.toml").read_text(encoding="utf-8")))
    honest = preset("pfedrec", "honest").settings
    assert make(config.method, config.settings) == make("pfedrec", {**honest, "dim": 4, "hidden": (3,)})
    assert config.protocol == STRICT
    again = fedrec.run(config.method, tastes, config.protocol, config.rounds, settings=config.settings)
    result = json.loads((path / "result.json").read_text(encoding="utf-8"))
    assert again.test == result["test"]


def test_nothing_is_pickled(path: Path) -> None:
    for file in path.rglob("*.npz"):
        with np.load(file, allow_pickle=False) as arrays:
            assert all(arrays[name].dtype != object for name in arrays)


def test_an_existing_folder_is_not_written_into(path: Path, tastes: Interactions) -> None:
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
    with pytest.raises(FedrecError, match=r"exists already: choose another --out, or go on with --resume"):
        fedrec.run("fedmf", tastes, rounds=1, out=path)
    assert {p: p.read_bytes() for p in path.rglob("*") if p.is_file()} == before


def test_a_folder_that_cannot_be_made(tmp_path: Path, tastes: Interactions) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(FedrecError, match="cannot make the run folder"):
        fedrec.run("fedmf", tastes, rounds=1, out=tmp_path / "file" / "run")


def test_without_a_name_every_run_has_a_folder_of_its_own(
    tmp_path: Path, tastes: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [fedrec.run("fedmf", tastes, rounds=1, settings={"dim": 2}, out=True).path for _ in range(2)]
    assert paths[0] != paths[1]
    assert all(p is not None and p.parent == Path("runs") for p in paths)
    assert Path("runs/.gitignore").read_text(encoding="utf-8") == "*\n"


def test_a_method_of_ones_own_names_its_folder_without_the_path(
    tmp_path: Path, tastes: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "from fedrec.methods.fedmf import FedMF\n\n\nclass Mine(FedMF):\n    name = 'mine'\n"
    (tmp_path / "own.py").write_text(text, encoding="utf-8")
    made = fedrec.run("own.py:Mine+dualper", tastes, rounds=1, settings={"dim": 2}, out=True)
    assert made.path is not None
    assert made.path.name.startswith("own.py-Mine+dualper-two-tastes-strict-s0-")


def test_another_folder_is_no_run(tmp_path: Path) -> None:
    for act in (fedrec.open, fedrec.resume):
        with pytest.raises(FedrecError, match="is not a run folder"):
            act(tmp_path)  # type: ignore[operator]


def test_a_run_on_other_data_is_refused(path: Path, tastes: Interactions) -> None:
    others = [
        fedrec.data.worlds.two_tastes(seed=1),
        replace(tastes, user_ids=tastes.user_ids + 1),
        replace(tastes, item_ids=tastes.item_ids + 1),
    ]
    for data in others:
        assert fingerprint(data) != fingerprint(tastes)
        for act in (fedrec.open, fedrec.resume):
            with pytest.raises(FedrecError, match="was made on other data than this two-tastes"):
                act(path, data=data)  # type: ignore[operator]


def test_a_run_of_another_version_is_refused(path: Path, tastes: Interactions) -> None:
    edit(path, f'fedrec = "{fedrec.__version__}"', 'fedrec = "9.8.7"')
    for act in (fedrec.open, fedrec.resume):
        with pytest.raises(
            FedrecError, match=r"was made by fedrec 9\.8\.7 and this is .*: start the run anew"
        ):
            act(path, data=tastes)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"pfedrec"', '"pfedrek"', "config.toml was changed after the run was made"),
        ('"pfedrec.dim" = 4', '"pfedrec.dim" = 8', "config.toml was changed after the run was made"),
        ("seed = 0", "seed = 1", "config.toml was changed after the run was made"),
        ("seed = 0", "seed = -1", "seed=-1 is not valid"),
        ("seed = 0", "seed = ", "config.toml is damaged: it is not valid TOML"),
        ("seed = 0", "sed = 0", "has no setting 'sed': did you mean 'seed'"),
    ],
)
def test_a_config_that_was_broken_by_hand(
    path: Path, tastes: Interactions, old: str, new: str, sentence: str
) -> None:
    edit(path, old, new)
    with pytest.raises(FedrecError, match=sentence):
        fedrec.open(path, tastes)


def test_a_damaged_checkpoint_is_refused(path: Path, tastes: Interactions) -> None:
    file = next((path / "checkpoint").glob("round-*"))
    file.write_bytes(file.read_bytes()[:-1])
    for act in (fedrec.open, fedrec.resume):
        with pytest.raises(FedrecError, match="is damaged: start the run anew"):
            act(path, data=tastes)  # type: ignore[operator]
