"""Controls on the same split as a result: what needs no personal model, and what needs no model at all.

Popularity is the level to beat. The negative counter is a lie detector: no protocol that keeps the
test item secret lets it do better than chance. Over many data sets and seeds chance alone goes far once in a while, so
a counter that looks better counts other draws of the same protocol, and what these say is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypedDict

from fedrec.core.rng import stream
from fedrec.core.slots import Array
from fedrec.data.split import Split
from fedrec.evaluate.exam import Exam
from fedrec.evaluate.metrics import Ranks, auc, hr, summary
from fedrec.evaluate.ranking import rank_sampled
from fedrec.methods.central.counter import Counter
from fedrec.methods.central.popularity import Popularity, SameForAll

STANDARD_ERRORS = 3  # above 0.5 by more than this many, twice: the protocol is broken
AGAIN = "counter, once more"

CounterControl = TypedDict(
    "CounterControl", {"hr@10": float, "auc": float | None, "auc_se": float | None, "leaks": bool}
)


class Controls(TypedDict):
    popularity: dict[str, float]
    counter: CounterControl


class Control(NamedTuple):
    """Where the test items come under either."""

    popular: Ranks
    drawn: Ranks


def control_ranks(exam: Exam, met_by: Array, rounds: int, seed: int, threads: int = 1) -> Control:
    """Popularity, from how many users trained on each item, and the counter over the negatives of so many rounds."""
    counter = Counter(rounds=max(1, rounds)).fit(exam.split, seed, threads)
    popular = rank_sampled(SameForAll(met_by), exam, "test", threads)
    return Control(popular, rank_sampled(counter, exam, "test", threads))


def controls(
    split: Split, rounds: int = 100, seed: int = 0, threads: int = 1, ks: Sequence[int] = (10,)
) -> Controls:
    """Popularity, and the counter over the negatives of ``rounds`` rounds, both on the sampled test."""
    exam, met_by = Exam(split), Popularity().fit(split, seed, threads).scores
    return stated(lambda draws: control_ranks(exam, met_by, rounds, draws, threads), seed, ks)


def stated(ranked: Callable[[int], Control], seed: int, ks: Sequence[int] = (10,)) -> Controls:
    """From the ranks with the draws of a seed: those of training, and others if these stand out."""
    found = ranked(seed)
    area, error = auc(found.drawn)
    if _stands_out(area, error):  # these do not depend on the first: chance does not go this far twice
        found = ranked(stream(seed, AGAIN))
        area, error = auc(found.drawn)
    return {
        "popularity": summary(found.popular, ks),
        "counter": {
            "hr@10": hr(found.drawn, 10),
            "auc": area if area == area else None,  # NaN: no user had candidates
            "auc_se": error if error == error else None,
            # AUC, because on sparse data the hit rate is all ties and hides the leak
            "leaks": _stands_out(area, error),
        },
    }


def _stands_out(area: float, error: float) -> bool:
    return area - 0.5 > STANDARD_ERRORS * error
