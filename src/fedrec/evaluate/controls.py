"""Controls on the same split as a result: what needs no personal model, and what needs no model at all.

Popularity is the level to beat. The negative counter is a lie detector: no protocol that keeps the
test item secret lets it do better than chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypedDict

from fedrec.core.slots import Array
from fedrec.data.split import Split
from fedrec.evaluate.exam import Exam
from fedrec.evaluate.metrics import Ranks, auc, hr, summary
from fedrec.evaluate.ranking import rank_sampled
from fedrec.methods.central.counter import Counter
from fedrec.methods.central.popularity import Popularity, SameForAll

STANDARD_ERRORS = 3  # above 0.5 by more than this many: the protocol is broken

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
    met_by = Popularity().fit(split, seed, threads).scores
    return stated(control_ranks(Exam(split), met_by, rounds, seed, threads), ks)


def stated(found: Control, ks: Sequence[int] = (10,)) -> Controls:
    area, error = auc(found.drawn)
    return {
        "popularity": summary(found.popular, ks),
        "counter": {
            "hr@10": hr(found.drawn, 10),
            "auc": area if area == area else None,  # NaN: no user had candidates
            "auc_se": error if error == error else None,
            # AUC, because on sparse data the hit rate is all ties and hides the leak
            "leaks": area - 0.5 > STANDARD_ERRORS * error,
        },
    }
