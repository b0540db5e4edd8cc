"""What ``--epsilon`` makes of a run: the method's private form, a bound on uploads, and the noise that is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedrec import methods
from fedrec.channel.accountant import Release
from fedrec.channel.budget import Budget, check_numbers, with_least_noise
from fedrec.channel.gaussian import Gaussian
from fedrec.channel.local import Local
from fedrec.channel.order import check_order, states_epsilon
from fedrec.channel.stage import Stage, parse
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.core.method import Method
from fedrec.core.slots import Catalog
from fedrec.data.split import Split
from fedrec.runs.config import RunConfig
from fedrec.server.cohort import cohort_size

if TYPE_CHECKING:
    from fedrec.runs.run import Run


def private_form(
    method: Method, rounds: int | None, channel: Sequence[str], users: int
) -> tuple[Federated, int, tuple[str, ...]]:
    """The method, rounds and channel with which an epsilon can be stated; the noise comes later."""
    if not isinstance(method, Federated):
        raise FedrecError(f"--epsilon does not apply to {method.label}: it is not federated")
    form = methods.private_form(method, rounds, users)
    names = [parse(text).name for text in channel]
    if "clip" not in names:
        if form.clip is None:
            if form.method.service(Catalog(2, 2), 0) is not None:  # a bound would not help
                raise FedrecError(
                    f"--epsilon does not apply to {method.label}: its server looks at single uploads"
                )
            raise FedrecError(
                f"--epsilon needs a bound on what one device of {method.label} sends: give --channel clip=R, the "
                "largest norm of an upload"
            )
        channel = (f"clip={form.clip:g}", *channel)
    return form.method, form.rounds, tuple(channel)


def with_noise(config: RunConfig, method: Federated, parts: Split, before: Sequence[Release]) -> RunConfig:
    """The same with the least noise that keeps all its rounds within its epsilon, unless it names its noise."""
    stages = [parse(text) for text in config.channel]
    config = config.model_copy(update={"spent_before": tuple(tuple(one) for one in before) or None})
    local = next((stage for stage in stages if isinstance(stage, Local)), None)
    if local is not None and config.epsilon is not None:
        raise FedrecError("--channel local names its epsilon: leave --epsilon out")
    limit = config.epsilon if local is None else local.epsilon
    check_numbers(limit, config.delta, parts.n_users)
    found = local is None or local.sigma is not None
    if limit is None or (found and states_epsilon(stages)):
        check_order(stages)
        return config
    place = (
        next(i for i, stage in enumerate(stages) if stage.name == "clip")
        if local is None
        else stages.index(local)
    )
    if local is None:  # where the server sees nothing but sums, it need not be trusted with the noise either
        where = "devices" if any(stage.name == "secure" for stage in stages) else "server"
        place += 1
        while place < len(stages) and stages[place].name == "quantize":
            place += 1
        stages.insert(place, Gaussian(sigma=1.0, where=where))
    check_order(stages)
    sampled = cohort_size(config.clients, parts.n_users) / parts.n_users
    budget = Budget(
        stages, method.uploads(parts.catalog), parts.n_users, sampled, limit, config.delta, before
    )
    assert config.rounds is not None
    noise = with_least_noise(budget, config.rounds).noise
    text = f"local={limit:g},sigma={noise.sigma!r}" if local else f"gaussian={noise.sigma!r}"  # type: ignore[attr-defined]
    text += ",where=devices" if local is None and noise.at_device else ""
    texts = [*config.channel]
    texts[place : place + bool(local)] = [text]
    return config.model_copy(update={"channel": tuple(texts)})


def spent_by(run: Run | None, channel: Sequence[Stage], epsilon: float | None) -> tuple[Release, ...]:
    """What the run that another starts from has released; refused where that is unbounded."""
    if run is None or not (epsilon or states_epsilon(channel)):
        return ()
    stated = run.result.get("privacy") or {}
    if stated.get("epsilon") is None:
        raise FedrecError(
            "the run that --start names states no epsilon, so nothing that begins with its tables can: start from a "
            "run with --epsilon, or anew"
        )
    return tuple(Release(*one) for one in stated["releases"])
