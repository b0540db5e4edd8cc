"""What FedALS reaches, protocol ``strict``: the tables of docs/fedals.md, printed as they are measured.

    python benchmarks/fedals.py parity sampled accuracy rounds speed fednext --seeds 3

Needs the real data sets (FEDREC_DATA); ``speed`` also ``implicit`` (pip install 'fedrec[bench]').
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedrec
from fedrec.core.scorer import Scorer
from fedrec.data.split import Split
from fedrec.evaluate.exam import Exam
from fedrec.evaluate.metrics import hr, ndcg
from fedrec.evaluate.ranking import rank_full, rank_sampled
from fedrec.methods import make
from fedrec.methods.central.base import CentralAtOnce
from fedrec.methods.central.ease import EASE
from fedrec.methods.central.ials import IALS
from fedrec.methods.central.popularity import Popularity
from fedrec.methods.fedals import FedALS
from fedrec.methods.fednext import FedNext
from fedrec.simulate.simulation import Simulation

THREADS = 2
TURNS = 10  # rounds of ``speed``
IALS_ABOVE = {"alpha": 2, "regularization": 30}  # IALS(alpha=1, lam=30) as ``implicit`` writes it
ALIKE = {"dim": 32, "scale": 0, "popularity": 0}  # exactly the objective of iALS
PARITY = {"ml-100k": ({"alpha": 1, "lam": 10}, 10), "ml-1m": ({"alpha": 4, "lam": 30}, 25)}
# Found on validation of seed 0 among λ 30 … 3000 (EASE), α 1 … 256 and λ/α 3 … 20 (iALS).
YARDSTICKS: dict[str, list[CentralAtOnce]] = {
    "ml-100k": [EASE(lam=300), IALS(dim=64, alpha=4, lam=20)],
    "filmtrust": [EASE(lam=100), IALS(dim=64, alpha=16, lam=80)],
    "movietweetings-100k": [EASE(lam=1000), IALS(dim=64, alpha=64, lam=320)],
    "ml-1m": [EASE(lam=1000), IALS(dim=128, alpha=1, lam=30)],
    "lastfm-2k": [EASE(lam=1000), IALS(dim=64, alpha=4, lam=40)],
    "amazon-video": [EASE(lam=1000), IALS(dim=64, alpha=256, lam=768)],
}


def parts_of(name: str, seed: int) -> Split:
    return fedrec.split(fedrec.load(name), "strict", seed)


def figures(scorer: Scorer, parts: Split, full: bool = True) -> list[float]:
    exam = Exam(parts)
    ranks = [rank_sampled(scorer, exam, "test", THREADS)]
    if full:
        ranks.append(rank_full(scorer, exam, "test", THREADS))
    return [100 * metric(r, 10) for r in ranks for metric in (hr, ndcg)]


def play(method: Any, parts: Split, seed: int, rounds: int, clients: float | None = None) -> Simulation:
    simulation = Simulation(
        method, parts, seed=seed, threads=THREADS, clients_per_round=clients, rounds=rounds
    )
    for _ in range(rounds):
        simulation.play(evaluate=True)
    return simulation


def selected(simulation: Simulation) -> Scorer:
    assert simulation.selected is not None
    return simulation.scorer(simulation.selected.moment)


def line(name: str, runs: list[list[float]], note: str = "") -> None:
    means = " ".join(f"{m:6.1f}±{s:3.1f}" for m, s in zip(np.mean(runs, 0), np.std(runs, 0), strict=True))
    print(f"  {name:<28}{means}  {note}", flush=True)


def parity(seeds: int) -> None:
    print("\nFedALS and centralised iALS, same objective, d=32; test HR NDCG, full HR NDCG")
    for name, (numbers, rounds) in PARITY.items():
        ours, theirs = [], []
        for seed in range(seeds):
            parts = parts_of(name, seed)
            ours.append(
                figures(selected(play(FedALS(**ALIKE, **numbers, recency="off"), parts, seed, rounds)), parts)
            )
            theirs.append(figures(IALS(dim=32, **numbers).fit(parts, seed, THREADS), parts))
        print(f" {name}, {numbers}, {seeds} seeds")
        line(f"fedals, {rounds} rounds", ours)
        line("ials, 15 sweeps", theirs)


def sampled(seeds: int) -> None:
    print("\nFedALS with 10% of the clients per round, 60 rounds, same settings; test HR NDCG, full HR NDCG")
    for name, (numbers, _) in PARITY.items():
        runs = []
        for seed in range(seeds):
            parts = parts_of(name, seed)
            runs.append(
                figures(
                    selected(play(FedALS(**ALIKE, **numbers, recency="off"), parts, seed, 60, 0.1)), parts
                )
            )
        line(name, runs)


def accuracy(seeds: int) -> None:
    print(
        "\nSettings from the data (auto), 15 rounds, against searched yardsticks; test HR NDCG, full HR NDCG"
    )
    for name, yardsticks in YARDSTICKS.items():
        found: dict[str, list[list[float]]] = {}
        for seed in range(seeds):
            parts = parts_of(name, seed)
            for method in [Popularity(), *yardsticks]:
                found.setdefault(method.label, []).append(figures(method.fit(parts, seed, THREADS), parts))
            for dim in (32, 128):
                simulation = play(FedALS(dim=dim, recency="off"), parts, seed, 15)
                found.setdefault(f"fedals d={dim}", []).append(figures(selected(simulation), parts))
        print(f" {name}")
        for label, runs in found.items():
            line(label, runs)


def rounds(seeds: int) -> None:
    print(
        "\nML-100K: rounds and bytes up to 99% of the final validation HR (seed 0), test HR of the selected round"
    )
    parts = parts_of("ml-100k", 0)
    plays = {
        "fedals": ({"dim": 32, "recency": "off"}, 15),
        "fedmf": ({}, 100),
        "pfedrec": ({}, 100),
        "fedrap": ({}, 100),
    }
    for name, (settings, count) in plays.items():
        simulation = Simulation(make(name, settings), parts, threads=THREADS, rounds=count)
        history = [simulation.play(evaluate=True) for _ in range(count)]
        hits = [r.validation["hr@10"] for r in history if r.validation]
        best = simulation.selected.validation["hr@10"] if simulation.selected else max(hits)
        needed = next(i for i, h in enumerate(hits) if h >= 0.99 * best) + 1
        each = history[0].bytes_up / history[0].clients
        print(
            f"  {name:<10}{needed:>5} rounds {each / 1024:>9.0f} KB per client and round "
            f"{needed * each / 1024:>10.0f} KB in all, HR {figures(selected(simulation), parts, False)[0]:.1f}",
            flush=True,
        )


def speed(seeds: int) -> None:
    print(
        f"\nML-1M, 2 threads, {TURNS} rounds: seconds (wall, and CPU of all threads) of the fastest, and "
        "validation NDCG\nafter the last. A FedALS round (all clients and the server, no evaluation) and an "
        "iteration of implicit\ntake turns."
    )
    parts = parts_of("ml-1m", 0)
    solvers: dict[str, dict[str, Any]] = {
        "its defaults, CG (3 steps)": {},
        "CG, α and λ of iALS above": IALS_ABOVE,
        "Cholesky, the same": {**IALS_ABOVE, "use_cg": False},
    }
    for dim in (32, 64, 128):
        for label, settings in solvers.items():
            ours, theirs, figures = _turns(parts, dim, settings)
            ratio = [a / b for a, b in zip(ours, theirs, strict=True)]
            print(
                f"  d={dim:<4} fedals {ours[0]:.3f} {ours[1]:.3f} NDCG {figures[0]:.1f}  implicit {theirs[0]:.3f} "
                f"{theirs[1]:.3f} NDCG {figures[1]:.1f}  ratio {ratio[0]:.2f} {ratio[1]:.2f}  {label}",
                flush=True,
            )


def _turns(parts: Split, dim: int, settings: dict[str, Any]) -> tuple[list[float], list[float], list[float]]:
    """Rounds and iterations one after the other, so that a busy machine is as busy for both."""
    from implicit.cpu.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    from fedrec.core.factors import Factors
    from fedrec.methods.central.itemitem import training_matrix

    simulation = Simulation(
        FedALS(dim=dim - 1, recency="off"), parts, threads=THREADS
    )  # and the popularity column
    simulation.warm_up()
    ours: list[NDArray[np.float64]] = []
    theirs: list[NDArray[np.float64]] = []
    since = [_clocks()]

    def turn(*_: Any) -> None:
        start = _clocks()
        theirs.append(start - since[0])
        simulation.play(evaluate=False)
        since[0] = _clocks()
        ours.append(since[0] - start)

    with threadpool_limits(1):
        model = AlternatingLeastSquares(
            factors=dim, iterations=TURNS, num_threads=THREADS, random_state=0, **settings
        )
        model.fit(training_matrix(parts), show_progress=False, callback=turn)
    exam = Exam(parts)
    scorers = (simulation.scorer(simulation.moment), Factors(model.user_factors, model.item_factors))
    figures = [100 * ndcg(rank_sampled(scorer, exam, "valid", THREADS), 10) for scorer in scorers]
    # The first turn is not counted: it has the preparations of both.
    return np.min(ours[1:], axis=0).tolist(), np.min(theirs[1:], axis=0).tolist(), figures


def fednext(seeds: int) -> None:
    print(
        f"\nML-1M: seconds (wall, and CPU of all threads) of the fastest of {TURNS} rounds, all clients and the "
        "server, no evaluation;\nFedNext and FedALS take turns, with numbers that are given"
    )
    parts = parts_of("ml-1m", 0)
    for dim in (64, 128):
        given: dict[str, Any] = {"dim": dim, "recency": 3}
        methods = (FedALS(**given), FedNext(**given, weight=0.1))
        simulations = [Simulation(method, parts, threads=THREADS) for method in methods]
        taken: list[list[NDArray[np.float64]]] = [[], []]
        for simulation in simulations:
            simulation.warm_up()
        for _ in range(TURNS):
            for simulation, times in zip(simulations, taken, strict=True):
                start = _clocks()
                simulation.play(evaluate=False)
                times.append(_clocks() - start)
        als, own = (np.min(times, axis=0) for times in taken)
        wall, cpu = own / als
        print(
            f"  d={dim:<4} fednext {own[0]:.3f} {own[1]:.3f}  fedals {als[0]:.3f} {als[1]:.3f}  "
            f"ratio {wall:.2f} {cpu:.2f}",
            flush=True,
        )


def _clocks() -> NDArray[np.float64]:
    return np.array([time.perf_counter(), time.process_time()])


TABLES = {
    "parity": parity,
    "sampled": sampled,
    "accuracy": accuracy,
    "rounds": rounds,
    "speed": speed,
    "fednext": fednext,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], default=list(TABLES))
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    for table in asked.tables:
        TABLES[table](asked.seeds)
