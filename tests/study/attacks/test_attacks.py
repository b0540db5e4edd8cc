"""Attacks find what uploads, sums and tables give away, and nothing where the channel hides it."""

from __future__ import annotations

from typing import Any

import pytest

import fedrec
from fedrec.channel.budget import Budget
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.data.worlds import scalable
from fedrec.study.attacks.attack import Attacked
from fedrec.study.attacks.table import markdown, verdict

FEW = {"targets": 25, "threads": 1}


@pytest.fixture(scope="module")
def small() -> Interactions:
    """People who met few of many things: there, chance finds little."""
    return scalable(60, 300, 1500)


def attacked(method: str, data: Interactions, *names: str, **options: Any) -> dict[str, Any]:
    found = fedrec.attack(method, data, attacks=names, **{**FEW, **options})
    assert [one.attack for one in found.outcomes] == list(names), found.left_out
    return {one.attack: one for one in found.outcomes}


def test_a_single_upload_gives_its_positives_away(small: Interactions) -> None:
    found = attacked("fedmf", small, "touched", "sign", "imia", rounds=3, settings={"dim": 8})
    assert found["sign"].value > 0.9
    assert found["imia"].value > 0.7
    assert found["touched"].chance < found["touched"].value < 0.7, "sampled negatives are among them"
    rows = attacked("fedals", small, "touched", "senders", "equation", rounds=6, settings={"dim": 64})
    assert rows["touched"].value == rows["senders"].value == 1
    assert rows["equation"].value > 0.8
    assert rows["equation"].low <= rows["equation"].value <= rows["equation"].high


@pytest.mark.parametrize("method", ["fedmf", pytest.param("fedals", marks=pytest.mark.slow)])
def test_masks_hide_single_uploads_and_not_differences(method: str, small: Interactions) -> None:
    names = ["touched", "sign", "imia"]
    found = attacked(method, small, *names, "differencing", rounds=7, channel=["secure"], settings={"dim": 8})
    for name in names:
        assert found[name].low <= found[name].chance + 0.05
        assert found[name].value < 0.35
    assert found["differencing"].value > 0.9


def test_noise_hides_differences(small: Interactions) -> None:
    found = attacked("fedals", small, "differencing", "presence", epsilon=1.0)
    assert found["differencing"].value < 0.35
    assert found["presence"].value < 0.75
    assert not found["presence"].exceeds
    plain = attacked("fedals", small, "presence", rounds=2)["presence"]
    assert plain.value > 0.99
    assert plain.epsilon > 2.5


@pytest.mark.slow
def test_released_tables_tell_who_took_part_unless_they_bear_noise(small: Interactions) -> None:
    plain = attacked("fedals", small, "interaction", "user", rounds=4, shadows=12, settings={"dim": 16})
    assert plain["user"].value > 0.8
    assert plain["interaction"].value > 0.6
    assert plain["user"].tpr > 0.05
    private = attacked("fedals", small, "user", epsilon=1.0, shadows=12)["user"]
    assert abs(private.value - 0.5) < 0.15
    assert private.allowed == pytest.approx(1.0, rel=1e-3)


def test_a_guarantee_that_does_not_hold_is_found_out(
    small: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Budget, "spent", lambda self, rounds: 0.5)  # an accountant that lies
    found = fedrec.attack(
        "fedals", small, rounds=2, channel=["clip=1", "gaussian=0.05"], attacks=["presence"], **FEW
    )
    assert found.exceeded
    assert "EXCEEDED" in verdict(found)
    assert found.facts()["exceeded"]


def test_what_does_not_apply_says_why(small: Interactions) -> None:
    found = fedrec.attack("fedmf", small, rounds=1, attacks=["equation", "senders"], **FEW)
    assert found.outcomes == []
    assert "least squares" in found.left_out["equation"]
    assert "counts" in markdown(found)
    metamf = fedrec.attack("metamf", small, rounds=1, attacks=["user", "differencing"], **FEW)
    assert set(metamf.left_out) == {"user", "differencing"}


def test_the_same_seed_gives_the_same_table(small: Interactions) -> None:
    twice: list[Attacked] = [
        fedrec.attack("fedmf", small, rounds=2, attacks=["sign", "presence"], **FEW) for _ in range(2)
    ]
    assert twice[0].facts() == twice[1].facts()


@pytest.mark.parametrize(
    ("what", "options", "sentence"),
    [
        ("fedmf", {"attacks": ["sgin"]}, "unknown attack 'sgin': did you mean 'sign'"),
        ("ease", {}, "does not apply to ease: it is not federated"),
        ("fedmf", {"epsilon": 0}, "--epsilon 0 is not above 0"),
        ("fedmf", {"shadows": 1}, "--shadows=1 is too small"),
        ("metamf", {"channel": ["secure"]}, "looks at single uploads"),
    ],
)
def test_mistakes_are_one_sentence(
    what: str, options: dict[str, Any], sentence: str, small: Interactions
) -> None:
    with pytest.raises(FedrecError, match=sentence):
        fedrec.attack(what, small, threads=1, **options)
