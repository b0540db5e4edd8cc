"""The data of a run are found again: by their source and options, or from the copy in its folder."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.data.sums import fingerprint

ROWS = [(u, (u % 2) + 2 * ((i + u) % 9), 1 + (i * u) % 5, i) for u in range(24) for i in range(9)]
SMALL = {"rounds": 2, "settings": {"dim": 4}}


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    table(tmp_path).write_csv(tmp_path / "ratings.csv")
    names = "".join(f"{i},Film {i},Drama|War\n" for i in range(20))
    (tmp_path / "movies.csv").write_text("movieId,title,genres\n" + names, encoding="utf-8")
    return tmp_path / "ratings.csv"


def table(_: Path | None = None) -> pl.DataFrame:
    return pl.DataFrame(ROWS, schema=["userId", "movieId", "rating", "timestamp"], orient="row")


def test_a_run_on_filtered_data_opens_and_goes_on(
    ratings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = fedrec.load("ratings.csv", items="movies.csv", min_rating=2, core=4, minimum=5)
    made = fedrec.run("fedmf", data, **SMALL, out=tmp_path / "run")
    assert made.config.load == {"items": str(tmp_path / "movies.csv"), "min_rating": 2.0, "core": 4}
    assert made.config.source == f"{ratings}:5"
    assert not (tmp_path / "run" / "data.parquet").exists()
    monkeypatch.chdir("/")
    opened = fedrec.open(tmp_path / "run")
    assert fingerprint(opened.split.data) == fingerprint(data)
    assert opened.split.data.titles == data.titles
    assert opened.test == made.test
    assert fedrec.resume(tmp_path / "run", rounds=3).result["rounds"] == 3


def test_columns_that_were_named_are_named_again(ratings: Path, tmp_path: Path) -> None:
    data = fedrec.load(ratings, user="movieId", item="userId", time="")
    fedrec.run("popularity", data, out=tmp_path / "run")
    assert fedrec.open(tmp_path / "run").config.load == {"user": "movieId", "item": "userId", "time": ""}


def test_a_run_on_a_frame_keeps_a_copy(tmp_path: Path) -> None:
    made = fedrec.run("fedmf", table(), **SMALL, out=tmp_path / "run")
    assert made.config.source is None
    kept = tmp_path / "run" / "data.parquet"
    assert kept.exists()
    opened = fedrec.open(tmp_path / "run")
    assert opened.test == made.test
    assert opened.recommend(3).equals(made.recommend(3))
    assert fedrec.resume(tmp_path / "run", rounds=3).result["rounds"] == 3
    copy = fedrec.open(opened.save(tmp_path / "copy"))
    assert copy.test == made.test
    kept.unlink()
    for act in (fedrec.open, fedrec.resume):
        with pytest.raises(
            FedrecError,
            match=r"were given in Python and data\.parquet is not there: .*fedrec\.open\(.*data=…\)",
        ):
            act(tmp_path / "run")
    assert fedrec.open(tmp_path / "run", data=table()).split.data.name == "frame"


def test_a_run_saved_later_keeps_a_copy_too(tastes: Interactions, tmp_path: Path) -> None:
    made = fedrec.run("fedmf", tastes, **SMALL)
    opened = fedrec.open(made.save(tmp_path / "run"))
    assert opened.test == made.test
    assert opened.split.data.notes == tastes.notes


def test_a_file_that_is_gone_or_changed(ratings: Path, tmp_path: Path) -> None:
    data = fedrec.load(ratings)
    fedrec.run("popularity", ratings, out=tmp_path / "run")
    table().head(150).write_csv(ratings)
    with pytest.raises(FedrecError, match=r"was made on other data than this ratings: .*data=…\)"):
        fedrec.open(tmp_path / "run")
    ratings.unlink()
    with pytest.raises(
        FedrecError, match=r"cannot be loaded \(.*does not exist.*\), or give them with .*data=…"
    ):
        fedrec.open(tmp_path / "run")
    assert fedrec.open(tmp_path / "run", data=data).split.n_users == 24


def test_what_is_said_about_the_data_is_said_about_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "filmtrust").mkdir()
    rows = "".join(f"{u} {i} 1\n" for u, i, _, _ in ROWS)
    (tmp_path / "filmtrust" / "ratings.txt").write_text(rows, encoding="utf-8")
    monkeypatch.setenv("FEDREC_DATA", str(tmp_path))
    result = fedrec.run("popularity", "filmtrust").result
    assert result["notes"] == [
        "filmtrust has 216 rows, 24 users, 18 items, the published set 35,497 rows, 1,508 users, 2,071 items"
    ]


def test_a_folder_called_like_a_data_set_is_not_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "demo").mkdir()
    monkeypatch.chdir(tmp_path)
    assert fedrec.run("popularity", "demo:100").config.source == "demo:100"
