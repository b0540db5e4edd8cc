"""Searches for honest presets: every method with the same number of trials, on validation of ML-100K.

Each begins with its paper's settings (FedRAP with its preset) and is told nothing else. What was tried is in
benchmarks/searches, a ledger for each method: stop it at any time, and go on anywhere.

python benchmarks/searches.py                   # everything that is missing (hours)
python benchmarks/searches.py fedmf pfedrec     # these
python benchmarks/searches.py --check ml-1m     # what was found, beside the paper's settings on other data
python benchmarks/searches.py --show            # nothing is run: a table of what was found, and where it holds
python benchmarks/searches.py --show --page docs/presets.md
python benchmarks/searches.py --compare --ledger docs/ledger.jsonl --page docs/presets.md   # what was found, on test
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from fedrec.core.errors import FedrecError
from fedrec.core.pages import check_page, put
from fedrec.methods import full_names, make, settings_of
from fedrec.runs.presets import preset
from fedrec.study.board import Board
from fedrec.study.case import Case
from fedrec.study.compare import compare_cases
from fedrec.study.ledger import Ledger
from fedrec.study.tune import Tuned, tune

TRIALS, HOME = 60, "ml-100k"
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
# What is a method's own among its settings is looked at alone as well: rates may not carry over where the idea does.
# FedRecon's preset is not from its search, but has this one setting in common with what was found.
ALONE = {"pfedrec": ["mild"], "fedrecon": ["weighting"]}
DATA = ("ml-100k", "ml-1m", "lastfm-2k", "amazon-video", "filmtrust", "movietweetings-100k")


def said(tuned: Tuned, words: str) -> None:
    print(f"{tuned.config.method}, {tuned.ended} of {tuned.wanted}: {words}", flush=True)


def options_of(method: str) -> dict[str, Any]:
    rarely = 1 if SEARCHES[method].get("rounds", 100) < 60 else 5
    return {"eval_every": rarely, "preset": "paper", **SEARCHES[method]}


def search(method: str, threads: int | None) -> None:
    tune(
        method, HOME, "strict", TRIALS, threads=threads, heard=said,
        ledger=FOLDER / f"{method}.jsonl", out=Path("runs") / "searches" / method, **options_of(method),
    )  # fmt: skip


def check(method: str, data: str, threads: int | None) -> None:
    """What was found beside the settings the search began with, on validation of other data, and nothing else."""
    looked_at = candidates(method)
    if data == HOME:  # where both have been tried
        looked_at = looked_at[1:]
    if not looked_at:
        return
    begun = trials_of(method)[0]["settings"]
    tried = [row["settings"] for row in trials_of(f"{method}@{data}")]
    new = [found for found in looked_at if {**begun, **found} not in tried]
    wanted = max(1, len(tried)) + len(new)  # the first trial of all is of what the search began with
    tune(
        method, data, "strict", wanted, threads=threads, heard=said, first=looked_at,
        ledger=FOLDER / f"{method}@{data}.jsonl", out=Path("runs") / "searches" / f"{method}@{data}",
        **options_of(method),
    )  # fmt: skip


def candidates(method: str) -> list[dict[str, Any]]:
    """What the search found, and where a method has something of its own, that alone."""
    if (best := best_of(trials_of(method))) is None:
        return []
    own = full_names(method, dict.fromkeys(ALONE.get(method, ())))
    alone = {name: value for name, value in best["settings"].items() if name in own}
    return [best["settings"], alone] if alone else [best["settings"]]


def trials_of(name: str) -> list[dict[str, Any]]:
    path = FOLDER / f"{name}.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[1:]]


def best_of(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    return max(
        (row for row in rows if row["state"] == "COMPLETE"), key=lambda row: row["value"], default=None
    )


def table(methods: list[str]) -> str:
    """Validation NDCG@10 in percent: the settings a search began with → those found, at home and elsewhere."""
    lines = [
        f"| method | {' | '.join(DATA)} | mean gain | elsewhere | preset | settings found |",
        f"| --- |{' ---: |' * (len(DATA) + 2)} --- | --- |",
    ]
    for method in methods:
        lines += [_row(method, found) for found in candidates(method)]
    return "\n".join(lines)


def _row(method: str, found: dict[str, Any]) -> str:
    rows = trials_of(method)
    begun = rows[0]["settings"]
    both = [begun, {**begun, **found}]
    figures = [_figures(method, data, both) for data in DATA]
    gains = [None if None in pair else pair[1] - pair[0] for pair in figures]
    cells = [
        f"{_percent(before)} → {_percent(after)}" if after is not None else "-" for before, after in figures
    ]
    means = " | ".join(_mean(each) for each in (gains, gains[1:]))
    alone = "" if len(found) == len(begun) else " alone"
    named = ", ".join(f"`{name.partition('.')[2]}` {value}" for name, value in found.items())
    taken = "yes" if _is_preset(method, both[1]) else "no"
    return f"| `{method}` | {' | '.join(cells)} | {means} | {taken} | {named}{alone} |"


def _mean(gains: list[float | None]) -> str:
    known = [gain for gain in gains if gain is not None]
    return f"{100 * sum(known) / len(known):+.2f}" if known else "-"


def _figures(method: str, data: str, both: list[dict[str, Any]]) -> list[float | None]:
    """On validation, with each of two settings; None where they were not tried to the end."""
    rows = trials_of(f"{method}@{data}") + (trials_of(method) if data == HOME else [])
    told = [
        [row["value"] for row in rows if row["settings"] == each and row["state"] == "COMPLETE"]
        for each in both
    ]
    return [values[0] if values else None for values in told]


def _is_preset(method: str, settings: dict[str, Any]) -> bool:
    honest = settings_of(make(method, preset(method, "honest").settings))
    return all(honest[name] == value for name, value in settings.items())


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}"


def compare(
    methods: list[str], ledger: Path | None, page: Path | None, jobs: int | None, only_finished: bool
) -> None:
    """Each method with what its own trials found, where they were made: on test, five seeds."""
    cases = []
    for method in methods:
        if (found := candidates(method)) == []:
            continue
        options = {
            name: value for name, value in options_of(method).items() if name in ("rounds", "eval_every")
        }
        if options["eval_every"] == 1:
            del options["eval_every"]
        fixed = full_names(method, SEARCHES[method].get("settings", {}))
        cases.append(Case(method, HOME, "strict", {**fixed, **found[0]}, options))
    compared = compare_cases(
        cases, Path("runs") / "searched", baseline="fedmf" if "fedmf" in methods else None, jobs=jobs,
        only_finished=only_finished, ledger=None if ledger is None else Ledger(ledger), changed=_told, tables=False,
    )  # fmt: skip
    if page is None:
        print(compared.to_markdown(None))
    else:
        put(page, "searched", compared.to_markdown(None))


def _told(board: Board, words: str) -> None:
    if words:
        print(f"{board.done} of {len(board.jobs)}: {words}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "methods", nargs="*", metavar="METHOD", help=f"of {', '.join(SEARCHES)}; default: all"
    )
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument(
        "--check", metavar="DATA", choices=DATA, help="what was found on other data: " + ", ".join(DATA)
    )
    ways.add_argument("--show", action="store_true", help="nothing is run: what was found, as a table")
    ways.add_argument("--compare", action="store_true", help="what was found at home, on test, five seeds")
    parser.add_argument("--threads", type=int, help="of a search or check")
    parser.add_argument("--finished", action="store_true", help="with --compare: nothing is run")
    parser.add_argument("--jobs", type=int, help="with --compare: runs at a time")
    parser.add_argument("--ledger", type=Path, help="with --compare: figures of finished runs")
    parser.add_argument("--page", type=Path, help="with --show or --compare: write the table into this page")
    asked = parser.parse_args()
    if unknown := [name for name in asked.methods if name not in SEARCHES]:
        parser.error(f"no search of {unknown[0]}: choose from {', '.join(SEARCHES)}")
    if not asked.compare and (asked.finished or asked.jobs or asked.ledger):
        parser.error("--finished, --jobs and --ledger go with --compare")
    if asked.page and not (asked.compare or asked.show):
        parser.error("--page goes with --show or --compare")
    if asked.threads and (asked.compare or asked.show):
        parser.error("--threads goes with searches and --check")
    try:
        act(asked, asked.methods or list(SEARCHES))
    except FedrecError as error:
        parser.error(str(error))


def act(asked: argparse.Namespace, methods: list[str]) -> None:
    if asked.page is not None:
        check_page(asked.page, "searches" if asked.show else "searched")
    if asked.show and asked.page is not None:
        put(asked.page, "searches", table(methods))
    elif asked.show:
        print(table(methods))
    elif asked.compare:
        compare(methods, asked.ledger, asked.page, asked.jobs, asked.finished)
    else:
        FOLDER.mkdir(exist_ok=True)
        for method in methods:
            if asked.check:
                check(method, asked.check, asked.threads)
            else:
                search(method, asked.threads)


if __name__ == "__main__":
    main()
