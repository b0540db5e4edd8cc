"""How time and memory grow with clients and items: one round on the scalable made world.

    python benchmarks/growth.py                # 10 thousand to 1 million clients, 1 to 100 thousand items
    python benchmarks/growth.py --largest 200000

Each size runs in a process of its own, so that its peak memory is its own.
"""

import json
import math
import subprocess
import sys
import time
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

SIZES = [(10_000, 1_000), (30_000, 10_000), (100_000, 30_000), (300_000, 100_000), (1_000_000, 100_000)]
PER_CLIENT = 50


def one(users: int, items: int, method: str) -> dict[str, float]:
    """Three rounds without evaluation at one size; the fastest counts."""
    from fedrec.data.split import split
    from fedrec.data.worlds import scalable
    from fedrec.methods import make
    from fedrec.runs.result import peak_memory_mb
    from fedrec.simulate.simulation import Simulation

    start = time.perf_counter()
    data = scalable(users, items, PER_CLIENT * users)
    parts = split(data)
    ready = time.perf_counter() - start
    simulation = Simulation(make(method), parts, threads=2)
    simulation.warm_up()
    seconds, spent = math.inf, math.inf
    for _ in range(3):
        before = time.process_time()
        seconds = min(seconds, simulation.play(evaluate=False).fit_seconds)
        spent = min(spent, time.process_time() - before)
    return {
        "interactions": len(data),
        "made_and_split": ready,
        "seconds": seconds,
        "nanoseconds_per_interaction": 1e9 * seconds / len(data),
        "cpu_nanoseconds_per_interaction": 1e9 * spent / len(data),
        "peak_mb": peak_memory_mb() or 0.0,
    }


def main(
    method: str = "pfedrec",
    largest: Annotated[int, typer.Option(help="Largest number of clients.")] = 1_000_000,
    child: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    if child:
        users, items = map(int, child.split(","))
        print(json.dumps(one(users, items, method)))
        return
    table = Table(title=f"{method}, one round, 2 threads, {PER_CLIENT} interactions per client")
    for heading in (
        "clients",
        "items",
        "interactions",
        "s/round",
        "clients/s",
        "ns/interaction",
        "CPU ns",
        "× smallest",
        "peak MB",
    ):
        table.add_column(heading, justify="right")
    first = None
    for users, items in (size for size in SIZES if size[0] <= largest):
        command = [sys.executable, __file__, "--method", method, "--child", f"{users},{items}"]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        print(f"{users:,} × {items:,}: {answer.strip()}", file=sys.stderr)  # the next may take long
        found = json.loads(answer)
        first = first or found["cpu_nanoseconds_per_interaction"]  # others on the machine change it less
        table.add_row(
            f"{users:,}",
            f"{items:,}",
            f"{found['interactions']:,}",
            f"{found['seconds']:.3f}",
            f"{users / found['seconds']:,.0f}",
            f"{found['nanoseconds_per_interaction']:.0f}",
            f"{found['cpu_nanoseconds_per_interaction']:.0f}",
            f"{found['cpu_nanoseconds_per_interaction'] / first:.2f}",
            f"{found['peak_mb']:,.0f}",
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    typer.run(main)
