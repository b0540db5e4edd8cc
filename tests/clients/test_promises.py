"""A kernel runs a method only where it does just what the method says; else PyTorch does, or a sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated, Group, Phase
from fedrec.core.optim import Adam, DecayingSGD
from fedrec.core.slots import Catalog
from fedrec.data.split import split
from fedrec.data.worlds import two_tastes
from fedrec.methods.fedals import FedALS
from fedrec.methods.fedmf import FedMF
from fedrec.methods.fedrap import FedRAP
from fedrec.simulate.simulation import Simulation

PARTS = split(two_tastes())


class Growing(FedALS):
    """A confidence that grows from round to round."""

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        return [replace(p, terms={**p.terms, "alpha": 50.0 * round}) for p in super().plan(catalog, round)]


class Tilt:
    """Changes the score from the side."""

    def logits(self, p: Any, i: Any) -> Any:
        return 2 * super().logits(p, i)  # type: ignore[misc]


class Mixed(Tilt, FedMF):
    pass


class Positives(FedMF):
    """No negatives are drawn."""

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        return [replace(p, part="positives") for p in super().plan(catalog, round)]


class Uneven(FedRAP):
    """Weight decay of the common rows only."""

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        def change(group: Group) -> Group:
            if "common" not in group.names:
                return group
            assert isinstance(group.optimizer, DecayingSGD)
            return replace(group, optimizer=replace(group.optimizer, weight_decay=0.05))

        return [replace(p, groups=[change(g) for g in p.groups]) for p in super().plan(catalog, round)]


class Later(FedMF):
    """SGD first, Adam from the second round on."""

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        groups = super().groups(catalog, round)
        return groups if round == 1 else [replace(g, optimizer=Adam(0.01)) for g in groups]


@pytest.mark.parametrize("method", [Growing(dim=4), Mixed(dim=4), Positives(dim=4), Uneven(dim=4)])
def test_what_a_kernel_does_not_do_runs_as_it_is_written(method: Federated) -> None:
    assert Simulation(method, PARTS).clients.engine.name == "plain"


def test_a_later_round_that_no_kernel_does_is_refused() -> None:
    simulation = Simulation(Later(dim=4), PARTS)
    simulation.play(evaluate=False)
    before = simulation.moment
    with pytest.raises(
        FedrecError, match="engine 'fused' cannot run round 2 of fedmf: local Adam has no kernel"
    ):
        simulation.play(evaluate=False)
    assert simulation.moment.round == before.round == 1


def test_phases_of_positives_and_of_all_samples_can_follow_each_other() -> None:
    class Warm(FedMF):
        def plan(self, catalog: Catalog, round: int) -> list[Phase]:
            (phase,) = super().plan(catalog, round)
            return [replace(phase, part="positives"), phase]

    compiled, plain = (Simulation(Warm(dim=4, eta=1), PARTS, engine=e) for e in ("fused", "plain"))
    for simulation in (compiled, plain):
        simulation.play(evaluate=False)
    a, b = (s.server.state.shared["items"] for s in (compiled, plain))
    assert abs(a - b).max() < 1e-4
    assert abs(a).max() > 0
