"""Searches for honest presets: every method with the same number of trials, on validation of ML-100K.

Each begins with its paper's settings and is told nothing else (but for FedRAP, see below). What was tried is in
benchmarks/searches, a ledger for each method: stop it at any time, and go on anywhere.

python benchmarks/searches.py                   # everything that is missing (hours)
python benchmarks/searches.py fedmf pfedrec     # these
python benchmarks/searches.py --show            # nothing is run: a table of what was found
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from fedrec.study.tune import Tuned, tune

TRIALS = 60
FOLDER = Path(__file__).parent / "searches"
# FedRAP's decays end its training within thirty rounds: like the others it gets rounds of one pass at a steady rate.
# That contradicts its paper's preset; so it begins at its present one, which says what is the same.
STEADY = {"epochs": 1, "batch_size": 256, "round_decay": 1.0, "step_decay": 1.0, "scaled": True}
ONCE = {"eval_every": 1}  # solved at once, without rounds
# By method: what is fixed, and other options. The quick ones first.
SEARCHES: dict[str, dict[str, Any]] = {
    "ease": ONCE, "itemknn": ONCE, "ials": ONCE, "fcf": {}, "fedmf": {}, "pfedrec": {}, "mf": {},
    "fedals": {"rounds": 15}, "fedrecon": {}, "fednext": {"rounds": 15}, "fedmf+plgc": {}, "ncf": {},
    "fedrap": {"settings": STEADY, "preset": None},
    "fedncf": {}, "fedrecon+plgc": {}, "fedrecgel": {"rounds": 200}, "fedpergnn": {}, "fedncf+plgc": {}, "metamf": {},
    "fedae": {"rounds": 60}, "feddae": {"rounds": 60},
}  # fmt: skip


def said(tuned: Tuned, words: str) -> None:
    print(f"{tuned.config.method}, {tuned.ended} of {tuned.wanted}: {words}", flush=True)


def search(method: str, threads: int | None) -> None:
    rarely = 1 if SEARCHES[method].get("rounds", 100) < 60 else 5
    options = {"eval_every": rarely, "preset": "paper", **SEARCHES[method]}
    tune(
        method, "ml-100k", "strict", TRIALS, threads=threads, heard=said,
        ledger=FOLDER / f"{method}.jsonl", out=Path("runs") / "searches" / method, **options,
    )  # fmt: skip


def show() -> None:
    """Per method: trials made, the paper's settings and the best ones, by validation NDCG@10 in percent."""
    print("| method | trials | stopped early | paper's settings | best | its settings |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for method in SEARCHES:
        path = FOLDER / f"{method}.jsonl"
        if not path.exists():
            continue
        _, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        whole = [row for row in rows if row["state"] == "COMPLETE"]
        if not whole:
            continue
        stopped, best = (
            sum(row["state"] == "PRUNED" for row in rows),
            max(whole, key=lambda row: row["value"]),
        )
        first = f"{100 * rows[0]['value']:.2f}" if rows[0]["state"] == "COMPLETE" else "failed"
        found = ", ".join(f"{name.partition('.')[2]} {value}" for name, value in best["settings"].items())
        print(f"| `{method}` | {len(rows)} | {stopped} | {first} | {100 * best['value']:.2f} | {found} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "methods", nargs="*", metavar="METHOD", help=f"of {', '.join(SEARCHES)}; default: all"
    )
    parser.add_argument("--threads", type=int)
    parser.add_argument("--show", action="store_true")
    asked = parser.parse_args()
    unknown = [name for name in asked.methods if name not in SEARCHES]
    if unknown:
        parser.error(f"no search of {unknown[0]}: choose from {', '.join(SEARCHES)}")
    if asked.show:
        show()
        return
    FOLDER.mkdir(exist_ok=True)
    for method in asked.methods or SEARCHES:
        search(method, asked.threads)


if __name__ == "__main__":
    main()
