"""A comparison on several data sets begins with all of them at a glance."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from fedrec.data.interactions import Interactions
from fedrec.study.case import Case
from fedrec.study.compare import Comparison, compare_cases
from fedrec.study.formats import html, latex, markdown
from fedrec.study.overview import Overview, at_a_glance, overviews, terminal
from fedrec.study.table import Difference, Figure, Row, Section


def row(name: str, figure: float, gain: float | None = None, *, base: str = "base", p: float = 0.01) -> Row:
    """With a difference to the baseline, where there is one."""
    found = {} if gain is None else {base: Difference(gain, p, over_seeds=False)}
    return Row(name, {"ndcg@10": Figure(figure)}, differences=found)


def section(data: str, rows: Sequence[Row], asked: Sequence[str] = ("base",)) -> Section:
    top = max((each.figures["ndcg@10"].mean for each in rows if not each.control), default=0)
    marked = [
        replace(each, best=frozenset(["ndcg@10"] if each.figures["ndcg@10"].mean == top else []))
        for each in rows
    ]
    return Section(data, "strict", marked, [], asked)


@pytest.fixture
def overview() -> Overview:
    """Four data sets; `few` was run on one of them, `some` on two."""
    (found,) = overviews(
        [
            section("a", [row("good", 0.5, 0.1), row("few", 0.9, 0.5), row("base", 0.4)]),
            section("b", [row("good", 0.3, -0.1), row("some", 0.45, 0.05), row("base", 0.4)]),
            section("c", [row("good", 0.41, 0.01, p=0.4), row("some", 0.43, 0.03), row("base", 0.4)]),
            section("d", [row("good", 0.7, 0.3), row("base", 0.4)]),
        ]
    )
    return found


def test_a_gain_is_the_mean_over_data_that_both_have(overview: Overview) -> None:
    gains = {line.name: line.gain for line in overview.lines}
    assert gains["good"] == pytest.approx((0.1 - 0.1 + 0.01 + 0.3) / 4)
    assert gains["some"] == pytest.approx(0.04)
    assert gains["base"] is None


def test_who_gains_most_stands_first_and_who_was_hardly_run_last(overview: Overview) -> None:
    assert [line.name for line in overview.lines] == ["good", "some", "base", "few"]


def test_lines_say_on_how_many_data_sets_they_are_better_and_worse(overview: Overview) -> None:
    heading, *rows = at_a_glance(overview, "**{}**", "`{}`")
    told = {name: cells for name, *cells in rows}
    assert heading == ["method", "a", "b", "c", "d", "mean − base", "better, alike, worse"]
    assert told["`good`"] == ["50.00*", "30.00*", "41.00", "**70.00***", "+7.75", "2, 1, 1"]
    assert told["`some`"] == ["-", "**45.00***", "**43.00***", "-", "+4.00 (2 of 4)", "2, 0, 0"]
    assert told["`few`"] == ["**90.00***", "-", "-", "-", "+50.00 (1 of 4)", "1, 0, 0"]
    assert told["`base`"][-2:] == ["-", "-"]


def test_what_was_not_tested_is_not_counted() -> None:
    untested = Row(
        "new", {"ndcg@10": Figure(0.9)}, differences={"base": Difference(0.5, 1.0, True, tested=False)}
    )
    (found,) = overviews(
        [
            section("a", [untested, row("base", 0.4)]),
            section("b", [row("new", 0.5, 0.1), row("base", 0.4)]),
        ]
    )
    assert at_a_glance(found, "{}")[1] == ["new", "90.00", "50.00*", "+30.00", "1, 0, 0"]


def test_without_a_baseline_lines_stand_by_their_figures() -> None:
    rows = [row("worse", 0.2), row("better", 0.3)]
    (found,) = overviews([section(data, rows, asked=()) for data in "ab"])
    assert at_a_glance(found, "{}") == [
        ["method", "a", "b"], ["better", "30.00", "30.00"], ["worse", "20.00", "20.00"],
    ]  # fmt: skip


def test_of_several_baselines_the_first_counts_that_something_is_tested_against() -> None:
    asked = ("first", "second")
    both = [row("x", 0.5, 0.1, base="second"), row("second", 0.4)]
    (found,) = overviews([section("a", both, asked), section("b", both, asked)])
    assert found.baseline == "second"
    later = [row("x", 0.5, 0.1, base="first"), row("first", 0.4)]
    (found,) = overviews([section("a", both, asked), section("b", later, asked)])
    assert found.baseline == "first"


def test_controls_have_no_line() -> None:
    local = replace(row("base, local only", 0.2, -0.2), control=True)
    here = section("a", [row("x", 0.5, 0.1), row("base", 0.4), local])
    assert overviews([here, section("b", [local])]) == []
    (found,) = overviews([here, section("b", [row("base", 0.4), local])])
    assert [line.name for line in found.lines] == ["x", "base"]


def test_names_are_escaped() -> None:
    rows = [row("a<b> #1 | 50%", 0.5, 0.1), row("base", 0.4)]
    sections = [section(data, rows) for data in ("x_y", "z")]
    assert "a&lt;b&gt; #1" in html(sections)
    assert r"a<b> \#1 | 50\%" in latex(sections)
    assert r"x\_y & z" in latex(sections)
    assert r"a<b> #1 \| 50%" in markdown(sections, None)


@pytest.mark.parametrize("count", [2, 6, 12])
def test_the_terminal_has_80_columns(count: int) -> None:
    rows = [row("a-method-with-a-name", 0.5, 0.1), row("base", 0.4)]
    (found,) = overviews([section(f"data-with-a-long-name-{at}", rows) for at in range(count)])
    with open(os.devnull, "w") as nowhere:
        console = Console(width=80, record=True, file=nowhere)
        console.print(terminal(found))
    lines = console.export_text().splitlines()
    (told,) = (line for line in lines if "a-method-with-a-name" in line)
    assert told.split() == ["a-method-with-a-name", *["50.0*"] * (count if count <= 6 else 0), "+10.0"]
    assert max(map(len, lines)) <= 80
    assert "<" not in "".join(lines)


@pytest.fixture
def compared(small: Interactions, tastes: Interactions, tmp_path: Path) -> Comparison:
    cases = [Case(method, data) for data in (small, tastes) for method in ("popularity", "ease")]
    return compare_cases(cases, tmp_path, 2, jobs=1, baseline="popularity")


def test_a_comparison_begins_with_it(compared: Comparison) -> None:
    (found,) = overviews(compared.sections)
    ease = next(line for line in found.lines if line.name == "ease")
    each = [
        line.mean("ndcg@10") - base.mean("ndcg@10")
        for base, line in (compared.lines[0:2], compared.lines[2:4])
    ]
    assert ease.gain == pytest.approx(sum(each) / 2)
    assert ease.verdicts[0] >= 1  # of two tastes popularity knows nothing
    text = compared.to_markdown()
    assert text.index("## All data, protocol `strict`") < text.index("users,")
    assert "% all data, protocol strict: NDCG@10" in compared.to_latex()
    assert "All data, protocol strict: NDCG@10" in compared._repr_html_()


def test_one_data_set_needs_none(small: Interactions, tmp_path: Path) -> None:
    found = compare_cases([Case("popularity", small), Case("ease", small)], tmp_path, 1, jobs=1)
    assert overviews(found.sections) == []
    assert "All data" not in found.to_markdown()
