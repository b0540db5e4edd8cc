"""What ``+recent`` does for each method of the papers, and the table of docs/methods/recent.md from it.

The half-life is chosen for each method on validation, with seed 0 on ML-100K, and kept everywhere else.
What is finished is found again: stop it at any time.

python benchmarks/recent.py                                 # everything (hours)
python benchmarks/recent.py --data ml-100k --only fedmf     # one method on one data set
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from fedrec.core.files import write
from fedrec.study.case import Case, Line
from fedrec.study.compare import compare_cases
from fedrec.study.paired import holm, paired

METHODS = [
    "fedmf",
    "pfedrec",
    "fedrecon",
    "fedncf",
    "fedrap",
    "fedneumf",
    "fedrecgel",
    "fedrecon+dualper",
    "fedncf+dualper",
]
DATA = ("ml-100k", "ml-1m")
GRID = [{"half_life": h, "floor": 0.05} for h in (3.0, 10.0, 30.0)]
CHOSEN_ON = "ml-100k"
CERTAIN = 0.05
BEGIN, END = "<!-- figures: benchmarks/recent.py -->", "<!-- end of figures -->"
FIGURES = [("hr", False), ("ndcg", False), ("hr", True), ("ndcg", True)]


def candidates(method: str) -> list[Case]:
    named = ({f"recent.{name}": value for name, value in settings.items()} for settings in GRID)
    return [
        Case(f"{method}+recent", CHOSEN_ON, settings=settings, label=f"{method}+recent {number}")
        for number, settings in enumerate(named)
    ]


def chosen(lines: Sequence[Line]) -> Case | None:
    """The best on validation, by NDCG, which is steadier than hits; None until all were tried."""
    if len(lines) < len(GRID) or not all(line.results or line.failed for line in lines):
        return None
    done = [line for line in lines if line.results]
    return max(done, key=lambda line: line.results[0]["validation"]["ndcg@10"]).case if done else None


def pair(method: str, case: Case, data: str) -> list[Case]:
    return [Case(method, data), Case(f"{method}+recent", data, settings=case.settings)]


def table(data: str, found: Sequence[tuple[str, Case, Line, Line]]) -> list[str]:
    """A row a method: without → with, each with its test; the seeds are those that both have."""
    rows = []
    for method, case, base, over in found:
        seeds = sorted(set(base.seeds) & set(over.seeds))
        if seeds:
            rows.append((method, case, base.at(seeds), over.at(seeds), len(seeds)))
    heading = ["method", "half-life, floor", "HR@10", "NDCG@10", "full HR@10", "full NDCG@10", "seeds"]
    text = [f"**{data}**", "", "| " + " | ".join(heading) + " |", "|---|---|" + "---:|" * 5]
    tests = [paired(over, base, metric, full) for _, _, base, over, _ in rows for metric, full in FIGURES]
    sure = iter([p < CERTAIN for p in holm([test.p for test in tests])])
    for method, case, base, over, seeds in rows:
        cells = []
        for metric, full in FIGURES:
            a, b = (100 * line.mean(f"{metric}@10", full) for line in (base, over))
            cells.append(f"{a:.1f} → {b:.1f}{'*' if next(sure) else ''}")
        how = f"{case.settings['recent.half_life']:g}, {case.settings['recent.floor']:g}"
        text.append(f"| `{method}` | {how} | " + " | ".join(cells) + f" | {seeds} |")
    return [*text, ""] if rows else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("runs/recent"), help="folder of finished runs")
    parser.add_argument("--page", type=Path, default=Path("docs/methods/recent.md"))
    parser.add_argument("--data", action="append", choices=DATA, help="these data sets only; repeatable")
    parser.add_argument("--only", action="append", choices=METHODS, help="these methods only; repeatable")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=None)
    asked = parser.parse_args()

    def lines(cases: Sequence[Case], seeds: int) -> Sequence[Line]:
        return compare_cases(cases, asked.results, seeds, threads=asked.threads, tables=False).lines

    text: list[str] = []
    for data in asked.data or DATA:
        found = []
        for method in asked.only or METHODS:
            case = chosen(lines(candidates(method), 1))
            if case is not None:
                without, over = lines(pair(method, case, data), asked.seeds)
                found.append((method, case, without, over))
                print("\n".join(table(data, found)), flush=True)
        text += table(data, found)
    before, _, rest = asked.page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    write(asked.page, "\n".join([before + BEGIN, "", *text, END]) + after)


if __name__ == "__main__":
    main()
