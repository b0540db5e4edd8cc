"""The channel: Laplace noise, and how stages are asked for."""

from __future__ import annotations

import numpy as np
import pytest

import fedrec
from fedrec.channel.laplace import Laplace
from fedrec.channel.stage import parse
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Total
from fedrec.data.interactions import Interactions
from fedrec.data.split import Split
from fedrec.engine.round import Federation
from fedrec.methods.fedmf import FedMF


def total(clients: int, senders: float, weight: float) -> Total:
    rows = 2000
    return Total(
        {"items": np.zeros((rows, 10), np.float32), "layer": np.zeros(5, np.float32)},
        weight * clients,
        clients,
        {"items": np.full(rows, senders, np.float32)},
    )


@pytest.mark.parametrize("weight", [1.0, 3.0])
@pytest.mark.parametrize(("rows", "n"), [("all", 30), ("touched", 7)])
def test_the_noise_of_a_sum_has_the_variance_of_all_its_clients(rows: str, n: int, weight: float) -> None:
    strength = 0.5
    noisy = parse(f"laplace={strength},rows={rows}").in_sum(total(30, 7, weight), seed=0, round=1)
    noise = noisy.sums["items"] / weight
    assert noise.var() == pytest.approx(n * 2 * strength**2, rel=0.05)
    assert abs(noise.mean()) < 0.1
    kurtosis = (noise**4).mean() / noise.var() ** 2 - 3
    assert kurtosis == pytest.approx(3 / n, abs=0.15), "a sum of n Laplace variables, not a Gaussian"
    assert not noisy.sums["layer"].any(), "the noise is for the item table"


def test_rows_that_nobody_sent_stay_silent_where_touched_rows_are_noisy() -> None:
    untouched = parse("laplace=0.5,rows=touched").in_sum(total(30, 0, 1.0), seed=0, round=1)
    assert not untouched.sums["items"].any()


def test_noise_is_a_function_of_seed_and_round() -> None:
    stage = Laplace(strength=0.1)
    first, again, later, other = (
        stage.in_sum(total(5, 5, 1.0), seed, round).sums["items"]
        for seed, round in ((0, 1), (0, 1), (0, 2), (1, 1))
    )
    assert (first == again).all()
    assert (first != later).any()
    assert (first != other).any()


def test_no_strength_no_noise() -> None:
    sums = total(5, 5, 1.0)
    assert Laplace(strength=0).in_sum(sums, 0, 1) is sums


def test_noise_reaches_the_table_and_the_run_says_what_it_is_worth(tastes: Interactions) -> None:
    quiet, noisy = (
        fedrec.run("fedmf", tastes, rounds=1, settings={"dim": 8}, channel=channel)
        for channel in ([], ["laplace=0.5"])
    )
    assert quiet.federation is not None
    assert noisy.federation is not None
    noise = noisy.federation.state.shared["items"] - quiet.federation.state.shared["items"]
    assert noise.std() == pytest.approx(np.sqrt(2 * 0.5**2 / 40), rel=0.15), "the mean over 40 clients"
    assert quiet.result["notes"] == []
    assert "states no epsilon" in noisy.result["notes"][0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("laplac=0.5", "unknown channel stage 'laplac': did you mean 'laplace'?"),
        ("laplace=-1", "laplace: strength=-1 is not valid"),
        ("laplace=much", "laplace: strength=much is not valid"),
        ("laplace", "laplace: strength"),
        ("laplace=0.5,touched", "write options as key=value, not 'touched'"),
        ("laplace=0.5,row=all", "laplace has no setting 'row': did you mean 'rows'?"),
        ("laplace=0.5,rows=some", "laplace: rows=some is not valid"),
    ],
)
def test_stages_that_make_no_sense_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(FedrecError) as error:
        parse(text)
    assert sentence in str(error.value)


def test_two_stages_of_noise_draw_apart(small_split: Split) -> None:
    def table(*strengths: float) -> np.ndarray:
        channel = [Laplace(strength=strength) for strength in strengths]
        federation = Federation(FedMF(dim=4, eta=0.5), small_split, channel=channel)
        federation.play(evaluate=False)
        return federation.state.shared["items"]

    quiet, once, twice = table(0.0), table(1.0), table(1.0, 1.0)
    assert not np.allclose(twice - quiet, 2 * (once - quiet), atol=1e-4)
