"""Metrics against figures worked out by hand."""

import math

import numpy as np
import pytest

from fedrec.core.errors import FedrecError
from fedrec.evaluate.metrics import Ranks, auc, summary


def ranks(ahead, ties=None, among=99):
    ahead = np.array(ahead, np.int32)
    ties = np.zeros_like(ahead) if ties is None else np.array(ties, np.int32)
    return Ranks(ahead, ties, np.broadcast_to(np.int32(among), ahead.shape))


def test_by_hand():
    found = summary(ranks([0, 2, 9, 10]), ks=(1, 3, 10))
    assert found["hr@1"] == 0.25
    assert found["hr@3"] == 0.5
    assert found["hr@10"] == 0.75
    assert found["ndcg@10"] == pytest.approx((1 + 1 / 2 + 1 / math.log2(11)) / 4)
    assert found["mrr@10"] == pytest.approx((1 + 1 / 3 + 1 / 10) / 4)
    assert found["mrr@3"] == pytest.approx((1 + 1 / 3) / 4)
    assert found["recall@10"] == found["hr@10"]
    assert found["precision@10"] == pytest.approx(0.075)
    assert found["auc"] == pytest.approx((4 * 99 - 21) / (4 * 99))


def test_auc_gives_half_credit_for_ties():
    area, error = auc(ranks([99, 99], ties=[99, 99]))
    assert area == 0.5
    assert error == 0


def test_standard_error_of_auc():
    area, error = auc(ranks([0, 99, 0, 99]))
    assert area == 0.5
    assert error == pytest.approx(np.std([1, 0, 1, 0], ddof=1) / 2)


def test_chance_is_within_its_standard_errors():
    ahead = np.random.default_rng(0).integers(100, size=5_000)
    area, error = auc(ranks(ahead))
    assert abs(area - 0.5) < 3 * error < 0.02


def test_nothing_to_rank_against_is_a_hit_and_has_no_auc():
    found = summary(ranks([0], among=0))
    assert found["hr@10"] == found["ndcg@10"] == 1
    assert "auc" not in found
    assert auc(Ranks(*np.array([[0, 0], [0, 0], [0, 1]], np.int32)))[0] == 1


def test_k_below_one_is_refused():
    with pytest.raises(FedrecError, match="k=0"):
        summary(ranks([0]), ks=(0,))
