"""Workers on Ray: the same bits for any number of them, and after what they, a node or the driver go through."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedrec
from fedrec.channel.stage import parse
from fedrec.core.errors import FedrecError
from fedrec.core.protocol import protocol
from fedrec.data.shards import Loading
from fedrec.data.split import split
from fedrec.methods import make
from fedrec.simulate.crew import Crew
from fedrec.simulate.onray import TRYOUT, OnRay, library, patiently
from fedrec.simulate.simulation import Simulation

pytestmark = pytest.mark.ray
ray: Any = pytest.importorskip("ray")

WORLD = "scalable-60-40-900"
TEAMS = {1: 2, 2: 1, 3: 2, 5: 1}  # workers, and threads of each
METHODS = {
    "pfedrec": {}, "fedrap": {}, "fedals": {}, "fedmf": {}, "fedncf": {}, "plain fedncf": {"engine": "plain"},
}  # fmt: skip
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20, "node_ip_address": TRYOUT}
RUN: dict[str, Any] = {"data": WORLD, "rounds": 5, "settings": {"dim": 8}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three nodes on loopback; this process is their driver."""
    library()
    from ray.cluster_utils import Cluster

    made = Cluster()
    for _ in range(3):
        patiently(lambda: made.add_node(include_dashboard=False, **NODE))
    made.wait_for_nodes()
    ray.init(address=made.address, log_to_driver=False, _node_ip_address=TRYOUT)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="module")
def crews(cluster: Any) -> Iterator[list[Crew]]:
    """Teams of different sizes, which play one method after the other."""
    loading = Loading(WORLD, {}, protocol("strict"), 1)
    made = [Crew(OnRay(None, workers), loading, threads) for workers, threads in TEAMS.items()]
    yield made
    for crew in made:
        crew.close()


def sums(simulation: Simulation, folder: Path) -> list[Any]:
    """Everything of a simulation after three rounds but its clock."""
    simulation.warm_up()
    records = [simulation.play(evaluate=n > 0).line() for n in range(3)]
    lines = [{k: v for k, v in line.items() if "seconds" not in k} for line in records]
    measured, short = simulation.measure(5)
    ranks = [measured.valid, measured.test, measured.full]
    now = simulation.selected.moment  # type: ignore[union-attr]
    ranks += [simulation.ranks(now, "test", view) for view in simulation.views]
    ranks += simulation.team.controls(simulation.split.met_by.astype(np.float32), 3, 1)
    simulation.save(folder)
    one = Simulation(
        simulation.method, split(fedrec.load(WORLD), "strict", 1), seed=1, channel=[parse("fixed")],
        engine=simulation.engine, clients_per_round=simulation.clients_per_round,
    )  # fmt: skip
    one.load(folder)
    held = [*one.server.state.held.values(), *one.clients.state.lines.values()]
    held += [array for store in one.clients.state.rows.values() for array in store.arrays().values()]
    return [lines, short, *(a.tobytes() for rank in ranks for a in rank), *(a.tobytes() for a in held)]


@pytest.mark.parametrize("clients", [None, 0.3])
@pytest.mark.parametrize("name", METHODS)
def test_any_number_of_workers_and_threads_ends_with_the_same_bits(
    crews: list[Crew], tmp_path: Path, name: str, clients: float | None
) -> None:
    method = make(name.split()[-1], {"dim": 8})
    options: dict[str, Any] = {
        "seed": 1,
        "channel": [parse("fixed")],
        "clients_per_round": clients,
        **METHODS[name],
    }
    parts = split(fedrec.load(WORLD), "strict", 1)
    expected = sums(Simulation(method, parts, **options), tmp_path / "one")
    for crew in crews:
        found = Simulation(method, crew.outline, crew=crew, **options)
        assert sums(found, tmp_path / str(crew.carrier.count)) == expected, crew.says()


def same(a: fedrec.Run, b: fedrec.Run) -> None:
    seconds = ["fit_seconds", "evaluate_seconds"]
    assert a.history.drop(seconds).equals(b.history.drop(seconds))
    assert a.ranks.equals(b.ranks)
    assert (a.validation, a.test) == (b.validation, b.test)


@pytest.fixture(scope="module")
def whole() -> fedrec.Run:
    return fedrec.run("pfedrec", **RUN, channel=["fixed"])


@pytest.mark.parametrize("saved", [0, 1e9])
def test_a_killed_worker_is_replaced(cluster: Any, whole: fedrec.Run, tmp_path: Path, saved: float) -> None:
    def kill(record: Any, training: Any) -> None:
        if record.round in (2, 3):
            os.kill(ray.get(training.team.carrier.actors[record.round % 2].process.remote()), signal.SIGKILL)

    options = {**RUN, "out": tmp_path / "run", "checkpoint_every": saved, "callbacks": [kill]}
    found = fedrec.run("pfedrec", workers="ray,count=2", **options)
    same(whole, found)
    assert found.result["workers"] == {"kind": "ray", "count": 2, "lost": 2}
    found.close()
    same(whole, fedrec.open(tmp_path / "run"))


def test_a_removed_node_is_done_without(cluster: Any, whole: fedrec.Run, tmp_path: Path) -> None:
    extra = [patiently(lambda: cluster.add_node(**NODE))]
    cluster.wait_for_nodes()

    def remove(record: Any, training: Any) -> None:
        if record.round == 2:
            hands = ray.get([actor.process.remote() for actor in training.team.carrier.actors])
            cluster.remove_node(extra.pop(), allow_graceful=False)
            for _ in range(600):  # its worker notices by and by; the run could be over before
                if not all(Path(f"/proc/{hand}").exists() for hand in hands):
                    return
                time.sleep(0.1)

    options = {**RUN, "out": tmp_path / "run", "checkpoint_every": 0, "callbacks": [remove]}
    found = fedrec.run("pfedrec", workers="ray,count=4", **options)
    same(whole, found)
    assert found.result["workers"]["lost"] >= 1
    found.close()


DRIVER = """
import os, signal, sys, fedrec

def die(record, training):
    if record.round == 3:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    fedrec.run("pfedrec", "{world}", rounds=5, settings={{"dim": 8}}, workers=sys.argv[1], out=sys.argv[2],
               checkpoint_every=0, callbacks=[die])
"""


def test_a_killed_driver_goes_on_with_other_workers(cluster: Any, whole: fedrec.Run, tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text(DRIVER.format(world=WORLD))
    command = [sys.executable, str(script), f"ray:{cluster.address},count=3", str(tmp_path / "run")]
    assert subprocess.run(command, timeout=180).returncode == -signal.SIGKILL
    found = fedrec.resume(tmp_path / "run", workers="ray,count=2")
    same(whole, found)
    found.close()


def test_other_versions_are_refused(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fedrec, "__version__", "9.9")
    with pytest.raises(FedrecError, match=r"node 127.0.0.2 has fedrec .* and this is 9.9: install the same"):
        fedrec.run("fedmf", WORLD, rounds=1, workers="ray")


def test_a_store_that_is_too_small_is_refused(cluster: Any) -> None:
    with pytest.raises(FedrecError, match="store of objects has 80 MB on a node and a round needs"):
        fedrec.run(
            "fedmf", "scalable-300-100000-3000", rounds=1, settings={"dim": 128}, workers="ray,count=1"
        )


def fedrec_says(*words: str, code: int = 0, **environment: str) -> str:
    command = [sys.executable, "-m", "fedrec.cli.main", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, env={**os.environ, **environment}
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_a_cluster_to_try_out_from_up_to_down(tmp_path: Path) -> None:
    home = {"XDG_STATE_HOME": str(tmp_path / "state")}
    refused = fedrec_says(
        "run", "fedmf", "--data", WORLD, "--workers", "ray:127.0.0.1:9", "--out", str(tmp_path / "no"), code=2
    )
    assert "no Ray cluster answers at 127.0.0.1:9" in refused
    assert not (tmp_path / "no").exists()
    said = fedrec_says("cluster", "up", "--workers", "2", "--store", "80", **home)
    address = said.split(" at ")[1].split(": ")[0]
    process = json.loads((tmp_path / "state" / "fedrec" / "cluster.json").read_text())["process"]
    try:
        assert "is up at" in fedrec_says("cluster", "up", code=2, **home)
        run = ["run", "fedmf", "--data", WORLD, "--rounds", "2", "--set", "dim=4", "--json"]
        there = json.loads(fedrec_says(*run, "--workers", f"ray:{address}", "--out", str(tmp_path / "there")))
        here = json.loads(fedrec_says(*run, "--channel", "fixed", "--out", str(tmp_path / "here")))
        assert there["test"] == here["test"]
        assert there["workers"] == {"kind": "ray", "count": 2, "lost": 0}
    finally:
        assert address in fedrec_says("cluster", "down", **home)
    for _ in range(100):
        if not Path(f"/proc/{process}").exists():
            break
        time.sleep(0.1)
    assert "no cluster is up" in fedrec_says("cluster", "down", code=2, **home)
