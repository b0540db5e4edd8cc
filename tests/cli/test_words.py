"""What people read: help, tables and errors, in a real process, on any terminal, at 80 columns."""

from __future__ import annotations

import errno
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rich.markup import render

from fedrec.cli.main import app, main

here = runpy.run_path(str(Path(__file__).with_name("here.py")))["fedrec"]
TABLE = "user,item,time\n" + "".join(
    f"{u},{(u % 2) + 2 * ((i + u) % 9)},{i}\n" for u in range(24) for i in range(7)
)
LONG = "a[x]/" + "/".join(["some", "very", "long", "path", "with", "words"] * 4)
WITHOUT_TORCH = "import sys\nsys.modules['torch'] = None\nfrom fedrec.cli.main import main\nmain()"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("words")
    (path / "small.csv").write_text(TABLE, encoding="utf-8")
    titles = [f"{line},Café [red] {line.split(',')[1]} × …\n" for line in TABLE.split()[1:]]
    (path / "titled.csv").write_text("user,item,time,title\n" + "".join(titles), encoding="utf-8")
    return path


def fedrec(folder: Path, *words: str, code: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    how = ["-c", code] if code else ["-m", "fedrec.cli.main"]
    around = {**os.environ, "COLUMNS": "80", **environment}
    return subprocess.run(
        [sys.executable, *how, *words], cwd=folder, env=around, capture_output=True, text=True, check=False
    )


def said(folder: Path, *words: str, **more: str) -> str:
    """In this process, unless Python itself must start in another way."""
    done = fedrec(folder, *words, **more) if more else here(folder, *words, COLUMNS="80")
    assert done.returncode == 0, done.stderr
    return done.stdout


def sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What stderr says of words that cannot be obeyed."""
    monkeypatch.setattr(sys, "argv", ["fedrec", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    return capsys.readouterr().err


def commands() -> list[tuple[list[str], Any]]:
    """Every command with the words that call it."""
    found: list[tuple[list[str], Any]] = []

    def walk(words: list[str], command: Any) -> None:
        found.append((words, command))
        for name, below in getattr(command, "commands", {}).items():
            walk([*words, name], below)

    walk([], typer.main.get_command(app))
    return found


@pytest.mark.parametrize(
    ("words", "command"), commands(), ids=lambda w: " ".join(w) if isinstance(w, list) else ""
)
def test_help_by_either_name_says_all_that_is_written(
    words: list[str], command: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = []
    for asked in ("-h", "--help"):
        monkeypatch.setattr(sys, "argv", ["fedrec", *words, asked])
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert max(map(len, shown[0].splitlines())) <= 80
    for text in [command.help, *(getattr(p, "help", None) for p in command.params)]:
        if text:
            plain = render(text).plain
            assert plain == text.replace("\\[", "["), "markup eats a part of it: use escape"


def test_help_tells_defaults(folder: Path) -> None:
    text = " ".join(said(folder, "run", "--help").replace("│", " ").split())
    for default in ("100", "all", "the method's", "off", "a new one in runs/"):
        assert f"[default: {default}]" in text
    assert "[default: a few]" in said(folder, "bench", "--help")


def test_a_path_stays_what_it_is(folder: Path) -> None:
    shown = said(folder, "run", "fedmf", "--data", "small.csv", "--rounds", "1", "--out", LONG)
    assert LONG in shown.splitlines()
    assert all(len(line) <= 80 or line == LONG for line in shown.splitlines())
    again = here(folder, "run", "fedmf", "--data", "small.csv", "--out", LONG, COLUMNS="80")
    assert again.stderr.startswith(f"error: {LONG} exists already")  # no empty line before it
    assert len(again.stderr.splitlines()) == 1
    (folder / LONG / "own[x].csv").write_text(TABLE, encoding="utf-8")
    facts = said(folder, "data", "info", f"{LONG}/own[x].csv")
    assert f"{LONG}/own[x].csv" in facts
    table = said(folder, "run", "popularity", "--data", f"{LONG}/own[x].csv", "--out", "b[x]")
    assert table.startswith("popularity on own[x]")
    assert "a new person liked: 3" in said(folder, "recommend", LONG, "--like", "3")
    doctor = said(folder, "doctor", FEDREC_DATA=str(folder / LONG) + "/nowhere")
    assert f"{folder / LONG}/nowhere" in doctor


def test_doctor_says_how_to_get_torch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fedrec.runs.result.versions", lambda: {"fedrec": "0"})
    monkeypatch.setattr(sys, "argv", ["fedrec", "doctor"])
    with pytest.raises(SystemExit):
        main()
    assert "pip install 'fedrec[torch]'" in " ".join(capsys.readouterr().out.split())


OTHERS = [
    ["--help"],
    ["methods"],
    ["methods", "fedncf+dualper"],
    ["doctor"],
    ["run", "fedmf", "--data", "titled.csv", "--rounds", "1"],
    ["bench", "fedmf", "--data", "small.csv", "--loop-seconds", "0"],
]


@pytest.mark.parametrize(
    "words",
    [
        ["methods", "fedals"],
        ["data", "list"],
        *(pytest.param(words, marks=pytest.mark.slow) for words in OTHERS),
    ],
)
def test_any_terminal(folder: Path, words: list[str]) -> None:
    wide = said(folder, *words)
    assert all(len(line) <= 80 for line in wide.splitlines())
    ascii_only = said(folder, *words, PYTHONIOENCODING="ascii")
    assert ascii_only.isascii()
    old = said(folder, *words, LC_ALL="C", LANG="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert old.isascii()


def test_titles_on_any_terminal(folder: Path) -> None:
    said(folder, "run", "fedmf", "--data", "titled.csv", "--rounds", "1", "--out", "titled")
    words = ["recommend", "titled", "--user", "3", "-k", "2"]
    assert "Café [red]" in said(folder, *words)
    assert "Cafe [red]" in said(folder, *words, PYTHONIOENCODING="ascii")
    exact = json.loads(said(folder, *words, "--json", PYTHONIOENCODING="ascii"))
    assert exact["recommended"][0]["title"].startswith("Café [red]")  # what scripts read is never changed
    wrong = fedrec(folder, "similar", "titled", "--item", "Café", PYTHONIOENCODING="ascii")
    assert wrong.returncode == 2
    assert "Cafe" in wrong.stderr


HALVED = """from fedrec.methods.fedmf import FedMF

class Halved(FedMF):  # changes a verb, and so has no kernel
    name = "halved"

    def logits(self, p, i):
        return super().logits(p, i) / 2
"""


@pytest.mark.slow
def test_bench_without_torch(folder: Path) -> None:
    words = ["bench", "fedmf", "--data", "small.csv", "--json"]
    done = fedrec(folder, *words, code=WITHOUT_TORCH)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["results"][0]
    assert found["fused"]["clients_per_cpu_second"] > 0
    assert not {"plain", "loop"} & set(found)
    assert done.stderr.startswith("PyTorch is not installed")
    (folder / "halved.py").write_text(HALVED)
    none = fedrec(folder, "bench", "halved.py:Halved", "--data", "small.csv", code=WITHOUT_TORCH)
    assert none.returncode == 2
    assert (
        none.stderr == "error: halved runs on PyTorch, which is not installed: pip install 'fedrec[torch]'\n"
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "fedmf", "--set", "lr=inf"], "fedmf: lr=inf is not valid: input should be a finite number"),
        (["run", "fedmf", "--set", "lr=nan"], "fedmf: lr=nan is not valid: input should be a finite number"),
        (["run", "fedmf", "--clients", "ten"], "clients=ten is not valid: give a fraction such as 0.1"),
        (["run", "fedmf", "--rounds", "0"], "rounds=0 is not valid: input should be greater than or equal"),
        (["run", "fedmf", "--checkpoint-every", "nan"], "--checkpoint-every nan is no time: give seconds"),
        (["run", "fedmf", "--checkpoint-every", "-1"], "--checkpoint-every -1.0 is no time: give seconds"),
        (["run", "ease", "--engine", "fused"], "--engine does not apply to ease: it is not federated"),
        (["run", "ease", "--eval-every", "3"], "--eval-every does not apply to ease: it is not trained"),
        (["bench", "--loop-seconds", "-1"], "--loop-seconds -1 is no time: give seconds, or 0"),
        (["bench", "--loop-seconds", "nan"], "--loop-seconds nan is no time: give seconds, or 0"),
        (["run", "[x].py:Own"], "there is no file '[x].py': give your method as file.py:Class"),
    ],
)
def test_right_words(
    words: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sentence(monkeypatch, capsys, *words).startswith(f"error: {expected}")
    assert not list(tmp_path.iterdir())


def test_one_column_is_one_thing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    words = ["data", "info", "small.csv", "--user", "item", "--item", "item"]
    assert "the column 'item' of small.csv cannot be both the user and the item: name another" in sentence(
        monkeypatch, capsys, *words
    )


def test_dates_with_and_without_a_time_of_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fedrec.data.load import load

    rows = ["2024-05-31", "2024-05-31 18:00:00", "2024/06/01 07:30", "2024-06-02T00:00:00Z"]
    (tmp_path / "a.csv").write_text("user,item,time\n" + "".join(f"1,{i},{t}\n" for i, t in enumerate(rows)))
    times = load(tmp_path / "a.csv").times
    assert times is not None
    assert ((times - times[0]) / 3_600_000_000).tolist() == [0, 18, 31.5, 48]
    (tmp_path / "b.csv").write_text("user,item,time\n1,1,1717113600\n1,2,2024-05-31\n1,3,2024-06-01\n")
    said = sentence(monkeypatch, capsys, "data", "info", str(tmp_path / "b.csv"))
    assert "mixes numbers and dates, '1717113600' in row 1 and '2024-05-31' in row 2: write all" in said


def test_a_resumed_run_says_what_it_was_made_without(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    said(folder, "run", "fedmf", "--data", "small.csv", "--rounds", "1", "--out", "plain")
    resume = ["run", "fedmf", "--resume", "plain"]
    for option in (["--view", "own"], ["--local"], ["--clients", "3"], ["--channel", "laplace=1"]):
        words = sentence(monkeypatch, capsys, *resume, *option)
        assert words.startswith(f"error: plain was made without {option[0]}: a resumed run keeps its options")
    words = sentence(monkeypatch, capsys, *resume, "--seed", "4")
    assert words.startswith("error: plain was made with --seed 0: ")


def test_what_the_system_refuses_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "some/file")

    monkeypatch.setattr("fedrec.cli.main.app", full)
    assert sentence(monkeypatch, capsys) == "error: No space left on device: some/file\n"


def test_a_reader_who_has_had_enough(folder: Path) -> None:
    """fedrec methods | head -1"""
    command = [sys.executable, "-m", "fedrec.cli.main", "methods", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait() == 1
