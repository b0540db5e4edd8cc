"""The history: flushed line by line, cut where a run goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrec.runs.history import History, cut_history, read_history


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "history.jsonl"
    history = History(path)
    for number in range(1, 5):
        history.append({"round": number, "loss": 1 / number})
    history.close()
    return path


def test_a_line_is_on_disk_as_soon_as_it_is_written(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    history.append({"round": 1})
    assert read_history(tmp_path / "history.jsonl") == [{"round": 1}]
    history.close()


def test_without_a_file_lines_are_kept(tmp_path: Path) -> None:
    history = History()
    history.append({"round": 1})
    history.close()
    assert history.lines == [{"round": 1}]


def test_numbers_come_back_as_they_were(path: Path) -> None:
    assert [line["loss"] for line in read_history(path)] == [1 / n for n in range(1, 5)]


@pytest.mark.parametrize("torn", ['{"round": 5, "lo', "{", '{"round": 5'])
def test_a_torn_last_line_is_left_out(path: Path, torn: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(torn)
    assert [line["round"] for line in read_history(path)] == [1, 2, 3, 4]


def test_cutting_keeps_the_rounds_up_to_the_checkpoint(path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write('{"round": 5, "lo')
    lines = cut_history(path, 2)
    assert [line["round"] for line in lines] == [1, 2]
    assert read_history(path) == lines
    history = History(path, lines)
    history.append({"round": 3, "loss": 0.0})
    history.close()
    assert [line["round"] for line in read_history(path)] == [1, 2, 3]


def test_no_history_is_an_empty_one(tmp_path: Path) -> None:
    assert read_history(tmp_path / "none.jsonl") == []
