"""Runs whose clients are with workers: the figures of one process, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.worlds import scalable, two_tastes

SMALL: dict[str, Any] = {"rounds": 3, "settings": {"dim": 4}}
FIGURES = ("validation", "test", "beyond", "controls", "bytes_down_per_client", "bytes_up_per_client")


def same(a: fedrec.Run, b: fedrec.Run) -> None:
    for name in FIGURES:
        assert a.result[name] == b.result[name], name
    assert a.ranks.equals(b.ranks)
    seconds = ["fit_seconds", "evaluate_seconds"]
    assert a.history.drop(seconds).equals(b.history.drop(seconds))


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Rows of a file in no order, with users who have too few."""
    data = scalable(60, 40, 900)
    users = data.user_ids.repeat(data.counts)
    rows = pl.DataFrame({"user": users, "item": data.items * 3, "time": data.times})
    few = pl.DataFrame({"user": [500, 501], "item": [3, 6], "time": [1, 2]}, schema=rows.schema)
    path = tmp_path / "table.parquet"
    pl.concat([rows, few]).sample(fraction=1.0, shuffle=True, seed=0).write_parquet(path)
    return str(path)


@pytest.mark.parametrize(("protocol", "all_data"), [("strict", False), ("paper", False), ("strict", True)])
def test_workers_give_what_one_process_gives(
    table: str, tmp_path: Path, protocol: str, all_data: bool
) -> None:
    options: dict[str, Any] = {**SMALL, "protocol": protocol, "all_data": all_data}
    one = fedrec.run("pfedrec", table, channel=["fixed"], out=tmp_path / "one", **options)
    three = fedrec.run("pfedrec", table, workers="threads,count=3", out=tmp_path / "three", **options)
    same(one, three)
    assert three.config.channel == ("fixed",)
    assert three.result["workers"] == {"kind": "threads", "count": 3, "lost": 0}
    opened = fedrec.open(tmp_path / "three")
    again = fedrec.open(tmp_path / "three", workers="threads,count=2")
    for run in (three, opened, again):
        assert run.recommend(7).equals(one.recommend(7))
        assert run.recommend([3, 11], 4)[1].equals(one.recommend([3, 11], 4)[1])
        assert run.recommend(likes=[3, 6]).equals(one.recommend(likes=[3, 6]))
    if not all_data:
        for view in ("own", "global", "random"):
            assert again.evaluate(view) == one.evaluate(view) == opened.evaluate(view)
    again.recommend_all(tmp_path / "a.parquet", 3)
    one.recommend_all(tmp_path / "b.parquet", 3)
    assert pl.read_parquet(tmp_path / "a.parquet").equals(pl.read_parquet(tmp_path / "b.parquet"))


def test_data_that_are_here_are_cut_for_workers(tmp_path: Path) -> None:
    run = fedrec.run("fedmf", "demo", rounds=1, workers="threads,count=2", out=tmp_path / "run")
    assert run.result["users_dropped"] == 0
    assert fedrec.open(tmp_path / "run").result["test"] == run.result["test"]


def test_other_workers_go_on_with_a_run(table: str, tmp_path: Path) -> None:
    whole = fedrec.run("fedrap", table, **{**SMALL, "rounds": 5}, channel=["fixed"])
    fedrec.run("fedrap", table, **SMALL, workers="threads,count=2", out=tmp_path / "run", checkpoint_every=0)
    same(whole, fedrec.resume(tmp_path / "run", 5, workers="threads,count=5"))
    same(whole, fedrec.open(tmp_path / "run"))


@pytest.mark.parametrize(
    ("method", "options", "says"),
    [
        ("ease", {}, "--workers does not apply to ease: it is not federated"),
        ("fedmf", {"local": True}, "--local adds nothing up"),
        ("fedmf", {"start": "somewhere"}, "--start takes devices over one by one"),
        ("metamf", {}, "looks at single uploads"),
        ("fedmf", {"data": two_tastes(40, 40)}, "workers load data themselves"),
        ("fedmf", {"workers": "dask"}, "workers 'dask' are unknown: write ray"),
        ("fedmf", {"workers": "threads,count=0"}, "'count=0' is no option of threads"),
        ("fedmf", {"workers": "threads,count=65"}, "at most 64 cells"),
        ("fedmf", {"workers": "threads,count=20"}, "has 7 cells of users: ask for at most as many workers"),
    ],
)
def test_what_cannot_be_shared_out_is_refused(method: str, options: dict[str, Any], says: str) -> None:
    asked: dict[str, Any] = {"data": "scalable-60-40-900", "workers": "threads", "rounds": 1, **options}
    with pytest.raises(FedrecError, match=says):
        fedrec.run(method, **asked)


def test_without_ray_it_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(FedrecError, match=r"workers on Ray need Ray: pip install 'fedrec\[ray\]'"):
        fedrec.run("fedmf", "scalable-60-40-900", rounds=1, workers="ray")


def test_other_data_than_the_run_was_made_on_are_refused(table: str, tmp_path: Path) -> None:
    fedrec.run("fedmf", table, **SMALL, workers="threads,count=2", out=tmp_path / "run")
    rows = pl.read_parquet(table)
    rows.with_columns(pl.col("time") + 1).write_parquet(table)
    with pytest.raises(FedrecError, match="was made on other data"):
        fedrec.resume(tmp_path / "run", 5, workers="threads,count=2")
    with pytest.raises(FedrecError, match="was made on other data"):
        fedrec.open(tmp_path / "run")
