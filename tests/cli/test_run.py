"""The command line as a person or a script meets it: its output and its exit code."""

from __future__ import annotations

import json
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedrec.cli.main import main

fedrec = runpy.run_path(str(Path(__file__).with_name("here.py")))["fedrec"]
TABLE = "user,item,time\n" + "".join(
    f"{u},{(u % 2) + 2 * ((i + u) % 9)},{i}\n" for u in range(24) for i in range(7)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean folder with a small table in it."""
    path = tmp_path_factory.mktemp("cli")
    (path / "small.csv").write_text(TABLE, encoding="utf-8")
    return path


def run_json(folder: Path, *arguments: str) -> dict[str, object]:
    done = fedrec(folder, "run", *arguments, "--data", "small.csv", "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)  # the object alone
    return found


def test_the_result_has_the_promised_shape(folder: Path) -> None:
    result = run_json(folder, "fedmf", "--rounds", "3", "--set", "dim=4", "--set", "eta=1")
    for key in (
        "method", "data", "protocol", "seed", "engine", "rounds", "selected_round", "validation", "test",
        "seconds_per_round", "clients_per_second", "bytes_up_per_client", "bytes_down_per_client",
        "peak_memory_mb", "controls", "run",
    ):  # fmt: skip
        assert key in result, key
    assert result["protocol"] == "strict"
    assert result["rounds"] == 3
    test = result["test"]
    assert isinstance(test, dict)
    assert 0 <= test["full"]["ndcg@10"] <= test["full"]["hr@10"] <= 1
    assert set(result["controls"]) == {"popularity", "counter"}  # type: ignore[call-overload]
    kept = folder / str(result["run"])
    assert {p.name for p in kept.iterdir()} >= {
        "config.toml",
        "history.jsonl",
        "result.json",
        "ranks.parquet",
    }
    assert (folder / "runs" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("method", ["popularity", "itemknn", "ease", "ials", "counter"])
def test_yardsticks_run(folder: Path, method: str) -> None:
    result = run_json(folder, method)
    assert result["method"] == method
    assert result["engine"] == "central"
    assert result["clients_per_second"] is None


def test_a_table_for_people(folder: Path) -> None:
    done = fedrec(folder, "run", "fedmf", "--data", "small.csv", "--rounds", "2", "--protocol", "paper")
    assert done.returncode == 0, done.stderr
    assert "test, full ranking" in done.stdout
    assert "control: negative counter" in done.stdout
    assert "negatives from never-interacted items" in done.stdout


def test_same_bits_for_any_number_of_threads(folder: Path) -> None:
    one, two = (run_json(folder, "pfedrec", "--rounds", "3", "--threads", n) for n in ("1", "3"))
    assert one["test"] == two["test"]
    assert one["validation"] == two["validation"]


def test_resume_extends_and_refuses_other_options(folder: Path) -> None:
    run_json(folder, "fedmf", "--rounds", "2", "--out", "mine")
    again = fedrec(folder, "run", "fedmf", "--data", "small.csv", "--out", "mine")
    assert again.returncode == 2
    assert "mine exists already" in again.stderr
    other = fedrec(folder, "run", "fedmf", "--resume", "mine", "--seed", "4")
    assert other.returncode == 2
    assert "keeps its options" in other.stderr.replace("\n", " ")
    changed = fedrec(folder, "run", "fedmf", "--resume", "mine", "--set", "dim=3")
    assert changed.returncode == 2
    assert "dim" in changed.stderr
    fewer = fedrec(folder, "run", "fedmf", "--resume", "mine", "--rounds", "1")
    assert fewer.returncode == 2
    longer = run_json(folder, "fedmf", "--resume", "mine", "--rounds", "4", "--set", "batch_size=256")
    whole = run_json(folder, "fedmf", "--rounds", "4")
    assert longer["test"] == whole["test"]
    assert longer["rounds"] == 4


def test_a_run_starts_with_what_another_learned(folder: Path) -> None:
    earlier = run_json(folder, "fedals", "--rounds", "5", "--set", "dim=4", "--out", "runs/earlier")
    cold = run_json(folder, "fedals", "--rounds", "1", "--set", "dim=4")
    warm = run_json(folder, "fedals", "--rounds", "1", "--set", "dim=4", "--start", "runs/earlier")
    losses = [
        json.loads(Path(folder, str(found["run"]), "history.jsonl").read_text().splitlines()[-1])["loss"]
        for found in (warm, earlier, cold)
    ]
    assert losses[0] < losses[1] < losses[2]
    again = run_json(
        folder, "fedals", "--rounds", "2", "--resume", str(warm["run"]), "--start", "runs/earlier"
    )
    assert again["rounds"] == 2
    assert again["start"] == warm["start"] == str((folder / "runs" / "earlier").resolve())
    assert cold["start"] is None
    other = fedrec(folder, "run", "fedals", "--resume", str(warm["run"]), "--start", "runs/other")
    assert "a resumed run keeps its options" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "pfedrek"], "did you mean 'pfedrec'"),
        (["run", "fedmf+dualpr"], "did you mean 'dualper'"),
        (["run", "ease+dualper"], "ease has no 'step'"),
        (["run", "fedmf", "--set", "dimm=3"], "did you mean 'dim'"),
        (["run", "fedmf", "--set", "dim=0"], "dim=0 is not valid"),
        (["run", "fedmf", "--set", "dim"], "is not key=value"),
        (["run", "fedmf", "--data", "ml-100"], "did you mean"),
        (["run", "fedmf", "--protocol", "strickt"], "did you mean 'strict'"),
        (["run", "fedmf", "--clients", "0"], "clients"),
        (["run", "fedmf", "--view", "mine"], "view"),
        (["run", "fedmf", "--channel", "laplce=1"], "did you mean 'laplace'"),
        (["run", "ease", "--rounds", "5"], "not trained in rounds"),
        (["run", "ease", "--clients", "0.5"], "not federated"),
        (["run", "fedrap", "--set", "regularizer=nuclear", "--engine", "fused"], "runs on engine 'plain'"),
        (["run", "fedmf", "--resume", "nowhere"], "is not a run folder"),
        (["run", "fedmf", "--start", "nowhere"], "nowhere is not a run folder"),
        (["run", "fedmf", "--threads", "0"], "at least 1"),
        (["methods", "pfedrek"], "did you mean 'pfedrec'"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["fedrec", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    stdout, stderr = capsys.readouterr()
    assert stopped.value.code == 2
    assert stdout == ""
    assert sentence in stderr
    assert len(stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())  # nothing half-written stays behind


def test_methods_and_doctor(folder: Path) -> None:
    listed = json.loads(fedrec(folder, "methods", "--json").stdout)["methods"]
    names = {method["name"] for method in listed}
    assert {"pfedrec", "fedmf", "fedncf", "fedrecon", "dualper", "ease", "counter"} <= names
    assert all(method["reveals"] for method in listed if method["kind"] == "federated")
    described = fedrec(folder, "methods", "fedncf+dualper").stdout
    assert "lr_layers" in described
    assert "The presets paper and honest are the same." in fedrec(folder, "methods", "fedmf").stdout
    both = fedrec(folder, "methods", "fedrecon+dualper").stdout
    assert any(line.split() == ["setting", "both", "meaning"] for line in both.splitlines())
    facts = json.loads(fedrec(folder, "doctor", "--json").stdout)
    assert facts["versions"]["fedrec"]
    assert "demo" in facts["data"]


def test_help_imports_nothing_heavy(folder: Path) -> None:
    """What makes `fedrec --help` quick."""
    code = (
        "import sys, fedrec.cli.main\n"
        "heavy = {'numpy', 'numba', 'torch', 'polars', 'scipy', 'pydantic'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_an_interrupted_run_says_how_to_go_on(folder: Path, wait_until: Callable[..., None]) -> None:
    command = [sys.executable, "-m", "fedrec.cli.main", "run", "fedmf", "--data", "small.csv"]
    command += ["--rounds", "1000000", "--out", "long"]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    history = folder / "long" / "history.jsonl"
    try:
        wait_until(lambda: history.exists() and history.stat().st_size, process)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "fedrec run --resume long" in stderr
