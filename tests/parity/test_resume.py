"""A run that was killed and resumed ends with the same bits as one that was not."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.runs.folder import RunFolder
from fedrec.testing import different

pytestmark = pytest.mark.skipif(os.name == "nt", reason="processes are forked and killed")

SCRIPT = Path(__file__).with_name("kill.py")
KILL = runpy.run_path(str(SCRIPT), run_name="scenes")
ROUNDS = KILL["ROUNDS"]
NEVER = "1e9"
SCENES = {
    f"{kind}-{label}-{last}": f"{kind},{every},{last},{where}"
    for kind in KILL["KINDS"]
    for label, every, where, at in (
        ("every-round", "0", "round", range(1, ROUNDS + 1)),
        ("no-checkpoint", NEVER, "round", (1, ROUNDS)),
        ("history-ahead", NEVER, "ahead", (2, 5)),
        ("half-written", "0", "writing", (1, 4)),
        ("not-yet-current", "0", "pointing", (1, 4)),
    )
    for last in at
}


def same_run(a: fedrec.Run, b: fedrec.Run) -> None:
    """Everything but the clock, to the bit."""
    seconds = ["fit_seconds", "evaluate_seconds"]
    assert a.history.drop(seconds).equals(b.history.drop(seconds))
    assert a.ranks.equals(b.ranks)
    assert a.validation == b.validation
    assert a.test == b.test
    assert a.result["stopped"] == b.result["stopped"]
    mine, other = a.federated, b.federated
    assert mine is not None
    assert other is not None
    assert mine.moment.round == other.moment.round
    assert different(mine.moment, other.moment) == []
    assert mine.selected is not None
    assert other.selected is not None
    assert (mine.selected.round, mine.selected.value) == (other.selected.round, other.selected.value)
    assert different(mine.selected.moment, other.selected.moment) == []


@pytest.fixture(scope="module")
def uninterrupted() -> dict[str, fedrec.Run]:
    return {kind: fedrec.run(**KILL["options"](kind), threads=1) for kind in KILL["KINDS"]}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of run folders, each left behind by a process that was killed."""
    folder = tmp_path_factory.mktemp("killed")
    scenes = [f"{name},{how}" for name, how in SCENES.items()]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), *scenes], capture_output=True, text=True, check=True
    )
    codes = dict(line.split() for line in done.stdout.splitlines())
    assert codes == dict.fromkeys(SCENES, str(-signal.SIGKILL)), done.stderr
    return folder


@pytest.mark.parametrize("scene", SCENES)
def test_killed_and_resumed_is_uninterrupted(
    killed: Path, uninterrupted: dict[str, fedrec.Run], scene: str
) -> None:
    kind = scene.split("-")[0]
    path, data = killed / scene, KILL["options"](kind)["data"]
    with pytest.raises(FedrecError, match=r"is not finished: go on with fedrec run --resume"):
        fedrec.open(path, data)
    with (path / "history.jsonl").open("a", encoding="utf-8") as history:
        history.write('{"round": 99, "lo')  # torn by the kill
    resumed = fedrec.resume(path, data=data)
    same_run(resumed, uninterrupted[kind])
    opened = fedrec.open(path, data)
    same_run(opened, uninterrupted[kind])
    assert opened.evaluate() == resumed.evaluate()
    assert not list(path.rglob("*.tmp")), "nothing half-written is left"


def test_history_of_a_killed_run_is_there_up_to_its_last_round(killed: Path) -> None:
    from fedrec.runs.history import read_history

    name = "sampled-no-checkpoint-6"
    lines = read_history(killed / name / "history.jsonl")
    assert [line["round"] for line in lines] == list(range(1, 7))


@pytest.fixture
def short(tmp_path: Path, tastes: Interactions) -> Path:
    fedrec.run("pfedrec", tastes, rounds=3, settings={"dim": 4}, out=tmp_path / "run")
    return tmp_path / "run"


def test_more_rounds_extend_a_finished_run(short: Path, tastes: Interactions) -> None:
    longer = fedrec.resume(short, rounds=5, data=tastes)
    same_run(longer, fedrec.run("pfedrec", tastes, rounds=5, settings={"dim": 4}))
    assert fedrec.open(short, tastes).config.rounds == 5


def test_an_extension_that_failed_leaves_the_run_as_it_was(short: Path, tastes: Interactions) -> None:
    before = fedrec.open(short, tastes).result

    def stop(record: Any, simulation: Any) -> None:
        raise RuntimeError("stop here")

    with pytest.raises(RuntimeError, match="stop here"):
        fedrec.resume(short, rounds=5, data=tastes, callbacks=[stop])
    assert fedrec.open(short, tastes).result == before
    assert fedrec.resume(short, data=tastes).result["rounds"] == 5, "and it can be extended again"


def test_a_finished_run_is_resumed_to_what_it_was(short: Path, tastes: Interactions) -> None:
    before = fedrec.open(short, tastes)
    same_run(fedrec.resume(short, data=tastes), before)


def test_fewer_rounds_are_refused_and_change_nothing(short: Path, tastes: Interactions) -> None:
    config = (short / "config.toml").read_bytes()
    with pytest.raises(FedrecError, match="has 3 rounds: --resume can only extend them, not to 2"):
        fedrec.resume(short, rounds=2, data=tastes)
    assert (short / "config.toml").read_bytes() == config
    assert fedrec.open(short, tastes).result["rounds"] == 3


LOCK = """
import sys, time
from pathlib import Path
from fedrec.runs.folder import RunFolder
folder = RunFolder.existing(Path(sys.argv[1]))
folder.lock()
print("locked", flush=True)
time.sleep(600)
"""


def test_two_processes_cannot_write_one_folder_and_the_lock_dies_with_its_process(
    short: Path, tastes: Interactions
) -> None:
    other = subprocess.Popen([sys.executable, "-c", LOCK, str(short)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(FedrecError, match=r"another process is writing .*: wait for it, or use another"):
            fedrec.resume(short, rounds=4, data=tastes)
        assert fedrec.open(short, tastes).result["rounds"] == 3, "reading is allowed"
    finally:
        other.kill()
        other.communicate()
    assert fedrec.resume(short, rounds=4, data=tastes).result["rounds"] == 4


def test_a_run_gives_its_lock_back(short: Path) -> None:
    folder = RunFolder.existing(short)
    folder.lock()
    with pytest.raises(FedrecError, match="another process is writing"):
        RunFolder.existing(short).lock()
    folder.unlock()
    RunFolder.existing(short).lock()
