"""Clients per second of every engine against a per-client PyTorch loop and the machine's bound, in one run.

    python benchmarks/speed.py                     # on the made world
    python benchmarks/speed.py --data ml-100k pfedrec fedncf

The same as `fedrec bench`; kept here so that all benchmarks are found in one place.
"""

import typer

from fedrec.cli.bench import bench

if __name__ == "__main__":
    typer.run(bench)
