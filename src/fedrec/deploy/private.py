"""Terms under which a deployed federation states an epsilon, kept by the devices themselves.

A device adds its share of the noise for the smallest sum that the terms allow, draws it from its own system, sends
nothing beside its upload, and counts how often it has answered: after so many answers it sends no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedrec.channel.accountant import default_delta
from fedrec.channel.budget import Budget, with_least_noise
from fedrec.channel.gaussian import Gaussian
from fedrec.channel.local import Local
from fedrec.channel.order import check_order, states_epsilon
from fedrec.channel.stage import Stage, parse
from fedrec.core.errors import FedrecError
from fedrec.core.slots import Catalog
from fedrec.deploy.terms import Terms
from fedrec.methods import make, settings_of, spec_of
from fedrec.runs.private import private_form

SPARE = 2  # answers beyond the rounds: attempts that fail cost as much as others


def stated(terms: Terms, catalog: Catalog) -> str | None:
    """What a device's data are protected by once it has sent all that it ever will."""
    if not terms.private:
        return None
    assert terms.answers is not None
    uploads = terms.made.uploads(catalog)
    budget = Budget(terms.stages, uploads, catalog.n_users, delta=terms.delta)
    line: str = budget.record(terms.answers)["line"]
    return line


def with_epsilon(
    method: str,
    settings: dict[str, Any],
    channel: Sequence[str],
    catalog: Catalog,
    rounds: int,
    epsilon: float | None,
) -> dict[str, Any]:
    """What terms say of method, settings and channel, where an epsilon is asked for or a stage states one; the least
    noise that so many rounds need is found, unless it is named."""
    said: dict[str, Any] = {"method": method, "settings": settings, "channel": tuple(channel)}
    stages = [parse(text) for text in channel]
    if epsilon is None and not states_epsilon(stages):
        return said
    answers = rounds + SPARE
    said |= {"answers": answers, "delta": default_delta(catalog.n_users)}
    if epsilon is not None:
        form, _, passed = private_form(make(method, settings), rounds, tuple(channel), catalog.n_users)
        said |= {"method": spec_of(form), "settings": settings_of(form), "channel": passed}
        stages = [parse(text) for text in passed]
        stages = _with_noise(stages, epsilon)
    local = next((s for s in stages if isinstance(s, Local)), None)
    if local is not None:
        epsilon = local.epsilon if local.sigma is None else None
    check_order(stages)
    if epsilon is not None:
        made: Any = make(said["method"], dict(said["settings"]))
        budget = Budget(stages, made.uploads(catalog), catalog.n_users, limit=epsilon, delta=said["delta"])
        stages = list(with_least_noise(budget, answers).channel)
        said["channel"] = tuple(_text(stage) for stage in stages)
    return said


def _with_noise(stages: list[Stage], epsilon: float) -> list[Stage]:
    """Noise behind the bound, before anything that cuts bits; by devices where the server sees nothing but sums."""
    if states_epsilon(stages):
        raise FedrecError(f"the channel names its noise: leave --epsilon {epsilon:g} out, or the noise")
    where = "devices" if any(stage.name == "secure" for stage in stages) else "server"
    place = 1 + next(i for i, stage in enumerate(stages) if stage.name == "clip")
    return [*stages[:place], Gaussian(sigma=1.0, where=where), *stages[place:]]


def _text(stage: Stage) -> str:
    """A stage as the words that ``parse`` makes it of."""
    given = [f"{name}={value}" for name, value in stage.model_dump(exclude_defaults=True).items()]
    first = next(iter(type(stage).model_fields))
    if given and given[0].startswith(f"{first}="):
        given[0] = given[0].partition("=")[2]
        return f"{stage.name}={','.join(given)}"
    return ",".join([stage.name, *given])
