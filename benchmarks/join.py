"""Joining: a tenth of the users is held out completely and joins afterwards with 1, 3, 5 or 10 interactions.

    python benchmarks/join.py --data ml-100k --seeds 3

Beside it, the same users when the model is trained again with those interactions of theirs among the
training data. Protocol ``strict``; the shared table is that of the round selected on the validation items
of the users that stay.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedrec
from fedrec.core.ragged import Ragged
from fedrec.data.split import Split
from fedrec.evaluate.exam import Exam
from fedrec.evaluate.metrics import hits
from fedrec.evaluate.ranking import count_sampled
from fedrec.methods import make
from fedrec.serve.join import join
from fedrec.simulate.simulation import Simulation

THREADS = 2
GIVEN = (1, 3, 5, 10)
ROUNDS = {"fedals": 15}
EVERY = 10  # gradient methods are evaluated every so many of their 100 rounds


def only(parts: Split, users: NDArray[np.int64], newest: dict[int, int] | None = None) -> Split:
    """Some users of a split; of those named, only so many of their newest training items."""
    runs = [parts.train.of(u)[-(newest or {}).get(int(u), parts.n_items) :] for u in users]
    indptr = np.concatenate([[0], np.cumsum([len(r) for r in runs])]).astype(np.int64)
    train = Ragged(indptr, np.concatenate(runs))
    valid, test = parts.valid_items.take(users), parts.test_items.take(users)
    return replace(parts, users=parts.users[users], train=train, valid_items=valid, test_items=test)


def trained(name: str, parts: Split, seed: int) -> Simulation:
    rounds = ROUNDS.get(name, 100)
    simulation = Simulation(make(name), parts, seed=seed, threads=THREADS, view="global", rounds=rounds)
    for number in range(1, rounds + 1):
        simulation.play(evaluate=name in ROUNDS or number % EVERY == 0)
    return simulation


def measure(name: str, data: str, seed: int, again: bool) -> dict[str, list[float]]:
    parts = fedrec.split(fedrec.load(data), "strict", seed)
    able = np.flatnonzero(np.diff(parts.train.indptr) >= max(GIVEN))
    out = np.sort(np.random.default_rng(seed).choice(able, parts.n_users // 10, replace=False))
    stay = np.setdiff1d(np.arange(parts.n_users), out)
    simulation = trained(name, only(parts, stay), seed)
    assert simulation.selected is not None
    lines = Exam(parts).lines("test", out)
    popular = np.bincount(simulation.split.trained.items, minlength=parts.n_items).astype(np.float32)
    negatives = parts.protocol.negatives_per_positive
    found: dict[str, list[float]] = {}

    def add(kind: str, scores: Any) -> None:
        found.setdefault(kind, []).append(100 * float(hits(count_sampled(scores, lines), 10).mean()))

    for given in (0, *GIVEN):
        likes = [parts.train.of(u)[len(parts.train.of(u)) - given :].tolist() for u in out]
        state = simulation.selected.moment.server
        new = join(simulation.server, state, likes, popular, negatives)
        add("joined", new.some(np.arange(len(out)), lines))
        if again and given:
            whole = trained(name, only(parts, np.arange(parts.n_users), {int(u): given for u in out}), seed)
            assert whole.selected is not None
            add("trained again", whole.scorer(whole.selected.moment).some(out, lines))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml-100k")
    parser.add_argument("--methods", default="fedals,fedmf,pfedrec,fedrecon")
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    print(f"{asked.data}, test HR@10 of held-out users, {asked.seeds} seeds; columns: interactions given")
    print(f"{'':<26}" + "".join(f"{n:>7}" for n in (0, *GIVEN)))
    for method in asked.methods.split(","):
        runs = [measure(method, asked.data, seed, again=True) for seed in range(asked.seeds)]
        for kind in ("joined", "trained again"):
            row = np.mean([r[kind] for r in runs], axis=0)
            cells = "".join(f"{value:>7.1f}" for value in row)
            print(f"{method + ', ' + kind:<26}" + (" " * 7 if kind != "joined" else "") + cells, flush=True)
