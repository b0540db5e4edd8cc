"""Who takes part, and who is worked on together."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec.clients.clients import Clients
from fedrec.clients.plain import Plain
from fedrec.core.errors import FedrecError
from fedrec.core.ragged import Ids
from fedrec.data.split import Split
from fedrec.methods.fedmf import FedMF
from fedrec.server.cohort import cohort_size, sample_cohort


@pytest.mark.parametrize(
    ("asked", "size"), [(None, 90), (1.0, 90), (0.1, 9), (0.5, 45), (1, 1), (30, 30), (90, 90), (30.0, 30)]
)
def test_clients_are_a_fraction_or_a_number(asked: float | int | None, size: int) -> None:
    assert cohort_size(asked, 90) == size


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (0.001, "clients=0.001 samples no client of 90: ask for at least one"),
        (0, "clients=0 samples no client of 90"),
        (91, "clients=91 is more than the 90 there are: ask for fewer"),
        (1.5, "clients=1.5 is neither a fraction up to 1.0 nor a whole number of clients"),
    ],
)
def test_numbers_that_make_no_cohort_are_refused(asked: float | int, sentence: str) -> None:
    with pytest.raises(FedrecError, match=sentence):
        cohort_size(asked, 90)


def test_a_cohort_is_a_function_of_seed_and_round() -> None:
    cohort = sample_cohort(seed=1, round=3, n_users=100, size=10)
    assert len(set(cohort)) == 10
    assert (np.diff(cohort) > 0).all()
    assert cohort.max() < 100
    assert (sample_cohort(1, 3, 100, 10) == cohort).all()
    assert (sample_cohort(1, 4, 100, 10) != cohort).any()
    assert (sample_cohort(2, 3, 100, 10) != cohort).any()


def test_every_client_is_sampled_now_and_then() -> None:
    times = np.bincount(np.concatenate([sample_cohort(0, r, 50, 5) for r in range(400)]), minlength=50)
    assert times.sum() == 2000
    assert times.min() > 15
    assert times.max() < 75


def test_everyone_is_everyone() -> None:
    assert (sample_cohort(0, 1, 7, 7) == np.arange(7)).all()


@pytest.fixture
def plain(small_split: Split, monkeypatch: pytest.MonkeyPatch) -> Plain:
    """An engine that works on 16 clients together, at most."""
    monkeypatch.setattr("fedrec.clients.plain.BLOCK_CLIENTS", 16)
    engine = Clients(FedMF(), small_split.clients(), small_split.catalog, secret=0, engine="plain").engine
    assert isinstance(engine, Plain)
    return engine


def blocks(engine: Plain, users: Ids, sizes: Ids, budget: int, monkeypatch: pytest.MonkeyPatch) -> list[Ids]:
    """Clients of these sizes in blocks of so many padded samples."""
    monkeypatch.setattr("fedrec.clients.plain.BLOCK_SAMPLES", budget)
    engine.sizes = sizes
    return engine.blocks(users)


def test_blocks_hold_everyone_once_within_their_budget(plain: Plain, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = np.random.default_rng(0).integers(1, 100, 200)
    users = np.arange(0, 200, 2)
    found = blocks(plain, users, sizes, 500, monkeypatch)
    assert sorted(np.concatenate(found)) == list(users)
    for block in found:
        assert len(block) <= 16
        assert len(block) == 1 or len(block) * sizes[block].max() <= 500
    largest = [sizes[block].max() for block in found]
    assert largest == sorted(largest), "clients of similar size stand together"
    assert len(found) < 60, "blocks are filled"


def test_a_client_larger_than_the_budget_has_a_block_of_its_own(
    plain: Plain, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = blocks(plain, np.arange(3), np.array([5, 1000, 5]), 100, monkeypatch)
    assert [list(block) for block in found] == [[0, 2], [1]]
