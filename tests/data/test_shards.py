"""Workers' parts of the data, side by side, are the data: whoever reads them, and however they are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fedrec
from fedrec.core.errors import DataError
from fedrec.core.protocol import protocol
from fedrec.data.cells import Cells, cell_borders
from fedrec.data.outline import Outline
from fedrec.data.shards import Loading, in_parts, load_shard
from fedrec.data.sums import BY_CELLS, matches
from fedrec.data.worlds import scalable


def table(path: Path, kind: str) -> str:
    """Rows in no order; ids that are no codes."""
    data = scalable(90, 50, 1200)
    times = np.random.default_rng(0).integers(0, 5000, len(data))
    rows = pl.DataFrame({"uid": data.user_ids.repeat(data.counts) * 7 - 30, "iid": data.items, "ts": times})
    rows = rows.sample(fraction=1.0, shuffle=True, seed=3)
    if kind == "words":
        rows = rows.with_columns(pl.format("u{}", "uid").alias("uid"), pl.format("i{}", "iid").alias("iid"))
    if kind == "numbers as text":
        rows = rows.cast({"uid": pl.String})
    if kind == "titled":
        rows = rows.with_columns(pl.format("film {}", "iid").alias("title"))
    file = path / "table.parquet"
    rows.write_parquet(file)
    return str(file)


@pytest.mark.parametrize(
    ("kind", "how", "parts"),
    [
        ("made", "strict", True),
        ("numbers", "strict", True),
        ("numbers", "paper", True),
        ("words", "strict", True),
        ("numbers as text", "strict", True),
        ("titled", "strict", False),
        ("numbers", "temporal", False),
    ],
)
def test_parts_side_by_side_are_the_whole(tmp_path: Path, kind: str, how: str, parts: bool) -> None:
    source = "scalable-90-50-1200" if kind == "made" else table(tmp_path, kind)
    cuts = {"valid_share": 0.3, "test_share": 0.3} if how == "temporal" else {}
    loading = Loading(source, {}, protocol(how).with_(**cuts), 3)
    assert (in_parts(loading) is not None) is parts
    data = fedrec.load(source)
    whole = fedrec.split(data, loading.protocol, 3)
    for of in (1, 2, 5):
        shards = [load_shard(loading, part, of) for part in range(of)]
        outline = Outline.joined([shard.piece for shard in shards], loading.protocol, 3, True)
        assert (outline.n_users, outline.dropped) == (whole.n_users, whole.dropped)
        assert outline.catalog[:4] == whole.catalog[:4]
        assert outline.data.titles == data.titles
        assert outline.fingerprint.startswith(BY_CELLS) is parts
        assert matches(data, outline.fingerprint)
        np.testing.assert_array_equal(outline.met_by, whole.met_by)
        np.testing.assert_array_equal(outline.data.user_ids, data.user_ids[whole.users])
        np.testing.assert_array_equal(outline.data.item_ids, data.item_ids)
        for name in ("train", "valid_items", "test_items", "met"):
            mine = np.concatenate([getattr(shard.split, name).items for shard in shards])
            np.testing.assert_array_equal(mine, getattr(whole, name).items)
        np.testing.assert_array_equal(np.concatenate([s.split.keys for s in shards]), whole.keys)
        np.testing.assert_array_equal(
            np.concatenate([s.split.candidates.test for s in shards]), whole.candidates.test
        )
        there = Cells.over(cell_borders(data.indptr), whole.users)
        np.testing.assert_array_equal(outline.cells, there.borders)
        assert sum(len(shard.split.data) for shard in shards) == 0, "rows were let go"


def test_one_row_that_differs_changes_the_sum(tmp_path: Path) -> None:
    source = table(tmp_path, "numbers")
    loading = Loading(source, {}, protocol("strict"), 0)
    before = Outline.joined([load_shard(loading, 0, 1).piece], loading.protocol, 0, True).fingerprint
    rows = pl.read_parquet(source)
    rows[5, "ts"] += 1
    rows.write_parquet(source)
    after = Outline.joined([load_shard(loading, part, 2).piece for part in (0, 1)], loading.protocol, 0, True)
    assert after.fingerprint != before
    assert not matches(fedrec.load(source), before)


def test_cells_have_about_as_many_rows_and_every_user_once() -> None:
    data = scalable(5000, 100, 60_000)
    borders = cell_borders(data.indptr)
    rows = np.diff(data.indptr[borders])
    assert len(rows) == 64
    assert rows.max() < 1.3 * rows.mean()
    assert (borders[0], borders[-1]) == (0, 5000)
    some = np.arange(0, 5000, 3)
    np.testing.assert_array_equal(np.concatenate(Cells(borders).cut(some)), some)


def test_more_workers_than_cells_are_refused() -> None:
    with pytest.raises(DataError, match="has 11 cells of users: ask for at most as many workers, not 12"):
        load_shard(Loading("scalable-90-50-1200", {}, protocol("strict"), 0), 0, 12)
