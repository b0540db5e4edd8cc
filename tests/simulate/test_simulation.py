"""Rounds: what is selected, when a run stops, and what happens to clients that are not finite."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Group, Params
from fedrec.core.protocol import STRICT
from fedrec.core.slots import Catalog
from fedrec.core.upload import Uploads
from fedrec.data.interactions import Interactions
from fedrec.data.split import split
from fedrec.evaluate.metrics import Ranks, summary
from fedrec.methods.fedmf import FedMF
from fedrec.methods.pfedrec import PFedRec
from fedrec.runs.history import History
from fedrec.runs.train import train
from fedrec.server.cohort import sample_cohort
from fedrec.server.divergence import Diverged
from fedrec.simulate.checkpoint import load_checkpoint
from fedrec.simulate.moment import Moment, Round
from fedrec.simulate.simulation import Simulation
from fedrec.testing import different, poison, with_unknown_items


class Told(Simulation):
    """A simulation whose validation figures are told in advance."""

    figures: ClassVar[list[float]] = []

    def evaluate(self, before: Moment, record: Round, ranks: Ranks | None = None) -> None:
        value = self.figures[record.round - 1]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "fedrec.simulate.simulation.summary",
                lambda found: {**summary(found), "ndcg@10": value, "hr@10": 1 - value},
            )
            super().evaluate(before, record, ranks)


def told(data: Interactions, figures: list[float], protocol: Any = "strict") -> Told:
    simulation = Told(FedMF(dim=4), split(data, protocol), rounds=len(figures))
    simulation.figures = figures  # type: ignore[misc]
    return simulation


@pytest.mark.parametrize(("tie", "selected"), [("first", 2), ("last", 4)])
def test_the_first_or_the_last_of_the_best_rounds_is_selected(
    tastes: Interactions, tie: str, selected: int
) -> None:
    protocol = STRICT.model_copy(update={"select_tie": tie})
    simulation = told(tastes, [0.1, 0.5, 0.3, 0.5, 0.2], protocol)
    train(simulation, History())
    assert simulation.selected is not None
    assert (simulation.selected.round, simulation.selected.value) == (selected, 0.5)
    assert simulation.selected.moment.server.round == selected
    assert simulation.moment.round == 5, "the last state is kept beside the selected one"


def test_the_protocol_says_which_figure_selects(tastes: Interactions) -> None:
    simulation = told(tastes, [0.1, 0.5, 0.3], STRICT.model_copy(update={"select_on": "hr@10"}))
    train(simulation, History())
    assert simulation.selected is not None
    assert simulation.selected.round == 1


def test_patience_counts_validations_without_a_better_one(tastes: Interactions) -> None:
    simulation = told(tastes, [0.1, 0.5, 0.5, 0.4, 0.9])
    stopped = train(simulation, History(), patience=2)
    assert stopped == "stopped early: no better validation figure in 2 evaluations"
    assert simulation.moment.round == 4
    assert simulation.selected is not None
    assert simulation.selected.round == 2


def test_patience_is_counted_in_validations_not_in_rounds(tastes: Interactions) -> None:
    simulation = told(tastes, [0.9, 0.5, 0.9, 0.4, 0.9, 0.3, 0.9, 0.9])
    train(simulation, History(), eval_every=2, patience=2)
    assert simulation.moment.round == 6


def test_all_rounds_are_played_while_it_gets_better(tastes: Interactions) -> None:
    simulation = told(tastes, [0.1, 0.2, 0.3, 0.4])
    assert train(simulation, History(), patience=1) == ""
    assert simulation.moment.round == 4


def test_validation_every_k_rounds_and_at_the_end(tastes: Interactions) -> None:
    history = History()
    train(Simulation(FedMF(dim=4), split(tastes), rounds=8), history, eval_every=3)
    assert [line["round"] for line in history.lines if "validation" in line] == [3, 6, 8]
    assert len(history.lines) == 8


def test_callbacks_see_every_round_as_it_ends(tastes: Interactions) -> None:
    seen = []

    def callback(record: Any, simulation: Simulation) -> None:
        seen.append((record.round, simulation.moment.round, record.validation is not None))

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
    simulation = Simulation(Exploding(dim=4), split(tastes), engine=engine)
    for _ in range(2):
        simulation.play(evaluate=True)
    before = simulation.moment
    with pytest.raises(
        Diverged, match=r"exploding diverged in round 3: 40 of 40 clients .* smaller lr=0.1 or eta=80"
    ):
        simulation.play(evaluate=True)
    assert simulation.moment.server is before.server
    assert simulation.moment.devices is before.devices


def test_a_run_that_diverges_says_so_and_keeps_the_last_good_state(
    tastes: Interactions, tmp_path: Path
) -> None:
    run = fedrec.run(Exploding(dim=4), tastes, rounds=9, out=tmp_path / "run")
    assert run.result["stopped"].startswith("exploding diverged in round 3")
    assert run.result["rounds"] == 2
    assert len(run.history) == 2
    good = fedrec.run(PFedRec(dim=4), tastes, rounds=2)
    assert good.ranks.equals(run.ranks)
    last, _ = load_checkpoint(tmp_path / "run" / "checkpoint")
    assert good.federated is not None
    assert different(last, good.federated.moment) == []


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
    simulation = Simulation(PFedRec(dim=4), split(data), clients_per_round=39, engine=engine)
    simulation.play(evaluate=False)
    user = np.array([poison(simulation)])
    assert user in sample_cohort(0, 2, 40, 39)
    before = simulation.clients.state.rows["items"].get(user)
    assert len(before.values), "it took part in the first round"
    record = simulation.play(evaluate=False)
    assert record.dropped == 1
    after = simulation.clients.state.rows["items"].get(user)
    np.testing.assert_array_equal(after.items.items, before.items.items)
    np.testing.assert_array_equal(after.values, before.values)


# -- private slots have no route out -----------------------------------------------------------


class Leaky(FedMF):
    """Hands its user vector over."""

    name: ClassVar[str] = "leaky"

    def send(self, shared: Params, p: Params) -> Params:
        return {**super().send(shared, p), "score": p["score"]}


class Declared(Leaky):
    """Declares it, too."""

    name: ClassVar[str] = "declared"

    def uploads(self, catalog: Catalog) -> Uploads:
        return Uploads(self.slots(catalog))


class Smuggling(FedMF):
    """Hands its user vector over under another name."""

    name: ClassVar[str] = "smuggling"

    def send(self, shared: Params, p: Params) -> Params:
        return {**super().send(shared, p), "profile": p["score"]}


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
