"""The one way out of a device, and the one way into what the server holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from fedrec.channel.laplace import Laplace
from fedrec.channel.stage import Rng, Stage
from fedrec.clients.clients import Ask, Clients
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Context, RanksWith
from fedrec.core.slots import Arrays
from fedrec.core.upload import Total, Upload, Uploads
from fedrec.data.split import split
from fedrec.data.worlds import two_tastes
from fedrec.methods import make
from fedrec.methods.fedmf import FedMF
from fedrec.methods.pfedrec import PFedRec
from fedrec.server.server import Server
from fedrec.simulate.simulation import Simulation
from fedrec.testing import different

PARTS = split(two_tastes())


def phone(spec: str, settings: dict[str, Any] | None = None, **options: Any) -> tuple[Clients, Any]:
    """One device, and its reply in the first round."""
    method = make(spec, {"dim": 4, **(settings or {})})
    server = Server(method, PARTS.catalog)
    device = Clients(method, PARTS.clients(np.array([3])), PARTS.catalog, secret=5, **options)
    (answer,) = device.fit(server.broadcast(1), device.everyone, Ask(single=True))
    return device, answer.reply


@pytest.mark.parametrize("engine", ["auto", "plain"])
def test_where_no_row_is_declared_nothing_says_which_were_touched(engine: str) -> None:
    _, reply = phone("fedrap", {"parts": "personal"}, engine=engine)
    assert len(reply.sent.items.items) == 0
    assert reply.report.rows == 0


def test_a_device_alone_reports_no_figure_of_its_own() -> None:
    device, reply = phone("fedmf+plgc", channel=[Laplace(strength=1.0)])
    assert reply.report.figures == {}
    assert reply.report.loss == 0.0
    together = Simulation(device.method, PARTS).play(evaluate=False)
    assert 0 < together.diagnostics["mix_mean"] < 1
    assert together.loss > 0


class Odd(Stage):
    """Does something wrong to every upload."""

    name: ClassVar[str] = "odd"
    kind: str

    def on_device(self, upload: Upload, uploads: Uploads, rng: Rng) -> Any:
        rows = upload.rows["items"]
        if self.kind == "nan":
            return (
                replace(upload, rows={"items": rows * np.float32(np.nan)}) if rng.random() < 0.2 else upload
            )
        if self.kind == "adds":
            return replace(upload, dense={"more": np.zeros((1, 2), np.float32)})
        if self.kind == "cuts":
            return replace(upload, rows={"items": rows[:, :2]})
        if self.kind == "drops":
            return replace(upload, rows={})
        return None


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("adds", "'more' is not declared in the uploads of fedmf"),
        ("cuts", "'items' of fedmf has shape"),
        ("drops", "'items' is declared in the uploads of fedmf and was not sent"),
        ("returns none", "a stage must return the upload"),
    ],
)
def test_what_a_stage_makes_of_an_upload_is_checked(kind: str, sentence: str) -> None:
    with pytest.raises(FedrecError, match=sentence):
        Simulation(FedMF(dim=4), PARTS, channel=[Odd(kind=kind)]).play(evaluate=False)


def test_what_a_stage_makes_not_finite_never_reaches_the_table() -> None:
    simulation = Simulation(FedMF(dim=4), PARTS, channel=[Odd(kind="nan")])
    record = simulation.play(evaluate=False)
    assert 0 < record.dropped < 20
    assert np.isfinite(simulation.server.state.shared["items"]).all()


class Merging(FedMF):
    """Its server does something wrong."""

    name: ClassVar[str] = "merging"
    kind: str = ""

    def merge(self, held: Arrays, total: Total, context: Context) -> Arrays:
        if self.kind == "in place":
            held["items"] += 1
            return held
        if self.kind == "forgets":
            return {}
        if self.kind == "cuts":
            return {"items": held["items"][:3]}
        return {"items": held["items"].astype(np.float64)}


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("in place", "'merge' of merging writes into what the server holds: return new arrays"),
        ("forgets", "'merge' of merging does not return 'items'"),
        ("cuts", "'merge' of merging returns 'items' in shape"),
    ],
)
def test_what_a_merge_returns_is_checked(kind: str, sentence: str) -> None:
    simulation = Simulation(Merging(dim=4, kind=kind), PARTS)
    before = simulation.server.state.shared["items"].copy()
    with pytest.raises(FedrecError, match=sentence):
        simulation.play(evaluate=False)
    np.testing.assert_array_equal(simulation.server.state.shared["items"], before)


def test_a_merge_in_double_precision_is_stored_in_single() -> None:
    simulation = Simulation(Merging(dim=4), PARTS)
    simulation.play(evaluate=False)
    assert simulation.server.state.shared["items"].dtype == np.float32


class Forgetful(FedMF):
    name: ClassVar[str] = "forgetful"

    def finish(self, p: Any, passes: Any) -> Any:
        return {n: v for n, v in p.items() if n != "score"}


class Silent(FedMF):
    name: ClassVar[str] = "silent"

    def send(self, shared: Any, p: Any) -> Any:
        return {}


class Unknown(FedMF):
    name: ClassVar[str] = "unknown"

    def view(self) -> RanksWith:
        return "own"  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (Forgetful(dim=4), "'score' is a private slot of forgetful and 'fit' does not return it"),
        (Silent(dim=4), "'items' is declared in the uploads of silent and was not sent"),
        (Unknown(dim=4), "'view' of unknown is 'own': it must be one of merged, tuned, kept"),
    ],
)
def test_a_method_of_ones_own_that_forgets_something(method: FedMF, sentence: str) -> None:
    with pytest.raises(FedrecError, match=sentence):
        Simulation(method, PARTS).play(evaluate=False)


def test_a_round_that_got_lost_does_not_count_in_the_next() -> None:
    server, method = Server(FedMF(dim=4), PARTS.catalog), FedMF(dim=4)
    clients = Clients(method, PARTS.clients(), PARTS.catalog, secret=0)
    before = clients.state.copy()
    list(clients.fit(server.broadcast(1), np.array([0, 1])))
    list(clients.fit(server.broadcast(2), np.array([5])))
    clients.keep()
    moved = (clients.state.lines["score"] != before.lines["score"]).any(axis=1)
    assert np.flatnonzero(moved).tolist() == [5]


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    few, many = (
        Clients(FedMF(dim=d), PARTS.clients(np.arange(n)), PARTS.catalog, secret=0)
        for d, n in ((4, 5), (8, 9))
    )
    few.save(tmp_path / "few.npz")
    with pytest.raises(FedrecError, match="was written by other clients than these"):
        many.load(tmp_path / "few.npz")
    Server(FedMF(dim=4), PARTS.catalog).save(tmp_path / "server.npz")
    with pytest.raises(FedrecError, match="was written by another server than this one"):
        Server(FedMF(dim=8), PARTS.catalog).load(tmp_path / "server.npz")


def test_a_reply_that_nobody_asked_for_is_refused() -> None:
    method = make("metamf", {"dim": 8})
    server = Server(method, PARTS.catalog)
    device = Clients(method, PARTS.clients(np.array([0])), PARTS.catalog, secret=0)
    (answer,) = device.fit(server.broadcast(1), device.everyone, Ask(single=True))
    server.receive(answer.reply, device.everyone)
    with pytest.raises(FedrecError, match="a reply that nobody asked for"):
        server.receive(answer.reply, device.everyone)


class InGroups(PFedRec):
    """Its server steps several times a round."""

    name: ClassVar[str] = "ingroups"

    def uploads(self, catalog: Any) -> Uploads:
        return replace(super().uploads(catalog), turns=4)


def test_rows_tuned_in_several_groups_are_kept_not_trained_again() -> None:
    simulation = Simulation(InGroups(dim=4), PARTS, engine="plain")
    assert not simulation.replays
    record = simulation.play(evaluate=True)
    assert simulation.selected is not None
    again = simulation.ranks(simulation.selected.moment, "valid")
    hits = float((again.ahead < 10).mean())
    assert record.validation is not None
    assert record.validation["hr@10"] == pytest.approx(hits)


def test_a_rate_that_is_divided_by_the_round_can_be_warmed_up() -> None:
    class Slowing(FedMF):
        name: ClassVar[str] = "slowing"

        def groups(self, catalog: Any, round: int) -> Any:
            return FedMF(lr=self.lr / round, dim=self.dim).groups(catalog, round)

    Simulation(Slowing(dim=4), PARTS).warm_up()


def test_neighbours_are_found_by_a_salt_that_all_clients_share() -> None:
    method = make("fedpergnn", {"dim": 4})
    devices = [
        Clients(method, PARTS.clients(np.array([u])), PARTS.catalog, secret=100 + u, salt=7) for u in range(4)
    ]
    tokens = [set(device.introduce().tokens.tolist()) for device in devices]  # type: ignore[union-attr]
    assert tokens[0] & tokens[2], "two users of one taste share items"
    assert not tokens[0] & tokens[1]


def test_a_restarted_third_party_keeps_the_vectors_it_was_told(tmp_path: Path) -> None:
    simulation = Simulation(make("fedpergnn", {"dim": 4}), PARTS)
    simulation.play(evaluate=False)
    simulation.server.save(tmp_path / "server.npz")
    other = Simulation(make("fedpergnn", {"dim": 4}), PARTS)
    other.server.load(tmp_path / "server.npz")
    other.server.meet(other.clients.introduce())
    other.clients.state = simulation.clients.state
    assert different(other.moment, simulation.moment) == []
    for s in (simulation, other):
        s.play(evaluate=False)
    assert different(other.moment, simulation.moment) == []
