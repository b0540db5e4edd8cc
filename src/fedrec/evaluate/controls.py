"""Controls on the same split as a result: what needs no personal model, and what needs no model at all.

Popularity is the level to beat. The negative counter is a lie detector: no protocol that keeps the
test item secret lets it do better than chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from fedrec.data.split import Split
from fedrec.evaluate.exam import Exam
from fedrec.evaluate.metrics import auc, hr, summary
from fedrec.evaluate.ranking import rank_sampled
from fedrec.methods.central.counter import Counter
from fedrec.methods.central.popularity import Popularity

STANDARD_ERRORS = 3  # above 0.5 by more than this many: the protocol is broken

CounterControl = TypedDict(
    "CounterControl", {"hr@10": float, "auc": float | None, "auc_se": float | None, "leaks": bool}
)


class Controls(TypedDict):
    popularity: dict[str, float]
    counter: CounterControl


def controls(
    split: Split, rounds: int = 100, seed: int = 0, threads: int = 1, ks: Sequence[int] = (10,)
) -> Controls:
    """Popularity, and the counter over the negatives of ``rounds`` rounds, both on the sampled test."""
    exam = Exam(split)
    popularity = Popularity().fit(split, seed, threads)
    counter = Counter(rounds=max(1, rounds)).fit(split, seed, threads)
    drawn = rank_sampled(counter, exam, "test", threads)
    area, error = auc(drawn)
    return {
        "popularity": summary(rank_sampled(popularity, exam, "test", threads), ks),
        "counter": {
            "hr@10": hr(drawn, 10),
            "auc": area if area == area else None,  # NaN: no user had candidates
            "auc_se": error if error == error else None,
            # AUC, because on sparse data the hit rate is all ties and hides the leak
            "leaks": area - 0.5 > STANDARD_ERRORS * error,
        },
    }
