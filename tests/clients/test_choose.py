"""Compiled kernels are taken only where they do what the method says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Batch, Federated, Group, Params, Phase
from fedrec.core.gradient import GradientMethod
from fedrec.core.optim import SGD, Adam
from fedrec.core.slots import Catalog, Slot, private, zeros
from fedrec.data.split import Split
from fedrec.methods import make
from fedrec.methods.fedals import FedALS
from fedrec.methods.fedmf import FedMF
from fedrec.methods.pfedrec import PFedRec
from fedrec.simulate.simulation import Simulation


class SlowBias(FedMF):
    name: ClassVar[str] = "slowbias"

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        rates = {"score": 0.1, "bias": 0.001, "items": 10.0}
        return [Group((name,), SGD(rate), "private") for name, rate in rates.items()]


class FixedBias(FedMF):
    name: ClassVar[str] = "fixedbias"

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        return [Group(("score",), SGD(0.1), "private"), Group(("items",), SGD(10.0), "shared")]


class ItemsFirst(PFedRec):
    name: ClassVar[str] = "itemsfirst"

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        return super().groups(catalog, round)[::-1]


class ItemsFirstAtOnce(FedMF):
    name: ClassVar[str] = "itemsfirstatonce"

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        return super().groups(catalog, round)[::-1]


class WithMore(FedMF):
    name: ClassVar[str] = "withmore"

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        return {**super().slots(catalog), "more": private(3, start=zeros())}

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        return [*super().groups(catalog, round), Group(("more",), SGD(0.1), "private")]


class WithAdam(FedMF):
    name: ClassVar[str] = "withadam"

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        return [Group(("score", "bias", "items"), Adam(0.1), "private")]


def why_not(method: Federated, parts: Split) -> str | None:
    """What is said where the compiled engine is asked for."""
    try:
        assert Simulation(method, parts, engine="fused").clients.engine.name == "fused"
    except FedrecError as error:
        assert Simulation(method, parts).clients.engine.name == "plain"
        return str(error).removeprefix(f"engine 'fused' cannot run {method.label}: ")
    return None


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (SlowBias(), "'score' and 'bias' move at different rates"),
        (FixedBias(), "'score' and 'bias' move at different rates"),
        (ItemsFirst(), "'items' move before 'score'"),
        (WithMore(), "WithMore declares no kernel for these settings"),
        (WithAdam(), "local Adam has no kernel"),
    ],
)
def test_a_method_that_moves_in_another_way_has_no_kernel(
    method: Federated, reason: str, small_split: Split
) -> None:
    assert why_not(method, small_split) == f"{reason}; it runs on engine 'plain'"


@pytest.mark.parametrize("spec", ["fedmf", "pfedrec", "fedrecon", "fedmf+dualper", "fedrecon+dualper"])
def test_the_papers_log_linear_methods_have_one(spec: str, small_split: Split) -> None:
    assert why_not(make(spec), small_split) is None  # type: ignore[arg-type]


def test_the_order_of_groups_that_move_at_once_means_nothing(small_split: Split) -> None:
    assert why_not(ItemsFirstAtOnce(), small_split) is None


class Doubled(FedALS):
    """Uploads twice as much."""

    name: ClassVar[str] = "doubled"

    def fit(
        self, shared: Params, private: Params, passes: Sequence[Batch], plan: list[Phase]
    ) -> tuple[Params, Params, Any]:
        p, upload, loss = super().fit(shared, private, passes, plan)
        return p, {name: 2 * value for name, value in upload.items()}, loss


def test_a_method_made_from_fedals_runs_its_own_code(small_split: Split) -> None:
    assert Simulation(FedALS(dim=4), small_split).clients.engine.name == "fused"
    assert Simulation(Doubled(dim=4), small_split).clients.engine.name == "plain"
    with pytest.raises(FedrecError, match="cannot run doubled: Doubled declares no kernel"):
        Simulation(Doubled(dim=4), small_split, engine="fused")


def test_a_method_that_trains_nothing_is_told_what_to_say(small_split: Split) -> None:
    class Nothing(FedMF):
        def groups(self, catalog: Catalog, round: int) -> list[Group]:
            return GradientMethod.groups(self, catalog, round)

    with pytest.raises(FedrecError, match="does not say what it trains: give it 'groups' or a 'plan'"):
        Simulation(Nothing(), small_split).play(evaluate=False)
