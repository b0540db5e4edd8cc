"""What ``--epsilon`` makes of a run: the method's private form, a bound on uploads, and the noise that is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedrec.channel.accountant import Release
from fedrec.channel.budget import Budget, check_numbers, noise_for
from fedrec.channel.order import check_order, states_epsilon
from fedrec.channel.stage import Stage, parse
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.core.method import Method
from fedrec.data.split import Split
from fedrec.runs.config import RunConfig
from fedrec.server.cohort import cohort_size

if TYPE_CHECKING:
    from fedrec.runs.run import Run


def private_form(
    method: Method, rounds: int | None, channel: Sequence[str]
) -> tuple[Federated, int, tuple[str, ...]]:
    """The method, rounds and channel with which an epsilon can be stated; the noise comes once users are known."""
    if not isinstance(method, Federated):
        raise FedrecError(f"--epsilon does not apply to {method.label}: it is not federated")
    form = method.private_form(rounds)
    names = [parse(text).name for text in channel]
    if "clip" not in names:
        if form.clip is None:
            raise FedrecError(
                f"--epsilon needs a bound on what one device of {method.label} sends: give --channel clip=R, the "
                "largest norm of an upload"
            )
        channel = (f"clip={form.clip:g}", *channel)
    return form.method, form.rounds, tuple(channel)


def with_noise(config: RunConfig, method: Federated, parts: Split, before: Sequence[Release]) -> RunConfig:
    """The same with the least noise that keeps all its rounds within its epsilon, unless it names its noise."""
    stages = [parse(text) for text in config.channel]
    check_order(stages)
    check_numbers(config.epsilon, config.delta, parts.n_users)
    config = config.model_copy(update={"spent_before": tuple(tuple(one) for one in before)})
    if config.epsilon is None or states_epsilon(stages):
        return config
    clip = next(i for i, stage in enumerate(stages) if stage.name == "clip")
    sampled = cohort_size(config.clients, parts.n_users) / parts.n_users
    numbers: dict[str, Any] = {"limit": config.epsilon, "delta": config.delta, "before": before}
    uploads = method.uploads(parts.catalog)
    budget = Budget(stages, uploads, parts.n_users, sampled, **numbers)
    assert config.rounds is not None
    sigma = noise_for(budget, config.rounds) * stages[clip].radius  # type: ignore[attr-defined]
    noise = f"gaussian={sigma * (1 + 1e-6):.8g}"
    channel = (*config.channel[: clip + 1], noise, *config.channel[clip + 1 :])
    return config.model_copy(update={"channel": channel})


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
