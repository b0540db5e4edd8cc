"""Clients and samples per second of a method, on each engine that can run it, in one run."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import numpy as np

from fedrec.bench import memory
from fedrec.bench.loop import loop_clients_per_second
from fedrec.bench.roofline import Rates, Work, bound_seconds, work_of
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
LONGEST = 10.0  # seconds of rounds of one engine: a slow one plays fewer, at least one


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
        without["loop"] = "its clients do more than steps of SGD on one loss"
    elif torch and loop_seconds > 0:
        found["loop"] = {"clients_per_second": loop_clients_per_second(method, split, seconds=loop_seconds)}
    fused = Simulation(method, split).clients.engine.name == "fused"
    if not fused:
        without["compiled"] = why_plain(method, split)
    for engine in (["plain"] if torch or not fused else []) + (["fused"] if fused else []):
        found[engine], sent = _engine(method, split, threads, engine)
        found[engine]["samples_per_second"] = samples / found[engine]["seconds_per_round"]
        if "loop" in found:
            ratio = found[engine]["clients_per_second"] / found["loop"]["clients_per_second"]
            found[engine]["times_the_loop"] = ratio
    work = _work(method, split, samples, sent) if fused else None
    if work is not None and rates is not None:
        bound = bound_seconds(work, rates)
        found["roofline"] = {
            "seconds_per_round": bound,
            "times_the_roofline": found["fused"]["seconds_per_round"] / bound,
            **{f"{name}_per_second": value for name, value in asdict(rates).items()},
        }
    elif fused and work is None:
        without["bound"] = "the least arithmetic of its kernel is not written down"
    return {**found, "without": without}


def _engine(method: Federated, split: Split, threads: int, engine: str) -> tuple[dict[str, Any], int]:
    """Its fastest round and its memory; how many bytes the last round sent."""
    peak = memory.started()
    start = time.perf_counter()
    simulation = Simulation(method, split, threads=threads, engine=engine)
    simulation.warm_up()
    ready = time.perf_counter() - start
    records = [simulation.play(evaluate=False)]
    while len(records) < ROUNDS[engine] and time.perf_counter() - start - ready < LONGEST:
        records.append(simulation.play(evaluate=False))
    best = min(record.fit_seconds for record in records)
    found = {
        "seconds_per_round": best,
        "clients_per_second": split.n_users / best,
        "seconds_to_get_ready": ready,
        "peak_mb": peak(),
    }
    return found, records[-1].bytes_up


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
    return work_of(method, split.catalog, samples, len(split.train.items), rows)


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
    return plain_sgd and simple and stacks(method)
