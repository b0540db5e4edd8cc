"""The privacy of a run: what its rounds have cost, what is left, and what a result says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedrec.channel.accountant import Release, default_delta, multiplier_for, releases_of, spent
from fedrec.channel.order import states_epsilon
from fedrec.channel.stage import Stage
from fedrec.core.errors import FedrecError
from fedrec.core.upload import Uploads

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

    @property
    def at(self) -> float:
        return default_delta(self.users) if self.delta is None else self.delta

    @property
    def noise(self) -> Stage:
        return next(stage for stage in self.channel if stage.guarantees)

    def shares(self, rounds: int) -> list[float]:
        return [self.uploads.at(r).share for r in range(1, rounds + 1)]

    def releases(self, rounds: int) -> list[Release]:
        radius = next(stage.radius for stage in self.channel if stage.name == "clip")  # type: ignore[attr-defined]
        multiplier = self.noise.multiplier(radius)
        return [*self.before, *releases_of(multiplier, self.shares(rounds), self.sampled)]

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
        earlier = f"{len(self.before)}+" if self.before else ""
        line = (
            f"ε={epsilon:.3g}, δ={self.at:.2g} · unit user · one user added or removed · joint DP (own list excluded)"
            f" · {earlier}{rounds} releases, {took_part} · {self.noise.trust()} · {NOT_COVERED}"
        )
        return {
            "epsilon": epsilon,
            "delta": self.at,
            "limit": self.limit,
            "unit": "user",
            "neighbours": "one user added or removed",
            "trust": self.noise.trust(),
            "assumes": assumes,
            "not_covered": ["tuning", "figures measured on held-out items"],
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


def noise_for(budget: Budget, rounds: int) -> float:
    """The least noise multiplier with which so many rounds stay within the limit."""
    assert budget.limit is not None
    return multiplier_for(budget.limit, budget.at, budget.shares(rounds), budget.sampled, budget.before)


def no_epsilon(why: str) -> dict[str, Any]:
    """What a result without a guarantee says."""
    return {"epsilon": None, "delta": None, "why": why, "line": f"no ε: {why}"}


def budget_of(channel: Sequence[Stage], **numbers: Any) -> Budget | None:
    """None where the channel states none."""
    return Budget(channel, **numbers) if states_epsilon(channel) else None
