"""Clients and samples per second of a method, on each engine that can run it, in one run."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import numpy as np

from fedrec.bench.loop import loop_clients_per_second
from fedrec.bench.roofline import Rates, Work, bound_seconds, work_of
from fedrec.channel.bytes import uploaded
from fedrec.core.federated import Federated
from fedrec.core.gradient import GradientMethod
from fedrec.core.optim import SGD, DecayingSGD
from fedrec.core.slots import Catalog
from fedrec.data.split import Split
from fedrec.simulate.simulation import Simulation

ROUNDS = {"plain": 5, "fused": 30}


def measure(
    method: Federated, split: Split, threads: int, rates: Rates | None = None, loop_seconds: float = 5.0
) -> dict[str, Any]:
    """One line of the benchmark: the loop, the engines, their ratios, and the bound.

    Without PyTorch the compiled engine alone.
    """
    found: dict[str, Any] = {"method": method.label, "users": split.n_users, "threads": threads}
    everyone = np.arange(split.n_users)
    samples = int(split.clients().samples(everyone).sum())
    found["samples_per_round"] = samples
    torch = has_torch()
    if torch and loop_seconds > 0 and isinstance(method, GradientMethod) and _plain_sgd(method):
        found["loop"] = {"clients_per_second": loop_clients_per_second(method, split, seconds=loop_seconds)}
    fused = Simulation(method, split).clients.engine.name == "fused"
    for engine in (["plain"] if torch or not fused else []) + (["fused"] if fused else []):
        simulation = Simulation(method, split, threads=threads, engine=engine)
        start = time.perf_counter()
        simulation.warm_up()
        ready = time.perf_counter() - start
        records = [simulation.play(evaluate=False) for _ in range(ROUNDS[engine])]
        best = min(record.fit_seconds for record in records)
        found[engine] = {
            "seconds_per_round": best,
            "clients_per_second": split.n_users / best,
            "samples_per_second": samples / best,
            "seconds_to_get_ready": ready,
        }
        if "loop" in found:
            found[engine]["times_the_loop"] = split.n_users / best / found["loop"]["clients_per_second"]
    work = _work(method, split, samples, records[-1].bytes_up) if fused else None
    if work is not None and rates is not None:
        bound = bound_seconds(work, rates)
        found["roofline"] = {
            "seconds_per_round": bound,
            "times_the_roofline": found["fused"]["seconds_per_round"] / bound,
            **{f"{name}_per_second": value for name, value in asdict(rates).items()},
        }
    return found


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


def _plain_sgd(method: GradientMethod) -> bool:
    groups = [g for phase in method.plan(Catalog(1, 1), 1) for g in phase.groups]
    return all(isinstance(group.optimizer, SGD | DecayingSGD) for group in groups)
