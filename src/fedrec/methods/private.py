"""What methods become where an epsilon is to be stated: a form whose uploads can be bounded, rounds, and the bound."""

from __future__ import annotations

from typing import Any, NamedTuple

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.core.wrapper import Wrapper
from fedrec.methods.fedals import FedALS
from fedrec.methods.history import GRID, HistoryMethod
from fedrec.methods.private_fedals import PrivateFedALS

ROUNDS = 20  # each round costs: fewer than usual
# Norms that uploads are clipped to, a half to a third of what they are on ML-100K.
CLIPS = {"fedncf": 100.0, "fedneumf": 100.0, "fcf": 20.0}


class Noisy(NamedTuple):
    """What a method does best with under noise, searched on validation of ML-100K and ML-1M at ε = 10.

    The more users, the less noise there is in a mean, and the more of an upload may be kept."""

    settings: dict[str, Any]
    rounds: int = 60
    clip_per_user: float = 0.1
    most: float = 1000.0


FACTORS = {"dim": 16, "eta": 400.0}
MILD = 0.003
NOISY = {"fedmf": Noisy(FACTORS), "pfedrec": Noisy({**FACTORS, "mild": MILD})}
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


def private_form(method: Federated, rounds: int | None, users: int) -> PrivateForm:
    """FedALS has a form of its own, others run as they are; what a person has set stays."""
    if isinstance(method, Wrapper):
        form = private_form(method.base, rounds, users)
        mild = {"mild": MILD} if method.name == "dualper" and "mild" not in method.model_fields_set else {}
        return form._replace(method=method.model_copy(update={"base": form.method, **mild}))
    if isinstance(method, HistoryMethod) and method.recency == "auto":
        # What devices try out would be one more release: they keep to the first choice.
        method = method.model_copy(update={"recency": float(GRID[0][0]), "floor": GRID[0][1]})
    if type(method) is FedALS:
        method = _of_fedals(method)
    if isinstance(method, PrivateFedALS):
        sweeps = method.sweeps if rounds is None else rounds - 1
        return PrivateForm(method.model_copy(update={"sweeps": sweeps}), sweeps + 1, 1.0)
    if (noisy := NOISY.get(method.name)) is not None:
        unset = {n: v for n, v in noisy.settings.items() if n not in method.model_fields_set}
        clip = float(f"{min(noisy.most, noisy.clip_per_user * users):.2g}")
        return PrivateForm(method.model_copy(update=unset), rounds or noisy.rounds, clip)
    return PrivateForm(method, rounds or ROUNDS, CLIPS.get(method.name))


def _of_fedals(method: FedALS) -> PrivateFedALS:
    for name in method.model_fields_set & {"alpha", "lam", "memory"}:
        raise FedrecError(f"{name} has no place under --epsilon, where noisy counts decide: leave it out")
    given = {"dim": method.dim} if "dim" in method.model_fields_set else {}
    return PrivateFedALS(**{name: getattr(method, name) for name in KEPT}, **given)
