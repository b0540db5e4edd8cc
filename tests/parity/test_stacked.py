"""Clients in one autograd graph against the same method's ``fit`` for one client under ``vmap``."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from fedrec.clients.plain import Plain
from fedrec.clients.stacked import stacks
from fedrec.core.federated import Batch, Params
from fedrec.data.split import Split, split
from fedrec.data.worlds import scalable
from fedrec.methods import make
from fedrec.methods.fedmf import FedMF
from fedrec.simulate.simulation import Simulation
from fedrec.testing.tools import arrays_of

pytest.importorskip("torch")

CASES = [
    ("fedmf", {"batch_size": 8}),  # several steps, the last of them padding for the smaller clients
    ("fedmf", {"batch_size": 16, "epochs": 4, "tolerance": 0.05}),  # clients stop at different times
    ("pfedrec", {"batch_size": 16}),
    ("fedrecon", {"batch_size": 16}),
    ("fedncf+dualper", {"batch_size": 32}),
    ("fedmf+recent", {"batch_size": 16}),
    ("fedrap", {"batch_size": 64, "epochs": 3}),  # rates that decay, a loss that reads tables in other ways
]


@pytest.fixture(scope="module")
def few() -> Split:
    return split(scalable(24, 60, 360))


class Regularised(FedMF):
    """Its loss looks at the whole table: rows of a batch are not enough."""

    name: ClassVar[str] = "regularised"

    def loss(self, p: Params, batch: Batch) -> Any:
        return super().loss(p, batch) + 1e-3 * (p["items"] ** 2).sum()


def after(method: Any, parts: Split, stacked: bool) -> tuple[dict[str, Any], Plain]:
    simulation = Simulation(method, parts, threads=1, engine="plain")
    engine = simulation.clients.engine
    assert isinstance(engine, Plain)
    if not stacked:
        engine.stacked = None
    for _ in range(2):
        simulation.play(evaluate=False)
    return arrays_of(simulation.moment), engine


def check(method: Any, parts: Split, fetches: bool) -> None:
    assert stacks(method)
    mine, engine = after(method, parts, stacked=True)
    assert engine.stacked is not None
    assert engine.stacked.fetches == fetches
    theirs, _ = after(method, parts, stacked=False)
    assert mine.keys() == theirs.keys()
    for name, values in theirs.items():
        difference = np.linalg.norm(np.asarray(mine[name], np.float64) - values)
        assert difference <= 1e-5 * (np.linalg.norm(values) + 1e-12), name


@pytest.mark.parametrize(("spec", "settings"), CASES)
def test_same_arrays(few: Split, spec: str, settings: dict[str, Any]) -> None:
    check(make(spec, settings), few, fetches=True)


def test_a_loss_over_whole_tables(few: Split) -> None:
    check(Regularised(batch_size=16), few, fetches=False)


def test_another_step_runs_as_it_is_written() -> None:
    assert not stacks(make("fedmf+gel"))
    assert not stacks(make("fedpergnn"))
    assert stacks(make("fedncf+dualper"))
