"""What methods gain on all data, as pictures with their numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from fedrec.cli.main import app
from fedrec.data.interactions import Interactions
from fedrec.figures.overview import CERTAIN, LUCK, overview
from fedrec.report.overview import write_overviews
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


def drawn(rows: list[tuple[str, str, float, bool]], sets: list[str]) -> dict[str, Any]:
    data = pl.DataFrame(rows, schema=["method", "data", "gain", "certain"], orient="row")
    chart: dict[str, Any] = overview(data, "base", sets).to_dict()
    return chart


def values(chart: dict[str, Any], layer: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = chart["datasets"][layer["data"]["name"]]
    return found


def test_what_may_be_luck_is_pale_and_a_bar_needs_all_data() -> None:
    chart = drawn([("x", "a", 1.0, True), ("x", "b", 3.0, False), ("y", "a", 5.0, True)], ["a", "b"])
    _, means, dots = chart["layer"]
    assert {each["difference"] for each in values(chart, dots) if each["gain"] == 3.0} == {LUCK}
    scale = dots["encoding"]["opacity"]["scale"]
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {CERTAIN: 1, LUCK: 0.3}
    assert {each["method"] for each in values(chart, means)} == {"x"}
    assert means["encoding"]["x"]["aggregate"] == "mean"
    assert "less that of base" in json.dumps(dots["encoding"]["x"])


def test_a_data_set_keeps_its_colour_and_no_two_look_alike() -> None:
    sets = [f"set {at}" for at in range(9)]
    chart = drawn([("x", name, 1.0, True) for name in reversed(sets)], sets)
    encoding = chart["layer"][2]["encoding"]
    assert encoding["color"]["scale"]["domain"] == sets
    shapes = encoding["shape"]["scale"]["range"]
    assert shapes[0] != shapes[7]
    assert len(shapes) == 9


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
    assert not Path("figures").exists()
    ended = CliRunner().invoke(app, [*one, "--data", "two.csv", "--out", "runs/both"])
    assert ended.exit_code == 0
    assert Path("figures/overview-strict.png").exists()
    assert "all data, protocol strict" in ended.output
    ended = CliRunner().invoke(app, [*one, "--data", "two.csv", "--out", "runs/both", "--json"])
    assert "figures/overview-strict.png" in json.loads(ended.stdout)["figures"]


def test_a_file_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("mine")
    ended = CliRunner().invoke(app, ["compare", "popularity", "ease", "--figures", "taken"])
    assert str(ended.exception) == "--figures taken is a file: name a folder"
    assert not Path("runs").exists()
