"""Frames given in Python: polars, and pandas without needing it installed."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import polars as pl
import pytest

import fedrec
from fedrec.core.errors import DataError
from fedrec.data.load import load
from fedrec.data.sources.frame import from_pandas

ROWS = {"user": [2, 1, 1], "item": ["b", "b", "a"], "time": [1, 9, 3]}


class Column:
    """As much of a column of pandas as fedrec asks for."""

    def __init__(self, values: list[Any]) -> None:
        self.values = np.array(values)
        if any(value is None for value in values):
            self.values = np.array(values, dtype=object)
        self.dtype = self.values.dtype

    def to_numpy(self) -> np.ndarray:
        assert self.dtype != object
        return self.values

    def isna(self) -> list[bool]:
        return [value is None for value in self.tolist()]

    def tolist(self) -> list[Any]:
        return self.values.tolist()


class DataFrame:
    """As much of a frame of pandas as fedrec asks for."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.columns = list(columns)
        self.iloc = self
        self.asked: list[str] = []
        self._values = columns

    def __getitem__(self, at: tuple[slice, int]) -> Column:
        self.asked.append(self.columns[at[1]])
        return Column(self._values[self.columns[at[1]]])


DataFrame.__module__ = "pandas.core.frame"


@pytest.mark.parametrize("kind", [pl.DataFrame, pl.LazyFrame, DataFrame])
def test_a_frame_is_read_like_a_file(home, kind):
    data = load(kind({**ROWS, "junk": [[1], [2], [3]]}))
    assert data.name == "frame"
    assert data.user_ids.tolist() == [1, 2]
    assert data.item_ids.tolist() == ["a", "b"]
    assert data.items.tolist() == [0, 1, 1]
    assert data.times.tolist() == [3, 9, 1]
    assert data.origin is None


@pytest.mark.parametrize("kind", [pl.DataFrame, DataFrame])
def test_columns_of_a_frame_are_given(home, kind):
    frame = kind({"who": [1, 1], "what": [5, 4], "when": [datetime.datetime(2024, 1, d) for d in (2, 1)]})
    with pytest.raises(DataError, match="the DataFrame has no column that looks like the user"):
        load(frame)
    assert load(frame, user="who", item="what").item_ids.tolist() == [4, 5]
    if kind is pl.DataFrame:
        assert load(frame, user="who", item="what", time="when").items.tolist() == [0, 1]


def test_only_wanted_columns_of_pandas_are_converted(home):
    frame = DataFrame({**ROWS, "junk": [object(), object(), object()]})
    load(frame, time="")
    assert set(frame.asked) == {"user", "item"}


def test_ids_that_pandas_made_fractions_are_numbers(home):
    data = load(DataFrame({"user": [1.0, 2.0], "item": [1.5, 2.0]}))
    assert data.user_ids.tolist() == [1, 2]
    assert data.item_ids.tolist() == ["1.5", "2.0"]


@pytest.mark.parametrize("kind", [pl.DataFrame, DataFrame])
def test_gaps_in_a_frame(home, kind):
    with pytest.raises(DataError, match="row 2 of the DataFrame has no item"):
        load(kind({"user": [1, 1], "item": ["a", None]}))
    with pytest.raises(DataError, match="the DataFrame is empty"):
        load(kind({"user": [], "item": []}))


@pytest.mark.parametrize("wrong", [[1, 2], None, 7, {"user": [1]}, pl.Series([1])])
def test_what_is_neither_name_nor_file_nor_frame(home, wrong):
    with pytest.raises(DataError, match="give a name, the path of a file, or a polars or pandas DataFrame"):
        load(wrong)


def test_items_of_a_frame_may_be_a_frame(home):
    names = DataFrame({"id": ["a", "b"], "name": ["An A", "A B"]})
    assert load(pl.DataFrame(ROWS), items=names).titles == ("An A", "A B")


def test_run_takes_paths_and_frames(home):
    rows = [(u, i, i) for u in range(8) for i in range(u % 3, u % 3 + 5)]
    frame = pl.DataFrame(rows, schema=["user", "item", "time"], orient="row")
    frame.write_csv(home.data / "log.csv")
    by_path = fedrec.run("popularity", home.data / "log.csv")
    assert by_path.config.source == str((home.data / "log.csv").resolve())
    assert fedrec.run("popularity", frame).test == by_path.test


def test_real_pandas(home):
    pd = pytest.importorskip("pandas")
    times = pd.to_datetime(["2024-01-02", "2024-01-01", "2024-01-03"]).tz_localize("Europe/Berlin")
    frame = pd.DataFrame({"user": pd.array([1, 1, 2], dtype="Int64"), "item": pd.Categorical(list("aba"))})
    frame["time"] = times
    assert load(frame).items.tolist() == [1, 0, 0]
    assert from_pandas(frame["item"], "item").to_list() == ["a", "b", "a"]
