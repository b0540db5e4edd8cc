"""A Ray cluster on this machine, to try things out: several nodes on loopback, in a process of its own.

``python -m fedrec.simulate.tryout`` is that process: it says where it answers, and ends all nodes when it is ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from fedrec.core.errors import FedrecError
from fedrec.core.files import write
from fedrec.simulate.onray import MEGABYTE, TRYOUT, library, patiently

PATIENCE = 60.0  # seconds until all nodes have gone


def place() -> Path:
    """Where it is written down which cluster is up."""
    from platformdirs import user_state_path

    return user_state_path("fedrec") / "cluster.json"


def up(nodes: int, cpus: int, store: int) -> dict[str, Any]:
    """Start a cluster that stays; its address and process."""
    library()
    found = running()
    if found is not None:
        raise FedrecError(f"a cluster is up at {found['address']} already: end it with fedrec cluster down")
    place().parent.mkdir(parents=True, exist_ok=True)
    log = place().with_suffix(".log")
    command = [sys.executable, "-m", "fedrec.simulate.tryout", str(nodes), str(cpus), str(store)]
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
    assert process.stdout is not None
    address = process.stdout.readline().decode().strip()
    if not address:
        raise FedrecError(f"the cluster did not start: {log} says why")
    said = {"address": address, "process": process.pid, "nodes": nodes}
    write(place(), json.dumps(said))
    return said


def running() -> dict[str, Any] | None:
    """The cluster that is up, if there is one."""
    try:
        found: dict[str, Any] = json.loads(place().read_text(encoding="utf-8"))
        words = Path(f"/proc/{found['process']}/cmdline")
        if words.parent.parent.exists() and "fedrec.simulate.tryout" not in words.read_text():
            raise ProcessLookupError  # the number is another process's by now
        os.kill(found["process"], 0)
    except (OSError, ValueError, KeyError):
        return None
    return found


def down() -> str:
    """End it; the address where it was."""
    found = running()
    if found is None:
        raise FedrecError("no cluster is up: start one with fedrec cluster up")
    os.kill(found["process"], signal.SIGTERM)
    end = time.monotonic() + PATIENCE
    while running() is not None:
        if time.monotonic() > end:
            raise FedrecError(f"process {found['process']} does not end: end it yourself")
        time.sleep(0.1)
    place().unlink(missing_ok=True)
    return str(found["address"])


def main(nodes: int, cpus: int, store: int) -> None:
    library()
    from ray.cluster_utils import Cluster

    for kind in (signal.SIGTERM, signal.SIGINT):
        signal.signal(kind, lambda *_: sys.exit(0))
    each = {"num_cpus": cpus, "object_store_memory": store * MEGABYTE, "include_dashboard": False}
    cluster = Cluster()
    try:
        for _ in range(nodes):
            patiently(lambda: cluster.add_node(node_ip_address=TRYOUT, **each))
        cluster.wait_for_nodes()
        print(cluster.address, flush=True)
        sys.stdout.close()
        while True:
            signal.pause()
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
