"""Protocol ``next``: the validation item is known when the test item is ranked, by those who can use it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated, ranks_from_history
from fedrec.core.protocol import NEXT, STRICT, protocol
from fedrec.core.scorer import FromHistory
from fedrec.data.interactions import Interactions
from fedrec.data.split import Split, split
from fedrec.evaluate.exam import Exam
from fedrec.evaluate.ranking import measure, rank_full, rank_sampled
from fedrec.methods import METHODS, make
from fedrec.methods.central.base import CentralAtOnce, CentralInRounds
from fedrec.methods.central.ease import EASE
from fedrec.methods.fcf import FCF
from fedrec.methods.fedals import FedALS
from fedrec.methods.fednext import FedNext
from fedrec.runs.folder import DIGEST, digest
from fedrec.simulate.passes import Passes
from fedrec.simulate.simulation import Simulation

SMALL = {"dim": 4}


@pytest.fixture(scope="module")
def parts(small: Interactions) -> Split:
    return split(small, "next")


def played(method: Federated, parts: Split, rounds: int = 3, **options: Any) -> Simulation:
    simulation = Simulation(method, parts, rounds=rounds, **options)
    for _ in range(rounds):
        simulation.play(evaluate=True)
    return simulation


def ranks_of(scores: np.ndarray, parts: Split) -> list[int]:
    """How many never-interacted candidates come at or ahead of the test item."""
    users = range(parts.n_users)
    lines = [[c for c in parts.candidates.test[u] if c >= 0] for u in users]
    return [int((scores[u, lines[u]] >= scores[u, parts.test[u]]).sum()) for u in users]


def test_next_is_strict_with_the_validation_item_known() -> None:
    assert protocol("next") == NEXT == STRICT.with_(name="next", known="validation")
    assert STRICT.with_(known="validation").name == "strict+known=validation"
    with pytest.raises(FedrecError, match="known=test is not valid"):
        STRICT.with_(known="test")


def test_what_is_known_before_the_test_item(parts: Split) -> None:
    for u in range(parts.n_users):
        assert parts.known.of(u).tolist() == [*parts.train.of(u), parts.valid[u]]
        assert parts.test[u] not in parts.known.of(u)


def test_devices_train_as_under_strict(small: Interactions, parts: Split) -> None:
    mine, theirs = parts.clients(), split(small).clients()
    for name in ("train", "trained", "forbidden"):
        assert np.array_equal(getattr(mine, name).items, getattr(theirs, name).items)
    assert np.array_equal(parts.candidates.test, split(small).candidates.test)


@pytest.mark.parametrize("engine", ["plain", "fused"])
def test_fedals_solves_with_the_validation_item(parts: Split, engine: str) -> None:
    """w = (VᵀV + α V_uᵀV_u + λ|u|^scale I)⁻¹ ((1 + α) Σ v_j + λ|u|^scale w₀), u with its validation item."""
    method = FedALS(dim=6, recency="off")
    simulation = played(method, parts, engine=engine)
    v = simulation.server.state.shared["items"].astype(np.float64)
    alpha, lam = method.numbers(parts.catalog)
    scores = np.empty((parts.n_users, parts.n_items))
    for u in range(parts.n_users):
        own = v[[*parts.trained.of(u), parts.valid[u]]]
        mild = lam * len(own) ** method.scale
        a = v.T @ v + alpha * own.T @ own + mild * np.eye(method.width)
        scores[u] = v @ np.linalg.solve(a, (1 + alpha) * own.sum(0) + mild * method.prior())
    found = measure(simulation.scorer(simulation.moment), Exam(parts))
    assert found.knew
    assert found.test.ahead.tolist() == ranks_of(scores, parts)
    assert found.test.ahead.tolist() == simulation.ranks(simulation.moment, "test").ahead.tolist()


@pytest.mark.parametrize("method", [FedALS(dim=4), FCF(dim=4), FedNext(dim=4)])
def test_only_the_test_item_is_ranked_with_it(small: Interactions, parts: Split, method: Federated) -> None:
    mine, strict = (
        measure(s.scorer(s.moment), Exam(s.split)) for s in (played(method, p) for p in (parts, split(small)))
    )
    assert np.array_equal(mine.valid.ahead, strict.valid.ahead)
    assert not np.array_equal(mine.test.ahead, strict.test.ahead)
    assert np.array_equal(mine.full.among, strict.full.among), "the validation item is left out of both"
    own = np.arange(parts.n_users)
    assert not (mine.top == parts.valid[own, None]).any(), "what is known is not offered"


def test_ease_sums_over_the_validation_item_too(parts: Split) -> None:
    scorer = EASE().fit(parts)
    met = np.zeros((parts.n_users, parts.n_items))
    for u in range(parts.n_users):
        met[u, [*parts.trained.of(u), parts.valid[u]]] = 1
    scores = (met @ scorer.weights).astype(np.float32)
    found = rank_sampled(scorer, Exam(parts), "test").ahead
    assert np.mean(found == ranks_of(scores, parts)) > 0.95  # sums in another order: a near tie may turn
    assert not np.array_equal(found, rank_sampled(scorer, Exam(split(parts.data)), "test").ahead)


def test_repeated_rows_count_once(small: Interactions) -> None:
    parts = split(small, protocol("paper").with_(known="validation"))
    assert rank_full(EASE().fit(parts), Exam(parts), "test").among.min() >= 0
    assert EASE().fit(parts).knowing(parts.known).x.max() == 1


@pytest.mark.parametrize("name", METHODS)
def test_a_method_says_whether_it_ranks_from_a_history(parts: Split, name: str) -> None:
    method = make(name)
    if isinstance(method, Federated):
        expected = name in ("fedals", "fcf", "fedrecon", "fednext", "private-fedals", "fedae", "feddae")
        assert ranks_from_history(method, parts.catalog) == expected
        simulation = Simulation(method, parts)
        assert isinstance(simulation.scorer(simulation.moment), FromHistory) == expected
    elif isinstance(method, CentralAtOnce):
        assert method.ranks_from_history == isinstance(method.fit(parts, 0, 1), FromHistory)
    else:
        assert isinstance(method, CentralInRounds)
        passes = Passes(method, parts)
        assert method.ranks_from_history == isinstance(passes.scorer(passes.moment), FromHistory)


@pytest.mark.parametrize("name", ["fedmf", "pfedrec", "fedpergnn", "popularity", "mf", "ials"])
def test_who_cannot_use_it_ranks_as_before_and_says_so(tastes: Interactions, name: str) -> None:
    asked: dict[str, Any] = {"rounds": 1, "settings": SMALL} if name not in ("popularity", "ials") else {}
    strict, run = (fedrec.run(name, tastes, how, **asked) for how in ("strict", "next"))
    assert run.test == strict.test
    (said,) = (note for note in run.result["notes"] if "validation item" in note)
    assert f"{name} cannot use it without training" in said
    assert not any("validation item" in note for note in strict.result["notes"])


def test_rows_of_a_round_know_what_the_round_knew(parts: Split) -> None:
    """FedRecon's own rows are trained once more: the item would have to be trained on."""
    simulation = played(make("fedrecon", SMALL), parts, 2)  # type: ignore[arg-type]
    assert simulation.selected is not None
    scorers = {view: simulation.scorer(simulation.selected.moment, view) for view in simulation.views}
    assert {view for view, s in scorers.items() if isinstance(s, FromHistory)} == {"global"}
    sampled = played(make("fedrecon", SMALL), parts, 2, clients_per_round=0.5)  # type: ignore[arg-type]
    for view in sampled.views:  # rows are stored, the vector is made anew
        assert isinstance(sampled.scorer(sampled.moment, view), FromHistory)
        sampled.ranks(sampled.moment, "test", view)


@pytest.mark.parametrize("spec", ["fedals", "fednext", "fedrecon", "fedrecon+gel", "ease", "itemknn"])
def test_opened_resumed_and_evaluated_alike(tastes: Interactions, tmp_path: Path, spec: str) -> None:
    asked: dict[str, Any] = {"rounds": 2, "settings": SMALL} if spec.startswith("fed") else {}
    run = fedrec.run(spec, tastes, "next", out=tmp_path / "run", **asked)
    assert run.result["notes"] == list(tastes.notes)
    assert run.result["protocol_settings"]["known"] == "validation"
    again = fedrec.open(tmp_path / "run", data=tastes)
    for finished in (run, again):
        assert finished.evaluate()["hr@10"] == run.test["hr@10"]
        assert finished.evaluate(full=True)["ndcg@10"] == run.test["full"]["ndcg@10"]
    if asked:
        whole = fedrec.run(spec, tastes, "next", rounds=4, settings=SMALL)
        assert fedrec.resume(tmp_path / "run", 4, data=tastes).test == whole.test


def test_alone_it_is_used_too(tastes: Interactions) -> None:
    strict, run = (
        fedrec.run("fedals", tastes, how, rounds=2, settings=SMALL, local=True) for how in ("strict", "next")
    )
    assert run.result["notes"] == list(tastes.notes)
    assert run.ranks["test_rank"].to_list() != strict.ranks["test_rank"].to_list()


def test_nothing_held_out_leaves_nothing_to_know(tastes: Interactions) -> None:
    with pytest.raises(
        FedrecError, match="holds nothing out, so there is no validation item that protocol 'next'"
    ):
        fedrec.run("fedals", tastes, "next", rounds=1, settings=SMALL, all_data=True)
    for_people = fedrec.run("fedals", tastes, "next", rounds=1, settings=SMALL).again(all_data=True)
    assert for_people.config.protocol == STRICT


def test_a_run_from_before_there_was_a_choice_opens(tastes: Interactions, tmp_path: Path) -> None:
    import tomli_w

    run = fedrec.run("fedals", tastes, rounds=1, settings=SMALL, out=tmp_path / "run")
    table = run.config.table()
    del table["protocol"]["known"]
    text = f"{tomli_w.dumps(table)}\n{DIGEST}{digest(table)}\n"
    (tmp_path / "run" / "config.toml").write_text(text, encoding="utf-8")
    again = fedrec.open(tmp_path / "run", data=tastes)
    assert again.evaluate()["hr@10"] == run.test["hr@10"]
    assert json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))["protocol"] == "strict"
