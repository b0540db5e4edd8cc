"""Runs in processes of their own: the same figures, one display, and nothing lost when all are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import fedrec
from fedrec.core.errors import Interrupted
from fedrec.data.interactions import Interactions
from fedrec.runs.folder import take_lock
from fedrec.study import players
from fedrec.study.board import Board, Job
from fedrec.study.case import Case, finished
from fedrec.study.compare import compare_cases


def test_processes_give_the_same_figures(small: Interactions, tmp_path: Path) -> None:
    cases = [Case("popularity", small), Case("fedmf", small, options={"rounds": 2, "clients": 10_000})]
    said: list[str] = []
    together = compare_cases(cases, tmp_path / "a", 2, jobs=2, changed=lambda _, words: said.append(words))
    alone = compare_cases(cases, tmp_path / "b", 2, jobs=1)
    a, b = (found.lines[0].results for found in (together, alone))
    assert [result["test"] for result in a] == [result["test"] for result in b]
    assert together.lines[1].failed == alone.lines[1].failed
    assert "ask for fewer" in together.lines[1].failed
    assert sum(words.endswith("begins") for words in said) == 4


def test_a_killed_comparison_goes_on(
    small: Interactions, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    """kill -9 in the middle: what was finished stays, the others end by themselves, and the next start goes on."""
    users = pl.Series(small.user_ids).gather(pl.Series(range(small.n_users)).to_numpy().repeat(small.counts))
    pl.DataFrame({"user": users, "item": small.items, "timestamp": small.times}).write_csv(
        tmp_path / "few.csv"
    )
    data, out = str(tmp_path / "few.csv"), tmp_path / "out"
    command = [sys.executable, "-m", "fedrec.cli.main", "compare", "popularity", "fedmf", "--data", data]
    command += ["--seeds", "2", "--rounds", "100000", "--jobs", "2", "--threads", "2", "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(Path(fedrec.__file__).parents[1])}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: _finished(out) and _long(out), process)
    finally:
        process.kill()
        process.communicate()
    done = {path: (path / "result.json").stat().st_mtime_ns for path in _finished(out)}
    assert done
    long = _long(out)[0]
    wait_until(lambda: _free(long))  # the orphan writes a checkpoint and ends
    assert (long / "checkpoint" / "current.json").exists()
    found = fedrec.compare(["popularity"], data, "strict", 2, out=out, jobs=2, force=True)
    assert len(found.lines[0].results) == 2
    assert {path: (path / "result.json").stat().st_mtime_ns for path in done} == done
    assert found.played == 2 - len(done)


def _free(path: Path) -> bool:
    if (lock := take_lock(path / ".lock")) is None:
        return False
    lock.close()
    return True


def _finished(out: Path) -> list[Path]:
    return [path for path in out.iterdir() if finished(path) is not None] if out.exists() else []


def _long(out: Path) -> list[Path]:
    """Long ones that have played their first rounds."""
    histories = [path / "history.jsonl" for path in out.glob("fedmf-*")]
    return [path.parent for path in histories if path.exists() and path.stat().st_size]


def test_memory_says_how_many(small: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [Job(Case("popularity", small), seed, tmp_path / str(seed)) for seed in range(3)]
    needed = players.needed_memory(jobs[0], Board(jobs))
    assert needed > players.BASE
    for free, together in ((2.5 * needed, 2), (needed / 2, 1), (None, 3)):
        monkeypatch.setattr(players, "available_memory", lambda free=free: free)
        playing = players.Processes(Board(jobs, 3), 2, {})
        begun: list[Job] = []

        def begin(job: Job, playing: players.Processes = playing, begun: list[Job] = begun) -> None:
            begun.append(job)
            playing.running[job] = None  # type: ignore[assignment]
            playing.board.begin(job)

        monkeypatch.setattr(playing, "_begin", begin)
        playing._begin_some()
        assert len(begun) == together


def test_the_board_says_how_long_it_will_take(small: Interactions, tmp_path: Path) -> None:
    jobs = [Job(Case("fedmf", small), seed, tmp_path / str(seed)) for seed in range(4)]
    now = 0.0
    board = Board(jobs, 2, clock=lambda: now)
    board.begin(jobs[0])
    assert board.remaining() is None
    now = 10.0
    board.at(jobs[0], 1, 5)
    board.at(jobs[0], 2, 5)
    assert board._rest(board.playing[jobs[0]], now) == pytest.approx(10.0 / 2 * 3)
    board.end(jobs[0])
    assert board.remaining() == pytest.approx(3 * 10.0 / 2)
    for job in jobs[1:]:
        board.begin(job)
        board.end(job, "no" if job is jobs[1] else "")
    assert (board.done, len(board.failed), board.left, board.remaining()) == (4, 1, [], 0.0)


def test_ctrl_c_stops_the_processes(small: Interactions, tmp_path: Path) -> None:
    def stop(board: Board, said: str) -> None:
        if any(now.round for now in board.playing.values()):
            signal.raise_signal(signal.SIGINT)

    case = Case("fedmf", small, options={"rounds": 100_000})
    with pytest.raises(Interrupted, match="0 of 2 runs are finished"):
        compare_cases([case], tmp_path, 2, jobs=2, threads=2, changed=stop)
    folders = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert any((path / "checkpoint" / "current.json").exists() for path in folders)
