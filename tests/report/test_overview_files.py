"""What methods gain on all data, as pictures with their numbers."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from fedrec.cli.main import app
from fedrec.data.interactions import Interactions
from fedrec.figures.overview import overview
from fedrec.report.overview import numbers, write_overviews
from fedrec.study.case import Case
from fedrec.study.compare import Comparison, compare_cases
from fedrec.study.overview import overviews


@pytest.fixture
def compared(small: Interactions, tastes: Interactions, tmp_path: Path) -> Comparison:
    cases = [Case(method, data) for data in (small, tastes) for method in ("popularity", "ease")]
    return compare_cases(cases, tmp_path / "runs", 2, jobs=1, baseline="popularity")


def test_a_picture_and_its_numbers(compared: Comparison, tmp_path: Path) -> None:
    files = write_overviews(overviews(compared.sections), tmp_path / "figures")
    assert [path.name for path in files] == [
        f"overview-strict.{kind}" for kind in ("csv", "svg", "png", "pdf")
    ]
    assert all(path.stat().st_size > 500 for path in files[1:])
    told = pl.read_csv(files[0])
    gains = [
        100 * row.differences["popularity"].mean
        for section in compared.sections
        for row in section.rows
        if row.name == "ease"
    ]
    assert told["method"].to_list() == ["ease", "ease"]  # the baseline gains nothing on itself
    assert told["gain"].to_list() == pytest.approx(gains)
    assert "ease" in files[1].read_text()


def test_what_may_be_luck_is_pale(compared: Comparison) -> None:
    (one,) = overviews(compared.sections)
    chart = json.dumps(overview(numbers(one), "popularity").to_dict())
    assert '"range": [1, 0.3]' in chart
    assert "less that of popularity" in chart


def test_it_is_asked_for_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ["user,item,time", *(f"{u},{(u * 7 + 3 * n) % 23},{n}" for u in range(30) for n in range(6))]
    for name in ("one.csv", "two.csv"):
        Path(name).write_text("\n".join(lines) + "\n")
    one = [
        "compare",
        "popularity",
        "ease",
        "--data",
        "one.csv",
        "--seeds",
        "1",
        "--jobs",
        "1",
        "--figures",
        "figures",
    ]
    ended = CliRunner().invoke(app, [*one, "--out", "runs/one"])
    assert ended.exit_code == 0
    assert "it takes two data sets" in " ".join(ended.output.split())
    ended = CliRunner().invoke(app, [*one, "--data", "two.csv", "--out", "runs/both"])
    assert ended.exit_code == 0
    assert Path("figures/overview-strict.png").exists()
    assert "all data, protocol strict" in ended.output
