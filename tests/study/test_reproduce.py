"""Targets: what was published stands beside what is measured, differences beyond noise are marked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.testing
import pytest

from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.methods import make
from fedrec.study import looks, reproduce, targets
from fedrec.study.case import Case, Line
from fedrec.study.published import Published, tables

QUICK = {"rounds": 2, "preset": None}


@pytest.fixture
def few(small: Interactions, tmp_path: Path) -> str:
    users = np.repeat(small.user_ids, small.counts)
    frame = pl.DataFrame({"user": users, "item": small.items, "timestamp": small.times})
    frame.write_csv(tmp_path / "few.csv")
    return str(tmp_path / "few.csv")


def aimed(name: str, few: str, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> targets.Target:
    """A target on few users and for two rounds."""
    old = targets.TARGETS[name]
    methods = [
        (method, label, {**settings, "dim": 4}, {**options, **QUICK})
        for method, label, settings, options in changes.pop("methods", old.methods)
    ]
    new = replace(old, data=(few,), quick_data=(few,), methods=methods, **changes)
    monkeypatch.setitem(targets.TARGETS, name, new)
    return new


def test_targets_are_methods_that_exist_and_say_how_long_they_take() -> None:
    assert len(targets.TARGETS) == 12
    for name, aim in targets.TARGETS.items():
        assert aim.name == name
        for case in (*aim.cases(True), *aim.cases(False)):
            make(case.method, case.settings)
            assert case.data_name in targets.SIZES
        assert 0 < aim.minutes(True) <= aim.minutes(False)
    assert targets.TARGETS["pfedrec-table-2"].minutes(True) < 15
    assert {case.data_name for case in targets.TARGETS["pfedrec-table-2"].cases(True)} == {"ml-100k"}
    assert len(targets.TARGETS["pfedrec-table-2"].cases(False)) == 8 * 4 * 2


def test_an_unknown_target_offers_the_nearest() -> None:
    with pytest.raises(FedrecError, match="no target 'pfedrec-table2': did you mean 'pfedrec-table-2'"):
        reproduce.reproduce("pfedrec-table2")


def test_every_published_figure_of_the_tables_is_beside_a_case() -> None:
    for name in ("pfedrec-table-2", "pfedrec-table-3"):
        aim = targets.TARGETS[name]
        known = {(c.method, c.data_name) for c in aim.cases(False) if aim.published(c)}
        rows = tables()[name]["rows"]
        assert {(m, d) for m in rows for d in rows[m] if d != "setting"} <= known
    noisy = targets.TARGETS["pfedrec-table-4"]
    figures = [noisy.published(c).hr for c in noisy.cases(True) if c.protocol == "paper"]  # type: ignore[union-attr]
    assert figures == tables()["pfedrec-table-4"]["rows"]["pfedrec"]["ml-100k"]["hr@10"]


def line(*hits: float) -> Line:
    results = [{"seed": s, "test": {"hr@10": hit, "ndcg@10": hit / 2}} for s, hit in enumerate(hits)]
    return Line(Case("fedmf"), results, [])


def test_differences_beyond_noise_are_marked() -> None:
    known = Published(60.0, 30.0, 1.0, 0.2, "a paper")
    assert reproduce._differs(known, line(0.62)) == "+2.00 / +1.00"  # one seed: the paper's spread for ours
    assert reproduce._differs(known, line(0.64)) == "**+4.00** / **+2.00**"
    assert reproduce._differs(known, line(0.57, 0.69)) == "+3.00 / +1.50"  # our own spread is wide
    assert reproduce._differs(None, line(0.6)) == "-"


def test_a_table(few: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aim = aimed("pfedrec-table-2", few, monkeypatch, methods=[("fedmf", "", {}, {}), ("mf", "", {}, {})])
    monkeypatch.setattr(
        type(aim),
        "published",
        lambda _, case: Published(1.0, 2.0, 0.1, 0.1, "") if case.protocol == "paper" else None,
    )
    page = tmp_path / "page.md"
    found = reproduce.reproduce("pfedrec-table-2", True, out=tmp_path / "out", page=page, jobs=1)
    heading, first, second = found.rows
    assert heading[2:6] == ["published", "measured, `paper`", "differs by", "`strict`"]
    assert first[1:3] == ["`fedmf`", "1.00 ± 0.10 / 2.00 ± 0.10"]
    assert first[4].startswith("**+")
    assert "-" not in (first[3], first[5], second[3], second[5])
    text = (tmp_path / "out" / "pfedrec-table-2-quick.md").read_text(encoding="utf-8")
    assert " | ".join(first) in text
    assert "its runs took" in text
    before = page.read_text(encoding="utf-8")
    assert text in before
    again = reproduce.reproduce("pfedrec-table-2", True, out=tmp_path / "out", page=page, only_finished=True)
    assert again.comparison.played == 0
    assert page.read_text(encoding="utf-8") == before  # the section is replaced, not added


def test_what_takes_too_long_is_named(few: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aimed("fedrap-main", few, monkeypatch, methods=[("fedmf", "", {}, {})], protocols=("strict",))
    monkeypatch.setattr(reproduce, "LONGEST", 1e-9)
    found = reproduce.reproduce("fedrap-main", True, out=tmp_path / "out", jobs=1)
    assert found.rows[1][5] == "-"
    assert found.left_out[0].startswith("fedmf on ")
    assert f"{found.left_out[0]}." in found.to_markdown()
    assert ": left out, because a run takes about" in found.left_out[0]


@pytest.mark.parametrize(
    ("name", "method", "columns"),
    [
        ("pfedrec-figure-3", "pfedrec", {"method", "view", "hr", "hr_low", "hr_high", "ndcg"}),
        (
            "fedrap-convergence",
            "fedmf",
            {"method", "round", "seconds", "megabytes", "loss", "hr", "selected"},
        ),
        ("plgc-spectra", "fedmf+plgc", {"method", "table", "slot", "index", "share"}),
    ],
)
def test_looks(
    few: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, method: str, columns: set[str]
) -> None:
    aimed(name, few, monkeypatch, methods=[(method, "", {}, {})], protocols=("strict",))
    found = reproduce.reproduce(name, True, out=tmp_path / "out", jobs=1)
    assert found.looks
    for look_name, look in found.looks.items():
        assert columns <= set(look.numbers.columns)
        written = pl.read_csv(tmp_path / "out" / f"{name}-quick-{look_name}.csv")
        assert written.height == look.numbers.height > 0
    for kind, summary in found.summaries().items():
        assert f"### {kind}" in found.to_markdown()
        assert summary.height > 0
    drawn = list((tmp_path / "out").glob("*.svg"))
    assert bool(drawn) != bool(found.unseen)  # drawn, or it says why not


def test_views_are_those_of_the_run(few: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aimed("pfedrec-figure-3", few, monkeypatch, protocols=("strict",))
    found = reproduce.reproduce("pfedrec-figure-3", True, out=tmp_path / "out", jobs=1)
    result = found.comparison.lines[0].results[0]
    by = {row["view"]: row for row in found.looks["views"].numbers.to_dicts()}
    assert set(by) == {"own", "global", "random"}
    assert by["own"]["hr"] == pytest.approx(100 * result["test"]["hr@10"])
    assert by["own"]["hr_low"] < by["own"]["hr"] < by["own"]["hr_high"]


def test_landscapes(few: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aimed("fedrecgel-landscapes", few, monkeypatch, methods=[("fedmf", "", {}, {})])
    found = reproduce.reproduce("fedrecgel-landscapes", True, out=tmp_path / "out", jobs=1)
    (look,) = found.looks.values()
    assert look.numbers.height == 21 * 21
    assert look.summary["rise at the rim"].item() > 0


def test_what_cannot_be_seen_is_said(few: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aimed("pfedrec-figure-2", few, monkeypatch, protocols=("strict",))

    def missing(module: str, name: str) -> Any:
        raise FedrecError(f"{module} is missing")

    monkeypatch.setattr(looks, "_part", missing)
    found = reproduce.reproduce("pfedrec-figure-2", True, out=tmp_path / "out", jobs=1)
    assert found.unseen == "fedrec.study.embedding is missing"
    assert "Not drawn: fedrec.study.embedding is missing." in found.to_markdown()
    assert found.comparison.lines[0].results


def test_a_ledger_has_the_figures_of_runs_that_are_gone(
    few: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aimed("fedrap-main", few, monkeypatch, methods=[("fedmf", "", {}, {}), ("mf", "", {}, {})])
    ledger = tmp_path / "ledger.jsonl"

    def again(out: str, **how: Any) -> reproduce.Reproduction:
        return reproduce.reproduce("fedrap-main", True, out=tmp_path / out, ledger=ledger, jobs=1, **how)

    made = again("here")
    assert made.comparison.played == len(ledger.read_text(encoding="utf-8").splitlines()) == 4
    told = again("elsewhere")
    assert told.comparison.played == 0
    assert (told.rows, told.left_out) == (made.rows, made.left_out)
    assert told.seconds == pytest.approx(made.seconds, rel=1e-5)
    figures = ["data", "protocol", "method", "hr@10", "ndcg@10", "rounds_to_99", "bytes_to_99"]
    mine, theirs = (found.comparison.frame.select(figures) for found in (made, told))
    pl.testing.assert_frame_equal(mine, theirs)
    assert "user" not in json.loads(ledger.read_text(encoding="utf-8").splitlines()[0])  # nobody's ranks
    more = reproduce.reproduce(
        "fedrap-main", out=tmp_path / "elsewhere", ledger=ledger, jobs=1, only_finished=True
    )
    assert {row[-1] for row in more.rows[1:]} == {"1"}  # of several seeds
    assert more.left_out == []
    aimed("fedrap-main", few, monkeypatch, methods=[("fedmf", "", {}, {}), ("fcf", "", {}, {})])
    assert again("elsewhere", only_finished=True).left_out == ["2 of the 4 figures are not finished so far"]


def test_a_ledger_that_cannot_be(few: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aimed("fedrap-main", few, monkeypatch, methods=[("fedmf", "", {}, {})], protocols=("strict",))
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text('{"run": "one"}\n{"ru', encoding="utf-8")
    with pytest.raises(FedrecError, match="is no ledger, or damaged"):
        reproduce.reproduce("fedrap-main", True, out=tmp_path / "out", ledger=ledger)
    assert ledger.read_text(encoding="utf-8").endswith('{"ru')
    with pytest.raises(FedrecError, match="looks at the runs themselves"):
        reproduce.reproduce("pfedrec-figure-3", True, out=tmp_path / "out", ledger=tmp_path / "other.jsonl")
