"""One display for many runs fits the terminal, and says what is done, playing and left."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from fedrec.cli.board import _lines, _picture, left
from fedrec.study.board import Board, Job
from fedrec.study.case import Case


@pytest.fixture
def board(tmp_path: Path) -> Board:
    case = Case("fedncf+dualper", "a-data-set-with-a-long-name", "strict")
    jobs = [Job(case, seed, tmp_path / str(seed)) for seed in range(12)]
    found = Board(jobs, 2)
    for job in jobs[:3]:
        found.begin(job)
    found.end(jobs[0])
    found.at(jobs[1], 34, 100)
    return found


def test_the_picture_has_80_columns(board: Board) -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(_picture(board))
    lines = console.export_text().splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("1 of 12 runs done")
    assert "round 34 of 100" in lines[1]
    assert "preparing" in lines[2]
    assert max(map(len, lines)) <= 80


def test_where_nobody_looks_on_a_line_is_said_for_a_run(
    board: Board, capsys: pytest.CaptureFixture[str]
) -> None:
    _lines(board, "")
    _lines(board, "a run: begins")
    assert capsys.readouterr().err == ""
    _lines(board, "a run: 3 s")
    assert capsys.readouterr().err.startswith("1 of 12, about ")


def test_times_for_people() -> None:
    assert [left(s) for s in (None, 0, 0.2, 40, 600, 7200)] == [
        "time left not known yet", "all done", "about 1 s left", "about 40 s left",
        "about 10 min left", "about 2.0 h left",
    ]  # fmt: skip
