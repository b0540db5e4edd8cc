"""Workers on this machine: what a round costs beside threads, and how much memory a large world takes.

    python benchmarks/cluster.py overhead                 # ML-1M, and 100 thousand items: threads, then two workers
    python benchmarks/cluster.py large                    # 5 million clients × 100 thousand items on 4 workers
    python benchmarks/cluster.py large --users 500000
    python benchmarks/cluster.py need                     # on paper: 100 million clients × 10 million items

Needs Ray (pip install 'fedrec[ray]'). Rounds are without validation. Seconds are of the clock, the fastest round
counts. Memory is that of the driver and all processes it began, Ray's own among them, what they share counted once
(their PSS), looked at every second.
"""

import json
import os
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from fedrec.channel.stage import parse
from fedrec.core.protocol import protocol
from fedrec.data.load import load
from fedrec.data.shards import Loading
from fedrec.data.split import split
from fedrec.methods import make
from fedrec.simulate.hire import hire
from fedrec.simulate.simulation import Simulation

app = typer.Typer(pretty_exceptions_enable=False)
STRICT = protocol("strict")
FIXED = [parse("fixed")]


def memory(process: int) -> float:
    """Megabytes of a process at this moment, of what it shares with others its part."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


class Watch(threading.Thread):
    """The most that this process and all it began hold at once, in megabytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = 0.0
        self.start()

    def run(self) -> None:
        while True:
            held = sum(memory(process) for process in {os.getpid(), *descendants(os.getpid())})
            self.most = max(self.most, held)
            time.sleep(1)


def processor(process: int) -> float:
    """Seconds of a core that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak(process: int) -> float:
    """The most that it has ever held, in megabytes."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def descendants(process: int) -> set[int]:
    """Processes that a process began, and theirs."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, left = set(), [process]
    while left:
        children = parents.get(left.pop(), [])
        found |= set(children)
        left += children
    return found


def rounds(simulation: Simulation, count: int) -> list[float]:
    simulation.warm_up()
    return [simulation.play(evaluate=False).fit_seconds for _ in range(count)]


@app.command()
def overhead(
    method: str = "pfedrec",
    data: Annotated[list[str], typer.Option(help="Repeatable.")] = ["ml-1m", "scalable-30000-100000-1500000"],  # noqa: B006
    count: int = 5,
) -> None:
    """Floats in 2 threads, whole numbers in 2 threads, whole numbers in 2 workers of 1 thread: in turns."""
    for name in data:
        parts = split(load(name), STRICT, 0)
        crew = hire("ray,count=2", Loading(name, {}, STRICT, 0), 1)
        made = {
            "threads, floats": Simulation(make(method), parts, threads=2),
            "threads, fixed": Simulation(make(method), parts, threads=2, channel=FIXED),
            "2 workers": Simulation(make(method), crew.outline, channel=FIXED, crew=crew),
        }
        seconds: dict[str, list[float]] = {kind: [] for kind in made}
        for _ in range(count):  # in turns, so that a busy machine is busy for all of them
            for kind, simulation in made.items():
                seconds[kind] += rounds(simulation, 1)
        crew.close()
        for kind, found in seconds.items():
            said = {"data": name, "method": method, "kind": kind, "least": min(found), "all": found}
            print(json.dumps(said), flush=True)


@app.command()
def large(
    users: int = 5_000_000,
    items: int = 100_000,
    interactions: int = 0,
    methods: Annotated[list[str], typer.Option("--method", help="Repeatable.")] = ["pfedrec", "fedals"],  # noqa: B006
    dim: int = 32,
    workers: int = 4,
    store: int = 400,
) -> None:
    """One round on a made world that the driver never holds."""
    rows, watch = interactions or 20 * users, Watch()
    name = f"scalable-{users}-{items}-{rows}"
    start = time.perf_counter()
    crew: Any = hire(f"ray,count={workers},store={store}", Loading(name, {}, STRICT, 0), 1)
    ready, loading = time.perf_counter() - start, watch.most
    hands = crew.carrier.ray.get([actor.process.remote() for actor in crew.carrier.actors])
    for method in methods:
        watch.most = 0.0
        simulation = Simulation(make(method, {"dim": dim}), crew.outline, channel=FIXED, crew=crew)
        simulation.warm_up()
        busy = sum(map(processor, hands))
        record = simulation.play(evaluate=False)
        busy = sum(map(processor, hands)) - busy
        said = {
            "data": name, "method": method, "workers": workers, "loaded_seconds": round(ready, 1),
            "round_seconds": round(record.fit_seconds, 1), "loss": record.loss, "clients": record.clients,
            "workers_cpu_seconds": round(busy, 1), "cpu_ns_per_row": round(1e9 * busy / rows),
            "loading_mb": round(loading), "round_mb": round(watch.most),
            "workers_peak_mb": [round(peak(hand)) for hand in hands], "driver_peak_mb": round(peak(os.getpid())),
        }  # fmt: skip
        print(json.dumps(said), flush=True)
    crew.close()


# Core nanoseconds of a round per interaction (100 thousand clients and items, one worker), and numbers of a row.
COSTS = {"fedmf": (750, 32), "fedrap": (4800, 32), "fedals": (500, 33)}
LARGEST = 1 << 25  # numbers of a block's single uploads, as in clients.py
READ = 4e9  # bytes a second that a thread reads where all of them do


@app.command()
def need(
    users: int = 100_000_000,
    items: int = 10_000_000,
    per_user: int = 50,
    workers: int = 64,
    threads: int = 16,
    rounds: Annotated[int, typer.Option(help="Of which FedRAP's devices keep rows.")] = 10,
    network: Annotated[float, typer.Option(help="Bytes a second in and out of the driver.")] = 1.25e9,
) -> None:
    """What a round needs, from the measured costs: memory of a worker and of the driver, bytes, seconds."""
    rows = users * per_user
    for method, (core, width) in COSTS.items():
        table, sums = 4 * items * width, 8 * items * width
        data = rows * 8 + users * 40  # items in both orders; ends and keys
        state = {"fedmf": 12 * (width + 1) * users, "fedals": 4 * width * users}.get(method, 0)
        if method == "fedrap":  # a row of every item met, and of every negative of every round
            state = users * (8 * (width + 1) + per_user * (1 + 4 * rounds) * (4 * width + 8))
        blocks = (
            0.0 if method == "fedals" else max(5 * rows * width / LARGEST, 64)
        )  # each reads the table once
        rows_of_a_block = 4 * LARGEST if method == "fedrap" else 0
        said = {
            "method": method,
            "worker_gb": (data + state) / workers
            + 2 * table
            + sums * (threads + 1)  # and what is on its way to the driver
            + threads * (5 * items + rows_of_a_block),
            "validation_gb": users * 800 / workers,
            "driver_gb": 4 * table + 2 * sums,
            "network_gb": workers * (table + sums),
        }
        said = {name: round(value / 1e9, 1) if name != "method" else value for name, value in said.items()}  # type: ignore[operator,call-overload]
        said["train_seconds"] = round(rows * core * 1e-9 / (workers * threads), 1)
        said["blocks_seconds"] = round(blocks * table / READ / (workers * threads), 1)
        said["network_seconds"] = round(workers * (table + sums) / network, 1)
        print(json.dumps(said))


if __name__ == "__main__":
    app()
