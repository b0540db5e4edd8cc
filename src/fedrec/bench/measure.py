"""Clients and samples per second of a method, on each engine that can run it, in one run."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import numpy as np

from fedrec.bench.loop import loop_clients_per_second
from fedrec.bench.roofline import Rates, Work, bound_seconds
from fedrec.core.federated import Federated
from fedrec.core.gradient import GradientMethod
from fedrec.core.kernel import LogLinear
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
    declared = method.kernel(split.catalog)
    if fused and rates is not None and isinstance(declared, LogLinear):
        slots = method.slots(split.catalog)
        dim = slots[declared.items].shape[1]
        places = products = updates = 0.0
        for phase in method.plan(split.catalog, 1):
            seen = samples * phase.epochs * (1.0 if phase.part == "all" else 0.5)
            places += seen
            products += seen * (len(phase.groups) if declared.in_turn else 1)
            updates += seen * len(phase.groups)
        rows = records[-1].bytes_up / (4 * (dim + 1))
        negatives = samples - len(split.train.items)
        bound = bound_seconds(Work(negatives, places, products, updates, rows, dim), rates)
        found["roofline"] = {
            "seconds_per_round": bound,
            "times_the_roofline": found["fused"]["seconds_per_round"] / bound,
            **{f"{name}_per_second": value for name, value in asdict(rates).items()},
        }
    return found


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
