"""Whatever people give in Python becomes a value or one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Group
from fedrec.core.gradient import GradientMethod
from fedrec.core.optim import SGD
from fedrec.core.slots import normal, private, shared
from fedrec.core.wrapper import Wrapper
from fedrec.data.interactions import Interactions
from fedrec.methods import FedMF, FedNCF
from fedrec.runs.border import several, texts, whole
from fedrec.runs.run import Run
from fedrec.wrap.dualper import DualPer

THREE = [3, np.int64(3), np.uint8(3), np.float32(3), "3", 3.0]


@pytest.fixture(scope="module")
def run(tastes: Interactions) -> Run:
    return fedrec.run(FedMF(dim=4), tastes, rounds=2)


@pytest.mark.parametrize("three", THREE)
def test_every_way_to_write_a_number(tastes: Interactions, three: Any) -> None:
    method = FedMF(dim=three)
    found = fedrec.run(
        method, tastes, rounds=three, seed=three, threads=three, eval_every=three, checkpoint_every=three
    )
    assert found.config.seed == found.config.rounds == found.config.eval_every == method.dim == 3
    assert type(found.config.seed) is type(found.config.rounds) is type(method.dim) is int
    assert found.result["test"] == fedrec.run(FedMF(dim=3), tastes, rounds=3, seed=3, eval_every=3).test
    assert len(found.recommend(user=7, k=three)) == len(found.similar(3, k=three)) == 3


def test_arrays_of_settings() -> None:
    assert FedNCF(hidden=np.array([8, 4])).hidden == FedNCF(hidden="8,4").hidden == (8, 4)


def test_a_number_is_no_truth_and_a_text_is_one_thing() -> None:
    assert whole("k", "4") == 4
    assert several("12") == ["12"]
    assert several(12) == several(np.int64(12)) == several([12]) == several(pl.Series([12])) == [12]
    assert texts("laplace=0.5,clip=1") == ("laplace=0.5,clip=1",)


@pytest.mark.parametrize(
    ("method", "options", "sentence"),
    [
        (FedMF, {}, "FedMF is a class: give an object, such as FedMF()"),
        (None, {}, "None is no method: give a name, such as 'fedmf', or an object such as FedMF()"),
        ("fedmf", {"protocol": None}, "protocol=None is no protocol: give 'strict' or "),
        ("fedmf", {"threads": "two"}, "threads=two is no whole number"),
        ("fedmf", {"threads": True}, "threads=True is no whole number"),
        ("fedmf", {"threads": "0"}, "threads=0 cannot work: give at least 1"),
        ("fedmf", {"seed": 1.5}, "seed=1.5 is not valid"),
        ("fedmf", {"seed": True}, "seed=True is not valid: give a number"),
        ("fedmf", {"clients": True}, "clients=True is not valid: give a number"),
        ("fedmf", {"clients": "ten"}, "clients=ten is not valid: give a fraction such as 0.1 or a number"),
        ("fedmf", {"clients": float("nan")}, "clients=nan is not valid: input should be a finite number"),
        ("fedmf", {"rounds": 0}, "rounds=0 is not valid: input should be greater than or equal to 1"),
        ("fedmf", {"settings": ["dim"]}, "settings=['dim'] are no names with values: give a dict"),
        ("fedmf", {"settings": {"lr": "inf"}}, "fedmf: lr=inf is not valid: input should be a finite number"),
        ("fedmf", {"settings": {"lr": np.nan}}, "fedmf: lr=nan is not valid: input should be a finite"),
        ("fedmf", {"settings": {"dim": True}}, "fedmf: dim=True is not valid: give a number"),
        ("fedmf", {"checkpoint_every": float("nan")}, "--checkpoint-every nan is no time: give seconds"),
        ("fedmf", {"checkpoint_every": -1}, "--checkpoint-every -1 is no time: give seconds"),
        ("fedmf", {"callbacks": ["print"]}, "the callback print cannot be called: give a function"),
        ("fedmf", {"out": 5}, "out=5 is no path: give it as text or as a Path"),
        ("fedmf", {"start": 5}, "start=5 is no path: give it as text or as a Path"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(
    tastes: Interactions, method: Any, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(FedrecError) as error:
        fedrec.run(method, tastes, **{"rounds": 1, **options})
    assert str(error.value).startswith(sentence)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"user": 7, "k": 1.5}, "k=1.5 is no whole number: give one, such as k=3"),
        ({"user": 7, "k": None}, "k=None is no whole number"),
        ({"user": 7, "k": "many"}, "k=many is no whole number"),
        ({"user": 7, "view": "x"}, "unknown view 'x': known: global, own, random"),
        ({"likes": [3], "view": "x"}, "unknown view 'x'"),
    ],
)
def test_asking_a_run(run: Run, words: dict[str, Any], sentence: str) -> None:
    with pytest.raises(FedrecError, match=sentence):
        run.recommend(**words)


def test_one_like_is_one_item(run: Run) -> None:
    alone = run.recommend(likes=["12"], k=3)
    for like in ("12", 12, np.int64(12), np.array([12]), pl.Series([12]), (12,)):
        assert run.recommend(likes=like, k=3).equals(alone)
    assert len(run.join(["12", "7"]).all(np.arange(2))) == 2


def test_lengths_of_lists_in_any_form(tastes: Interactions) -> None:
    for lengths in (5, np.int64(5), "5", [5], np.array([5]), (5.0,)):
        assert fedrec.run("popularity", tastes, k=lengths).config.k == (5, 10)  # type: ignore[arg-type]


def test_evaluate_knows_its_views(run: Run) -> None:
    with pytest.raises(FedrecError, match="unknown view 'x': known: global, own, random"):
        run.evaluate("x")  # type: ignore[arg-type]


def test_folders_as_text_and_path(tastes: Interactions, tmp_path: Path) -> None:
    for number, kind in enumerate((str, Path)):
        place = kind(tmp_path / f"run{number}")
        fedrec.run("fedmf", tastes, rounds=np.int64(1), out=place)
        assert fedrec.resume(place, rounds="2", data=tastes, threads="1").config.rounds == 2  # type: ignore[arg-type]
        assert fedrec.open(place, data=tastes, threads=np.int64(1)).threads == 1  # type: ignore[arg-type]
    for ask in (fedrec.open, fedrec.resume):
        with pytest.raises(FedrecError, match="path=None is no path"):
            ask(None)  # type: ignore[operator]


def test_a_single_callback_and_a_single_stage(tastes: Interactions) -> None:
    seen: list[int] = []
    found = fedrec.run(
        "fedmf",
        tastes,
        rounds=2,
        channel="laplace=0.5",
        callbacks=lambda record, _: seen.append(record.round),
    )  # type: ignore[arg-type]
    assert seen == [1, 2]
    assert found.config.channel == ("laplace=0.5",)


def test_metamf_is_not_exported_for_its_own_reason(tastes: Interactions, tmp_path: Path) -> None:
    found = fedrec.run("metamf", tastes, rounds=1)
    with pytest.raises(FedrecError, match="metamf cannot be exported for devices: its server makes a model"):
        found.export(tmp_path / "model.safetensors")
    alone = fedrec.run("fedmf", tastes, rounds=1, local=True)
    with pytest.raises(FedrecError, match="--local"):
        alone.export(tmp_path / "model.safetensors")


class Own(GradientMethod):
    """A little factor model that trains what it is told to."""

    citation, use_when, reveals = "none", "never", "everything"
    trains: str = "items"

    def slots(self, catalog: Any) -> dict[str, Any]:
        return {
            "items": shared(catalog.n_items, 4, start=normal(0.1), rows=True),
            "user": private(4, start=normal(0.1)),
        }

    def groups(self, catalog: Any, round: int) -> list[Group]:
        return [Group(("user",), SGD(0.1), "private"), Group((self.trains,), SGD(1.0), "shared")]

    def logits(self, p: Any, i: Any) -> Any:
        return p.items[i] @ p.user


class Named(Own):
    name = "named"


class Strategy(Wrapper):
    seams = ("loss",)


def test_a_method_of_ones_own_needs_a_name(tmp_path: Path) -> None:
    with pytest.raises(FedrecError, match='Own has no name: write name = "own" in the class'):
        Own()
    with pytest.raises(FedrecError, match="Strategy has no name"):
        Strategy(FedMF())
    with pytest.raises(FedrecError, match="dualper goes over a method, not over <class"):
        DualPer(FedMF)  # type: ignore[arg-type]
    (tmp_path / "own.py").write_text("from fedrec.methods import FedMF\n\nclass Own(FedMF):\n    name = ''\n")
    with pytest.raises(FedrecError, match="Own has no name"):
        fedrec.run(f"{tmp_path}/own.py:Own")


def test_groups_name_slots(tastes: Interactions) -> None:
    fedrec.run(Named(), tastes, rounds=1)
    with pytest.raises(FedrecError) as error:
        fedrec.run(Named(trains="itms"), tastes, rounds=1)
    assert str(error.value) == "a group of named names 'itms', which is no slot: did you mean 'items'?"


@pytest.mark.parametrize("user", [3, 3.0, np.float32(3), np.int64(3), "3"])
def test_ids_that_are_whole_numbers(tastes: Interactions, user: Any) -> None:
    run = fedrec.run("popularity", tastes)
    assert run.recommend(user, k=3).equals(run.recommend(3, k=3))
    assert run.recommend(likes=[user], k=3).equals(run.recommend(likes=[3], k=3))


@pytest.mark.parametrize("user", [3.5, float("nan"), float("inf")])
def test_ids_that_are_no_whole_numbers(tastes: Interactions, user: float) -> None:
    with pytest.raises(FedrecError, match=f"user '{user}' took no part in this run"):
        fedrec.run("popularity", tastes).recommend(user)
