"""Rounds: what is selected, when a run stops, and what happens to clients that are not finite."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Params
from fedrec.core.gradient import Group
from fedrec.core.slots import Catalog, Slot
from fedrec.data.interactions import Interactions
from fedrec.data.split import split
from fedrec.engine.checkpoint import load_checkpoint
from fedrec.engine.cohort import sample_cohort
from fedrec.engine.history import History
from fedrec.engine.round import Diverged, Federation
from fedrec.engine.train import train
from fedrec.evaluate.protocol import STRICT
from fedrec.methods.fedmf import FedMF
from fedrec.methods.pfedrec import PFedRec
from fedrec.testing import different, poison, with_unknown_items


class Told(Federation):
    """A federation whose validation figures are told in advance."""

    figures: ClassVar[list[float]] = []

    def _select(self, moment: Any, record: Any, metrics: dict[str, float]) -> None:
        value = self.figures[record.round - 1]
        super()._select(moment, record, {**metrics, "ndcg@10": value, "hr@10": 1 - value})


def told(data: Interactions, figures: list[float], protocol: Any = "strict") -> Told:
    federation = Told(FedMF(dim=4), split(data, protocol), rounds=len(figures))
    federation.figures = figures  # type: ignore[misc]
    return federation


@pytest.mark.parametrize(("tie", "selected"), [("first", 2), ("last", 4)])
def test_the_first_or_the_last_of_the_best_rounds_is_selected(
    tastes: Interactions, tie: str, selected: int
) -> None:
    protocol = STRICT.model_copy(update={"select_tie": tie})
    federation = told(tastes, [0.1, 0.5, 0.3, 0.5, 0.2], protocol)
    train(federation, History())
    assert federation.selected is not None
    assert (federation.selected.round, federation.selected.value) == (selected, 0.5)
    assert federation.selected.moment.after.round == selected
    assert federation.state.round == 5, "the last state is kept beside the selected one"


def test_the_protocol_says_which_figure_selects(tastes: Interactions) -> None:
    federation = told(tastes, [0.1, 0.5, 0.3], STRICT.model_copy(update={"select_on": "hr@10"}))
    train(federation, History())
    assert federation.selected is not None
    assert federation.selected.round == 1


def test_patience_counts_validations_without_a_better_one(tastes: Interactions) -> None:
    federation = told(tastes, [0.1, 0.5, 0.5, 0.4, 0.9])
    stopped = train(federation, History(), patience=2)
    assert stopped == "stopped early: no better validation figure in 2 evaluations"
    assert federation.state.round == 4
    assert federation.selected is not None
    assert federation.selected.round == 2


def test_patience_is_counted_in_validations_not_in_rounds(tastes: Interactions) -> None:
    federation = told(tastes, [0.9, 0.5, 0.9, 0.4, 0.9, 0.3, 0.9, 0.9])
    train(federation, History(), eval_every=2, patience=2)
    assert federation.state.round == 6


def test_all_rounds_are_played_while_it_gets_better(tastes: Interactions) -> None:
    federation = told(tastes, [0.1, 0.2, 0.3, 0.4])
    assert train(federation, History(), patience=1) == ""
    assert federation.state.round == 4


def test_validation_every_k_rounds_and_at_the_end(tastes: Interactions) -> None:
    history = History()
    train(Federation(FedMF(dim=4), split(tastes), rounds=8), history, eval_every=3)
    assert [line["round"] for line in history.lines if "validation" in line] == [3, 6, 8]
    assert len(history.lines) == 8


def test_callbacks_see_every_round_as_it_ends(tastes: Interactions) -> None:
    seen = []

    def callback(record: Any, federation: Federation) -> None:
        seen.append((record.round, federation.state.round, record.validation is not None))

    fedrec.run("fedmf", tastes, rounds=3, settings={"dim": 4}, eval_every=2, callbacks=[callback])
    assert seen == [(1, 1, False), (2, 2, True), (3, 3, True)]


# -- clients that are not finite ---------------------------------------------------------------


class Exploding(PFedRec):
    """Learns well for two rounds."""

    name: ClassVar[str] = "exploding"

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        return PFedRec(dim=self.dim, lr=1e30 if round > 2 else 0.1).groups(catalog, round)


@pytest.mark.parametrize("engine", ["plain", "fused"])
def test_a_diverged_round_leaves_the_state_before_it(tastes: Interactions, engine: str) -> None:
    federation = Federation(Exploding(dim=4), split(tastes), engine_name=engine)
    for _ in range(2):
        federation.play(evaluate=True)
    before = federation.state
    with pytest.raises(
        Diverged, match=r"exploding diverged in round 3: 40 of 40 clients .* smaller learning"
    ):
        federation.play(evaluate=True)
    assert federation.state is before


def test_a_run_that_diverges_says_so_and_keeps_the_last_good_state(
    tastes: Interactions, tmp_path: Path
) -> None:
    run = fedrec.run(Exploding(dim=4), tastes, rounds=9, out=tmp_path / "run")
    assert run.result["stopped"].startswith("exploding diverged in round 3")
    assert run.result["rounds"] == 2
    assert len(run.history) == 2
    good = fedrec.run(PFedRec(dim=4), tastes, rounds=2)
    assert good.ranks.equals(run.ranks)
    state, _ = load_checkpoint(tmp_path / "run" / "checkpoint")
    assert good.federation is not None
    assert different(state, good.federation.state) == []


def test_a_run_that_never_had_a_good_state_is_an_error(tastes: Interactions) -> None:
    with pytest.raises(FedrecError, match="fedmf diverged in round 1"):
        fedrec.run("fedmf", tastes, rounds=3, settings={"dim": 4, "lr": 1e37})


def test_a_run_that_diverges_before_its_first_evaluation_still_has_a_result(tastes: Interactions) -> None:
    run = fedrec.run(Exploding(dim=4), tastes, rounds=9, eval_every=9)
    assert run.result["stopped"].startswith("exploding diverged in round 3")
    good = fedrec.run(PFedRec(dim=4), tastes, rounds=2, eval_every=2)
    assert good.result["selected_round"] == run.result["selected_round"] == 2
    assert good.ranks.equals(run.ranks)


@pytest.mark.parametrize("engine", ["plain", "fused"])
def test_a_dropped_client_keeps_the_rows_it_had(tastes: Interactions, engine: str) -> None:
    data = with_unknown_items(tastes, 2000)
    federation = Federation(PFedRec(dim=4), split(data), clients=39, engine_name=engine)
    federation.play(evaluate=False)
    user = np.array([poison(federation)])
    assert user in sample_cohort(0, 2, 40, 39)
    before = federation.state.rows["items"].get(user)
    assert len(before.values), "it took part in the first round"
    record = federation.play(evaluate=False)
    assert record.dropped == 1
    after = federation.state.rows["items"].get(user)
    np.testing.assert_array_equal(after.held.items, before.held.items)
    np.testing.assert_array_equal(after.values, before.values)


# -- private slots have no route out -----------------------------------------------------------


class Leaky(FedMF):
    """Hands its user vector over."""

    name: ClassVar[str] = "leaky"

    def upload(self, shared: Params, p: Params) -> Params:
        return {**super().upload(shared, p), "score": p["score"]}


class Declared(Leaky):
    """Declares it, too."""

    name: ClassVar[str] = "declared"

    def uploads(self, catalog: Catalog) -> dict[str, Slot]:
        return self.slots(catalog)


class Smuggling(FedMF):
    """Hands its user vector over under another name."""

    name: ClassVar[str] = "smuggling"

    def upload(self, shared: Params, p: Params) -> Params:
        return {**super().upload(shared, p), "profile": p["score"]}


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (Leaky(dim=4), "'score' is a private slot of leaky: it may not leave a client"),
        (Declared(dim=4), "'score' is a private slot of declared: it may not leave a client"),
        (Smuggling(dim=4), "'profile' is not declared in the uploads of smuggling: it may not leave"),
    ],
)
def test_a_method_that_gives_private_slots_away_cannot_run(
    tastes: Interactions, method: FedMF, sentence: str
) -> None:
    with pytest.raises(FedrecError, match=sentence):
        fedrec.run(method, tastes, rounds=1)
