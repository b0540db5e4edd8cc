"""Clients and samples per CPU second of a method, on each engine that can run it, in one run.

CPU seconds are those of all threads, and the least of several rounds, with the engines in turn: where others use the
machine as well, a clock on the wall says little.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import numpy as np

from fedrec.bench import memory
from fedrec.bench.loop import loop_clients_per_second
from fedrec.bench.roofline import Rates, bound_seconds
from fedrec.bench.work import Round, Work, work_of
from fedrec.channel.bytes import uploaded
from fedrec.clients.stacked import stacks, usual
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.core.gradient import GradientMethod
from fedrec.core.optim import SGD, DecayingSGD
from fedrec.core.slots import Catalog
from fedrec.core.wrapper import chain
from fedrec.data.split import Split
from fedrec.simulate.simulation import Simulation

ROUNDS = {"plain": 5, "fused": 30}
LONGEST = 3.0  # CPU seconds of rounds of one engine: a slow one plays fewer, at least two


def measure(
    method: Federated, split: Split, threads: int, rates: Rates | None = None, loop_seconds: float = 5.0
) -> dict[str, Any]:
    """One line of the benchmark: the loop, the engines, their ratios, the bound, and why what is not there is not.

    Without PyTorch the compiled engine alone.
    """
    found: dict[str, Any] = {"method": method.label, "users": split.n_users, "threads": threads}
    everyone = np.arange(split.n_users)
    samples = int(split.clients().samples(everyone).sum())
    found["samples_per_round"] = samples
    torch, without = has_torch(), {}
    if not isinstance(method, GradientMethod) or not _loops(method):
        without["loop"] = (
            "its clients do more than steps of SGD on one loss, or are given something of their own"
        )
    elif torch and loop_seconds > 0:
        by_hand = loop_clients_per_second(method, split, seconds=loop_seconds)
        found["loop"] = {"clients_per_cpu_second": by_hand}
    fused = Simulation(method, split).clients.engine.name == "fused"
    if not fused:
        without["compiled"] = why_plain(method, split)
    engines = (["plain"] if torch or not fused else []) + (["fused"] if fused else [])
    players = [Player(method, split, threads, engine) for engine in engines]
    for _ in range(max(ROUNDS.values())):
        for player in players:  # in turn: what else the machine does meets them alike
            player.play()
    for player in players:
        pace = found[player.engine] = player.found()
        pace["samples_per_cpu_second"] = samples / pace["cpu_seconds_per_round"]
        if "loop" in found:
            pace["times_the_loop"] = pace["clients_per_cpu_second"] / found["loop"]["clients_per_cpu_second"]
    if len(players) == 2:
        found["fused"]["times_plain"] = (
            found["plain"]["cpu_seconds_per_round"] / found["fused"]["cpu_seconds_per_round"]
        )
    work = _work(method, split, samples, players[-1].bytes_up) if fused else None
    if work is not None and rates is not None:
        bound = bound_seconds(work, rates)
        found["roofline"] = {
            "cpu_seconds_per_round": bound,
            "times_the_roofline": found["fused"]["cpu_seconds_per_round"] / bound,
            **{f"{name}_per_cpu_second": value for name, value in asdict(rates).items()},
        }
    elif fused and work is None:
        without["bound"] = "the least arithmetic of its kernel is not written down"
    return {**found, "without": without}


class Player:
    """An engine that plays rounds of a method; its peak of memory is that of getting ready and two rounds."""

    def __init__(self, method: Federated, split: Split, threads: int, engine: str) -> None:
        self.engine, self.clients = engine, split.n_users
        peak, start = memory.started(), time.perf_counter()
        self.simulation = Simulation(method, split, threads=threads, engine=engine)
        self.simulation.warm_up()
        self.ready, self.spent = time.perf_counter() - start, 0.0
        self.cpu: list[float] = []
        self.wall: list[float] = []
        for _ in range(2):
            self.play()
        self.peak = peak()

    def play(self) -> None:
        """One round more, unless there were enough."""
        if len(self.cpu) >= 2 and (len(self.cpu) >= ROUNDS[self.engine] or self.spent > LONGEST):
            return
        cpu, wall = time.process_time(), time.perf_counter()
        record = self.simulation.play(evaluate=False)
        self.cpu.append(time.process_time() - cpu)
        self.wall.append(time.perf_counter() - wall)
        self.spent += self.cpu[-1]
        self.bytes_up = record.bytes_up

    def found(self) -> dict[str, Any]:
        best = min(self.cpu)
        return {
            "cpu_seconds_per_round": best,
            "clients_per_cpu_second": self.clients / best,
            "seconds_per_round": min(self.wall),
            "seconds_to_get_ready": self.ready,
            "peak_mb": self.peak,
        }


def why_plain(method: Federated, split: Split) -> str:
    """Why the compiled engine does not run it."""
    try:
        Simulation(method, split, engine="fused")
    except FedrecError as error:
        return str(error).partition(": ")[2].partition(";")[0]
    return ""


def _work(method: Federated, split: Split, samples: int, bytes_up: int) -> Work | None:
    """What a round asks for at the least; the rows it touched follow from what was sent."""
    wire = method.uploads(split.catalog).on_wire
    alone = {n: s for n, s in wire.items() if not s.rows}
    rest = bytes_up - uploaded(alone, split.n_users, 0, False)
    rows = rest / max(uploaded(wire, 0, 1, False), 1)
    return work_of(method, split.catalog, Round(split.n_users, samples, len(split.train.items), rows))


def has_torch() -> bool:
    """Whether what runs on PyTorch can be measured at all."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def _loops(method: GradientMethod) -> bool:
    """Whether the yardstick's loop is what its clients do."""
    groups = [g for phase in method.plan(Catalog(1, 1), 1) for g in phase.groups]
    plain_sgd = all(isinstance(group.optimizer, SGD | DecayingSGD) for group in groups)
    simple = all(usual(part, verb) for part in chain(method) for verb in ("receive", "finish"))
    alone = method.service(Catalog(1, 1), 0) is None  # nothing that a server makes for single clients
    return plain_sgd and simple and alone and stacks(method)
