"""A page says what the runs say, and refuses what cannot be said."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedrec
from fedrec.cli.main import app
from fedrec.core.errors import FedrecError
from fedrec.core.protocol import STRICT
from fedrec.data.interactions import Interactions
from fedrec.report.build import report
from fedrec.report.entries import read_entries
from fedrec.report.groups import Case, groups_of
from fedrec.report.words import summary
from fedrec.runs.config import RunConfig

EVERY = [
    "accuracy",
    "convergence",
    "ranks",
    "activity",
    "popularity",
    "gains",
    "views",
    "rows",
    "landscape",
    "spectrum",
]


def specs(page: Path) -> list[dict[str, object]]:
    return [json.loads(text) for text in re.findall(r'class="spec">(.*?)</script>', page.read_text("utf-8"))]


def tables(page: Path) -> dict[str, dict[str, list[object]]]:
    found = re.search(r'<script id="data"[^>]*>(.*?)</script>', page.read_text("utf-8"))
    assert found is not None
    return dict(json.loads(found[1])["tables"])


def test_every_figure_is_there_with_its_numbers(page: Path) -> None:
    text = page.read_text("utf-8")
    assert re.findall(r'<figure id="[^"]*-(\w+)">', text) == EVERY
    held = tables(page)
    for spec in specs(page):
        named = set(re.findall(r'"name": "(d[0-9a-f]{12})"', json.dumps(spec)))
        assert len(named) == 1, "a chart draws one table"
        assert named <= set(held)
    for name in re.findall(r'data-save="csv" data-table="(\w+)"', text):
        assert len(next(iter(held[name].values()))) > 0


def test_nothing_is_fetched(page: Path) -> None:
    text = page.read_text("utf-8")
    outside = text.split("<script>", 1)[0]  # before the library, which names the standards it knows
    assert not re.search(r'(src|href)="(https?:)?//', text)
    assert "http" not in re.sub(r"http-equiv", "", outside)
    assert "default-src 'none'" in text


def test_the_page_states_the_figures_of_the_runs(page: Path, runs: Path) -> None:
    text = page.read_text("utf-8")
    entries, _ = read_entries([runs])
    group = groups_of(entries, "fedmf")[0]
    for case in group.cases:
        assert f"{case.mean('ndcg@10'):.2f}" in text
    pooled = [e.result["test"]["hr@10"] for e in entries if e.config.method == "fedmf"]
    fedmf = next(case for case in group.cases if case.label == "fedmf")
    assert fedmf.mean("hr@10") == pytest.approx(100 * sum(pooled) / 2)
    assert "fedrec run fedmf" in text
    assert "--set fedmf.dim=8" in text
    assert "Can this number be trusted?" in text
    for version in entries[0].result["versions"].values():
        assert version in text


def test_ranks_of_ten_are_the_hit_rate(runs: Path) -> None:
    from fedrec.report.numbers import binned_hits, rank_numbers
    from fedrec.report.people import data_for, people_of

    group = groups_of(read_entries([runs])[0])[0]
    found = rank_numbers(group).filter(against="sampled", k=10)
    hits = dict(found.select("method", "share").iter_rows())
    binned = binned_hits(group, people_of(group, data_for(group)).active)
    for case in group.cases:
        assert hits[case.label] == pytest.approx(case.mean("hr@10"), rel=1e-4)
        mine = binned.filter(method=case.label)
        assert (mine["hr"] * mine["users"]).sum() / mine["users"].sum() == pytest.approx(
            case.mean("hr@10"), abs=0.5
        )


def test_words_name_the_best_and_hedge_what_is_not_certain(runs: Path) -> None:
    group = groups_of(read_entries([runs])[0], "fedmf")[0]
    said = " ".join(summary(group))
    best = max(group.cases, key=lambda case: case.mean("ndcg@10"))
    assert f"{best.label} has the highest NDCG@10 of 3 methods" in said
    for label, gap in group.differences.items():
        assert gap.certain or re.search(rf"{label} \([^)]*p = ", said)
    assert "The figures of popularity are of a single seed" in said
    assert "leak" in said


@pytest.mark.slow
def test_a_comparison_says_its_baseline(runs: Path, tmp_path: Path) -> None:
    for name in ("fedmf-0", "pfedrec-0"):
        shutil.copytree(runs / name, tmp_path / name)
    entries, _ = read_entries([tmp_path])
    told = {"baselines": ["pfedrec"], "lines": []}
    (tmp_path / "comparison.json").write_text(json.dumps(told), encoding="utf-8")
    made = report(tmp_path, tmp_path / "page.html", models=0)
    assert made.parts[0].group.baseline is not None
    assert made.parts[0].group.baseline.label == "pfedrec"
    first = groups_of(entries)[0].baseline
    assert first is not None
    assert first.label == "fedmf", "otherwise the first"


def test_a_leaking_protocol_is_called_so(small: Interactions, tmp_path: Path) -> None:
    data = fedrec.load("demo")
    fedrec.run("popularity", data, "paper", threads=1, out=tmp_path / "run")
    made = report(tmp_path / "run", tmp_path / "page.html")
    assert "This protocol leaks the test item into training" in made.path.read_text("utf-8")


def test_honest_figures_come_first_and_a_method_keeps_its_colour(small: Interactions, tmp_path: Path) -> None:
    for protocol in ("paper", "strict"):
        for method, rounds in (("fedmf", 1), ("popularity", None)):
            fedrec.run(method, small, protocol, rounds, threads=1, out=tmp_path / f"{protocol}-{method}")
    strict, paper = groups_of(read_entries([tmp_path])[0])
    assert (strict.protocol, paper.protocol) == ("strict", "paper")
    paper.cases.reverse()  # whichever is best there
    assert strict.methods == paper.methods
    counters = [entry.result["controls"]["counter"]["auc"] for entry in paper.entries]
    assert min(counters) < paper.counter["auc"] == max(counters), "the run that has drawn more negatives"


def test_cases_are_told_apart_by_what_differs(small: Interactions, tmp_path: Path) -> None:
    for dim in (4, 8):
        for seed in (0, 1):
            out = tmp_path / f"{dim}-{seed}"
            fedrec.run("fedmf", small, rounds=1, seed=seed, settings={"dim": dim}, threads=1, out=out)
    fedrec.run("fedmf", small, rounds=1, settings={"dim": 4}, local=True, threads=1, out=tmp_path / "alone")
    group = groups_of(read_entries([tmp_path])[0])[0]
    assert {case.label: len(case.entries) for case in group.cases} == {
        "fedmf (dim=4)": 2, "fedmf (dim=8)": 2, "fedmf, local only": 1,
    }  # fmt: skip


@pytest.mark.slow
def test_a_yardstick_alone_has_no_sections_it_has_no_data_for(runs: Path, tmp_path: Path) -> None:
    text = report(runs / "popularity-0", tmp_path / "page.html").path.read_text("utf-8")
    assert re.findall(r'<figure id="[^"]*-(\w+)">', text) == ["accuracy", "ranks", "activity", "popularity"]


def test_titles_cannot_break_the_page(small: Interactions, runs: Path, tmp_path: Path) -> None:
    text = report(runs / "popularity-0", tmp_path / "p.html", title="</script><b>&").path.read_text("utf-8")
    assert "</script><b>&" not in text
    assert "<title>&lt;/script&gt;&lt;b&gt;&amp;</title>" in text


@pytest.mark.slow
def test_privacy_is_drawn_where_an_epsilon_is_stated(runs: Path, tmp_path: Path) -> None:
    for name in ("fedmf-0", "pfedrec-0"):
        shutil.copytree(runs / name, tmp_path / name)
    file = tmp_path / "fedmf-0" / "result.json"
    result = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps({**result, "privacy": {"epsilon": 5.0, "delta": 1e-4}}), encoding="utf-8")
    text = report(tmp_path, tmp_path / "page.html", models=0).path.read_text("utf-8")
    assert "What does privacy cost?" in text
    assert "fedmf: ε = 5, δ = 0.0001" in text


def test_files_for_a_paper(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    made = report(runs / "popularity-0", tmp_path / "page.html", figures=folder)
    assert {path.suffix for path in made.files} == {".svg", ".png", ".pdf", ".csv"}
    for path in made.files:
        begins = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF", ".csv": b"method"}[path.suffix]
        assert path.read_bytes().startswith(begins)
    with pytest.raises(FedrecError, match="is not empty"):
        report(runs / "popularity-0", tmp_path / "other.html", figures=folder)


# -- what cannot be reported ---------------------------------------------------------------------


def refused(*words: str) -> str:
    done = CliRunner().invoke(app, ["report", *words])
    assert isinstance(done.exception, FedrecError), done.output
    return str(done.exception)


def test_bad_input_is_one_sentence(runs: Path, tmp_path: Path, small: Interactions) -> None:
    out = ["-o", str(tmp_path / "page.html")]
    assert "is no folder" in refused(str(tmp_path / "nowhere"), *out)
    (tmp_path / "empty").mkdir()
    assert "is not a run and holds none" in refused(str(tmp_path / "empty"), *out)
    assert "did you mean 'fedmf'?" in refused(str(runs), "--baseline", "fedmv", *out)
    assert "makes no sense" in refused(str(runs), "--models", "-1", *out)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "config.toml").write_text('name = "something else"\n', encoding="utf-8")
    assert "was made by fedrec unknown" in refused(str(foreign), *out)


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("result.json", b"{", "result.json is damaged"),
        ("result.json", b'{"test": {}, "rounds": 1}', "result.json is damaged: it lacks"),
        ("ranks.parquet", b"PAR1", "ranks.parquet is damaged"),
        ("config.toml", b"= =", "config.toml is damaged"),
    ],
)
def test_a_damaged_run_is_one_sentence(
    runs: Path, tmp_path: Path, file: str, content: bytes, sentence: str
) -> None:
    shutil.copytree(runs / "fedmf-0", tmp_path / "run")
    (tmp_path / "run" / file).write_bytes(content)
    assert sentence in refused(str(tmp_path / "run"), "-o", str(tmp_path / "page.html"))
    assert not (tmp_path / "page.html").exists()


@pytest.mark.slow
def test_an_unfinished_run_is_left_out_and_said_so(runs: Path, tmp_path: Path) -> None:
    for name in ("fedmf-0", "popularity-0"):
        shutil.copytree(runs / name, tmp_path / "all" / name)
    (tmp_path / "all" / "fedmf-0" / "result.json").unlink()
    made = report(tmp_path / "all", tmp_path / "page.html")
    assert "is not finished" in made.left_out[0]
    assert "is not finished" in made.path.read_text("utf-8")
    assert "is not finished" in refused(str(tmp_path / "all" / "fedmf-0"), "-o", str(tmp_path / "other.html"))


def test_different_splits_cannot_stand_in_one_table(runs: Path, small: Interactions, tmp_path: Path) -> None:
    from dataclasses import replace

    fewer = replace(small, times=None if small.times is None else small.times[::-1].copy())
    fedrec.run("popularity", fewer, threads=1, out=tmp_path / "other")
    sentence = refused(str(runs / "popularity-0"), str(tmp_path / "other"), "-o", str(tmp_path / "page.html"))
    assert "cannot stand in one table" in sentence
    assert "data differ" in sentence


def test_runs_on_all_data_have_nothing_to_report(small: Interactions, tmp_path: Path) -> None:
    fedrec.run("popularity", small, all_data=True, threads=1, out=tmp_path / "run")
    assert "trained on all data" in refused(str(tmp_path / "run"), "-o", str(tmp_path / "page.html"))


def test_several_held_out_items_are_not_drawn_so_far(small: Interactions, tmp_path: Path) -> None:
    fedrec.run("popularity", small, STRICT.with_(held_out=2), threads=1, out=tmp_path / "run")
    assert "holds out several items" in refused(str(tmp_path / "run"), "-o", str(tmp_path / "page.html"))


def test_nothing_is_overwritten_without_force(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    out.write_text("mine", encoding="utf-8")
    assert "exists already" in refused(str(runs / "popularity-0"), "-o", str(out))
    assert out.read_text("utf-8") == "mine"
    done = CliRunner().invoke(
        app, ["report", str(runs / "popularity-0"), "-o", str(out), "--force", "--json"]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["runs"] == 1
    assert out.read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_a_missing_extra_is_said(
    runs: Path, tmp_path: Path, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    sentence = refused(str(runs / "popularity-0"), "-o", str(tmp_path / "page.html"))
    assert "pip install 'fedrec[report]'" in sentence


@pytest.mark.slow
def test_a_model_that_is_not_kept_leaves_its_figures_out(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "fedmf-0", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoint")
    text = report(tmp_path / "run", tmp_path / "page.html").path.read_text("utf-8")
    assert "landscape" not in re.findall(r'<figure id="[^"]*-(\w+)">', text)


def test_twenty_runs_make_a_small_page(runs: Path, tmp_path: Path) -> None:
    """Long histories are thinned and users binned: the page does not grow with either."""
    entries, _ = read_entries([runs / "fedmf-0"])
    history = entries[0].history
    many = [{**history[0], "round": n} for n in range(1, 3001)]
    entries[0].__dict__["history"] = many
    from fedrec.report.groups import Group
    from fedrec.report.numbers import convergence_numbers

    found = convergence_numbers(Group("small", "strict", [Case("fedmf", entries)]))
    assert len(found) <= 152
    assert found["round"].max() == 3000


def test_the_command_makes_the_same_run(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A config, as a command, is read back as the same config."""
    import shlex

    from fedrec.runs.command import command_of

    config = RunConfig(
        fedrec=fedrec.__version__, method="fedmf", settings={"fedmf.dim": 16}, data="demo", source="demo",
        fingerprint="x", protocol=STRICT.with_(candidates=50), seed=3, rounds=7, clients=0.5,
        channel=("laplace=0.1",), view="global", eval_every=2, k=(5, 10),
    )  # fmt: skip
    asked = {}

    def instead(
        method: str, data: str, protocol: object, rounds: int, seed: int, **options: object
    ) -> object:
        asked.update(method=method, data=data, protocol=protocol, rounds=rounds, seed=seed, **options)
        raise FedrecError("enough")

    monkeypatch.setattr("fedrec.runs.api.run", instead)
    CliRunner().invoke(app, shlex.split(command_of(config))[1:])
    assert asked["settings"] == {"fedmf.dim": "16"}
    assert (asked["data"], asked["protocol"], asked["rounds"], asked["seed"]) == (
        "demo",
        config.protocol,
        7,
        3,
    )
    assert (asked["clients"], asked["channel"], asked["view"]) == ("0.5", ["laplace=0.1"], "global")
    assert (asked["eval_every"], asked["k"]) == (2, "5,10")
