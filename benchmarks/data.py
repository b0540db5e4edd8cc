"""How fast data load: ML-1M with its split, and made files of 20 million rows with the memory they need.

Run with: python benchmarks/data.py [ROWS]    (set FEDREC_DATA for ML-1M)
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS = 20_000_000
BLOCK = 1_000_000
FILES = {"ml-10m": ("ratings.dat", "::"), "ml-20m": ("ratings.csv", ",")}  # loaders the made files go through


def load_one(name: str, split_too: bool) -> None:
    """Load in a process of its own, so that the peak of memory is this load's alone."""
    from fedrec.data.load import load

    start = time.perf_counter()
    data = load(name)
    print(f"{data!r}")
    print(f"  load   {time.perf_counter() - start:6.2f} s")
    if split_too:
        from fedrec.core.protocol import STRICT
        from fedrec.data.split import split

        for call in ("first", "again"):  # the first call may compile
            start = time.perf_counter()
            split(data, STRICT, seed=0)
            print(f"  split  {time.perf_counter() - start:6.2f} s ({call})")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  peak   {peak:6,.0f} MB", flush=True)


def make(path: Path, separator: str, rows: int) -> None:
    """About 144 rows per user over 27,000 long-tailed items, written block by block."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(0)
    path.parent.mkdir()
    with path.open("wb") as file:
        if separator == ",":
            file.write(b"userId,movieId,rating,timestamp\n")
        for start in range(0, rows, BLOCK):
            size = min(BLOCK, rows - start)
            block = pl.DataFrame(
                {
                    "user": np.sort(rng.integers(start, start + size, size) // 144),
                    "item": (27_000 * rng.random(size) ** 3).astype(np.int64),
                    "rating": rng.integers(1, 6, size),
                    "time": rng.integers(800_000_000, 1_400_000_000, size),
                }
            )
            text = block.write_csv(include_header=False)
            file.write(text.replace(",", separator).encode())


def child(name: str, *words: str, folder: str | None = None) -> None:
    environment = dict(os.environ) if folder is None else {**os.environ, "FEDREC_DATA": folder}
    subprocess.run([sys.executable, __file__, "load", name, *words], env=environment, check=False)


def main() -> None:
    if sys.argv[1:2] == ["load"]:
        load_one(sys.argv[2], "split" in sys.argv)
        return
    from fedrec.data.sources.catalog import SOURCES
    from fedrec.data.sources.find import find

    if find(SOURCES["ml-1m"]) is None:
        print("ml-1m: not found, set FEDREC_DATA")
    else:
        child("ml-1m", "split")
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    for name, (file, separator) in FILES.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name / file
            make(path, separator, rows)
            print(f"made {file}, {path.stat().st_size / 1e6:,.0f} MB")
            child(name, folder=folder)


if __name__ == "__main__":
    main()
