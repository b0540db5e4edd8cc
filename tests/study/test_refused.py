"""What cannot be compared or searched for is refused in words, and nothing is written where it does not belong."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.protocol import STRICT
from fedrec.data.interactions import Interactions
from fedrec.study.case import Case
from fedrec.study.compare import Comparison, compare_cases
from fedrec.study.grid import numbers, read_grid


@pytest.fixture
def run(tastes: Interactions, tmp_path: Path) -> Path:
    fedrec.run("popularity", tastes, out=tmp_path / "run")
    return tmp_path / "run"


def test_a_run_is_no_place_for_a_comparison_or_a_search(tastes: Interactions, run: Path) -> None:
    before = sorted(path.name for path in run.iterdir())
    sentence = r"run is the folder of a run: choose another --out"
    with pytest.raises(FedrecError, match=sentence):
        fedrec.compare(["popularity"], tastes, seeds=1, out=run)
    pytest.importorskip("optuna")
    with pytest.raises(FedrecError, match=sentence):
        fedrec.tune("fedmf", tastes, trials=1, rounds=1, out=run)
    assert sorted(path.name for path in run.iterdir()) == before


def test_no_room_for_the_tables(
    tastes: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Comparison, "write", full)
    with pytest.raises(FedrecError, match=r"cannot write in .*: No space left on device; make room"):
        fedrec.compare(["popularity"], tastes, seeds=1, out=tmp_path / "c", jobs=1)
    monkeypatch.undo()
    assert fedrec.compare(["popularity"], tastes, seeds=1, out=tmp_path / "c", jobs=1).played == 0


def test_no_room_for_a_search(tastes: Interactions, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    resource = pytest.importorskip("resource")
    options: dict[str, Any] = {"rounds": 1, "settings": {"dim": 4}, "out": tmp_path / "s", "threads": 1}
    fedrec.tune("fedmf", tastes, trials=1, **options)
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, usual[1]))
    try:
        with pytest.raises(FedrecError, match=r"cannot write in .*: disk I/O error; make room"):
            fedrec.tune("fedmf", tastes, trials=2, **options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert fedrec.tune("fedmf", tastes, trials=2, **options).count("COMPLETE") == 2


@pytest.mark.parametrize("option", ["rounds", "eval_every", "patience"])
def test_no_rounds_are_refused_where_a_method_has_none_too(
    tastes: Interactions, tmp_path: Path, option: str
) -> None:
    with pytest.raises(FedrecError, match=f"{option}=0 is too small: give at least 1"):
        fedrec.compare(["popularity"], tastes, seeds=1, out=tmp_path / "c", **{option: 0})  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"seeds": "x"}, "seeds=x is no whole number: give one, such as seeds=3"),
        ({"seeds": 1.5}, "seeds=1.5 is no whole number"),
        ({"seeds": [1, "x"]}, "seeds=x is no whole number"),
        ({"seeds": 0}, "seeds=0 are no seeds: give how many"),
        ({"longest": "x"}, "--longest x is no time: give seconds, such as 30$"),
        ({"longest": -1}, "--longest -1 is no time"),
        ({"settings": ["dim"]}, r"settings=\['dim'\] are no names with values: give a dict"),
        ({"protocol": None}, "protocol=None is no protocol: give 'strict' or"),
        ({"protocol": ["strict", 3]}, "protocol=3 is no protocol"),
        ({"methods": [fedrec.methods.FedMF]}, "FedMF.* is no name of a method: give text, such as 'fedmf'"),
        ({"data": "x" * 300}, "unknown data set 'xxx"),
        ({"data": f"{'x' * 300}.csv"}, "xxx.csv does not exist: give the path"),
        ({"out": ""}, "out= is no path|out='' is no path"),
    ],
)
def test_what_is_no_comparison(
    tastes: Interactions, tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    asked: dict[str, Any] = {"methods": ["popularity"], "data": tastes, "seeds": 1, "out": tmp_path / "c"}
    with pytest.raises(FedrecError, match=sentence):
        fedrec.compare(**{**asked, **options})
    assert not list(tmp_path.iterdir())


def test_seeds_and_protocols_as_people_have_them(tastes: Interactions, tmp_path: Path) -> None:
    mine = STRICT.with_(candidates=9)
    found = fedrec.compare(["popularity"], tastes, mine, np.int64(1), out=tmp_path, jobs=1)
    assert [line.results[0]["protocol"] for line in found.lines] == ["strict+candidates=9"]
    assert [numbers(seeds) for seeds in (2, "2", 2.0, [2], np.array([2]))] == [(0, 1)] * 3 + [(2,)] * 2


def test_a_search_wants_a_name(tastes: Interactions) -> None:
    pytest.importorskip("optuna")
    with pytest.raises(FedrecError, match=r"FedMF.* is no name of a method"):
        fedrec.tune(fedrec.methods.FedMF, tastes, trials=1)  # type: ignore[arg-type]


def test_no_room_for_a_run_nor_for_its_failure(
    tastes: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("fedrec.core.files.os.fsync", full)
    found = compare_cases([Case("popularity", tastes)], tmp_path, 1, jobs=1, tables=False)
    assert "No space left on device; make room" in found.lines[0].failed


def test_a_grid_speaks_of_lists(tmp_path: Path) -> None:
    (tmp_path / "g.toml").write_text("methods = 3\n", encoding="utf-8")
    with pytest.raises(
        FedrecError, match=r"g.toml: the grid: methods=3 is not valid: input should be a list"
    ):
        read_grid(tmp_path / "g.toml")


@pytest.mark.parametrize("name", ["fedmf+", "+recent", "", "fedmf++recent"])
def test_a_name_that_is_missing(tastes: Interactions, name: str) -> None:
    with pytest.raises(FedrecError, match=r"a name is missing beside a '\+': write for example fedmf"):
        fedrec.run(name, tastes)
