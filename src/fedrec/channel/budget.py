"""The privacy of a run: what its rounds have cost, what is left, and what a result says of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedrec.channel.accountant import Release, default_delta, least_noise, releases_of, spent
from fedrec.channel.clip import Cap
from fedrec.channel.order import states_epsilon
from fedrec.channel.stage import Stage
from fedrec.core.errors import FedrecError
from fedrec.core.upload import Uploads

NEARLY = 0.999  # of a limit: what is left of it buys nothing
NOT_COVERED = "not covered: tuning, these figures"


@dataclass(frozen=True)
class Budget:
    """A channel that states an epsilon, with who takes part and what was spent before."""

    channel: Sequence[Stage]
    uploads: Uploads
    users: int
    sampled: float = 1.0  # probability with which a user takes part in a round
    limit: float | None = None  # ε that may be spent
    delta: float | None = None
    before: Sequence[Release] = ()  # of the run that this one started from

    def __post_init__(self) -> None:
        check_numbers(self.limit, self.delta, self.users)
        if self.sampled < 1 and self.noise.at_device and self.noise.name == "gaussian":
            raise FedrecError(
                "noise by devices is accounted for where everyone takes part: leave --clients out"
            )

    @property
    def at(self) -> float:
        return default_delta(self.users) if self.delta is None else self.delta

    @property
    def noise(self) -> Stage:
        return next(stage for stage in self.channel if stage.guarantees)

    def shares(self, rounds: int) -> list[float]:
        return [self.uploads.at(r).share for r in range(1, rounds + 1)]

    @property
    def radius(self) -> float:
        """What one user can add to a sum: the clipped norm, and what rounding adds to it."""
        place = next(i for i, stage in enumerate(self.channel) if stage.name == "clip")
        most = next((stage.rows for stage in self.channel[:place] if isinstance(stage, Cap)), None)
        numbers = 0.0
        for name, slot in self.uploads.arrays.items():
            rows = min(most or slot.shape[0], slot.shape[0]) / slot.shape[0] if slot.rows else 1.0
            numbers += self.uploads.norm(name) ** 2 * rows * math.prod(slot.shape)
        clip: Any = self.channel[place]
        return float(clip.radius + sum(stage.slack(numbers) for stage in self.channel[place + 1 :]))

    def releases(self, rounds: int) -> list[Release]:
        excess = max(self.noise.excess(self.uploads, name) for name in self.uploads.arrays)
        multiplier = self.noise.multiplier(self.radius)
        sampled = (
            1.0 if self.noise.at_device else self.sampled
        )  # a device's own noise is seen where it takes part
        return [*self.before, *releases_of(multiplier, self.shares(rounds), sampled, excess)]

    def spent(self, rounds: int) -> float:
        """ε after so many rounds, with what was spent before."""
        return spent(self.releases(rounds), self.at)

    def affords(self, rounds: int) -> bool:
        return self.limit is None or self.spent(rounds) <= self.limit * (1 + 1e-6)

    def most_rounds(self, rounds: int) -> int:
        """How many of these rounds the limit allows."""
        low, high = 0, rounds
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.affords(middle) else (low, middle - 1)
        return low

    def check(self, rounds: int) -> None:
        """Refuses more rounds than the limit allows."""
        if self.affords(rounds):
            return
        enough = self.most_rounds(rounds)
        raise FedrecError(
            f"{rounds} rounds at this noise would spend epsilon {self.spent(rounds):.3g}, more than --epsilon "
            f"{self.limit:g}: it is enough for {enough}; ask for --epsilon {self.spent(rounds) * 1.0005:.4g} to go "
            "that far, or start anew with more noise"
        )

    def record(self, rounds: int) -> dict[str, Any]:
        """For the result."""
        took_part = "everyone" if self.sampled >= 1 else f"{self.sampled:.3g} of users, Poisson-sampled"
        assumes = [*self.noise.assumes(), "the catalogue and the number of users are public"]
        if self.sampled < 1:
            assumes.append("who takes part in a round stays secret")
        epsilon = self.spent(rounds)
        relation = self.noise.relation
        earlier = f"{len(self.before)}+" if self.before else ""
        line = (
            f"ε={epsilon:.3g}, δ={self.at:.2g} · unit user · {relation} · joint DP (own list excluded)"
            f" · {earlier}{rounds} releases, {took_part} · {self.noise.trust()} · {NOT_COVERED}"
        )
        return {
            "epsilon": epsilon,
            "delta": self.at,
            "limit": self.limit,
            "unit": "user",
            "neighbours": relation,
            "trust": self.noise.trust(),
            "assumes": assumes,
            "not_covered": ["tuning", "figures of held-out items, bytes and times"],
            "releases": [list(one) for one in self.releases(rounds)],
            "line": line,
        }


def check_numbers(epsilon: float | None, delta: float | None, users: int) -> None:
    if epsilon is not None and not epsilon > 0:
        raise FedrecError(f"--epsilon {epsilon:g} is not above 0: give for example --epsilon 5")
    if delta is not None and not 0 < delta < 1 / users:
        raise FedrecError(
            f"--delta {delta:g} is not between 0 and one in the number of users ({1 / users:.2g}): leave it out for "
            f"{default_delta(users):.2g}"
        )


def with_least_noise(budget: Budget, rounds: int) -> Budget:
    """The same with the least noise with which so many rounds stay within the limit."""
    assert budget.limit is not None
    before = spent(budget.before, budget.at)
    if before >= NEARLY * budget.limit:
        raise FedrecError(
            f"--epsilon {budget.limit:g} is spent: what this run starts from has cost {before:.3g} already, so ask for "
            "more than that"
        )

    def at(times: float) -> Budget:
        """With noise of so many times what one user can add."""
        sigma = float(f"{times * budget.radius * (1 + 1e-6):.8g}")
        noisy = budget.noise.model_copy(update={"sigma": sigma})
        return replace(budget, channel=[noisy if s is budget.noise else s for s in budget.channel])

    exact = 1e-6 if budget.sampled >= 1 else 1e-3
    return at(least_noise(lambda times: at(times).spent(rounds), budget.limit, exact))


def no_epsilon(why: str) -> dict[str, Any]:
    """What a result without a guarantee says."""
    return {"epsilon": None, "delta": None, "why": why, "line": f"no ε: {why}"}


def budget_of(channel: Sequence[Stage], **numbers: Any) -> Budget | None:
    """None where the channel states none."""
    return Budget(channel, **numbers) if states_epsilon(channel) else None
