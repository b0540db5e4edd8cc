"""Comparisons: runs are reused and gone on with, figures are means over seeds, tests are paired over users."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrec.core.errors import FedrecError, Interrupted
from fedrec.data.interactions import Interactions
from fedrec.report.accuracy import page
from fedrec.runs import api
from fedrec.study.compare import Case, compare, finished, holm, paired
from fedrec.study.published import published, tables

ROUNDS = {"rounds": 3}


@pytest.fixture
def cases(small: Interactions) -> list[Case]:
    return [
        Case("fedmf", small, settings={"dim": 4}, options=ROUNDS),
        Case("popularity", small),
        Case("mf", small, settings={"dim": 4}, options=ROUNDS, label="mf, small"),
    ]


def test_figures_are_means_over_seeds(cases: list[Case], tmp_path: Path) -> None:
    lines = compare(cases, tmp_path, seeds=2)
    assert [line.case for line in lines] == cases
    each = [api.run("popularity", cases[1].data, seed=seed).test["hr@10"] for seed in (0, 1)]
    assert lines[1].mean("hr@10") == pytest.approx(np.mean(each))
    assert lines[1].std("hr@10") == pytest.approx(np.std(each, ddof=1))


def test_what_is_finished_is_not_run_again(
    cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compare(cases, tmp_path, seeds=2)
    monkeypatch.setattr(api, "run", lambda *_, **__: pytest.fail("it was run again"))
    again = compare(cases, tmp_path, seeds=2)
    assert [line.results for line in again] == [line.results for line in first]
    assert [line.results for line in finished(cases, tmp_path, 2)] == [line.results for line in first]


def test_another_setting_is_another_run(cases: list[Case], tmp_path: Path) -> None:
    compare(cases[:1], tmp_path, seeds=1)
    other = Case("fedmf", cases[0].data, settings={"dim": 5}, options=ROUNDS)
    assert finished([other], tmp_path, 1) == []
    compare([other], tmp_path, seeds=1)
    assert len(list(tmp_path.iterdir())) == 2


def test_an_interrupted_run_goes_on(cases: list[Case], tmp_path: Path) -> None:
    whole = compare(cases[:1], tmp_path / "whole", seeds=1)

    def stop(record: Any, _: Any) -> None:
        if record.round == 2:
            raise KeyboardInterrupt

    interrupted = Case("fedmf", cases[0].data, settings={"dim": 4}, options=ROUNDS)
    from fedrec.study.compare import place

    path = place(interrupted, tmp_path, 0)
    with pytest.raises(Interrupted, match="interrupted"):
        api.run("fedmf", interrupted.data, rounds=3, settings={"dim": 4}, out=path, callbacks=[stop])
    said: list[str] = []
    lines = compare([interrupted], tmp_path, seeds=1, say=said.append)
    assert said == [f"fedmf on {interrupted.data_name}, strict, seed 0: going on"]
    assert lines[0].results[0]["test"] == whole[0].results[0]["test"]


def test_mistakes_are_found_before_anything_runs(cases: list[Case], tmp_path: Path) -> None:
    with pytest.raises(FedrecError, match="unknown method"):
        compare([*cases, Case("fedmff")], tmp_path)
    with pytest.raises(FedrecError, match="unknown protocol"):
        compare([*cases, Case("fedmf", protocol="strickt")], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_leaves_its_sentence_and_the_others_go_on(cases: list[Case], tmp_path: Path) -> None:
    impossible = Case("fedmf", cases[0].data, options={**ROUNDS, "clients": 10_000})
    lines = compare([impossible, cases[1]], tmp_path, seeds=1)
    assert "ask for fewer" in lines[0].failed
    assert lines[1].results
    again = finished([impossible, cases[1]], tmp_path, 1)
    assert [line.failed for line in again] == [lines[0].failed, ""]
    assert f"`fedmf` could not be run: {lines[0].failed.rstrip('.')}" in page(again)


def test_data_that_are_not_there_leave_a_sentence(cases: list[Case], tmp_path: Path) -> None:
    lines = compare([Case("fedmf", str(tmp_path / "nothing.csv")), cases[1]], tmp_path, seeds=1)
    assert "nothing.csv" in lines[0].failed
    assert lines[1].results


def test_slow_methods_get_one_seed(cases: list[Case], tmp_path: Path) -> None:
    lines = compare(cases[:2], tmp_path, seeds=2, slow=0)
    assert [len(line.results) for line in lines] == [1, 2]
    assert lines[0].note.startswith("one seed")


def test_the_local_control_stands_beside_federated_methods(cases: list[Case], tmp_path: Path) -> None:
    lines = compare(cases[:2], tmp_path, seeds=1, local=True)
    assert [line.case.name for line in lines] == ["fedmf", "fedmf, local only", "popularity"]
    assert lines[1].results[0]["local"]


def test_pairs(cases: list[Case], tmp_path: Path) -> None:
    fedmf, popularity, _ = compare(cases, tmp_path, seeds=2)
    found = paired(fedmf, popularity)
    assert found.difference == pytest.approx(fedmf.mean("ndcg@10") - popularity.mean("ndcg@10"))
    assert 0 <= found.p <= 1
    assert paired(fedmf, fedmf).p == 1
    (one,) = compare(cases[:1], tmp_path, seeds=1)
    with pytest.raises(FedrecError, match="cannot be paired"):
        paired(one, popularity)


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


def test_published_figures() -> None:
    assert published("pfedrec", "ml-100k", "paper")[:2] == (71.62, 43.44)  # type: ignore[index]
    assert published("fedrecgel", "filmtrust", "strict").hr == 91.8  # type: ignore[union-attr]
    assert published("pfedrec", "ml-100k", "strict") is None
    assert json.dumps(tables())


def test_the_page(cases: list[Case], tmp_path: Path) -> None:
    lines = compare(cases, tmp_path, seeds=2)
    text = page(lines, reference="fedmf", day=date(2026, 1, 2))
    assert "Made on 2026-01-02 with fedrec" in text
    assert "no leak is found" in text
    for line in lines:
        hr, std = 100 * line.mean("hr@10"), 100 * line.std("hr@10")  # type: ignore[operator]
        assert f"| `{line.case.name}` | {hr:.2f} ± {std:.2f} |" in text


def test_a_line_with_fewer_seeds_is_compared_on_those(cases: list[Case], tmp_path: Path) -> None:
    fedmf, popularity, _ = compare(cases, tmp_path, seeds=2)
    difference = 100 * paired(popularity.first(1), fedmf.first(1)).difference
    row = next(line for line in page([fedmf, popularity.first(1)]).splitlines() if "`popularity`" in line)
    assert f" {difference:+.2f}" in row


def test_seeds_that_are_missing_are_named(cases: list[Case], tmp_path: Path) -> None:
    compare(cases[:2], tmp_path, seeds=1)
    so_far = finished(cases[:2], tmp_path, 2)
    assert [line.note for line in so_far] == ["1 of 2 seeds so far"] * 2
    assert "`fedmf`, `popularity`: 1 of 2 seeds so far." in page(so_far).replace(
        "`popularity`, `fedmf`", "`fedmf`, `popularity`"
    )


def test_a_run_that_stopped_early_says_so(tastes: Interactions, tmp_path: Path) -> None:
    case = Case("fedmf", tastes, settings={"lr": 1e6}, options={"rounds": 30})
    (line,) = compare([case], tmp_path, seeds=1)
    assert line.results[0]["stopped"].startswith("fedmf diverged in round")
    assert f"`fedmf`, seed 0: {line.results[0]['stopped'].rstrip('.')}." in page([line])


def test_data_may_be_a_path(tmp_path: Path) -> None:
    rows = "".join(f"{u},{i}\n" for u in range(6) for i in range(u % 3, u % 3 + 5))
    (tmp_path / "log.csv").write_text(f"user,item\n{rows}", encoding="utf-8")
    (line,) = compare([Case("popularity", tmp_path / "log.csv")], tmp_path / "out", seeds=1)
    assert line.failed == ""
    assert line.results[0]["data"] == "log"
