"""What a client trains on in a round."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec.core.federated import Phase
from fedrec.data.interactions import Interactions, from_codes
from fedrec.data.samples import Samples, draw_samples
from fedrec.data.split import Split, split

EVERYTHING = [Phase([])]


def of_client(samples: Samples, c: int, number: int = 0) -> tuple[list[int], list[int]]:
    """Positives and negatives of a client in one pass, as items."""
    batch = samples.passes[number]
    real = batch.mask[c] > 0
    items = samples.touched[c][batch.items[c][real]]
    labels = batch.labels[c][real] > 0
    return sorted(items[labels].tolist()), sorted(items[~labels].tolist())


@pytest.fixture(params=["strict", "paper"])
def parts(request: pytest.FixtureRequest, small: Interactions) -> Split:
    return split(small, request.param)


def test_positives_are_the_training_items_and_negatives_are_never_forbidden(parts: Split) -> None:
    samples = draw_samples(parts.clients(), 0, 1, np.arange(parts.n_users), EVERYTHING)
    sizes = parts.clients().samples(samples.users)
    drawn = set()
    for u in range(parts.n_users):
        positives, negatives = of_client(samples, u)
        assert positives == sorted(parts.train.of(u).tolist())
        assert len(negatives) == 4 * len(positives) == sizes[u] - len(positives)
        assert not set(negatives) & set(parts.forbidden.of(u).tolist())
        drawn |= {(u, item) for item in negatives}
    held_out = {(u, int(item)) for item_of in (parts.valid, parts.test) for u, item in enumerate(item_of)}
    assert bool(drawn & held_out) == (parts.protocol.name == "strict"), "paper keeps the held-out items out"


def test_a_client_holds_each_touched_row_once(parts: Split) -> None:
    samples = draw_samples(parts.clients(), 0, 1, np.arange(parts.n_users), EVERYTHING)
    held = samples.items()
    for u in range(parts.n_users):
        positives, negatives = of_client(samples, u)
        assert held.of(u).tolist() == sorted({*positives, *negatives})


def test_draws_depend_on_seed_round_and_client_alone(parts: Split) -> None:
    together = draw_samples(parts.clients(), 0, 1, np.arange(parts.n_users), EVERYTHING)
    alone = draw_samples(parts.clients(), 0, 1, np.array([7]), EVERYTHING)
    assert of_client(together, 7) == of_client(alone, 0)
    assert of_client(alone, 0) != of_client(draw_samples(parts.clients(), 0, 2, np.array([7]), EVERYTHING), 0)
    assert of_client(alone, 0) != of_client(draw_samples(parts.clients(), 1, 1, np.array([7]), EVERYTHING), 0)


def test_epochs_visit_the_same_samples_in_another_order(small_split: Split) -> None:
    samples = draw_samples(small_split.clients(), 0, 1, np.arange(60), [Phase([], epochs=2)])
    first, second = samples.passes
    for u in range(60):
        assert of_client(samples, u, 0) == of_client(samples, u, 1)
    assert (first.items != second.items).any()


def test_support_and_query_are_disjoint_halves_that_cover_all(small_split: Split) -> None:
    plan = [Phase([], part="support"), Phase([], part="query"), Phase([], part="all")]
    samples = draw_samples(small_split.clients(), 0, 1, np.arange(60), plan)
    for u in range(60):
        (support, s_negatives), (query, q_negatives), (all_, negatives) = (
            of_client(samples, u, n) for n in range(3)
        )
        if len(all_) == 1:
            assert support == query == all_
            continue
        assert not set(support) & set(query)
        assert sorted(support + query) == all_
        assert sorted(s_negatives + q_negatives) == negatives
        assert 0 <= len(support) - len(query) <= 1
        assert len(s_negatives) == 4 * len(support), "each positive keeps its own negatives"


def rows(users: list[int], items: list[int], n_items: int) -> Interactions:
    times = np.arange(len(users))
    codes = (np.array(users, np.int32), np.array(items, np.int32))
    return from_codes("tiny", *codes, times, np.arange(max(users) + 1), np.arange(n_items))


def test_a_client_that_knows_every_item_trains_on_its_positives_alone() -> None:
    everything = list(range(5))
    parts = split(rows([0] * 10 + [1] * 3, [*everything, *everything, 0, 1, 2], 5), "paper")
    assert parts.clients().samples(np.arange(parts.n_users)).tolist() == [8]
    assert of_client(draw_samples(parts.clients(), 0, 1, np.array([0]), EVERYTHING), 0)[1] == []


def test_a_client_with_one_positive_uses_it_in_both_halves() -> None:
    parts = split(rows([0] * 3, [0, 1, 2], 6))
    plan = [Phase([], part="support"), Phase([], part="query")]
    samples = draw_samples(parts.clients(), 0, 1, np.array([0]), plan)
    assert of_client(samples, 0, 0) == of_client(samples, 0, 1)
    assert of_client(samples, 0)[0] == [0]


def test_methods_without_negatives_see_positives_alone(small_split: Split) -> None:
    samples = draw_samples(small_split.clients(), 0, 1, np.arange(60), [Phase([], part="positives")])
    assert samples.counts.tolist() == np.diff(small_split.train.indptr).tolist()
    assert all(of_client(samples, u)[1] == [] for u in range(60))
