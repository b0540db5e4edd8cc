"""A comparison on several data sets begins with all of them at a glance."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from fedrec.data.interactions import Interactions
from fedrec.study.case import Case
from fedrec.study.compare import Comparison, compare_cases
from fedrec.study.formats import all_data
from fedrec.study.overview import Overview, at_a_glance, overviews


@pytest.fixture
def compared(small: Interactions, tastes: Interactions, tmp_path: Path) -> Comparison:
    here = [Case(method, small) for method in ("popularity", "ease", "itemknn")]
    there = [Case(method, tastes) for method in ("popularity", "ease")]
    return compare_cases([*here, *there], tmp_path, 2, jobs=1, baseline="popularity")


@pytest.fixture
def overview(compared: Comparison) -> Overview:
    (found,) = overviews(compared.sections)
    return found


def ndcg(compared: Comparison, method: str, at: int) -> float:
    rows = {row.name: row for row in compared.sections[at].rows}
    return rows[method].figures["ndcg@10"].mean


def test_a_gain_is_the_mean_over_data_that_both_have(compared: Comparison, overview: Overview) -> None:
    gains = {line.name: line.gain for line in overview.lines}
    both = [ndcg(compared, "ease", at) - ndcg(compared, "popularity", at) for at in (0, 1)]
    assert gains["ease"] == pytest.approx(sum(both) / 2)
    assert gains["itemknn"] == pytest.approx(
        ndcg(compared, "itemknn", 0) - ndcg(compared, "popularity", 0)  # it was not run on the other
    )
    assert gains["popularity"] is None


def test_who_gains_most_stands_first(overview: Overview) -> None:
    gains = [0.0 if line.name == "popularity" else line.gain for line in overview.lines]
    assert gains == sorted(gains, reverse=True)  # type: ignore[type-var]


def test_what_is_no_luck_is_counted_and_marked(compared: Comparison, overview: Overview) -> None:
    heading, *rows = at_a_glance(overview, "**{}**")
    told = {name: cells for name, *cells in rows}
    assert heading[0] == "method"
    assert heading[-2:] == ["mean − popularity", "better, alike, worse"]
    marked = sum(
        (cell.endswith("*") and not cell.endswith("**")) or cell.endswith("***") for cell in told["ease"]
    )
    certain = [
        row.differences["popularity"].certain
        for section in compared.sections
        for row in section.rows
        if row.name == "ease"
    ]
    assert marked == sum(certain) > 0  # of two tastes popularity knows nothing
    better, alike, worse = map(int, told["ease"][-1].split(", "))
    assert (better + worse, better + alike + worse) == (sum(certain), 2)
    assert told["itemknn"][1] == "-"
    assert told["popularity"][-2:] == ["-", "-"]
    for at, section in enumerate(compared.sections):
        best = max(ndcg(compared, row.name, at) for row in section.rows if not row.control)
        assert any(cells[at].startswith(f"**{100 * best:.2f}**") for cells in told.values())


def test_every_format_has_it(compared: Comparison, overview: Overview) -> None:
    assert compared.to_markdown().index("## All data, protocol `strict`") < compared.to_markdown().index(
        "users,"
    )
    assert "% all data, protocol strict: NDCG@10" in compared.to_latex()
    assert "All data, protocol strict: NDCG@10" in compared._repr_html_()
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(all_data(overview))
    text = console.export_text()
    assert "popularity" in text
    assert "<" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_one_data_set_needs_none(small: Interactions, tmp_path: Path) -> None:
    found = compare_cases([Case("popularity", small), Case("ease", small)], tmp_path, 1, jobs=1)
    assert overviews(found.sections) == []
    assert "All data" not in found.to_markdown()
