"""The channel: Laplace noise, and how stages are asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from scipy.stats import ks_2samp, kurtosis

import fedrec
from fedrec.channel.laplace import Laplace
from fedrec.channel.stage import Stage, drawn_for_sum, parse, sent_through
from fedrec.core.errors import FedrecError
from fedrec.core.ragged import Ragged
from fedrec.core.slots import sent
from fedrec.core.upload import Total, Upload, Uploads, joined, summed
from fedrec.data.interactions import Interactions
from fedrec.data.samples import draw_samples
from fedrec.data.split import Split, split
from fedrec.methods.fedmf import FedMF
from fedrec.methods.metamf import MetaMF
from fedrec.simulate.simulation import Simulation
from fedrec.testing import with_unknown_items

ROWS, LAYER = 2000, 20000
STRENGTH = 0.5


def declared(weight: Literal["client", "samples"] = "client") -> Uploads:
    return Uploads({"items": sent(ROWS, 10, rows=True), "layer": sent(LAYER)}, weight=weight)


def nothing(touched: Any = range(ROWS), weight: float = 1.0) -> Upload:
    """One client's upload of zeros for the items that it touched: what comes out is the noise."""
    items = np.array(touched, np.int32)
    return Upload(
        Ragged(np.array([0, len(items)]), items),
        {"items": np.zeros((len(items), 10), np.float32)},
        {"layer": np.zeros((1, LAYER), np.float32)},
        np.full(1, weight, np.float32),
    )


def total(clients: int) -> Total:
    return replace(Total.empty(declared().arrays), weight=clients, clients=clients)


def on_devices(stage: Stage, clients: int, rng: np.random.Generator, **options: Any) -> Total:
    """The sum of what so many clients send, each noisy by itself."""
    uploads = declared()
    ones = [stage.on_device(nothing(**options), uploads, rng) for _ in range(clients)]
    return summed(joined(ones), uploads.arrays)


@pytest.mark.parametrize("name", ["items", "layer"])
@pytest.mark.parametrize("n", [7, 30])
@pytest.mark.parametrize("rows", ["all", "touched", "shortcut"])
def test_the_noise_of_a_sum_has_the_variance_of_all_its_clients(rows: str, n: int, name: str) -> None:
    rng = np.random.default_rng(0)
    if rows == "shortcut":
        noisy = parse(f"laplace={STRENGTH}").in_sum(total(n), declared(), rng)
    else:
        noisy = on_devices(parse(f"laplace={STRENGTH},rows={rows}"), n, rng)
    noise = noisy.sums[name]
    assert noise.var() == pytest.approx(n * 2 * STRENGTH**2, rel=0.05)
    assert abs(noise.mean()) < 0.1
    assert kurtosis(noise, axis=None) == pytest.approx(3 / n, abs=0.15), (
        "a sum of n Laplace variables, not a Gaussian"
    )


@pytest.mark.parametrize("name", ["items", "layer"])
def test_the_shortcut_draws_from_the_distribution_of_what_devices_do(name: str) -> None:
    """Noise drawn for the sum of 8 clients, and the sum of the noise that 8 clients drew."""
    stage, rng, clients = Laplace(strength=STRENGTH), np.random.default_rng(0), 8
    draws = 10  # as many numbers as it takes to tell it from a Gaussian
    at_once = [stage.in_sum(total(clients), declared(), rng).sums[name].ravel() for _ in range(draws)]
    one_by_one = [on_devices(stage, clients, rng).sums[name].ravel() for _ in range(draws)]
    mine, theirs = np.concatenate(at_once), np.concatenate(one_by_one)
    assert ks_2samp(mine, theirs).pvalue > 0.01
    deviation = np.sqrt(clients * 2) * STRENGTH
    for noise in (mine, theirs):
        assert noise.mean() == pytest.approx(0, abs=4 * deviation / np.sqrt(len(noise)))
        assert noise.std() == pytest.approx(deviation, rel=0.01)
        assert kurtosis(noise) == pytest.approx(3 / clients, abs=0.06)
        assert ks_2samp(noise, rng.normal(0, deviation, len(noise))).pvalue < 0.001, "the test can tell"


@pytest.mark.parametrize("rows", ["all", "touched"])
def test_whatever_leaves_is_noisy(rows: Literal["all", "touched"]) -> None:
    stage, rng = Laplace(strength=STRENGTH, rows=rows), np.random.default_rng(0)
    one = stage.on_device(nothing([3, 5], weight=7), declared("samples"), rng)
    assert (one.rows["items"] != 0).all()
    assert one.dense["layer"].shape == (1, LAYER)
    assert one.dense["layer"].std() == pytest.approx(np.sqrt(2) * STRENGTH, rel=0.05)
    many = [stage.on_device(nothing([3, 5], 7), declared("samples"), rng).weights[0] for _ in range(2000)]
    assert np.mean(many) == pytest.approx(7, abs=0.1)
    assert np.std(many) == pytest.approx(np.sqrt(2) * STRENGTH, rel=0.1), "how many samples it has"
    assert stage.on_device(nothing([3, 5]), declared(), rng).weights == 1, "one client is one client"


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_the_noise_of_an_upload_counts_as_much_as_its_client(weight: float) -> None:
    uploads, rng = declared("samples"), np.random.default_rng(0)
    one = Laplace(strength=STRENGTH).on_device(nothing(weight=weight), uploads, rng)
    for noise in summed(one, uploads.arrays).sums.values():
        deviation = abs(float(one.weights[0])) * np.sqrt(2) * STRENGTH
        assert noise.std() == pytest.approx(deviation, rel=0.05)
        assert kurtosis(noise, axis=None) == pytest.approx(3, abs=0.5)


def test_noise_on_touched_rows_shows_which_they_are_and_noise_on_all_does_not() -> None:
    rng = np.random.default_rng(0)
    touched = on_devices(Laplace(strength=STRENGTH, rows="touched"), 30, rng, touched=[3, 5]).sums["items"]
    assert np.flatnonzero(touched.any(axis=1)).tolist() == [3, 5], "rows that nobody sent stay silent"
    everywhere = on_devices(Laplace(strength=STRENGTH), 30, rng, touched=[3, 5]).sums["items"]
    assert everywhere.all()


def test_noise_is_a_function_of_seed_and_round() -> None:
    stage = Laplace(strength=0.1)
    first, again, later, other = (
        drawn_for_sum([stage], total(5), declared(), seed, round).sums["items"]
        for seed, round in ((0, 1), (0, 1), (0, 2), (1, 1))
    )
    assert (first == again).all()
    assert (first != later).any()
    assert (first != other).any()


def test_a_device_draws_for_itself_whoever_else_takes_part() -> None:
    def noise(seed: int, round: int, *keys: int) -> np.ndarray:
        several = joined([nothing([3, 5]) for _ in keys])
        noisy = sent_through(
            [Laplace(strength=0.1)], several, declared(), seed, round, np.array(keys, np.uint64)
        )
        return noisy.dense["layer"]

    together = noise(0, 1, 11, 12)
    np.testing.assert_array_equal(together[1], noise(0, 1, 12)[0])
    for other in (together[0], noise(0, 2, 12)[0], noise(1, 1, 12)[0]):
        assert not np.isclose(other, together[1]).all()


def test_no_strength_no_noise() -> None:
    sums, one, rng = total(5), nothing([3]), np.random.default_rng(0)
    assert Laplace(strength=0).in_sum(sums, declared(), rng) is sums
    assert Laplace(strength=0).on_device(one, declared("samples"), rng) is one


@pytest.mark.parametrize(
    ("options", "weight", "shortcut"),
    [
        ({}, "client", True),
        ({"rows": "touched"}, "client", False),
        ({}, "samples", False),
        ({"strength": 0, "rows": "touched"}, "samples", True),
    ],
)
def test_noise_is_drawn_for_the_sum_only_where_that_is_the_same(
    options: dict[str, Any], weight: Literal["client", "samples"], shortcut: bool
) -> None:
    assert Laplace(**{"strength": 0.1, **options}).has_shortcut(declared(weight)) == shortcut


def test_touched_rows_get_the_noise_of_the_clients_that_touched_them(tastes: Interactions) -> None:
    parts = split(with_unknown_items(tastes, 2000))

    def table(*channel: Stage) -> np.ndarray:
        simulation = Simulation(FedMF(dim=32), parts, channel=channel)
        assert not simulation.server.shortcut or not channel
        simulation.play(evaluate=False)
        return simulation.server.state.shared["items"]

    noise = table(Laplace(strength=STRENGTH, rows="touched")) - table()
    method = FedMF(dim=32)
    drawn = draw_samples(parts.clients(), 0, 1, np.arange(40), method.plan(parts.catalog, 1)).items()
    times = np.bincount(drawn.items, minlength=parts.n_items)
    assert not noise[times == 0].any()
    for often in (1, 2):
        wanted = np.sqrt(often * 2) * STRENGTH / 40
        assert noise[times == often].std() == pytest.approx(wanted, rel=0.1), "the mean over 40 clients"


def test_a_server_that_looks_at_single_uploads_gets_noisy_ones(tastes: Interactions) -> None:
    settings = {"hidden": 8, "memory": 4}
    quiet, noisy = (
        fedrec.run("metamf", tastes, rounds=1, settings=settings, channel=channel)
        for channel in ([], ["laplace=0.5"])
    )
    assert quiet.federated is not None
    assert noisy.federated is not None
    assert not noisy.federated.server.shortcut
    before, after = (run.federated.server.state.server["users"] for run in (quiet, noisy))
    assert np.isfinite(after).all()
    assert (before != after).any()
    assert "states no epsilon" in noisy.result["notes"][0]


class OnlySums(Stage):
    """As secure aggregation would have it."""

    name: ClassVar[str] = "only-sums"
    hides_single: ClassVar[bool] = True


def test_a_stage_that_hides_single_uploads_is_refused_where_the_server_looks_at_them(
    small_split: Split,
) -> None:
    with pytest.raises(
        FedrecError,
        match="'only-sums' shows the server nothing but sums, but the server of metamf looks at single "
        "uploads: leave it out",
    ):
        Simulation(MetaMF(hidden=8, memory=4), small_split, channel=[OnlySums()])
    simulation = Simulation(FedMF(dim=4), small_split, channel=[OnlySums()])
    assert np.isfinite(simulation.play(evaluate=False).loss)


def test_noise_reaches_the_table_and_the_run_says_what_it_is_worth(tastes: Interactions) -> None:
    quiet, noisy = (
        fedrec.run("fedmf", tastes, rounds=1, settings={"dim": 8}, channel=channel)
        for channel in ([], ["laplace=0.5"])
    )
    assert quiet.federated is not None
    assert noisy.federated is not None
    noise = noisy.federated.server.state.shared["items"] - quiet.federated.server.state.shared["items"]
    assert noise.std() == pytest.approx(np.sqrt(2 * 0.5**2 / 40), rel=0.15), "the mean over 40 clients"
    assert quiet.result["notes"] == list(tastes.notes)
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
        simulation = Simulation(FedMF(dim=4, eta=0.5), small_split, channel=channel)
        simulation.play(evaluate=False)
        return simulation.server.state.shared["items"]

    quiet, once, twice = table(0.0), table(1.0), table(1.0, 1.0)
    assert not np.allclose(twice - quiet, 2 * (once - quiet), atol=1e-4)
