"""A federation of device files over bytes is the simulator, to the bit; also when messages and processes are lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cryptography")
pytest.importorskip("Crypto")

from fleets import Fleet

from fedrec.core.errors import FedrecError
from fedrec.deploy.rehearse import furthest, simulated

COMPILED = ["fedmf", "pfedrec", "fedrap", "fedncf", "fedals", "fcf"]


def check_same(fleet: Fleet, rounds: int, tolerance: float = 0.0) -> None:
    there = simulated(fleet.data, fleet.terms, rounds)
    far = furthest(fleet.folder, fleet.paths, there)
    assert far
    assert {name: value for name, value in far.items() if value > tolerance} == {}


QUICK = {("fedmf", "secure"), ("pfedrec", "fixed"), ("fedals", "secure")}
EVERY = [(method, channel) for method in [*COMPILED, "fedmf+dualper"] for channel in ("fixed", "secure")]


@pytest.mark.parametrize(
    ("method", "channel"), [pytest.param(*c, marks=() if c in QUICK else pytest.mark.slow) for c in EVERY]
)
def test_devices_give_what_the_simulator_gives(method: str, channel: str, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, method, channel)
    for _ in range(3):
        fleet.rounds.play()
    fleet.rounds.score()
    check_same(fleet, 3, 0.0 if method in COMPILED else 1e-4)
    there = simulated(fleet.data, fleet.terms, 3)
    assert there.selected is not None
    selected = fleet.folder.selected()
    assert selected is not None
    assert selected.round == there.selected.round
    lines = fleet.folder.history()
    measured = lines[there.selected.round - 1]["validation"]
    assert measured["ndcg@10"] == pytest.approx(there.selected.value, abs=1e-4)


@pytest.mark.parametrize("channel", [pytest.param("fixed", marks=pytest.mark.slow), "secure"])
def test_lost_and_repeated_messages_and_restarts_change_no_bit(channel: str, tmp_path: Path) -> None:
    """Answers are lost after the round was played; the round is asked for again, of devices that were restarted."""
    fleet = Fleet(tmp_path, "pfedrec", channel, per_node=2)
    fleet.rounds.play()
    lost: list[int] = []

    def lose(node: int, data: bytes) -> bytes | None:
        if len(lost) < 4 and fleet.rounds.server.state.round == 1:
            lost.append(node)
            return None
        return data

    fleet.carrier.up = lose
    fleet.rounds.terms = fleet.terms
    record = fleet.rounds.play()
    assert lost
    if record.devices == 8:  # all answered in the end
        assert record.attempts > 1
    fleet.restart_devices()
    fleet.restart_server()
    fleet.rounds.play()
    check_same(fleet, 3)


def test_a_device_that_was_not_added_is_as_if_it_had_not_trained(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.rounds.play()
    fleet.carrier.up = lambda node, data: None if node == 4 else data
    assert fleet.rounds.play().devices == 7
    lonely = fleet.carrier.there[4].devices["d00003"]
    assert [p.number for p in lonely.file.rounds()] == [1, 2]
    fleet.carrier.up = lambda node, data: data
    assert fleet.rounds.play().devices == 8
    rounds = lonely.file.rounds()
    assert [(p.number, p.earlier) for p in rounds] == [(1, 0), (3, 1)], "round 2 was taken back"
    assert rounds[1].before == rounds[0].after


def test_the_server_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """Killed between any two steps: what was on disk counts, devices take back what does not."""
    fleet = Fleet(tmp_path, "fedrap")
    fleet.rounds.play()
    fleet.folder.save = None  # type: ignore[method-assign,assignment]  # the machine stops before the checkpoint
    with pytest.raises(TypeError):
        fleet.rounds.play()
    fleet.restart_server()
    assert fleet.rounds.server.state.round == 1
    fleet.restart_devices()
    fleet.rounds.play()
    fleet.rounds.play()
    check_same(fleet, 3)


def test_a_server_that_lost_its_checkpoints_is_told_so(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    for _ in range(5):
        fleet.rounds.play()
    (fleet.folder.path / "checkpoint.npz").unlink()
    fleet.restart_server()
    with pytest.raises(FedrecError, match="cannot go on without doing a round twice"):
        fleet.rounds.play()


@pytest.mark.parametrize("channel", ["fixed", pytest.param("secure", marks=pytest.mark.slow)])
def test_new_devices_and_new_items_between_rounds(channel: str, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, "fedals", channel, users=6)
    away = fleet.carrier.there.pop(6)
    assert fleet.rounds.play().devices == 5
    fleet.carrier.there[6] = away
    items = fleet.folder.path / "items.csv"
    items.write_text(items.read_text() + "new,New\n")
    fleet.restart_server()
    record = fleet.rounds.play()
    assert record.devices == 6, record.refused
    assert len(fleet.rounds.server.state.shared["items"]) == 41
    assert len(away.devices["d00005"].scores()[1]) == 41


def test_fewer_devices_than_the_terms_ask_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    fleet = Fleet(tmp_path, threshold=9)
    with pytest.raises(FedrecError, match="8 devices were there, and the terms ask for 9 at least"):
        fleet.rounds.play()


def test_dropouts_within_a_masked_round(tmp_path: Path) -> None:
    """One device dies before it shares, one after: the sum is that of the others."""
    fleet = Fleet(tmp_path, "fedmf", "secure")
    fleet.carrier.down = lambda node, data: None if (node == 2 and b'"share"' in data[:60]) else data
    fleet.carrier.up = lambda node, data: None if (node == 5 and b'"fit"' in data[:60]) else data
    assert fleet.rounds.play().devices == 6
    plain = Fleet(tmp_path / "plain", "fedmf", "fixed")
    for node in (2, 5):
        del plain.carrier.there[node]
    plain.rounds.play()
    for name, values in fleet.rounds.server.state.shared.items():
        assert values.tobytes() == plain.rounds.server.state.shared[name].tobytes()


@pytest.mark.parametrize("channel", ["fixed", "secure"])
def test_nothing_private_is_on_the_wire_or_on_the_server(channel: str, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, "fedrap", channel)
    fleet.rounds.play()
    fleet.rounds.play()
    seen = b"".join(fleet.carrier.record)
    seen += b"".join(p.read_bytes() for p in fleet.folder.path.rglob("*") if p.is_file())
    for path, node in zip(fleet.paths, fleet.carrier.there.values(), strict=True):
        (device,) = node.devices.values()
        assert device.file.folder == path
        state = device.file.rounds()[-1].after
        assert len(state) > 0
        clients = device._made
        assert clients is not None
        for values in clients[1].state.lines.values():
            assert values.astype("<f4").tobytes() not in seen
            assert b",".join(str(float(v)).encode() for v in values.ravel()[:3]) not in seen
        for store in clients[1].state.rows.values():
            assert store.get(device_zero()).values[:1].tobytes() not in seen
        met = device.data().items
        for kind in ("<i4", "<i8"):
            assert met.astype(kind).tobytes() not in seen
            assert met[::-1].astype(kind).tobytes() not in seen


def device_zero() -> Any:
    return np.array([0])


def test_a_server_that_was_cut_off_writes_no_more(tmp_path: Path) -> None:
    """Started again while the old one still lives: only the new one may write."""
    from fedrec.deploy.rounds import Rounds
    from fedrec.deploy.state import Folder

    fleet = Fleet(tmp_path)
    fleet.folder.claim()
    fleet.rounds.play()
    new = Folder(fleet.folder.path)
    new.claim()
    with pytest.raises(FedrecError, match="this one stops"):
        fleet.rounds.play()
    again = Rounds(new, fleet.carrier)
    assert again.server.state.round == 1
    assert again.play().round == 2
