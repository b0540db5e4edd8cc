"""fedrec.run, open and resume as a user meets them, and the sentences that bad input gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions, from_codes
from fedrec.methods.fedmf import FedMF
from fedrec.wrap.dualper import DualPer


@pytest.fixture(scope="module")
def run(small: Interactions) -> fedrec.Run:
    return fedrec.run("pfedrec", small, rounds=4, settings={"dim": 8}, eval_every=2)


def test_figures_are_those_of_the_round_selected_on_validation(run: fedrec.Run) -> None:
    lines = run.history.filter(pl.col("ndcg@10").is_not_null())
    best = lines.sort("ndcg@10", "round", descending=[True, False]).row(0, named=True)
    assert run.result["selected_round"] == best["round"]
    assert run.validation["ndcg@10"] == pytest.approx(best["ndcg@10"])
    assert set(run.test) == {"hr@10", "ndcg@10", "mrr@10", "auc", "full"}
    assert all(0 <= run.test[name] <= 1 for name in ("hr@10", "ndcg@10", "mrr@10", "auc"))
    assert run.test["full"]["hr@10"] <= run.test["hr@10"]


def test_history_is_a_frame_with_a_line_per_round(run: fedrec.Run) -> None:
    assert run.history["round"].to_list() == [1, 2, 3, 4]
    assert run.history["clients"].to_list() == [60] * 4
    assert run.history["hr@10"].is_null().to_list() == [True, False, True, False]
    assert run.history["loss"][3] < run.history["loss"][0]


def test_ranks_hold_a_line_per_user(run: fedrec.Run, small: Interactions) -> None:
    ranks = run.ranks
    assert ranks["user"].to_list() == small.user_ids.tolist()
    assert run.test["hr@10"] == pytest.approx((ranks["test_rank"] < 10).mean())
    assert run.test["full"]["hr@10"] == pytest.approx((ranks["test_full_rank"] < 10).mean())
    assert (ranks["test_rank"] <= ranks["test_among"]).all()


def test_the_result_tells_how_it_was_made(run: fedrec.Run) -> None:
    result = run.result
    assert (result["method"], result["data"], result["protocol"], result["seed"]) == (
        "pfedrec", "scalable-60-80-1500", "strict", 0,
    )  # fmt: skip
    assert result["settings"]["pfedrec.dim"] == 8
    assert {"popularity", "counter"} <= set(result["controls"])
    assert result["versions"]["fedrec"] == fedrec.__version__
    assert result["clients_per_second"] > 0
    assert "HR@10" in repr(run)


def test_recommendations_are_new_to_the_user_and_best_first(run: fedrec.Run, small: Interactions) -> None:
    user = 7
    found = run.recommend(user, k=5)
    assert found.columns == ["item", "title", "score"]
    assert len(found) == 5
    assert (np.diff(found["score"]) <= 0).all()
    met = set(small.items_of(user).tolist())  # held-out items too
    assert not met & set(found["item"].to_list())
    everything = run.recommend(str(user), k=80, include_seen=True)
    assert set(everything["item"].to_list()) == set(range(80))
    assert len(run.recommend(user, k=500)) == 80 - len(met), "no more than there are"


def test_views_rank_differently(run: fedrec.Run) -> None:
    assert run.evaluate() == run.evaluate("own")
    assert run.evaluate("own")["auc"] == run.test["auc"]
    assert run.evaluate("global")["auc"] != run.test["auc"]
    assert run.evaluate(full=True)["hr@10"] == run.test["full"]["hr@10"]
    scores = {
        view: run.recommend(7, k=80, view=view)["score"].to_list() for view in ("own", "global", "random")
    }  # type: ignore[arg-type]
    assert scores["own"] != scores["global"] != scores["random"]


def test_a_saved_run_opens_as_it_was(run: fedrec.Run, small: Interactions, tmp_path: Path) -> None:
    path = fedrec.run("pfedrec", small, rounds=2, settings={"dim": 8}).save(tmp_path / "first")
    opened = fedrec.open(path, small)
    copy = fedrec.open(opened.save(tmp_path / "second"), small)
    for again in (opened, copy):
        assert again.result["test"] == opened.test
        assert again.evaluate("global") == opened.evaluate("global")
        assert again.recommend(3).equals(opened.recommend(3))
        assert len(again.history) == 2
    with pytest.raises(FedrecError, match="exists already"):
        opened.save(tmp_path / "second")
    assert fedrec.resume(tmp_path / "second", rounds=3, data=small).result["rounds"] == 3
    assert fedrec.open(path, small).result["rounds"] == 2, "the copy went on, not the first"


def test_yardsticks_run_open_and_recommend_like_the_others(small: Interactions, tmp_path: Path) -> None:
    made = fedrec.run("ease", small, out=tmp_path / "run")
    opened = fedrec.open(tmp_path / "run", small)
    assert opened.test == made.test
    assert opened.recommend(3).equals(made.recommend(3))
    assert len(made.history) == 0
    assert fedrec.resume(tmp_path / "run", data=small).test == made.test
    with pytest.raises(FedrecError, match="ease has no views: it is not federated"):
        made.evaluate("own")


def test_local_is_a_control_that_learns_less(tastes: Interactions) -> None:
    shared, alone = (
        fedrec.run("fedmf", tastes, rounds=30, settings={"dim": 8}, local=local) for local in (False, True)
    )
    assert alone.result["local"]
    assert alone.result["view"] == "own"
    assert shared.test["auc"] > alone.test["auc"] + 0.2


def test_clients_are_asked_for_as_text_too(tastes: Interactions) -> None:
    for asked in ("0.5", 0.5, "20", 20):
        made = fedrec.run("fedmf", tastes, rounds=1, settings={"dim": 4}, clients=asked)
        assert made.history["clients"].to_list() == [20]


def test_a_method_of_ones_own_is_found_again(small: Interactions, tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "from fedrec.methods.fedmf import FedMF\n\n\nclass Mine(FedMF):\n    name = 'mine'\n    dim: int = 6\n",
        encoding="utf-8",
    )
    made = fedrec.run(f"{file}:Mine+dualper", small, rounds=2, out=tmp_path / "run")
    assert made.method.label == "mine+dualper"
    opened = fedrec.open(tmp_path / "run", small)
    assert opened.method == made.method
    assert opened.recommend(3).equals(made.recommend(3))
    assert fedrec.resume(tmp_path / "run", rounds=3, data=small).result["rounds"] == 3


# -- bad input: one sentence with what was wrong, the value, and what to do ---------------------


@pytest.mark.parametrize(
    ("method", "options", "sentence"),
    [
        ("pfedrek", {}, "unknown method 'pfedrek': did you mean 'pfedrec'?"),
        ("fedmf+dualpar", {}, "unknown method 'dualpar': did you mean 'dualper'?"),
        ("fedmf+pfedrec", {}, "'pfedrec' is not a wrapper"),
        ("dualper", {}, "'dualper' is a wrapper: put it over a method, as in fedmf+dualper"),
        ("ease+dualper", {}, "ease has no 'step' and 'view'"),
        (
            "fedrecgel+dualper",
            {},
            "send a gradient and tune none: take a method whose clients' moves are averaged",
        ),
        ("nothing.py:Mine", {}, "there is no file 'nothing.py': give your method as file.py:Class"),
        ("fedmf", {"settings": {"dim": 0}}, "fedmf: dim=0 is not valid: input should be greater than or"),
        ("fedmf", {"settings": {"dim": "many"}}, "fedmf: dim=many is not valid"),
        ("fedmf", {"settings": {"lr": -0.1}}, "fedmf: lr=-0.1 is not valid: input should be greater than 0"),
        ("fedmf", {"settings": {"lr": float("nan")}}, "fedmf: lr=nan is not valid"),
        ("fedmf", {"settings": {"epoch": 2}}, "fedmf has no setting 'epoch': did you mean 'epochs'?"),
        ("pfedrec", {"settings": {"hidden": "8,0"}}, "pfedrec: hidden=0 is not valid"),
        ("pfedrec", {"settings": {"hidden": "8,x"}}, "pfedrec: hidden=x is not valid"),
        ("fedmf+dualper", {"settings": {"dualper.dim": 4}}, "fedmf+dualper has no setting 'dualper.dim'"),
        ("popularity", {"settings": {"dim": 4}}, "popularity has no setting 'dim'"),
        (FedMF(), {"settings": {"dim": 4}}, "give settings to the method's class or by name, not both"),
        ("fedmf", {"protocol": "strikt"}, "unknown protocol 'strikt': did you mean 'strict'?"),
        ("fedmf", {"data": "ml-100"}, "unknown data set 'ml-100': did you mean 'ml-100k'?"),
        ("fedmf", {"rounds": 0}, "rounds=0 is not valid"),
        ("fedmf", {"rounds": 2.5}, "rounds=2.5 is not valid"),
        ("fedmf", {"seed": -1}, "seed=-1 is not valid"),
        ("fedmf", {"threads": 0}, "threads=0 cannot work: give at least 1"),
        ("fedmf", {"clients": 0}, "clients=0 is not valid: input should be greater than 0"),
        ("fedmf", {"clients": 0.001}, "clients=0.001 samples no client of 40: ask for at least one"),
        ("fedmf", {"clients": 41}, "clients=41 is more than the 40 there are: ask for fewer"),
        ("fedmf", {"clients": "many"}, "clients=many is not valid"),
        ("fedmf", {"view": "mine"}, "view=mine is not valid"),
        (
            "fcf",
            {"view": "own"},
            "view 'own' does not apply to fcf: its devices have no item rows of their own",
        ),
        ("fedals", {"view": "random"}, "view 'random' does not apply to fedals"),
        (
            "fedmf",
            {"view": "global", "local": True},
            "view 'global' does not apply to fedmf: nothing is aggregated",
        ),
        ("fedmf", {"engine": "quick"}, "engine=quick is not valid"),
        ("fedmf", {"eval_every": 0}, "eval_every=0 is not valid"),
        ("fedmf", {"patience": 0}, "patience=0 is not valid"),
        ("fedmf", {"channel": ["noise=1"]}, "unknown channel stage 'noise'"),
        (
            "fedmf",
            {"local": True, "channel": ["laplace=1"]},
            "--local uploads nothing, so --channel does not",
        ),
        (
            "fedrap",
            {"engine": "fused", "settings": {"regularizer": "nuclear"}},
            "engine 'fused' cannot run fedrap",
        ),
        ("ease", {"rounds": 3}, "ease is not trained in rounds, leave --rounds out"),
        ("ease", {"clients": 3}, "--clients does not apply to ease: it is not federated"),
        ("ease", {"channel": ["laplace=1"]}, "--channel does not apply to ease"),
        ("ease", {"view": "own"}, "--view does not apply to ease"),
        ("ease", {"local": True}, "--local does not apply to ease"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing_behind(
    tastes: Interactions, tmp_path: Path, method: Any, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(FedrecError) as error:
        fedrec.run(method, **{"data": tastes, "out": tmp_path / "run", **options})
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_settings_of_the_base_are_not_the_wrappers() -> None:
    with pytest.raises(FedrecError, match="batch_size is a setting of fedmf, not of dualper"):
        DualPer(FedMF(), batch_size=8)


def test_a_wrapper_over_a_method_without_its_seam() -> None:
    with pytest.raises(FedrecError, match="dualper goes over methods trained by gradient steps: ease has no"):
        DualPer(fedrec.methods.EASE())


def test_users_and_numbers_that_cannot_be_recommended_for(run: fedrec.Run) -> None:
    with pytest.raises(FedrecError, match="user 'nobody' took no part in this run: users run from 0 to 59"):
        run.recommend("nobody")
    with pytest.raises(FedrecError, match="k=0 asks for no recommendation: give at least 1"):
        run.recommend(3, k=0)


def world(lengths: list[int]) -> Interactions:
    users = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    items = np.concatenate([np.arange(n, dtype=np.int32) for n in lengths])
    return from_codes("tiny", users, items, np.arange(len(users)), np.arange(len(lengths)), np.arange(12))


def test_clients_without_data_to_train_on_take_no_part() -> None:
    made = fedrec.run("fedmf", world([0, 6, 2, 5, 1, 3]), rounds=2, settings={"dim": 4})
    assert made.ranks["user"].to_list() == [1, 3, 5]
    assert made.result["users"] == 3
    assert made.result["users_dropped"] == 3
    with pytest.raises(FedrecError, match="user '2' took no part in this run"):
        made.recommend(2)


def test_data_in_which_nobody_can_train() -> None:
    with pytest.raises(
        FedrecError, match="no user of tiny has the 3 interactions that protocol 'strict' needs"
    ):
        fedrec.run("fedmf", world([2, 1, 2]))


def test_files_that_hold_no_method(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("Number = int\n", encoding="utf-8")
    (tmp_path / "broken.py").write_text("import nothing_of_this_name\n", encoding="utf-8")
    (tmp_path / "wrap.py").write_text(
        "from fedrec.core.wrapper import Wrapper\n\n\nclass Mine(Wrapper):\n    name = 'mine'\n",
        encoding="utf-8",
    )
    for spec, sentence in {
        "own.py:Mine": "defines no method 'Mine': write a class derived from a fedrec method",
        "own.py:Number": "defines no method 'Number'",
        "broken.py:Mine": "cannot be imported: ModuleNotFoundError: No module named 'nothing_of_this_name'",
        "wrap.py:Mine": "is a wrapper: put it over a method",
    }.items():
        with pytest.raises(FedrecError, match=sentence):
            fedrec.run(str(tmp_path / spec), world([5, 5, 5]))
