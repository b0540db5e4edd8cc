"""A device's own file and commands: what is stored, what is refused, and that nothing is lost or done twice."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from fedrec.cli.main import app
from fedrec.core.errors import FedrecError
from fedrec.core.slots import Catalog
from fedrec.deploy.device import Device
from fedrec.deploy.file import NAME, DeviceFile
from fedrec.deploy.state import items_text
from fedrec.deploy.terms import Terms
from fedrec.deploy.wire import pack

ITEMS = [f"i{n}" for n in range(30)]
CATALOG = Catalog(10, 30)
TERMS = Terms(method="fedmf", channel=("fixed",))


def made(path: Path, **options: Any) -> Device:
    met = [(code, 100 + code) for code in range(0, 20, 2)]
    return Device.make(path / "device", TERMS, ITEMS, [f"Title {i}" for i in ITEMS], met, **options)


def table(seed: int = 0) -> dict[str, Any]:
    return {"items": np.random.default_rng(seed).normal(size=(30, 32)).astype(np.float32)}


def send(row: Any, order: Any) -> bytes:
    return pack({}, order.sparse(row))


def test_the_same_question_has_the_same_answer_and_trains_once(tmp_path: Path) -> None:
    device = made(tmp_path)
    first = device.play(1, CATALOG, table(), 0, send)
    held = device.file.rounds()[-1].after
    assert device.play(1, CATALOG, table(), 0, send) == first
    device.close()
    device = Device(tmp_path / "device")
    assert device.play(1, CATALOG, table(), 0, send) == first
    assert device.file.rounds()[-1].after == held
    other = device.play(
        1, CATALOG, table(1), 0, send
    )  # another table for the same round: trained from before it
    assert other != first
    assert device.file.rounds()[-1].earlier == 0
    assert device.play(1, CATALOG, table(), 0, send) == first, "and back again"


def test_a_round_that_did_not_count_is_taken_back(tmp_path: Path) -> None:
    straight, detour = made(tmp_path / "a", secret=5), made(tmp_path / "b", secret=5)
    for device in (straight, detour):
        device.play(1, CATALOG, table(), 0, send)
    detour.play(2, CATALOG, table(2), 1, send)
    assert straight.play(3, CATALOG, table(3), 1, send) == detour.play(3, CATALOG, table(3), 1, send)


@pytest.mark.parametrize("merged", [1, 7])
def test_it_never_starts_anew_silently(merged: int, tmp_path: Path) -> None:
    device = made(tmp_path)
    for round in range(1, 7):
        device.play(round, CATALOG, table(round), round - 1, send)
    with pytest.raises(FedrecError, match="cannot go on without doing a round twice"):
        device.play(8, CATALOG, table(8), merged, send)


def test_every_device_has_a_key_of_its_own(tmp_path: Path) -> None:
    keys = {made(tmp_path / str(n)).file.fact("secret") for n in range(4)}
    assert len(keys) == 4
    assert (tmp_path / "0" / "device" / NAME).stat().st_mode & 0o077 == 0


def test_a_damaged_file_is_said_and_not_hidden(tmp_path: Path) -> None:
    device = made(tmp_path)
    device.play(1, CATALOG, table(), 0, send)
    device.close()
    path = tmp_path / "device" / NAME
    data = bytearray(path.read_bytes())
    data[4096:12288] = os.urandom(8192)
    path.write_bytes(bytes(data))
    for name in (f"{NAME}-wal", f"{NAME}-shm"):
        (tmp_path / "device" / name).unlink(missing_ok=True)
    with pytest.raises(FedrecError, match="is damaged"):
        Device(tmp_path / "device").play(2, CATALOG, table(), 1, send)
    path.write_bytes(b"this is no database at all" * 50)
    with pytest.raises(FedrecError, match="is damaged"):
        DeviceFile(tmp_path / "device")


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    made(tmp_path).close()
    (tmp_path / "device" / NAME).chmod(0o644)
    with pytest.raises(FedrecError, match="chmod 600"):
        Device(tmp_path / "device")


def rounds_on(device: Device) -> None:
    for round in range(2, 9):
        device.play(round, CATALOG, table(round), round - 1, send)


def test_a_full_disk_loses_nothing_of_what_was_there(tmp_path: Path) -> None:
    """The file may not grow any more: the round is refused, the one before stands."""
    device = made(tmp_path)
    device.play(1, CATALOG, table(), 0, send)
    before = device.file.rounds()
    size = sum(p.stat().st_size for p in (tmp_path / "device").iterdir())
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, old[1]))
        with pytest.raises(FedrecError, match=r"cannot write|damaged"):
            rounds_on(device)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
    device.close()
    after = Device(tmp_path / "device").file.rounds()
    assert after[: len(before)] == before or after[-1].number >= before[-1].number


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
import test_device as t
from fedrec.deploy.file import DeviceFile
device = t.Device(Path({path!r}))
when = sys.argv[1]
play = DeviceFile.play
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
def killed(self, *args):
    if when == "before":
        die()
    if when == "during":
        with self.writing() as db:
            db.execute("DELETE FROM round")
            die()
    play(self, *args)
    if when == "after":
        die()
DeviceFile.play = killed
print(device.play(2, t.CATALOG, t.table(2), 1, t.send).hex())
"""


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "during", "after"])
def test_killed_at_any_moment_it_answers_the_same(when: str, tmp_path: Path) -> None:
    whole, cut = made(tmp_path / "a", secret=9), made(tmp_path / "b", secret=9)
    for device in (whole, cut):
        device.play(1, CATALOG, table(), 0, send)
    cut.close()
    path = tmp_path / "b" / "device"
    script = KILLED.format(tests=str(Path(__file__).parent), path=str(path))
    done = subprocess.run(
        [sys.executable, "-c", script, when], capture_output=True, env=os.environ, timeout=300
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert done.stdout == b"", "nothing left it"
    again = Device(path)
    assert [p.number for p in again.file.rounds()] == ([1, 2] if when == "after" else [1])
    assert again.play(2, CATALOG, table(2), 1, send) == whole.play(2, CATALOG, table(2), 1, send)
    assert again.file.rounds()[-1].after == whole.file.rounds()[-1].after


def test_its_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("items.csv").write_text(items_text(ITEMS, [f"Title {i}" for i in ITEMS]))
    Path("federation.json").write_text(TERMS.text)
    Path("met.csv").write_text("item,time\ni3,30\ni1,10\ni2,20\ni5,40\n")
    run = CliRunner()
    asked = run.invoke(app, ["device", "init", "phone", "--items", "items.csv", "--data", "met.csv"])
    assert asked.exit_code == 0, asked.output
    assert [code for code, _ in Device(Path("phone")).file.met()] == [1, 2, 3, 5]
    assert run.invoke(app, ["device", "add", "phone", "--item", "Title i9", "--item", "i7"]).exit_code == 0
    monkeypatch.setattr("time.time", lambda: 1.0)  # the clock jumps back by decades
    assert run.invoke(app, ["device", "add", "phone", "--item", "i8"]).exit_code == 0
    device = Device(Path("phone"))
    met = device.file.met()
    assert [code for code, _ in met] == [1, 2, 3, 5, 9, 7, 8]
    assert [when for _, when in met] == sorted(when for _, when in met)
    with pytest.raises(FedrecError, match="has not been told a table yet"):
        device.scores()
    device.play(1, CATALOG, table(), 0, send)
    device.close()
    shown = json.loads(run.invoke(app, ["device", "show", "phone", "--json"]).output)
    assert "7 interactions" in shown["stored"]
    assert "score" in shown["never leaves"]
    best = json.loads(run.invoke(app, ["device", "recommend", "phone", "-k", "5", "--json"]).output)[
        "recommended"
    ]
    assert len(best) == 5
    assert not {row["item"] for row in best} & {"i1", "i2", "i3", "i5", "i9", "i7", "i8"}
    assert run.invoke(app, ["device", "forget", "phone"]).exit_code == 0
    assert list(Path("phone").iterdir()) == []


@pytest.mark.parametrize(
    ("met", "says"),
    [
        ("item\nnowhere\n", "that the catalogue does not have"),
        ("item,time\ni1,soon\n", "a time that is no number"),
    ],
)
def test_files_that_make_no_sense_are_refused(met: str, says: str, tmp_path: Path) -> None:
    from fedrec.deploy.owner import read_met

    (tmp_path / "met.csv").write_text(met)
    with pytest.raises(FedrecError, match=says):
        read_met(tmp_path / "met.csv", ITEMS)


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"method": "metamf"}, "cannot be deployed"),
        ({"method": "ease"}, "no device trains it"),
        ({"method": "fedmf", "channel": ("laplace=0.1",)}, "end its channel with fixed or secure"),
        ({"method": "fedmf", "threshold": 2}, "at least 3 devices"),
        ({"method": "fedfm"}, "did you mean 'fedmf'"),
    ],
)
def test_terms_that_no_fleet_can_keep_are_refused(terms: dict[str, Any], says: str) -> None:
    with pytest.raises(FedrecError, match=says):
        Terms(**terms).check()


@pytest.mark.parametrize("method", ["fedmf", "pfedrec"])
def test_getting_ready_changes_nothing(method: str, tmp_path: Path) -> None:
    """A node compiles by a round that nobody asked for: nothing of it is stored, and answers stay as they are."""
    devices = []
    for name in ("cold", "warm"):
        terms = Terms(method=method, channel=("fixed",))
        devices.append(
            Device.make(tmp_path / name, terms, ITEMS, met=[(n, n) for n in range(9)], name="d", secret=7)
        )
    cold, warm = devices
    assert warm.warm_up()
    assert warm.file.rounds() == []
    assert warm.file.fact("answers", 0) == 0
    assert warm.file.blob("broadcast") is None
    for round in (1, 2):
        answers = [device.play(round, CATALOG, table(round), round - 1, send) for device in (cold, warm)]
        assert answers[0] == answers[1]
    assert warm.warm_up(), "in the middle of a federation too"
    assert cold.file.rounds() == warm.file.rounds()
    assert cold.play(3, CATALOG, table(3), 2, send) == warm.play(3, CATALOG, table(3), 2, send)
    assert not Device.make(tmp_path / "new", TERMS, ITEMS).warm_up(), "nothing was met so far"
