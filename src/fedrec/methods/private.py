"""What methods become where an epsilon is to be stated: a form whose uploads can be bounded, rounds, and the bound."""

from __future__ import annotations

from typing import NamedTuple

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.core.wrapper import Wrapper
from fedrec.methods.fedals import FedALS
from fedrec.methods.history import GRID, HistoryMethod
from fedrec.methods.private_fedals import PrivateFedALS

ROUNDS = 20  # each round costs: fewer than usual
# Norms that uploads are clipped to, a half to a third of what they are on ML-100K.
CLIPS = {"fedmf": 100.0, "pfedrec": 100.0, "fedncf": 100.0, "fedneumf": 100.0, "fcf": 20.0}
KEPT = (
    "popularity",
    "scale",
    "eta",
    "kappa",
    "recency",
    "floor",
)  # settings that mean the same in both forms


class PrivateForm(NamedTuple):
    """The method, its rounds, and the largest norm of an upload; None: a person has to say."""

    method: Federated
    rounds: int
    clip: float | None


def private_form(method: Federated, rounds: int | None) -> PrivateForm:
    """FedALS has a form of its own, others run as they are."""
    if isinstance(method, Wrapper):
        form = private_form(method.base, rounds)
        return form._replace(method=method.model_copy(update={"base": form.method}))
    if isinstance(method, HistoryMethod) and method.recency == "auto":
        # What devices try out would be one more release: they keep to the first choice.
        method = method.model_copy(update={"recency": float(GRID[0][0]), "floor": GRID[0][1]})
    if type(method) is FedALS:
        method = _of_fedals(method)
    if isinstance(method, PrivateFedALS):
        sweeps = method.sweeps if rounds is None else rounds - 1
        return PrivateForm(method.model_copy(update={"sweeps": sweeps}), sweeps + 1, 1.0)
    return PrivateForm(method, rounds or ROUNDS, CLIPS.get(method.name))


def _of_fedals(method: FedALS) -> PrivateFedALS:
    for name in method.model_fields_set & {"alpha", "lam", "memory"}:
        raise FedrecError(f"{name} has no place under --epsilon, where noisy counts decide: leave it out")
    given = {"dim": method.dim} if "dim" in method.model_fields_set else {}
    return PrivateFedALS(**{name: getattr(method, name) for name in KEPT}, **given)
