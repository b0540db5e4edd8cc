"""A wrapper says whatever its base says, unless it changes it."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import pytest

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.core.gradient import GradientMethod
from fedrec.core.wrapper import Wrapper
from fedrec.data.split import split
from fedrec.data.worlds import two_tastes
from fedrec.methods import make
from fedrec.methods.fedmf import FedMF
from fedrec.simulate.simulation import Simulation

# What follows from the seams and is therefore computed by the outermost, and what only a class says of itself.
DERIVED = {"fit", "tables", "row_slots"}
OF_THE_CLASS = {"closed"}


class Nothing(Wrapper):
    """Changes nothing."""

    name: ClassVar[str] = "nothing"
    citation: ClassVar[str] = "-"
    use_when: ClassVar[str] = "-"
    seams: ClassVar[tuple[str, ...]] = ()


def said() -> list[str]:
    """Everything public that a gradient method says beyond its settings."""
    names = {
        name
        for kind in (GradientMethod, Federated)
        for name, value in vars(kind).items()
        if not name.startswith(("_", "model_")) and (callable(value) or isinstance(value, property))
    }
    return sorted((names | {"reveals"}) - set(GradientMethod.model_fields))


def test_everything_is_forwarded() -> None:
    missing = [n for n in said() if n not in vars(Wrapper) and n not in DERIVED | OF_THE_CLASS]
    assert missing == []


def test_federated_has_about_a_dozen_members() -> None:
    public = [n for n in vars(Federated) if not n.startswith(("_", "model_"))]
    assert len([*public, "reveals"]) <= 15, public


def test_a_wrapper_that_changes_nothing_changes_nothing() -> None:
    parts = split(two_tastes())
    base, over = (Simulation(m, parts) for m in (make("fedmf"), Nothing(base=make("fedmf"))))
    assert base.server.uploads.arrays.keys() == over.server.uploads.arrays.keys()
    for name in ("view", "reveals", "diagnose"):
        mine, theirs = getattr(over.method, name), getattr(base.method, name)
        if inspect.ismethod(mine) and name == "diagnose":
            mine, theirs = mine({}), theirs({})
        elif inspect.ismethod(mine):
            mine, theirs = mine(), theirs()
        assert mine == theirs


class Different(FedMF):
    """A gradient method with an update of its own."""

    name: ClassVar[str] = "different"

    def fit(self, shared: Any, private: Any, passes: Any, plan: Any) -> Any:
        return super().fit(shared, private, passes, plan)


def test_a_base_with_a_fit_of_its_own_is_refused() -> None:
    with pytest.raises(FedrecError, match="has a 'fit' of its own"):
        Nothing(base=Different())


def test_a_subclass_that_changes_a_verb_has_no_kernel_unless_it_says_so() -> None:
    class Scaled(FedMF):
        name: ClassVar[str] = "scaled"

        def logits(self, p: Any, i: Any) -> Any:
            return 2 * super().logits(p, i)

    class Slower(FedMF):
        name: ClassVar[str] = "slower"
        lr: float = 0.01

    parts = split(two_tastes())
    assert Simulation(Scaled(dim=4), parts).clients.engine.name == "plain"
    assert Simulation(Slower(dim=4), parts).clients.engine.name == "fused"
    with pytest.raises(FedrecError, match="engine 'fused' cannot run scaled: Scaled declares no kernel"):
        Simulation(Scaled(dim=4), parts, engine="fused")
