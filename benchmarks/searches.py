"""Searches for honest presets: every method with the same number of trials, on validation of ML-100K.

Each begins with its paper's settings and is told nothing else (but for FedRAP, see below). What was tried is in
benchmarks/searches, a ledger for each method: stop it at any time, and go on anywhere.

python benchmarks/searches.py                   # everything that is missing (hours)
python benchmarks/searches.py fedmf pfedrec     # these
python benchmarks/searches.py --check ml-1m     # what was found, beside the paper's settings on other data
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
    "fedae": {"rounds": 60}, "feddae": {"rounds": 60}, "gpfedrec": {"rounds": 60},
}  # fmt: skip


def said(tuned: Tuned, words: str) -> None:
    print(f"{tuned.config.method}, {tuned.ended} of {tuned.wanted}: {words}", flush=True)


def options_of(method: str) -> dict[str, Any]:
    rarely = 1 if SEARCHES[method].get("rounds", 100) < 60 else 5
    return {"eval_every": rarely, "preset": "paper", **SEARCHES[method]}


def search(method: str, threads: int | None) -> None:
    tune(
        method, "ml-100k", "strict", TRIALS, threads=threads, heard=said,
        ledger=FOLDER / f"{method}.jsonl", out=Path("runs") / "searches" / method, **options_of(method),
    )  # fmt: skip


def check(method: str, data: str, threads: int | None) -> None:
    """The best settings beside those the search began with, on validation of other data: two trials, nothing else."""
    if (best := best_of(trials_of(method))) is None:
        return
    tune(
        method, data, "strict", 2, threads=threads, heard=said, first=[best["settings"]],
        ledger=FOLDER / f"{method}@{data}.jsonl", out=Path("runs") / "searches" / f"{method}@{data}",
        **options_of(method),
    )  # fmt: skip


def trials_of(name: str) -> list[dict[str, Any]]:
    path = FOLDER / f"{name}.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[1:]]


def best_of(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    return max(
        (row for row in rows if row["state"] == "COMPLETE"), key=lambda row: row["value"], default=None
    )


def show() -> None:
    """Per method: trials made, the paper's settings and the best ones, by validation NDCG@10 in percent."""
    checked = sorted({path.stem.split("@")[1] for path in FOLDER.glob("*@*.jsonl")})
    print(
        "| method | trials | stopped early | paper's settings | best |",
        *(f"on {name} |" for name in checked),
        "its settings |",
    )
    print("| --- | ---: | ---: | ---: | ---: |", *("---: |" for _ in checked), "--- |")
    for method in SEARCHES:
        rows = trials_of(method)
        if (best := best_of(rows)) is None:
            continue
        stopped = sum(row["state"] == "PRUNED" for row in rows)
        found = ", ".join(f"{name.partition('.')[2]} {value}" for name, value in best["settings"].items())
        both = [rows[0]["settings"], best["settings"]]  # an older best would be another's figure
        checks = (
            [row for row in trials_of(f"{method}@{name}") if row["settings"] in both] for name in checked
        )
        others = (" → ".join(map(_percent, check)) or "-" for check in checks)
        print(
            f"| `{method}` | {len(rows)} | {stopped} | {_percent(rows[0])} | {_percent(best)} |",
            *(f"{each} |" for each in others),
            f"{found} |",
        )


def _percent(row: dict[str, Any]) -> str:
    return f"{100 * row['value']:.2f}" if row["state"] == "COMPLETE" else row["state"].lower()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "methods", nargs="*", metavar="METHOD", help=f"of {', '.join(SEARCHES)}; default: all"
    )
    parser.add_argument("--threads", type=int)
    parser.add_argument("--check", metavar="DATA")
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
        if asked.check:
            check(method, asked.check, asked.threads)
        else:
            search(method, asked.threads)


if __name__ == "__main__":
    main()
