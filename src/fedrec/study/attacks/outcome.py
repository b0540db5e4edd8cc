"""What came of an attack, with what chance would give, how sure that is, and what it says of ε."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec.core.ragged import Ids

SURE = 0.95  # of every interval and limit
FALSE_ALARMS = 0.01  # at which true positives are told


@dataclass(frozen=True)
class Outcome:
    """One line of the table."""

    attack: str
    sees: str  # what the adversary looks at
    measure: str  # F1 or AUC
    value: float
    low: float
    high: float
    chance: float
    trials: int
    tpr: float | None = None  # true positives at 1% false alarms
    epsilon: float | None = None  # at least so much privacy is lost, with 95% confidence
    allowed: float | None = None  # what the accountant allows between the two worlds that were told apart
    note: str = ""

    @property
    def exceeds(self) -> bool:
        return self.epsilon is not None and self.allowed is not None and self.epsilon > self.allowed

    def facts(self) -> dict[str, Any]:
        return asdict(self) | {"exceeds": self.exceeds}


def recovered(
    attack: str,
    sees: str,
    scores: dict[int, NDArray[Any]],
    truth: dict[int, NDArray[np.int32]],
    rng: np.random.Generator,
    note: str = "",
) -> Outcome:
    """F1 of saying which n things a user met, by scores of all items; the adversary is told n, which favours it."""
    found, chance = [], []
    for user, values in scores.items():
        items, n = truth[user], len(truth[user])
        mixed = rng.permutation(len(values))  # of equal scores any
        order = mixed[np.argsort(-np.nan_to_num(values, nan=-np.inf)[mixed], kind="stable")]
        found.append(len(np.intersect1d(order[:n], items)) / n)  # precision and recall are one: so is F1
        chance.append(n / len(values))
    mean = float(np.mean(found))
    half = 1.96 * float(np.std(found, ddof=1)) / math.sqrt(len(found)) if len(found) > 1 else math.nan
    low, high = max(mean - half, 0.0), min(mean + half, 1.0)
    return Outcome(attack, sees, "F1", mean, low, high, float(np.mean(chance)), len(found), note=note)


class Trials(NamedTuple):
    """Guesses in a game of coins: how sure the adversary was of "in", and what the coin had said."""

    scores: NDArray[np.float64]
    inside: NDArray[np.bool_]
    who: Ids  # whose coin it was


def told_apart(
    attack: str, sees: str, trials: Trials, delta: float = 0.0, allowed: float | None = None, note: str = ""
) -> Outcome:
    """AUC of telling in from out, true positives at 1% false alarms, and a lower limit on ε."""
    scores, inside, _ = trials
    area = auc(scores, inside)
    half = 1.96 * auc_error(area, int(inside.sum()), int((~inside).sum()))
    outs = np.sort(scores[~inside])[::-1]
    at = outs[min(int(FALSE_ALARMS * len(outs)), len(outs) - 1)]
    tpr = float((scores[inside] > at).mean())
    low, high = max(area - half, 0.0), min(area + half, 1.0)
    epsilon = least_epsilon(trials, delta)
    return Outcome(
        attack, sees, "AUC", area, low, high, 0.5, len(scores), tpr, epsilon, allowed, note
    )  # fmt: skip


def auc(scores: NDArray[Any], inside: NDArray[np.bool_]) -> float:
    """Chance that one that is in has a higher score than one that is out."""
    from scipy.stats import rankdata

    n = int(inside.sum())
    ranks = rankdata(scores)[inside].sum()
    return float((ranks - n * (n + 1) / 2) / (n * (len(scores) - n)))


def auc_error(area: float, ins: int, outs: int) -> float:
    """Its standard error (Hanley & McNeil, Radiology 1982)."""
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    spread = area * (1 - area) + (ins - 1) * (q1 - area**2) + (outs - 1) * (q2 - area**2)
    return math.sqrt(max(spread, 0.0) / (ins * outs))


def least_epsilon(trials: Trials, delta: float) -> float:
    """A lower limit on ε at δ, with 95% confidence: whoever has (ε, δ) has TPR ≤ e^ε·FPR + δ, both ways round.

    The threshold is the best on the coins of every second person and is judged on the others', by limits of Clopper
    and Pearson; so it is not chosen by luck. Guesses are taken as independent.
    """
    scores, inside, who = trials
    first = np.isin(who, np.unique(who)[::2])
    found = 0.0
    for scores_, inside_ in ((scores, inside), (-scores, ~inside)):  # sure of "in", or sure of "out"
        at = _threshold(scores_[first], inside_[first], delta)
        if at is None:
            continue
        said = scores_[~first] >= at
        hits, alarms = int((said & inside_[~first]).sum()), int((said & ~inside_[~first]).sum())
        ins, outs = int(inside_[~first].sum()), int((~inside_[~first]).sum())
        # Two directions with two limits each: together they are wrong in at most 5% of cases.
        tpr = clopper_pearson(hits, ins, (1 - SURE) / 4)[0]
        fpr = clopper_pearson(alarms, outs, (1 - SURE) / 4)[1]
        if tpr > delta:
            found = max(found, math.log((tpr - delta) / fpr))
    return found


def _threshold(scores: NDArray[Any], inside: NDArray[np.bool_], delta: float) -> float | None:
    """Where these guesses would give the largest limit."""
    best, chosen = 0.0, None
    ins, outs = int(inside.sum()), int((~inside).sum())
    if not ins or not outs:
        return None
    for share in (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5):
        at = np.quantile(scores, 1 - share)
        said = scores >= at
        tpr = clopper_pearson(int((said & inside).sum()), ins, (1 - SURE) / 4)[0]
        fpr = clopper_pearson(int((said & ~inside).sum()), outs, (1 - SURE) / 4)[1]
        limit = math.log((tpr - delta) / fpr) if tpr > delta else 0.0
        if limit > best:
            best, chosen = limit, float(at)
    return chosen


def clopper_pearson(hits: int, trials: int, wrong: float) -> tuple[float, float]:
    """Exact limits on a probability, each wrong with this chance."""
    from scipy.stats import beta

    low = 0.0 if hits == 0 else float(beta.ppf(wrong, hits, trials - hits + 1))
    high = 1.0 if hits == trials else float(beta.ppf(1 - wrong, hits + 1, trials - hits))
    return low, high
