"""How many directions item vectors use, with and without PLGC: the table of docs/methods/plgc.md.

python benchmarks/collapse.py --data ml-100k --protocol paper      # about ten minutes
"""

from __future__ import annotations

import argparse

import fedrec
from fedrec.study.collapse import collapse

CASES: list[tuple[str, dict[str, float]]] = [
    ("fedmf", {}),
    ("fedrap", {}),
    ("fedmf+plgc", {"plgc.redundancy": 0.0}),
    ("fedmf+plgc", {"plgc.redundancy": 0.001}),
    ("fedmf+plgc", {"plgc.redundancy": 0.1}),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", default="ml-100k")
    parser.add_argument("--protocol", default="paper")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--threads", type=int, default=None)
    asked = parser.parse_args()
    print("| | global: rank | strongest | devices' rows: rank | strongest | HR@10 |")
    print("|---|---:|---:|---:|---:|---:|")
    for method, settings in CASES:
        run = fedrec.run(
            method, asked.data, asked.protocol, asked.rounds, asked.seed, settings=settings,
            threads=asked.threads, eval_every=5,
        )  # fmt: skip
        lines = collapse(run).summary()
        cells = [
            f"{figures['effective_rank']:.1f} | {figures['top_share']:.2f}"
            for name, figures in lines.items()
            if not name.endswith("matched")
        ]
        label = " ".join([f"`{method}`", *(f"{k.split('.')[-1]} {v:g}" for k, v in settings.items())])
        print("|", " | ".join([label, *cells, f"{100 * run.test['hr@10']:.1f}"]), "|", flush=True)


if __name__ == "__main__":
    main()
