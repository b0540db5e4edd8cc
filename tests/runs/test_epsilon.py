"""--epsilon: the noise is found, every release is accounted for, and what would void it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fedrec
from fedrec.channel.clip import Clip
from fedrec.channel.gaussian import Gaussian
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.data.split import split
from fedrec.figures.tables import about
from fedrec.methods import make, private_form
from fedrec.methods.fedncf import LAYERS, FedNCF
from fedrec.simulate.simulation import Simulation

SMALL = {"dim": 4}
FEDMF: dict[str, Any] = {"settings": SMALL, "channel": ["clip=100"], "rounds": 3}


def epsilon(run: Any) -> float:
    return float(run.result["privacy"]["epsilon"])


def test_a_method_and_an_epsilon_are_enough(small: Interactions) -> None:
    run = fedrec.run("fedals", small, epsilon=5)
    said = run.result["privacy"]
    assert 4.99 < said["epsilon"] <= 5
    assert said["delta"] == pytest.approx(run.result["users"] ** -1.1)
    assert run.result["selected_round"] == run.result["rounds"] == 4
    for word in ("ε=5", "unit user", "one user added or removed", "4 releases, everyone", "server (trusted)"):
        assert word in said["line"]
    assert said["line"] in about(run.result)
    assert "selected on validation" not in about(run.result)
    assert all("loss" not in line and line["dropped"] == 0 for line in run.lines)


def test_more_privacy_more_noise_and_the_table_is_another(small: Interactions) -> None:
    runs = [fedrec.run("fedmf", small, epsilon=e, **FEDMF) for e in (1, 10)]
    sigmas = [float(run.config.channel[1].removeprefix("gaussian=")) for run in runs]
    assert sigmas[0] > 2 * sigmas[1]
    quiet = fedrec.run("fedmf", small, rounds=3, settings=SMALL)
    assert quiet.result["privacy"]["line"] == "no ε: no noise is added to what devices send"
    assert (
        fedrec.run("fedmf", small, rounds=1, settings=SMALL, channel=["laplace=1"])
        .result["privacy"]["line"]
        .startswith("no ε: laplace without clip")
    )


def test_a_run_that_names_its_noise_is_accounted_for(small: Interactions) -> None:
    run = fedrec.run("fedmf", small, rounds=2, settings=SMALL, channel=["clip=1", "gaussian=4"])
    again = fedrec.run("fedmf", small, rounds=4, settings=SMALL, channel=["clip=2", "gaussian=8"])
    assert 0 < epsilon(run) < epsilon(again)
    assert run.result["selected_round"] == 2


def test_resume_extends_honestly(small: Interactions, tmp_path: Path) -> None:
    first = fedrec.run("fedmf", small, epsilon=2, out=tmp_path / "run", **FEDMF)
    with pytest.raises(
        FedrecError, match=r"5 rounds .* would spend epsilon .* more than --epsilon 2: .* enough for 3"
    ):
        fedrec.resume(tmp_path / "run", 5)
    more = fedrec.resume(tmp_path / "run", 5, epsilon=3)
    assert epsilon(first) < epsilon(more) <= 3
    assert more.result["rounds"] == 5
    assert fedrec.open(tmp_path / "run").result["privacy"]["limit"] == 3


def test_a_warm_start_adds_up(small: Interactions, tmp_path: Path) -> None:
    first = fedrec.run("fedmf", small, epsilon=2, out=tmp_path / "run", **FEDMF)
    then = fedrec.run("fedmf", small, epsilon=3, start=first, **FEDMF)
    assert 2.99 < epsilon(then) <= 3
    assert len(then.result["privacy"]["releases"]) == 6
    with pytest.raises(FedrecError, match="--epsilon 1 is spent: what this run starts from has cost"):
        fedrec.run("fedmf", small, epsilon=1, start=first, **FEDMF)
    with pytest.raises(FedrecError, match="--epsilon 2 is spent"):  # but for a rest that is rounding
        fedrec.run("fedmf", small, epsilon=2, start=first, **FEDMF)
    open_run = fedrec.run("fedmf", small, rounds=1, settings=SMALL)
    with pytest.raises(FedrecError, match="the run that --start names states no epsilon"):
        fedrec.run("fedmf", small, epsilon=5, start=open_run, **FEDMF)


def test_sampled_clients_are_poisson_sampled(small: Interactions) -> None:
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    run = fedrec.run("fedmf", small, epsilon=5, clients=0.5, **FEDMF)
    assert run.federated is not None
    sizes = {len(run.federated.server.cohort(r)) for r in range(1, 30)}
    assert len(sizes) > 3
    assert 4.9 < epsilon(run) <= 5
    assert "who takes part in a round stays secret" in run.result["privacy"]["assumes"]


def test_noise_of_devices_under_secure_sums(small: Interactions) -> None:
    run = fedrec.run("fedals", small, epsilon=5, channel=["secure"])
    assert [text.partition("=")[0] for text in run.config.channel] == ["clip", "gaussian", "secure"]
    assert "where=devices" in run.config.channel[1]
    assert "noise by devices (≥ 100% honest and present)" in run.result["privacy"]["line"]
    assert 4.99 < epsilon(run) <= 5
    again = fedrec.run("fedals", small, epsilon=5, channel=["secure"])
    assert again.test == run.test


def test_local_noise_is_far_more(small: Interactions) -> None:
    run = fedrec.run("fedmf", small, rounds=2, settings=SMALL, channel=["clip=1", "local=5"])
    central = fedrec.run("fedmf", small, rounds=2, settings=SMALL, channel=["clip=1"], epsilon=5)
    assert epsilon(run) == pytest.approx(epsilon(central), rel=1e-3)
    own = float(run.config.channel[1].partition("sigma=")[2])
    assert own == pytest.approx(2 * float(central.config.channel[1].partition("=")[2]), rel=1e-3)
    assert "any two histories of a user" in run.result["privacy"]["line"]


def test_its_config_runs_again(small: Interactions, tmp_path: Path) -> None:
    run = fedrec.run("fedals", small, epsilon=5, out=tmp_path / "run")
    again = run.again()
    assert again.test == run.test
    assert again.config.channel == run.config.channel


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"epsilon": 0}, "--epsilon 0 is not above 0"),
        ({"epsilon": -1}, "--epsilon -1 is not above 0"),
        ({"epsilon": "much"}, "--epsilon much is no number"),
        ({"epsilon": 5, "delta": 0.5}, "--delta 0.5 is not between 0 and one in the number of users"),
        ({"delta": 1e-5}, "--delta goes with --epsilon"),
        ({"epsilon": 5, "patience": 2}, "--patience stops by validation figures"),
        ({"epsilon": 5, "local": True}, "--local uploads nothing, so --epsilon does not apply"),
        ({"epsilon": 5, "channel": ["gaussian=1", "clip=1"]}, "gaussian needs clip before it"),
        ({"epsilon": 5, "channel": ["clip=1", "gaussian=0.1"]}, "it is enough for 0"),
        ({"epsilon": 5, "channel": ["laplace=1", "clip=1"]}, "laplace stands before clip"),
    ],
)
def test_what_can_state_no_epsilon_is_refused(
    small: Interactions, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(FedrecError) as error:
        fedrec.run("fedmf", small, **{"rounds": 2, "settings": SMALL, **options})
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("popularity", "--epsilon does not apply to popularity: it is not federated"),
        ("metamf", "--epsilon does not apply to metamf: its server looks at single uploads"),
        ("fedrap", "--epsilon needs a bound on what one device of fedrap sends"),
    ],
)
def test_methods_that_cannot_are_refused(small: Interactions, method: str, sentence: str) -> None:
    with pytest.raises(FedrecError) as error:
        fedrec.run(method, small, epsilon=5)
    assert sentence in str(error.value)


def test_a_server_that_looks_at_single_uploads_states_none(small: Interactions) -> None:
    with pytest.raises(
        FedrecError, match="'gaussian' can state no epsilon for metamf, whose server looks at single"
    ):
        fedrec.run("metamf", small, epsilon=5, channel=["clip=1"], settings={"hidden": 8, "memory": 4})


def test_layers_move_less_than_rows_and_bear_less_noise(small: Interactions) -> None:
    """FedNCF's layers count more in the norm: the noise that rows bear would drown them."""
    method, sigma = FedNCF(dim=8, hidden=(16, 8)), 50.0
    simulation = Simulation(method, split(small), channel=[Clip(radius=1.0), Gaussian(sigma=sigma)])
    before = simulation.server.state.shared
    simulation.play(evaluate=False)
    after, users = simulation.server.state.shared, simulation.split.n_users
    moved = {name: float((after[name] - before[name]).std()) for name in ("items", "layer_w0")}
    assert moved["items"] == pytest.approx(sigma / users, rel=0.1)
    assert moved["layer_w0"] == pytest.approx(sigma / users / LAYERS, rel=0.1)


@pytest.mark.parametrize(
    ("users", "clip"), [(943, 94.0), (6040, 600.0), (1_000_000, 1000.0)], ids=["few", "more", "many"]
)
def test_the_more_users_the_more_of_an_upload_is_kept(users: int, clip: float) -> None:
    form = private_form(make("fedmf", {"dim": 8}), None, users)
    assert (form.rounds, form.clip) == (60, clip)
    assert (form.method.dim, form.method.eta) == (8, 400.0)  # what a person has set stays
    assert private_form(make("pfedrec"), 5, users).rounds == 5
    one, other = (private_form(make(name), None, users) for name in ("pfedrec", "fedmf+dualper"))
    assert one[1:] == other[1:]
    assert (one.method.mild, one.method.dim) == (
        other.method.mild,
        other.method.base.dim,
    )  # they are one method
