"""Interrupted, out of room, damaged: what was saved stays, and a sentence says what to do."""

from __future__ import annotations

import errno
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fedrec
from fedrec.core.errors import FedrecError, Interrupted
from fedrec.data.interactions import Interactions
from fedrec.simulate import team
from fedrec.simulate.checkpoint import load_checkpoint

SMALL = {"dim": 4}


@pytest.fixture
def path(tastes: Interactions, tmp_path: Path) -> Path:
    fedrec.run("fedmf", tastes, rounds=2, settings=SMALL, out=tmp_path / "run")
    return tmp_path / "run"


def stop_after(round: int) -> Any:
    def stop(record: Any, training: Any) -> None:
        if record.round == round:
            raise KeyboardInterrupt

    return stop


def test_an_interrupted_run_keeps_the_round_it_reached(tastes: Interactions, tmp_path: Path) -> None:
    with pytest.raises(
        Interrupted, match=r"after round 3, which the checkpoint holds; go on with: fedrec run"
    ):
        fedrec.run("fedmf", tastes, rounds=9, settings=SMALL, out=tmp_path / "r", callbacks=[stop_after(3)])
    assert load_checkpoint(tmp_path / "r" / "checkpoint")[0].round == 3
    whole = fedrec.run("fedmf", tastes, rounds=9, settings=SMALL)
    assert fedrec.resume(tmp_path / "r", data=tastes).test == whole.test


@pytest.mark.parametrize("where", ["keep", "evaluate"])
@pytest.mark.parametrize("clients", [None, 0.5])
def test_ctrl_c_at_the_end_of_a_round_waits_for_it(
    tastes: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, clients: float | None
) -> None:
    """A round that counts is evaluated, may be selected, and has its line: going on gives the same run."""
    from fedrec.clients.state import Pending
    from fedrec.simulate.simulation import Simulation

    kind, name = (Pending, "done") if where == "keep" else (Simulation, "evaluate")
    usual, called = getattr(kind, name), []

    def then_ctrl_c(*arguments: Any) -> Any:
        called.append(True)
        if len(called) == 3:
            signal.raise_signal(signal.SIGINT)
        return usual(*arguments)

    options: dict[str, Any] = {"rounds": 4, "settings": SMALL, "clients": clients}
    whole = fedrec.run("fedmf", tastes, **options)
    monkeypatch.setattr(kind, name, then_ctrl_c)
    with pytest.raises(Interrupted, match="after round 3, which the checkpoint holds"):
        fedrec.run("fedmf", tastes, out=tmp_path / "r", **options)
    monkeypatch.undo()
    resumed, seconds = fedrec.resume(tmp_path / "r", data=tastes), ["fit_seconds", "evaluate_seconds"]
    assert resumed.history.drop(seconds).equals(whole.history.drop(seconds))
    assert (resumed.validation, resumed.test) == (whole.validation, whole.test)


def test_ctrl_c_once_more_does_not_cost_the_checkpoint(
    tastes: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedrec.simulate import checkpoint

    usual = checkpoint.pack_server

    def impatient(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return usual(*arguments)

    monkeypatch.setattr(checkpoint, "pack_server", impatient)
    with pytest.raises(Interrupted, match="after round 3, which the checkpoint holds"):
        fedrec.run("fedmf", tastes, rounds=9, settings=SMALL, out=tmp_path / "r", callbacks=[stop_after(3)])
    assert load_checkpoint(tmp_path / "r" / "checkpoint")[0].round == 3


def test_no_except_exception_swallows_it() -> None:
    assert issubclass(Interrupted, KeyboardInterrupt)
    assert not issubclass(Interrupted, Exception)


def test_a_resumed_run_is_interrupted_as_well(tastes: Interactions, path: Path) -> None:
    with pytest.raises(Interrupted, match="after round 4"):
        fedrec.resume(path, rounds=9, data=tastes, callbacks=[stop_after(4)])


def test_a_result_stays_while_a_run_is_extended(
    tastes: Interactions, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (path / "result.json").read_text(encoding="utf-8")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(team, "save_checkpoint", full)
    with pytest.raises(FedrecError, match=r"cannot write in .*: No space left on device; make room"):
        fedrec.resume(path, rounds=5, data=tastes)
    monkeypatch.undo()
    assert (path / "result.json").read_text(encoding="utf-8") == before
    assert not list(path.rglob("*.tmp"))
    assert fedrec.open(path, tastes).result["rounds"] == 2  # nothing newer was saved
    with pytest.raises(Interrupted):
        fedrec.resume(path, rounds=9, data=tastes, callbacks=[stop_after(4)])
    with pytest.raises(FedrecError, match="is being extended to 9 rounds and is at 4: go on with"):
        fedrec.open(path, tastes)
    assert fedrec.resume(path, data=tastes).result["rounds"] == 9


@pytest.fixture
def room() -> Iterator[Callable[[int], None]]:
    """Lets no file of this process grow beyond so many bytes: the system itself refuses, as a full disk does."""
    resource = pytest.importorskip("resource")
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, usual[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, usual)


# What is written first does not fit; a line of history; the data; the checkpoint; the ranks.
@pytest.mark.parametrize("size", [0, 300, 900, 3000, 4500])
def test_a_disk_without_room(
    tastes: Interactions, path: Path, tmp_path: Path, room: Callable[[int], None], size: int
) -> None:
    before = (path / "result.json").read_bytes(), (path / "ranks.parquet").read_bytes()
    room(size)
    with pytest.raises(FedrecError, match=r"cannot write in .*: File too large; make room or choose another"):
        fedrec.run("fedmf", tastes, rounds=2, settings=SMALL, out=tmp_path / "new")
    with pytest.raises(FedrecError, match=r"cannot write in .*: File too large; make room or choose another"):
        fedrec.resume(path, rounds=5, data=tastes)
    room(10**9)
    assert not list(tmp_path.rglob("*.tmp"))
    assert ((path / "result.json").read_bytes(), (path / "ranks.parquet").read_bytes()) == before
    assert fedrec.open(path, tastes).result["rounds"] == 2
    assert fedrec.resume(path, rounds=5, data=tastes).result["rounds"] == 5


def test_no_room_for_tables_and_exports(
    tastes: Interactions, path: Path, tmp_path: Path, room: Callable[[int], None]
) -> None:
    run = fedrec.open(path, tastes)
    room(100)
    for name, write in (("a.csv", run.recommend_all), ("a.parquet", run.recommend_all), ("m.st", run.export)):
        with pytest.raises(FedrecError, match=f"cannot write .*{name}: File too large"):
            write(tmp_path / name)
    room(10**9)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("name", ["x" * 300, "taken/inside"])
def test_a_folder_that_cannot_be_made(tastes: Interactions, tmp_path: Path, name: str) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(FedrecError, match="cannot make the run folder"):
        fedrec.run("popularity", tastes, out=tmp_path / name)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"test": {}}'])
def test_a_damaged_result(tastes: Interactions, path: Path, content: str) -> None:
    (path / "result.json").write_text(content, encoding="utf-8")
    with pytest.raises(
        FedrecError, match=r"result.json is damaged: fedrec run --resume .* measures the run again"
    ):
        fedrec.open(path, tastes)
    assert fedrec.resume(path, data=tastes).result == json.loads(
        (path / "result.json").read_text(encoding="utf-8")
    )


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_ranks_that_cannot_be_read(tastes: Interactions, path: Path, damage: str) -> None:
    file = path / "ranks.parquet"
    file.unlink() if damage == "missing" else file.write_bytes(b"no parquet")
    with pytest.raises(FedrecError, match=f"ranks.parquet is {damage}: fedrec run --resume"):
        fedrec.open(path, tastes)
    fedrec.resume(path, data=tastes)
    assert len(fedrec.open(path, tastes).ranks) == tastes.n_users


def test_a_damaged_history_is_said_and_the_rest_works(tastes: Interactions, path: Path) -> None:
    (path / "history.jsonl").write_bytes(b"\xff\xfe garbage")
    with pytest.warns(UserWarning, match="0 of 2 rounds can be read; figures, ranks and recommendations"):
        run = fedrec.open(path, tastes)
    assert len(run.recommend(user=0, k=3)) == 3
