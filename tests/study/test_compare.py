"""Comparisons: runs are reused and gone on with, figures are means over seeds, tests are paired over users."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from polars.testing import assert_frame_equal
from rich.console import Console
from scipy.stats import ttest_rel, wilcoxon

import fedrec
from fedrec.core.errors import FedrecError, Interrupted
from fedrec.data.interactions import Interactions
from fedrec.report.entries import read_entries
from fedrec.runs import api
from fedrec.study import play
from fedrec.study.case import Case, Line, place
from fedrec.study.compare import Comparison, compare_cases, open_comparison
from fedrec.study.paired import holm, paired, paired_over_seeds, signed_rank
from fedrec.study.published import published, tables, with_noise

ROUNDS = {"rounds": 3}


@pytest.fixture
def cases(small: Interactions) -> list[Case]:
    return [
        Case("fedmf", small, settings={"dim": 4}, options=ROUNDS),
        Case("popularity", small),
        Case("mf", small, settings={"dim": 4}, options=ROUNDS, label="mf, small"),
    ]


def lines_of(cases: list[Case], folder: Path, seeds: int = 1, **options: Any) -> list[Line]:
    return compare_cases(cases, folder, seeds, jobs=1, **options).lines


@pytest.fixture
def compared(cases: list[Case], tmp_path: Path) -> Comparison:
    return compare_cases(cases, tmp_path, 2, jobs=1, baseline="fedmf")


def test_figures_are_means_over_seeds(compared: Comparison, cases: list[Case]) -> None:
    assert [line.case for line in compared.lines] == cases
    each = [api.run("popularity", cases[1].data, seed=seed).test["hr@10"] for seed in (0, 1)]
    assert compared.lines[1].mean("hr@10") == pytest.approx(np.mean(each))
    assert compared.lines[1].std("hr@10") == pytest.approx(np.std(each, ddof=1))


def test_what_is_finished_is_not_run_again(
    compared: Comparison, cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "run", lambda *_, **__: pytest.fail("it was run again"))
    again = compare_cases(cases, tmp_path, 2, jobs=1, baseline="fedmf")
    assert (compared.played, again.played) == (6, 0)
    assert [line.results for line in again.lines] == [line.results for line in compared.lines]
    assert again.to_markdown() == compared.to_markdown()


def test_a_written_comparison_is_read_without_its_data(compared: Comparison, tmp_path: Path) -> None:
    read = open_comparison(tmp_path)
    assert read.to_markdown() == compared.to_markdown()
    (tmp_path / "comparison.json").write_text("{", encoding="utf-8")
    with pytest.raises(FedrecError, match="is damaged"):
        open_comparison(tmp_path)
    with pytest.raises(FedrecError, match="holds no comparison"):
        open_comparison(tmp_path / "nowhere")


def test_options_that_change_nothing_find_the_same_run(small: Interactions, tmp_path: Path) -> None:
    said, unsaid = Case("fedmf", small, options={"rounds": 100, "eval_every": 1}), Case("fedmf", small)
    assert place(said, tmp_path, 0) == place(unsaid, tmp_path, 0)
    others = [
        Case("fedmf", small, settings={"dim": 5}), Case("fedmf", small, "paper"),
        Case("fedmf", small, options={"local": True}), Case("pfedrec", small),
    ]  # fmt: skip
    places = [place(case, tmp_path, 0) for case in (unsaid, *others)] + [place(unsaid, tmp_path, 1)]
    assert len(set(places)) == 6


def test_a_published_setting_keeps_its_share_of_clients(small: Interactions) -> None:
    assert Case("fedrecgel", small).described(0).config.clients == 0.1


def test_an_interrupted_run_goes_on(cases: list[Case], tmp_path: Path) -> None:
    (whole,) = lines_of(cases[:1], tmp_path / "whole")

    def stop(record: Any, _: Any) -> None:
        if record.round == 2:
            raise KeyboardInterrupt

    path = place(cases[0], tmp_path, 0)
    with pytest.raises(Interrupted, match="interrupted"):
        api.run("fedmf", cases[0].data, rounds=3, settings={"dim": 4}, out=path, callbacks=[stop])
    played: list[int] = []
    (line,) = lines_of(cases[:1], tmp_path, changed=lambda board, _: played.extend(
        now.round for now in board.playing.values() if now.rounds))  # fmt: skip
    assert played == [3]
    assert line.results[0]["test"] == whole.results[0]["test"]


def test_an_interrupted_comparison_says_how_to_go_on(
    cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(board: Any, said: str) -> None:
        if said == f"{board.jobs[1].name}: begins":
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="the same command: 1 of 3 runs are finished"):
        lines_of(cases, tmp_path, changed=stop)
    assert compare_cases(cases, tmp_path, 1, jobs=1).played == 2


def test_what_is_finished_can_be_looked_at_while_the_rest_is_missing(
    cases: list[Case], tmp_path: Path
) -> None:
    with pytest.raises(FedrecError, match="has no finished run of this comparison"):
        compare_cases(cases, tmp_path / "none", 2, only_finished=True)
    assert not (tmp_path / "none").exists()
    compare_cases(cases[:1], tmp_path, 1, jobs=1, tables=False)
    found = compare_cases(cases, tmp_path, 2, only_finished=True)
    assert found.played == 0
    assert [len(line.results) for line in found.lines] == [1, 0, 0]
    assert found.lines[0].note == "1 of 2 seeds"
    assert "not finished so far" in found.to_markdown()


def test_a_damaged_result_is_measured_again(cases: list[Case], tmp_path: Path) -> None:
    (line,) = lines_of(cases[:1], tmp_path)
    (line.folders[0] / "result.json").write_text("{", encoding="utf-8")
    again = compare_cases(cases[:1], tmp_path, 1, jobs=1)
    assert again.played == 1
    assert again.lines[0].results[0]["test"] == line.results[0]["test"]


def test_models_are_kept_only_where_asked(cases: list[Case], tmp_path: Path) -> None:
    (line,) = lines_of(cases[:1], tmp_path)
    assert not (line.folders[0] / "checkpoint").exists()
    (line,) = lines_of(cases[:1], tmp_path, keep_models=True)
    assert fedrec.open(line.folders[0], data=cases[0].data).test == line.results[0]["test"]


def test_mistakes_are_found_before_anything_runs(cases: list[Case], tmp_path: Path) -> None:
    out = tmp_path / "out"
    wrong = {
        "unknown method": Case("fedmff"),
        "unknown protocol": Case("fedmf", protocol="strickt"),
        "has no setting 'dimm'": Case("fedmf", cases[0].data, settings={"dimm": 3}),
        "rounds=0": Case("fedmf", cases[0].data, options={"rounds": 0}),
        "nothing.csv": Case("fedmf", str(tmp_path / "nothing.csv")),
        "two lines are called popularity": cases[1],
    }
    for sentence, case in wrong.items():
        with pytest.raises(FedrecError, match=re.escape(sentence)):
            lines_of([*cases, case], out)
    with pytest.raises(
        FedrecError, match="the baseline 'fedmv' is not among the methods compared: did you mean"
    ):
        lines_of(cases, out, baseline="fedmv")
    with pytest.raises(FedrecError, match="seeds=0 are no seeds"):
        lines_of(cases, out, seeds=0)
    assert not out.exists()


def test_a_run_that_fails_leaves_its_sentence_and_the_others_go_on(cases: list[Case], tmp_path: Path) -> None:
    impossible = Case("fedmf", cases[0].data, options={**ROUNDS, "clients": 10_000})
    found = compare_cases([impossible, cases[1]], tmp_path, 1, jobs=1)
    assert "ask for fewer" in found.lines[0].failed
    assert found.lines[1].results
    assert f"fedmf: {found.lines[0].failed.rstrip('.')}." in found.to_markdown()


def test_what_would_take_too_long_is_left_out_and_not_tried_again(
    cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Case("fedmf", cases[0].data, settings={"dim": 4}, options={"rounds": 30})
    first = compare_cases([slow, cases[1]], tmp_path, 2, jobs=1, longest=1e-9)
    assert first.lines[0].failed.startswith("left out, because a run takes about")
    assert first.lines[1].results
    monkeypatch.setattr(play.api, "run", lambda *_, **__: pytest.fail("it was tried again"))
    assert compare_cases([slow, cases[1]], tmp_path, 2, jobs=1, longest=1e-9).played == 0
    monkeypatch.undo()
    assert len(compare_cases([slow, cases[1]], tmp_path, 2, jobs=1).lines[0].results) == 2


def test_waiting_for_others_is_no_work(
    cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        play.time, "process_time", lambda: 1.0
    )  # a processor that is busy with something else
    case = Case("fedmf", cases[0].data, settings={"dim": 4}, options={"rounds": 4})
    assert compare_cases([case], tmp_path, 1, jobs=1, longest=1e-9).lines[0].results


def test_tables_of_another_comparison_are_not_written_over(cases: list[Case], tmp_path: Path) -> None:
    lines_of(cases[:2], tmp_path)
    before = (tmp_path / "comparison.md").read_text(encoding="utf-8")
    with pytest.raises(FedrecError, match=r"holds a comparison with fedmf on .*--out.*--force"):
        lines_of(cases[1:], tmp_path)
    assert (tmp_path / "comparison.md").read_text(encoding="utf-8") == before
    lines_of(cases, tmp_path)  # all of it and more
    lines_of(cases[1:], tmp_path, force=True)
    assert "`fedmf`" not in (tmp_path / "comparison.md").read_text(encoding="utf-8")


# -- the table -----------------------------------------------------------------------------------


def test_the_table_in_every_format(compared: Comparison, tmp_path: Path) -> None:
    best = max((line for line in compared.lines), key=lambda line: line.mean("ndcg@10"))
    mean, std = 100 * best.mean("ndcg@10"), 100 * (best.std("ndcg@10") or 0)
    markdown = (tmp_path / "comparison.md").read_text(encoding="utf-8")
    assert f"**{mean:.2f} ± {std:.2f}**" in markdown
    assert "no leak is found" in markdown
    latex = (tmp_path / "comparison.tex").read_text(encoding="utf-8")
    assert rf"\textbf{{{mean:.2f} $\pm$ {std:.2f}}}" in latex
    assert latex.count("\\midrule") == 2  # under the heading, and over the controls
    rows = list(csv.DictReader((tmp_path / "comparison.csv").open(encoding="utf-8")))
    (row,) = [row for row in rows if row["method"] == best.case.name]
    assert float(row["ndcg@10"]) == pytest.approx(best.mean("ndcg@10"))
    assert f"<b>{mean:.2f} ± {std:.2f}</b>" in compared._repr_html_()
    assert compared.frame.height == len(rows) == 4  # and the negative counter


def test_the_terminal_has_80_columns(compared: Comparison) -> None:
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    for table in compared.table:
        console.print(table)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert any(re.search(r"fedmf +\d+\.\d±\d+\.\d", line) for line in lines)


def test_differences_are_tested_against_the_baseline(compared: Comparison) -> None:
    fedmf, popularity, mf = compared.lines
    tests = [paired(popularity, fedmf), paired(mf, fedmf)]
    corrected = holm([test.p for test in tests])
    rows = {row.name: row for row in compared.sections[0].rows}
    for name, test, p in zip(("popularity", "mf, small"), tests, corrected, strict=True):
        assert rows[name].differences["fedmf"].mean == pytest.approx(test.difference)
        assert rows[name].differences["fedmf"].p == pytest.approx(p)
    assert not rows["fedmf"].differences
    assert f"| {100 * tests[0].difference:+.2f}" in compared.to_markdown()


def test_a_ledger_has_figures_of_runs_that_are_gone(
    small: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def again(methods: list[str], out: str) -> Comparison:
        return fedrec.compare(
            methods, small, seeds=3, rounds=2, jobs=1, out=tmp_path / out, ledger=tmp_path / "ledger.jsonl"
        )

    made = again(["fedmf", "fcf"], "here")
    told = again(["fedmf", "fcf"], "elsewhere")
    assert (made.played, told.played) == (6, 0)
    figures = ["method", "hr@10", "ndcg@10", "difference", "rounds_to_99", "seeds"]
    assert_frame_equal(told.frame.select(figures), made.frame.select(figures))
    assert "paired over seeds" in told.to_markdown()
    assert "paired over seeds" not in made.to_markdown()
    base, other = (next(line for line in told.lines if line.case.name == n) for n in ("fedmf", "fcf"))
    expected = ttest_rel(other.values("ndcg@10"), base.values("ndcg@10")).pvalue
    assert paired_over_seeds(other, base).p == pytest.approx(expected)
    assert paired_over_seeds(base.at([0]), other.at([0])).p == 1.0  # one seed says nothing
    assert paired_over_seeds(base, base).p == 1.0
    turned = replace(base, results=base.results[::-1], folders=base.folders[::-1])
    assert paired_over_seeds(other, turned).p == pytest.approx(expected)  # by seed, not by place
    with pytest.raises(FedrecError, match="cannot be paired"):
        paired_over_seeds(other, base.at([0, 1]))
    always = [{**result, "test": {"ndcg@10": 0.41}} for result in base.results]
    same = [{**result, "test": {"ndcg@10": 0.42}} for result in base.results]
    assert paired_over_seeds(replace(base, results=always), replace(base, results=same)).p == 1.0
    with pytest.raises(FedrecError, match=r"6 runs of .* are known from a ledger alone: a report needs"):
        read_entries([tmp_path / "elsewhere"])
    kept = fedrec.compare(
        ["fcf"], small, seeds=1, rounds=2, jobs=1, out=tmp_path / "models", ledger=tmp_path / "ledger.jsonl",
        keep_models=True,
    )  # fmt: skip
    assert kept.played == 1  # a ledger has no models
    more = again(["fedmf", "fcf", "pfedrec"], "elsewhere")
    assert more.played == 3
    monkeypatch.setattr(api, "run", lambda *_, **__: pytest.fail("it was run"))
    assert open_comparison(tmp_path / "elsewhere").to_markdown() == more.to_markdown()


def test_controls_stand_under_the_line(cases: list[Case], tmp_path: Path) -> None:
    from fedrec.study.grid import with_controls

    found = compare_cases(with_controls(cases[:1]), tmp_path, 1, jobs=1)
    assert [(row.name, row.control) for row in found.sections[0].rows] == [
        ("fedmf", False), ("fedmf, local only", True), ("popularity", True), ("negative counter", True),
    ]  # fmt: skip
    assert found.lines[1].results[0]["local"]


def test_a_leak_is_said(small: Interactions, tmp_path: Path) -> None:
    found = compare_cases([Case("popularity", small, "paper")], tmp_path, 1, jobs=1)
    assert "this protocol leaks the test item into training" in found.to_markdown()


def test_the_counter_under_the_line_is_the_one_that_sees_the_leak(
    small: Interactions, tmp_path: Path
) -> None:
    """A run of one round has drawn few negatives: counting them says little of the protocol."""
    cases = [Case("fedmf", small, "paper", options={"rounds": 1}), Case("popularity", small, "paper")]
    found = compare_cases(cases, tmp_path, 1, jobs=1)
    few, many = (line.results[0]["controls"]["counter"] for line in found.lines)
    assert few["auc"] < many["auc"]
    assert found.sections[0].rows[-1].figures["hr@10"].mean == many["hr@10"]
    assert f"has AUC {100 * many['auc']:.1f} " in found.to_markdown()


def test_a_line_with_fewer_seeds_is_compared_on_those(cases: list[Case], tmp_path: Path) -> None:
    few = Case("popularity", cases[0].data, seeds=(0,))
    found = compare_cases([cases[0], few], tmp_path, 2, jobs=1)
    fedmf, popularity = found.lines
    row = next(row for row in found.sections[0].rows if row.name == "popularity")
    assert row.differences["fedmf"].mean == pytest.approx(paired(popularity, fedmf.at([0])).difference)
    with pytest.raises(FedrecError, match="cannot be paired"):
        paired(popularity, fedmf)


def test_runs_of_different_splits_cannot_be_paired(
    small: Interactions, tastes: Interactions, tmp_path: Path
) -> None:
    one, other = (lines_of([Case("popularity", data)], tmp_path / data.name)[0] for data in (small, tastes))
    with pytest.raises(FedrecError, match="they need the same data, protocol and seeds"):
        paired(one, other)


def test_a_run_that_stopped_early_says_so(tastes: Interactions, tmp_path: Path) -> None:
    case = Case("fedmf", tastes, settings={"lr": 1e6}, options={"rounds": 30})
    found = compare_cases([case], tmp_path, 1, jobs=1)
    stopped = found.lines[0].results[0]["stopped"]
    assert stopped.startswith("fedmf diverged in round")
    assert f"fedmf, seed 0: {stopped.rstrip('.')}." in found.to_markdown()


@pytest.mark.parametrize("seed", range(4))
def test_signed_rank_is_scipys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.round(rng.standard_normal(80) + 0.1 * seed, 1)  # with ties and zeros
    expected = wilcoxon(x, method="asymptotic", correction=False).pvalue
    assert signed_rank(x) == pytest.approx(expected)
    assert signed_rank(np.zeros(5)) == 1.0


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


def test_published_figures() -> None:
    assert published("pfedrec", "ml-100k", "paper")[:2] == (71.62, 43.44)  # type: ignore[index]
    assert published("fedrecgel", "filmtrust", "strict").hr == 91.8  # type: ignore[union-attr]
    assert published("pfedrec", "ml-100k", "strict") is None
    assert published("fedrap", "ml-100k", "paper").about  # type: ignore[union-attr]
    assert with_noise("ml-1m", 0.5).ndcg == 44.18  # type: ignore[union-attr]
    assert with_noise("ml-1m", 0.7) is None
    assert json.dumps(tables())


def test_what_it_takes_to_come_near_the_best() -> None:
    from fedrec.study.case import nearly_best

    def line(round: int, value: float | None) -> dict[str, Any]:
        figures = {} if value is None else {"validation": {"ndcg@10": value}}
        return {"round": round, "bytes_up": 10, "bytes_down": 30, **figures}

    result = {"users": 4, "protocol_settings": {"select_on": "ndcg@10"}}
    history = [line(1, None), line(2, 0.2), line(3, None), line(4, 0.396), line(5, 0.4), line(6, 0.3)]
    assert nearly_best(history, result) == (4, 40.0)
    assert nearly_best([line(1, None)], result) is None
    assert nearly_best([{"round": 1, "validation": {"ndcg@10": 0.1}}], result) == (1, None)
