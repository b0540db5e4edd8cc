"""One device's half: what leaves it, what it draws, what it keeps when a round does not count."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from fedrec.clients.clients import Ask, Clients
from fedrec.core.errors import FedrecError
from fedrec.core.slots import Catalog, Slot, shared, zeros
from fedrec.core.upload import Upload, Uploads
from fedrec.data.split import split
from fedrec.data.worlds import two_tastes
from fedrec.methods.fedals import FedALS
from fedrec.methods.fedmf import FedMF
from fedrec.methods.fedrap import FedRAP
from fedrec.server.server import Server
from fedrec.simulate.simulation import Simulation
from fedrec.testing import Spy

PARTS = split(two_tastes())


def one_round(secret: int | None) -> tuple[Clients, list[Upload]]:
    """A device's upload of the first round."""
    server = Server(FedMF(dim=4), PARTS.catalog)
    phone = Clients(
        FedMF(dim=4), PARTS.clients(np.array([3])), PARTS.catalog, secret=0 if secret is None else secret
    )
    answers = list(phone.fit(server.broadcast(1), phone.everyone, Ask(single=True)))
    return phone, [a.reply.sent for a in answers if isinstance(a.reply.sent, Upload)]


def test_what_a_device_draws_hangs_on_its_own_key() -> None:
    """With the run's public seed alone, a server cannot draw a device's negatives again and so find its positives."""
    (_, [public]), (one, [mine]), (_, [other]) = (one_round(secret) for secret in (None, 11, 12))
    rows = [set(upload.items.items.tolist()) for upload in (public, mine, other)]
    assert rows[0] != rows[1] != rows[2] != rows[0]
    positives = set(PARTS.train.of(3).tolist())
    assert all(positives <= found for found in rows)
    again, _ = one_round(99)
    for (
        name,
        values,
    ) in one.state.lines.items():  # before the round counts, all devices are as the run's seed says
        np.testing.assert_array_equal(values, again.state.lines[name])


def test_a_round_that_does_not_count_leaves_no_trace() -> None:
    phone, _ = one_round(None)
    before = phone.state.copy()
    phone.drop()
    phone.keep()
    for name, values in phone.state.lines.items():
        np.testing.assert_array_equal(values, before.lines[name])


def test_a_device_comes_back_from_its_file(tmp_path: Path) -> None:
    phone, _ = one_round(None)
    phone.keep()
    phone.save(tmp_path / "device.npz")
    again, _ = one_round(5)
    again.drop()
    again.load(tmp_path / "device.npz")
    for name, values in phone.state.lines.items():
        np.testing.assert_array_equal(values, again.state.lines[name])


def test_a_server_comes_back_from_its_file(tmp_path: Path) -> None:
    simulation = Simulation(FedALS(dim=4), PARTS)
    simulation.play(evaluate=False)
    simulation.server.save(tmp_path / "server.npz")
    other = Server(FedALS(dim=4), PARTS.catalog)
    other.load(tmp_path / "server.npz")
    assert other.state.round == 1
    for name, values in simulation.server.state.held.items():
        np.testing.assert_array_equal(values, other.state.held[name])


class Telltale(FedMF):
    """Sends its private vector."""

    name: ClassVar[str] = "telltale"

    def send(self, shared: Any, p: Any) -> Any:
        return {**super().send(shared, p), "score": p["score"]}


class Chatty(FedMF):
    """Sends something that it never declared."""

    name: ClassVar[str] = "chatty"

    def send(self, shared: Any, p: Any) -> Any:
        return {**super().send(shared, p), "more": p["bias"]}


class Crooked(FedMF):
    """Its vector comes back in another shape."""

    name: ClassVar[str] = "crooked"

    def finish(self, p: Any, passes: Any) -> Any:
        return {**p, "score": p["score"][:2]}


class Lopsided(FedMF):
    """Declares other columns than its rows have."""

    name: ClassVar[str] = "lopsided"

    def uploads(self, catalog: Catalog) -> Uploads:
        return Uploads({"items": shared(catalog.n_items, 9, start=zeros(), rows=True)})


class Hidden(FedALS):
    """Runs compiled, and does not declare all that the kernel sends."""

    name: ClassVar[str] = "hidden"

    def uploads(self, catalog: Catalog) -> Uploads:
        declared: dict[str, Slot] = dict(super().uploads(catalog).arrays)
        return Uploads({**declared, "outer": shared(3, 3, start=zeros())})

    def kernel(self, catalog: Catalog) -> Any:
        return super().kernel(catalog)


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (Telltale(dim=4), "'score' is a private slot of telltale: it may not leave a client"),
        (Chatty(dim=4), "'more' is not declared in the uploads of chatty"),
        (
            Crooked(dim=4),
            r"'score' of crooked has shape \(40, 2\) after local training and \(40, 4\) was declared",
        ),
        (Lopsided(dim=4), "'items' of lopsided has shape"),
    ],
)
def test_what_may_not_leave_is_refused_on_the_plain_engine(method: FedMF, sentence: str) -> None:
    with pytest.raises(FedrecError, match=sentence):
        Simulation(method, PARTS).play(evaluate=False)


def test_what_is_declared_in_another_shape_is_refused_in_compiled_code() -> None:
    simulation = Simulation(Hidden(dim=4), PARTS, channel=[Spy()])
    assert simulation.clients.engine.name == "fused"
    with pytest.raises(FedrecError, match="'outer' of hidden has shape"):
        simulation.play(evaluate=False)


@pytest.mark.parametrize("method", [FedMF(dim=4), FedRAP(dim=4), FedALS(dim=4)])
def test_private_lines_of_others_are_not_copied_in_a_sampled_round(method: Any) -> None:
    simulation = Simulation(method, PARTS, clients_per_round=0.1)
    before = dict(simulation.clients.state.lines)
    simulation.play(evaluate=False)
    for name, values in simulation.clients.state.lines.items():
        assert values is before[name]


def test_single_uploads_of_compiled_clients_need_no_torch() -> None:
    code = """
import sys
sys.modules["torch"] = None
from fedrec.data.split import split
from fedrec.data.worlds import two_tastes
from fedrec.methods import make
from fedrec.simulate.simulation import Simulation
from fedrec.testing import Spy
for name in ("pfedrec", "fedrap", "fedals"):
    simulation = Simulation(make(name, {"dim": 4}), split(two_tastes()), channel=[Spy()])
    print(simulation.play(evaluate=True).clients)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["40"] * 3
