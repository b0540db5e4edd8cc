"""Where each held-out item comes among its user's candidates, and what a model would recommend.

Users are taken in blocks, each block scored and counted at once: users × items is never held.
Scorers are called from several threads at a time. Ties and non-finite scores rank against the
held-out item (the positive), so a model gains nothing by scoring everything alike or by overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.core.blocks import in_order, run_blocks
from fedrec.core.ragged import Ids, Ragged
from fedrec.core.scorer import FromHistory, Prepares, Scorer
from fedrec.evaluate.exam import Exam, Which
from fedrec.evaluate.metrics import Ranks

Blocks = Sequence[NDArray[np.int64]]


def rank_sampled(
    scorer: Scorer, exam: Exam, which: Which, threads: int = 1, blocks: Blocks | None = None
) -> Ranks:
    """Rank each held-out item against the candidates the protocol drew for its user.

    ``blocks`` says which users to score together, where a scorer has a preference.
    """

    scorer = asked(scorer, exam, which)

    def work(users: NDArray[np.int64], ranks: Sequence[Ranks]) -> None:
        _sampled(scorer, exam, which, users, ranks[0])

    return _ranks(work, (which,), exam, threads, blocks)[0]


def asked(scorer: Scorer, exam: Exam, which: Which) -> Scorer:
    """Who ranks: for the test item one that knows the validation item, if the protocol and the model let it."""
    if which == "test" and exam.known is not None and isinstance(scorer, FromHistory):
        return scorer.knowing(exam.known)
    return scorer


def _sampled(scorer: Scorer, exam: Exam, which: Which, users: NDArray[np.int64], ranks: Ranks) -> None:
    items = exam.lines(which, users)
    _count_sampled(scorer.some(users, items), items, exam.split.protocol.candidates, *ranks)


def count_sampled(
    scores: NDArray[np.float32], items: NDArray[np.int32], exam: Exam, which: Which, users: Ids, ranks: Ranks
) -> None:
    """Fill in the ranks of some users from the scores of their lines of an exam."""
    places = exam.places(which, users)
    found = Ranks.none(len(places))
    _count_sampled(scores, items, exam.split.protocol.candidates, *found)
    for kind, part in zip(ranks, found, strict=True):
        kind[places] = part


def rank_full(
    scorer: Scorer, exam: Exam, which: Which, threads: int = 1, blocks: Blocks | None = None
) -> Ranks:
    """Rank each held-out item against all items that its user has not trained on.

    Other held-out items of the user take no part, nor, when testing, those for validation. The held-out item
    itself always takes part, even where repeated rows (protocol ``paper``) put it among the training items.
    """

    scorer, held, left_out = asked(scorer, exam, which), exam.held(which), exam.left_out(which)

    def work(users: NDArray[np.int64], ranks: Sequence[Ranks]) -> None:
        _count_full(scorer.all(users), users, *held, *left_out, *ranks[0])

    return _ranks(work, (which,), exam, threads, blocks)[0]


class Measured(NamedTuple):
    """Ranks of the held-out items, and what each user would be offered instead (padded with -1)."""

    valid: Ranks
    test: Ranks
    full: Ranks  # of the test items among the whole catalogue
    top: NDArray[np.int32]  # best first
    knew: bool  # the test item was ranked from all that the protocol lets a device know


def measure(
    scorer: Scorer, exam: Exam, threads: int = 1, blocks: Blocks | None = None, k: int = 10
) -> Measured:
    """Validation and test among candidates, test among all, and top lists: what ranks is made once for all."""
    top = np.full((exam.n_users, k), -1, np.int32)
    tester, seen = asked(scorer, exam, "test"), exam.seen
    held, left_out = exam.held("test"), exam.left_out("test")

    def work(users: NDArray[np.int64], ranks: Sequence[Ranks]) -> None:
        ready = _ready(scorer, users)
        _sampled(ready, exam, "valid", users, ranks[0])
        ready = ready if tester is scorer else _ready(tester, users)
        _sampled(ready, exam, "test", users, ranks[1])
        scores = ready.all(users)
        _count_full(scores, users, *held, *left_out, *ranks[2])
        best, values = np.full((len(users), k), -1, np.int32), np.full((len(users), k), -np.inf, np.float32)
        _best(scores, users, *seen, False, best, values)
        top[users] = best

    valid, test, full = _ranks(work, ("valid", "test", "test"), exam, threads, blocks)
    return Measured(valid, test, full, top, exam.known is None or tester is not scorer)


def _ready(scorer: Scorer, users: NDArray[np.int64]) -> Scorer:
    return scorer.ready(users) if isinstance(scorer, Prepares) else scorer


def top_k(
    scorer: Scorer,
    seen: Ragged,
    k: int,
    users: Sequence[int] | NDArray[np.int64] | None = None,
    include_seen: bool = False,
    threads: int = 1,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k best items of each user, best first, and their scores; short rows end in -1 and -inf.

    ``seen`` says what a user has met, such as a split's training items. Of equal scores the smaller item
    code comes first; an item without a finite score is not recommended.
    """
    chosen = np.arange(len(seen.indptr) - 1) if users is None else np.asarray(users, dtype=np.int64)
    items = np.full((len(chosen), k), -1, np.int32)
    scores = np.full((len(chosen), k), -np.inf, np.float32)
    if len(chosen) == 0:
        return items, scores

    def work(start: int, end: int) -> None:
        block = chosen[start:end]
        found = scorer.all(block)
        _best(found, block, seen.indptr, seen.items, include_seen, items[start:end], scores[start:end])

    n_items = scorer.all(chosen[:1]).shape[1]
    run_blocks(work, len(chosen), _block(n_items), threads)
    return items, scores


def _block(n_items: int) -> int:
    """Users per block: scores of about a megabyte stay in cache."""
    return min(512, max(16, 2**18 // n_items))


def _ranks(
    work: Callable[[NDArray[np.int64], Sequence[Ranks]], None],
    whiches: Sequence[Which],
    exam: Exam,
    threads: int,
    blocks: Blocks | None,
) -> list[Ranks]:
    ranks = [exam.unranked(which) for which in whiches]
    size = _block(exam.n_items)
    if blocks is None:
        starts = range(0, exam.n_users, size)
        blocks = [np.arange(start, min(start + size, exam.n_users)) for start in starts]

    def block(users: NDArray[np.int64]) -> None:
        places = [exam.places(which, users) for which in whiches]
        mine = [Ranks.none(len(at)) for at in places]
        work(users, mine)
        for whole, part, at in zip(ranks, mine, places, strict=True):
            for values, found in zip(whole, part, strict=True):
                values[at] = found

    for _ in in_order(block, blocks, threads):
        pass
    return ranks


@nb.njit(cache=True, nogil=True)
def _count_sampled(scores: Any, items: Any, candidates: int, ahead: Any, ties: Any, among: Any) -> None:
    """The last columns are the candidates, those before them positives; both are padded with -1."""
    first = scores.shape[1] - candidates
    at = 0
    for row in range(len(scores)):
        for p in range(first):
            if items[row, p] < 0:
                break
            positive = scores[row, p]
            finite = np.isfinite(positive)
            for c in range(first, scores.shape[1]):
                if items[row, c] < 0:
                    continue
                score = scores[row, c]
                among[at] += 1
                ahead[at] += not (finite and np.isfinite(score) and score < positive)
                ties[at] += finite and score == positive
            at += 1


@nb.njit(cache=True, nogil=True)
def _count_full(
    scores: Any,
    users: Any,
    held_ptr: Any,
    held: Any,
    out_ptr: Any,
    out: Any,
    ahead: Any,
    ties: Any,
    among: Any,
) -> None:
    """Count over the whole catalogue without a branch, then take back the items that do not take part."""
    n_items = scores.shape[1]
    low = np.float32(-np.inf)
    at = 0
    for row, u in enumerate(users):
        for p in held[held_ptr[u] : held_ptr[u + 1]]:
            positive = scores[row, p]
            finite = np.isfinite(positive)
            behind = 0
            equal = 0
            for i in range(n_items):
                score = scores[row, i]
                behind += (score < positive) & (score > low)
                equal += score == positive
            count = n_items - 1
            equal -= 1  # the positive itself
            for i in out[out_ptr[u] : out_ptr[u + 1]]:
                if i == p:
                    continue
                score = scores[row, i]
                behind -= (score < positive) & (score > low)
                equal -= score == positive
                count -= 1
            among[at] = count
            ahead[at] = count - behind if finite else count
            ties[at] = equal if finite else 0
            at += 1


@nb.njit(cache=True, nogil=True)
def _best(
    scores: Any, users: Any, indptr: Any, seen: Any, include_seen: bool, items: Any, values: Any
) -> None:
    """Insertion into a short sorted list: almost every item fails the first comparison."""
    k = items.shape[1]
    mark = np.full(scores.shape[1], -1, np.int64)
    for row, u in enumerate(users):
        if not include_seen:
            for i in seen[indptr[u] : indptr[u + 1]]:
                mark[i] = row
        for i in range(scores.shape[1]):
            score = scores[row, i]
            if k == 0 or mark[i] == row or not np.isfinite(score) or not score > values[row, k - 1]:
                continue
            at = k - 1
            while at > 0 and score > values[row, at - 1]:
                values[row, at], items[row, at] = values[row, at - 1], items[row, at - 1]
                at -= 1
            values[row, at], items[row, at] = score, i
