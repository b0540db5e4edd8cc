"""What the order of a history is worth: FedALS with recency and FedNext beside FedALS without, and the table of
docs/recency.md from it. What is finished is found again: stop it at any time.

python benchmarks/recency.py                      # everything (an hour or two)
python benchmarks/recency.py --data ml-100k       # one data set
python benchmarks/recency.py --page-only          # the tables from what is finished
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from fedrec.core.files import write
from fedrec.study.compare import Case, Line, compare, finished, holm, paired

DATA = ("ml-100k", "ml-1m", "amazon-video", "movietweetings-100k", "lastfm-2k")
ROUNDS = {"rounds": 15}
CERTAIN = 0.05
BEGIN, END = "<!-- figures: benchmarks/recency.py -->", "<!-- end of figures -->"
FIGURES = [("hr", False), ("ndcg", False), ("hr", True), ("ndcg", True)]


def cases(data: str, protocol: str) -> list[Case]:
    """The first is what the others are tested against."""
    return [
        Case("fedals", data, protocol, settings={"recency": "off"}, options=ROUNDS),
        Case("fedals", data, protocol, options=ROUNDS),
        Case("fednext", data, protocol, options=ROUNDS),
        Case("ease", data, protocol),
        *([Case("markov", data, protocol)] if protocol == "next" else []),
    ]


def table(data: str, protocol: str, lines: Sequence[Line]) -> list[str]:
    """A row a method; stars for those that differ from the first, each figure's tests corrected by Holm."""
    lines = [line for line in lines if line.results]
    if not lines or lines[0].case.settings.get("recency") != "off":
        return []
    seeds = min(len(line.results) for line in lines)
    base, *others = [line.first(seeds) for line in lines]
    tests = [paired(line, base, metric, full) for metric, full in FIGURES for line in others]
    sure = iter([p < CERTAIN for p in holm([test.p for test in tests])])
    marks = [["*" if next(sure) else "" for _ in others] for _ in FIGURES]
    heading = ["method", "HR@10", "NDCG@10", "full HR@10", "full NDCG@10"]
    text = [
        f"**{data}**, `{protocol}`, {seeds} seeds",
        "",
        "| " + " | ".join(heading) + " |",
        "|---|" + "---:|" * 4,
    ]
    for number, line in enumerate((base, *others)):
        cells = []
        for (metric, full), stars in zip(FIGURES, marks, strict=True):
            mean, std = line.mean(f"{metric}@10", full), line.std(f"{metric}@10", full) or 0
            cells.append(f"{100 * mean:.1f} ± {100 * std:.1f}{stars[number - 1] if number else ''}")
        off = " without recency" if line.case.settings.get("recency") == "off" else ""
        text.append(f"| `{line.case.method}`{off} | " + " | ".join(cells) + " |")
    return [*text, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("runs/recency"), help="folder of finished runs")
    parser.add_argument("--page", type=Path, default=Path("docs/recency.md"))
    parser.add_argument("--data", action="append", choices=DATA, help="these data sets only; repeatable")
    parser.add_argument("--protocol", action="append", choices=("strict", "next"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--page-only", action="store_true", help="train nothing, write the tables")
    asked = parser.parse_args()
    wanted = [(d, p) for p in asked.protocol or ("strict", "next") for d in asked.data or DATA]
    wanted = [(d, p) for d, p in wanted if p == "strict" or d.startswith("ml-")]

    def say(text: str) -> None:
        print(text, flush=True)

    if not asked.page_only:
        for data, protocol in wanted:
            compare(cases(data, protocol), asked.results, asked.seeds, threads=asked.threads, say=say)
    text: list[str] = []
    for protocol in ("strict", "next"):
        for data in DATA:
            text += table(data, protocol, finished(cases(data, protocol), asked.results, asked.seeds))
    if not text:
        parser.error(f"nothing is finished in {asked.results}: {asked.page} stays as it is")
    print("\n".join(text))
    before, _, rest = asked.page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    write(asked.page, "\n".join([before + BEGIN, "", *text, END]) + after)


if __name__ == "__main__":
    main()
