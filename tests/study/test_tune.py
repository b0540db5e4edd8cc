"""Searches: on validation only, ranges from beside the settings, shared and gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
from pydantic import Field

import fedrec
from fedrec.core.errors import FedrecError, Interrupted
from fedrec.core.settings import Search
from fedrec.data.interactions import Interactions
from fedrec.data.worlds import scalable
from fedrec.methods import ALIASES, METHODS, WRAPPERS, find, full_names, make, own_fields, settings_of
from fedrec.runs.presets import preset
from fedrec.study.space import space

optuna = pytest.importorskip("optuna")

from fedrec.study import trial  # noqa: E402
from fedrec.study.tune import Tuned, tune  # noqa: E402

SMALL: dict[str, Any] = {"rounds": 3, "settings": {"dim": 4}, "threads": 1}


def test_trials_that_are_asked_for_come_after_the_defaults(small: Interactions, tmp_path: Path) -> None:
    asked = [{"lr": 0.03, "weighting": "clients"}, {"fedrecon.eta": 5}]
    found = tune(
        "fedrecon", small, preset="paper", trials=3, out=tmp_path / "study", first=asked, **SMALL
    ).frame
    assert found["fedrecon.lr"].to_list() == [0.3, 0.03, 0.3]
    assert found["fedrecon.weighting"].to_list() == ["examples", "clients", "examples"]
    assert found["fedrecon.eta"].to_list() == [3, 3, 5]
    with pytest.raises(FedrecError, match=r"first trial with fedrecon\.user_std is none of this search"):
        tune("fedrecon", small, trials=3, out=tmp_path / "other", first=[{"user_std": 1}], **SMALL)


def usual() -> dict[str, Any]:
    """What a search of FedMF with a fixed length begins with."""
    everything = settings_of(make("fedmf", preset("fedmf", "honest").settings))
    return {name: everything[name] for name in ("fedmf.lr", "fedmf.eta")}


@pytest.fixture
def searched(small: Interactions, tmp_path: Path) -> Tuned:
    return tune("fedmf", small, trials=6, out=tmp_path / "study", **SMALL)


def test_what_is_asked_for_first_is_tried_in_a_study_that_is_there(
    small: Interactions, tmp_path: Path
) -> None:
    wanted = {"lr": 0.2, "eta": 40.0}
    tune("fedmf", small, trials=1, out=tmp_path / "study", **SMALL)
    found = tune("fedmf", small, trials=2, out=tmp_path / "study", first=[wanted], **SMALL)
    tried = [json.loads(one.user_attrs["settings"]) for one in found.trials]
    assert tried == [usual(), {f"fedmf.{name}": value for name, value in wanted.items()}]
    again = tune("fedmf", small, trials=3, out=tmp_path / "study", first=[wanted], **SMALL)
    assert json.loads(again.trials[2].user_attrs["settings"]) not in tried  # once is enough


def test_ranges_stand_beside_the_settings() -> None:
    names = [each.name for each in space("fedrecgel", {"radius_shared": 0.0})]
    assert names == ["fedneumf-adam.lr", "fedneumf-adam.lr_server", "gel.radius_private"]
    assert full_names("fedmf+gel", {"lr": 1, "gel.radius_shared": 2}) == {
        "fedmf.lr": 1,
        "gel.radius_shared": 2,
    }


@pytest.mark.parametrize("name", [n for n in (*METHODS, *WRAPPERS) if n not in ("popularity", "counter")])
def test_every_method_can_be_searched(name: str) -> None:
    kind, found = find(name), []
    for field in own_fields(kind):
        ranges = [each for each in kind.model_fields[field].metadata if isinstance(each, Search)]
        found += ranges
        for each in ranges:
            assert 0 <= each.low < each.high
            assert each.low > 0 or not each.log
            default = kind.model_fields[field].default
            if isinstance(default, int | float) and default:
                assert each.low <= default <= each.high, (
                    f"{name}.{field}: the default lies outside of the range"
                )
    assert found
    assert set(ALIASES) == {"fedrecgel"}  # its parts are among them


def test_a_word_competes_with_the_numbers(small: Interactions, tmp_path: Path) -> None:
    found = tune("fedals", small, trials=4, rounds=1, settings={"dim": 4}, threads=1, out=tmp_path / "study")
    alphas = [json.loads(t.user_attrs["settings"])["fedals.alpha"] for t in found.trials]
    assert alphas[0] == "auto"  # the first trial has the defaults
    assert any(isinstance(alpha, float) for alpha in alphas)


def test_what_has_no_range_cannot_be_searched() -> None:
    with pytest.raises(FedrecError, match="popularity has nothing left to search for"):
        space("popularity", {})
    with pytest.raises(FedrecError, match="nothing left to search for"):
        space("ease", {"lam": 10})


def test_the_best_is_at_least_as_good_as_the_defaults(searched: Tuned, small: Interactions) -> None:
    first = next(t for t in searched.trials if t.number == 0)
    assert searched.value >= first.value
    run = fedrec.run("fedmf", small, rounds=3, settings={"dim": 4})
    assert first.value == pytest.approx(run.validation["ndcg@10"])  # the first trial has the preset
    assert json.loads(first.user_attrs["settings"]) == usual()
    again = fedrec.run("fedmf", small, rounds=3, settings=searched.settings)
    assert again.validation["ndcg@10"] == pytest.approx(searched.value)
    assert searched.settings["fedmf.dim"] == 4  # fixed


def test_the_command_runs_the_best(searched: Tuned) -> None:
    words = searched.command.split()
    assert words[:3] == ["fedrec", "run", "fedmf"]
    assert "--rounds 3" in searched.command
    usual = settings_of(make("fedmf", preset("fedmf", "honest").settings))
    for name, value in searched.settings.items():
        assert (f"--set {name}={value}" in searched.command) == (value != usual[name])


def test_test_items_are_not_looked_at(
    small: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedrec.evaluate.exam import Exam

    lines = Exam.lines

    def only_valid(self: Exam, which: Any, users: Any) -> Any:
        assert which == "valid", "a search looked at test items"
        return lines(self, which, users)

    monkeypatch.setattr(Exam, "lines", only_valid)
    for method in ("fedmf", "ease", "mf"):
        options = {} if method == "ease" else {"rounds": 2}
        tune(method, small, trials=2, out=tmp_path / method, threads=1, **options)
    with pytest.raises(AssertionError, match="a search looked at test items"):
        fedrec.run("fedmf", small, rounds=1)


def test_what_falls_behind_is_stopped(
    small: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedrec.study import tune as module

    played: list[int] = []

    def validated(config: Any, parts: Any, threads: int, at: Any) -> tuple[float, int]:
        trials = len(played)
        for round in range(1, config.rounds + 1):
            played.append(round)
            at(round, 0.5 if trials < 4 * config.rounds else 0.1)
        return 0.5, 1

    monkeypatch.setattr(module, "validated", validated)
    found = tune("fedmf", small, trials=5, rounds=10, out=tmp_path / "study", threads=1)
    assert (found.count("COMPLETE"), found.count("PRUNED")) == (4, 1)
    assert len(played) < 50


def test_a_search_goes_on(searched: Tuned, small: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    before = searched.frame
    monkeypatch.setattr(trial, "train", lambda *_, **__: pytest.fail("a trial was made"))
    tune("fedmf", small, trials=6, out=searched.folder, **SMALL)
    monkeypatch.undo()
    more = tune("fedmf", small, trials=8, out=searched.folder, **SMALL)
    assert more.ended == 8
    assert more.frame[:6].equals(before)


def test_another_search_in_the_same_folder_is_refused(searched: Tuned, small: Interactions) -> None:
    changes: dict[str, dict[str, Any]] = {
        'settings {"fedmf.dim": 4}, not {"fedmf.dim": 5}': {"settings": {"dim": 5}},
        "rounds 3, not 4": {"rounds": 4},
        "seed 0, not 1": {"seed": 1},
    }
    for sentence, change in changes.items():
        with pytest.raises(FedrecError, match="holds a search with") as error:
            tune("fedmf", small, trials=7, out=searched.folder, **{**SMALL, **change})
        assert sentence in str(error.value)
    with pytest.raises(FedrecError, match=r"over .*fedmf\.lr.*, not over .*fedmf\.dim") as error:
        tune("fedmf", small, trials=7, out=searched.folder, **{**SMALL, "settings": {"lr": 0.1}})
    assert "{" not in str(error.value)
    assert searched.ended == 6


def test_a_file_that_is_no_study(small: Interactions, tmp_path: Path) -> None:
    (tmp_path / "study.db").write_text(
        "something else, of the length that a header has: " * 30, encoding="utf-8"
    )
    with pytest.raises(FedrecError, match=r"study\.db is damaged or no study"):
        tune("fedmf", small, trials=1, out=tmp_path, **SMALL)


def test_bad_numbers(small: Interactions, tmp_path: Path) -> None:
    with pytest.raises(FedrecError, match="trials=0 is too small"):
        tune("fedmf", small, trials=0, out=tmp_path)
    with pytest.raises(FedrecError, match="has no setting 'dimm'"):
        tune("fedmf", small, trials=1, settings={"dimm": 1}, out=tmp_path)


def test_without_optuna(small: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(FedrecError, match=r"pip install 'fedrec\[tune\]'"):
        tune("fedmf", small, trials=1, out=tmp_path)


def test_a_trial_that_cannot_end_says_why(small: Interactions, tmp_path: Path) -> None:
    found = tune("fedmf", small, trials=2, out=tmp_path / "study", clients=10_000, **SMALL)
    assert (found.ended, found.count("FAIL")) == (2, 2)
    with pytest.raises(FedrecError, match=r"no trial of fedmf came to an end: .*ask for fewer"):
        _ = found.best


def test_an_interrupted_trial_does_not_count(
    small: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedrec.study import tune as module

    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "validated", stop)
    with pytest.raises(Interrupted, match="the same command: 0 of 2 trials are done"):
        tune("fedmf", small, trials=2, out=tmp_path / "study", **SMALL)
    monkeypatch.undo()
    assert tune("fedmf", small, trials=2, out=tmp_path / "study", **SMALL).count("COMPLETE") == 2


@pytest.mark.slow
def test_two_processes_share_a_study_and_one_may_be_killed(
    tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    """A killed one's trial is made again; there are as many trials in the end as were asked for."""
    out = tmp_path / "study"
    script = (
        "import sys, fedrec\nfrom fedrec.data.worlds import scalable\nfrom fedrec.study.tune import tune\n"
        "tune('fedmf', scalable(60, 80, 1500), trials=6, rounds=int(sys.argv[2]), settings={'dim': 4}, "
        "out=sys.argv[1], threads=1)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(fedrec.__file__).parents[1])}

    def begin(rounds: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", script, str(out), str(rounds)], env=environment)

    doomed = begin(200_000)
    wait_until(lambda: list(out.glob(".trial-*")), doomed)
    doomed.send_signal(signal.SIGKILL)
    doomed.wait()
    study = optuna.load_study(study_name="fedrec", storage=f"sqlite:///{out / 'study.db'}")
    about = json.loads(study.user_attrs["about"])
    study.set_user_attr("about", json.dumps({**about, "rounds": 3}, sort_keys=True))  # the others are quick
    both = [begin(3), begin(3)]
    assert [process.wait(timeout=300) for process in both] == [0, 0]
    found = tune("fedmf", scalable(60, 80, 1500), trials=6, out=out, **SMALL)
    assert (found.ended, found.count("RUNNING")) == (6, 0), found.frame
    _killed, *others = study.get_trials()
    assert len(others) == 6
    assert others[0].params == usual()  # made again
    assert len({json.dumps(trial.params) for trial in others}) == 6, "processes draw different settings"


def test_a_range_of_ones_own(tmp_path: Path) -> None:
    from fedrec.methods.fedmf import FedMF

    class Mine(FedMF):
        name: ClassVar[str] = "mine"
        eta: Annotated[float, Search(2, 3)] = Field(2.5, gt=0)

    fields = Mine.model_fields
    assert [each for each in fields["eta"].metadata if isinstance(each, Search)] == [Search(2, 3)]


def test_a_ledger_takes_a_search_elsewhere(small: Interactions, tmp_path: Path) -> None:
    ledger, first = tmp_path / "fedmf.jsonl", [{"lr": 0.03}]

    def search(out: str, trials: int, **how: Any) -> Tuned:
        return tune(
            "fedmf", small, trials=trials, out=tmp_path / out, ledger=ledger, first=first, **SMALL | how
        )

    here = search("here", 5)
    heading, *rows = map(json.loads, ledger.read_text(encoding="utf-8").splitlines())
    assert heading["about"]["method"] == "fedmf"
    assert len(rows) == 5
    assert not any("test" in row for row in rows)
    elsewhere = search("elsewhere", 7)  # of which five are made
    assert elsewhere.frame.head(5).equals(here.frame.head(5))
    assert elsewhere.frame.equals(search("here", 7).frame)  # the sampler learned the same from both
    assert elsewhere.settings == search("third", 7).settings
    assert len(ledger.read_text(encoding="utf-8").splitlines()) == 8
    with pytest.raises(FedrecError, match="trials of another search, with another rounds"):
        search("other", 7, rounds=4)
    ledger.write_text("{}", encoding="utf-8")
    with pytest.raises(FedrecError, match="is no ledger of a search, or damaged"):
        search("fourth", 7)
    assert not (tmp_path / "fourth").exists()


def test_a_ledger_loses_no_trials_of_others(small: Interactions, tmp_path: Path) -> None:
    ledger = tmp_path / "fedmf.jsonl"

    def search(out: str, trials: int) -> Tuned:
        return tune("fedmf", small, trials=trials, out=tmp_path / out, ledger=ledger, **SMALL)

    search("a", 2)
    search("b", 4)
    back = search("a", 5)  # where two are known so far
    assert back.ended == 5
    assert len(ledger.read_text(encoding="utf-8").splitlines()) == 6
    with pytest.raises(FedrecError, match=r"there is no folder .* for the ledger"):
        tune("fedmf", small, trials=2, out=tmp_path / "c", ledger=tmp_path / "no" / "x.jsonl", **SMALL)
