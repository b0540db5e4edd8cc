"""Longer tests with real processes: Flower's own node, deaths within a round, and all that crosses the wire."""

from __future__ import annotations

import os
import secrets
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fleets import Fleet

pytest.importorskip("flwr", reason="needs the extra 'flower': make deploy-test")
from fedrec.data.worlds.two_tastes import two_tastes
from fedrec.deploy.device import Device
from fedrec.deploy.flower.link import begun_by, end
from fedrec.deploy.flower.proxy import Proxy
from fedrec.deploy.rehearse import furthest, simulated
from fedrec.deploy.session import Party
from fedrec.deploy.terms import Terms
from fedrec.deploy.trial import Trial, rehearsal

pytestmark = pytest.mark.deploy
LONGEST = 1500  # seconds: a bound for a machine that is busy with other things


def check_same(trial: Trial) -> None:
    far = furthest(trial.server, trial.devices, simulated(trial.data, trial.terms, trial.rounds))
    assert far
    assert {name: value for name, value in far.items() if value > 0} == {}


def wait_for(trial: Trial, happened: Callable[[], Any], every: float = 0.1) -> Any:
    end_of = time.monotonic() + LONGEST
    while not (found := happened()):
        assert time.monotonic() < end_of, trial.state()
        assert trial.state().get("state") not in ("failed", "done"), trial.state()
        time.sleep(every)
    return found


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def left(pids: list[int]) -> list[str]:
    """Commands of those that live on, a moment after they were ended."""
    for _ in range(100):
        if all(map(gone, pids)):
            return []
        time.sleep(0.1)
    return [command(pid) for pid in pids if not gone(pid)]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("channel", ["fixed", "secure"])
def test_flowers_own_node_runs_the_same_app(channel: str, tmp_path: Path) -> None:
    """An official SuperNode beside a light node: a new process for every message, and the simulator's bits."""
    terms = Terms(method="fedmf", channel=(channel,), threshold=6)
    with rehearsal(tmp_path / "t", terms, two_tastes(6, 40), 6, 2, nodes=2) as trial:
        light = trial.nodes[1]
        end(light)
        trial.link.processes.remove(light)
        official = trial.start_node(1, official=True)
        trial.start_run(seconds=400, wait=400)
        trial.wait(seconds=LONGEST)
        begun = begun_by(official.pid) + begun_by(trial.link.processes[0].pid)
        assert begun
    assert [line["devices"] for line in trial.server.history()] == [6, 6]
    assert "flwr-clientapp" in (trial.folder / "logs" / "node1.log").read_text()
    assert left(begun) == [], "nothing that was started"
    check_same(trial)


def test_a_node_dies_in_the_middle_of_a_masked_round(tmp_path: Path) -> None:
    """Killed with -9 once its devices have shared and before they answered: the others' sum is opened without them, and
    afterwards server and devices have the bits of a fleet in which they were absent in that round."""
    terms = Terms(method="pfedrec", channel=("secure",), threshold=4)
    with rehearsal(tmp_path / "t", terms, two_tastes(8, 40), 8, 3, nodes=4) as trial:
        trial.start_run(seconds=90)
        files = [path / "device.sqlite" for path in trial.groups[3][1]]

        def shared() -> bool:
            """All its devices are in the second round's session, and have not answered yet."""
            for file in files:
                with sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=10) as db:
                    rows = db.execute("SELECT number, value FROM session WHERE name = 'party'").fetchall()
                    played = db.execute("SELECT MAX(number) FROM round").fetchone()[0]
                if not rows or rows[0][0] != 2 or played == 2:
                    return False
                if not Party.read(bytes(rows[0][1])).roster:
                    return False
            return True

        wait_for(trial, shared, every=0.002)
        killed = trial.nodes[3]
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        wait_for(trial, lambda: len(trial.server.history()) >= 2)
        trial.start_node(3)
        trial.wait(seconds=LONGEST)
    counts = [line["devices"] for line in trial.server.history()]
    assert counts[0] == 8
    assert counts[1] in (6, 8), "8: its answers were out before it died"
    assert counts[2] in (6, 8), "6: it was not back yet"
    fleet = Fleet(tmp_path / "same", "pfedrec", "secure", users=8, per_node=2, threshold=4)
    everyone = dict(fleet.carrier.there)
    for count in counts:
        fleet.carrier.there = everyone if count == 8 else {n: node for n, node in everyone.items() if n != 4}
        assert fleet.rounds.play().devices == count
    here, there = trial.server.load(), fleet.folder.load()
    assert here is not None
    assert there is not None
    for name, values in there.server.held.items():
        assert values.tobytes() == here.server.held[name].tobytes(), name
    for mine, theirs in zip(trial.devices, fleet.paths, strict=True):
        assert state_of(mine, here.merged[mine.name]) == state_of(theirs, there.merged[theirs.name]), (
            mine.name
        )


def state_of(path: Path, round: int) -> bytes:
    """Of a device after the last of its rounds that the server added."""
    device = Device(path)
    (state,) = (played.after for played in device.file.rounds() if played.number == round)
    device.close()
    return state


def test_nothing_is_left_of_a_run_that_is_stopped(tmp_path: Path) -> None:
    """Stopped in the middle: Flower's helpers have process groups of their own, and a ServerApp would wait on."""
    terms = Terms(method="fedmf", channel=("fixed",), threshold=6)
    with rehearsal(tmp_path / "t", terms, two_tastes(6, 40), 6, 30, nodes=1) as trial:
        trial.start_run(seconds=400)
        wait_for(trial, lambda: trial.server.history())
        begun = begun_by(trial.link.processes[0].pid)
        assert any("flwr-serverapp" in command(pid) for pid in begun)
    assert left(begun) == []


def test_the_serverapp_alone_is_killed(tmp_path: Path) -> None:
    """kill -9 of the ServerApp's process; the SuperLink lives on, and the same command goes on from the checkpoint."""
    terms = Terms(method="fedmf", channel=("fixed",), threshold=6)
    with rehearsal(tmp_path / "t", terms, two_tastes(6, 40), 6, 8, nodes=1) as trial:
        trial.start_run(seconds=400)
        wait_for(trial, lambda: trial.server.history())
        link = trial.link.processes[0]
        apps = wait_for(trial, lambda: [p for p in begun_by(link.pid) if "flwr-serverapp" in command(p)])
        for app in apps:
            os.kill(app, signal.SIGKILL)
        time.sleep(1)
        assert link.poll() is None, "the SuperLink lives"
        before = len(trial.server.history())
        trial.start_run(seconds=400)
        trial.wait(seconds=LONGEST)
    assert before < 8
    check_same(trial)


class Recording(Proxy):
    """The door to the server, which writes down all that passes it, after TLS."""

    seen: bytearray

    def passed(self, up: bytes, down: bytes) -> None:
        super().passed(up, down)
        self.seen += up + down


@pytest.mark.parametrize("channel", ["fixed", "secure"])
def test_nothing_private_crosses_the_wire_or_lies_on_the_server(
    channel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Private arrays, interactions, devices' keys and nodes' private keys are in nothing that passed the proxy (as it
    is without TLS, in both directions), and in none of the server's files."""
    monkeypatch.setattr("fedrec.deploy.trial.Proxy", Recording)
    monkeypatch.setattr(Recording, "seen", bytearray(), raising=False)
    terms = Terms(method="fedrap", channel=(channel,), threshold=6)
    with rehearsal(tmp_path / "t", terms, two_tastes(6, 40), 6, 2, nodes=1) as trial:
        keys = {path: secrets.randbits(62) + (1 << 62) for path in trial.devices}
        for path, key in keys.items():  # a rehearsal's are the seed; real ones are their own
            with sqlite3.connect(path / "device.sqlite", timeout=30) as db:
                db.execute("UPDATE fact SET value = ? WHERE name = 'secret'", (str(key),))
        end(trial.nodes[0])
        trial.link.processes.remove(trial.nodes[0])
        trial.start_node(0)
        trial.start_run(seconds=120)
        trial.wait(seconds=LONGEST)
    seen = bytes(Recording.seen)
    assert len(seen) > 10_000
    assert b"fedrec" in seen, "it is what was said, not ciphertext"
    server = [
        p
        for p in trial.folder.rglob("*")
        if p.is_file() and "devices" not in p.parts and "nodes" not in p.parts
    ]
    assert {"checkpoint.npz", "superlink.sqlite"} <= {p.name for p in server}
    seen += b"".join(p.read_bytes() for p in server)
    assert trial.server.load() is not None
    for path, key in keys.items():
        for number, needle in enumerate(private_of(path, key)):
            assert needle not in seen, (path.name, number)
    secret = trial.groups[0][0].read_bytes()
    middle = b"".join(secret.splitlines()[2:4])
    assert len(middle) > 60
    assert middle not in seen.replace(b"\n", b"")


def private_of(path: Path, key: int) -> list[bytes]:
    """What a device keeps to itself, as bytes that would be found wherever it went."""
    device = Device(path)
    assert device.file.fact("secret") == key
    found = [str(key).encode(), f"{key:x}".encode(), key.to_bytes(8, "little"), key.to_bytes(8, "big")]
    data = device.data()
    parts = device.parts(data.n_items)
    assert parts is not None
    for kind in ("<i4", "<i8"):
        found += [data.items.astype(kind).tobytes(), data.items[::-1].astype(kind).tobytes()]
    found += [",".join(map(str, data.items)).encode(), ", ".join(map(str, data.items)).encode()]
    party = device.file.remembered("party")
    if party is not None:
        mine = Party.read(party)
        found += [
            half for secret in (mine.key, mine.seal) for half in (secret.encode(), bytes.fromhex(secret))
        ]
    state = device._state(device.clients(parts, _catalog(device)), device.file.rounds()[-1])
    for values in (*state.lines.values(), *(s.get(np.array([0])).values for s in state.rows.values())):
        flat = values.astype("<f4").ravel()
        if len(flat) >= 4:
            found += [flat[:4].tobytes(), flat[-4:].tobytes(), flat[:4].astype("<f8").tobytes()]
    device.close()
    assert all(len(needle) >= 8 for needle in found)
    return found


def _catalog(device: Device) -> Any:
    from fedrec.deploy.device import unpack_broadcast

    stored = device.file.blob("broadcast")
    assert stored is not None
    return unpack_broadcast(stored)[1]
