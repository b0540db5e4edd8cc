"""Time of full ranking at the scale of ML-1M, with random factors: ``python benchmarks/ranking.py``."""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

from fedrec.core.factors import Factors
from fedrec.core.rng import generator
from fedrec.data.interactions import from_codes
from fedrec.data.split import split
from fedrec.evaluate.exam import Exam
from fedrec.evaluate.ranking import rank_full, rank_sampled, top_k


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=6_040)
    parser.add_argument("--items", type=int, default=3_706)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    asked = parser.parse_args()

    rng = generator(0, "benchmark")
    users = rng.integers(asked.users, size=asked.rows).astype(np.int32)
    items = rng.integers(asked.items, size=asked.rows).astype(np.int32)
    times = np.arange(asked.rows)
    made = from_codes("made", users, items, times, np.arange(asked.users), np.arange(asked.items))
    parts = split(made)
    exam = Exam(parts)
    tables = (rng.normal(size=(n, asked.dim)).astype(np.float32) for n in (parts.n_users, parts.n_items))
    factors = Factors(*tables)

    jobs = {
        "full ranking": lambda: rank_full(factors, exam, "test", asked.threads),
        "sampled ranking": lambda: rank_sampled(factors, exam, "test", asked.threads),
        "top 10": lambda: top_k(factors, parts.trained, 10, threads=asked.threads),
    }
    print(f"{parts.n_users:,} users, {parts.n_items:,} items, d={asked.dim}, {asked.threads} threads")
    for name, job in jobs.items():
        job()  # compiled or loaded from the cache
        start = time.perf_counter()
        job()
        print(f"{name:16} {time.perf_counter() - start:7.3f} s")


if __name__ == "__main__":
    main()
