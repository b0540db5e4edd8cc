"""The rows of a comparison: means, spreads, paired differences, costs, and the controls under the line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedrec.study.case import Line
from fedrec.study.paired import Paired, holm, paired, paired_over_seeds
from fedrec.study.published import Published, published

CERTAIN = 0.05  # corrected p-values below it are marked
FIGURES = ("hr@10", "ndcg@10", "full hr@10", "full ndcg@10")


@dataclass(frozen=True)
class Figure:
    """A mean over seeds, as a fraction, and its standard deviation where there are several."""

    mean: float
    std: float | None = None


@dataclass(frozen=True)
class Difference:
    """To a baseline, in NDCG@10."""

    mean: float
    p: float  # corrected
    over_seeds: bool  # the test was over seeds, not over users
    tested: bool = True

    @property
    def certain(self) -> bool:
        return self.p < CERTAIN


@dataclass(frozen=True)
class Row:
    """A line of a table."""

    name: str
    figures: dict[str, Figure]
    control: bool = False
    differences: dict[str, Difference] = field(default_factory=dict)  # by baseline
    published: Published | None = None
    rounds: str = "-"
    seconds: float | None = None
    up: float | None = None  # bytes per client and round
    down: float | None = None
    nearly: tuple[float, float | None] | None = (
        None  # rounds and bytes of a client to 99% of its best validation
    )
    seeds: int = 0
    best: frozenset[str] = field(default_factory=frozenset)  # the figures in which it is the best


@dataclass(frozen=True)
class Section:
    """All lines on one data set under one protocol."""

    data: str
    protocol: str
    rows: list[Row]  # the best first, controls last
    lines: list[Line]
    asked: Sequence[str] = ()  # baselines

    @property
    def baselines(self) -> list[str]:
        """Those that something is tested against."""
        return [name for name in self.asked if any(name in row.differences for row in self.rows)]

    @property
    def result(self) -> dict[str, Any] | None:
        """One of the results: all of a section have its users, items, controls and versions."""
        return next((line.results[0] for line in self.lines if line.results), None)

    @property
    def leaks(self) -> bool:
        return any(result["leaks"] for line in self.lines for result in line.results)

    @property
    def counter(self) -> dict[str, Any]:
        """The negative counter of the run that it says most of: it counts a run's negatives, so runs differ."""
        found = [result["controls"]["counter"] for line in self.lines for result in line.results]
        return max(found, key=lambda counter: counter["auc"] or 0)

    @property
    def sources(self) -> list[str]:
        return sorted({row.published.source for row in self.rows if row.published})

    @property
    def notes(self) -> list[str]:
        """What must be known of single lines."""
        found = _together((line.case.name, line.note) for line in self.lines)
        found += [
            f"{line.case.name}, seed {result['seed']}: {result['stopped'].rstrip('.')}."
            for line in self.lines
            for result in line.results
            if result["stopped"]
        ]
        for line in self.lines:
            stated = [(result.get("privacy") or {}) for result in line.results]
            found += [
                f"{line.case.name}: {one['line']}." for one in stated[:1] if one.get("epsilon") is not None
            ]
        return found + _together((line.case.name, line.failed.rstrip(".")) for line in self.lines)


def _together(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """What is said of several is said once."""
    said: dict[str, list[str]] = {}
    for name, words in pairs:
        if words:
            said.setdefault(words, []).append(name)
    return [f"{', '.join(names)}: {words}." for words, names in said.items()]


def sections(lines: Sequence[Line], baselines: Sequence[str]) -> list[Section]:
    """A section for each protocol and data set, in the order of the lines."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line.case.data_name, line.case.protocol_name), []).append(line)
    return [
        Section(data, protocol, _rows(group, baselines), group, baselines)
        for (data, protocol), group in groups.items()
    ]


def _rows(lines: Sequence[Line], baselines: Sequence[str]) -> list[Row]:
    done = [line for line in lines if line.results]
    tested = {name: _differences(done, name) for name in baselines}
    rows = [
        _row(line, {name: found[line.case.name] for name, found in tested.items() if line.case.name in found})
        for line in done
    ]
    rows.sort(key=lambda row: (row.control, -row.figures["ndcg@10"].mean))
    rows = _with_best(rows)
    return rows + _controls(done, {row.name for row in rows}) if done else []


def _differences(lines: Sequence[Line], baseline: str) -> dict[str, Difference]:
    """Each line's difference to the baseline over the seeds that both have, paired over users where they are known."""
    base = next((line for line in lines if line.case.name == baseline), None)
    if base is None:
        return {}
    tests: dict[str, Paired] = {}
    for line in lines:
        common = [seed for seed in line.seeds if seed in base.seeds]
        if line is not base and common:
            a, b = line.at(common), base.at(common)
            tests[line.case.name] = paired(a, b) if a.has_ranks and b.has_ranks else paired_over_seeds(a, b)
    corrected = iter(holm([test.p for test in tests.values() if test.tested]))
    return {
        name: Difference(
            test.difference, next(corrected) if test.tested else 1.0, test.seeds > 0, test.tested
        )
        for name, test in tests.items()
    }


def _row(line: Line, differences: dict[str, Difference]) -> Row:
    figures = {}
    for name in FIGURES:
        metric, full = name.removeprefix("full "), name.startswith("full ")
        figures[name] = Figure(line.mean(metric, full), line.std(metric, full))
    # Figures of a paper stand beside the paper's settings only, not beside variants.
    plain = not line.case.label and not line.case.settings
    return Row(
        name=line.case.name,
        figures=figures,
        control=line.case.local,
        differences=differences,
        published=published(line.case.method, line.case.data_name, line.case.protocol_name)
        if plain
        else None,
        rounds=_rounds(line),
        seconds=line.seconds,
        up=line.average("bytes_up_per_client"),
        down=line.average("bytes_down_per_client"),
        nearly=line.nearly,
        seeds=len(line.results),
    )


def _with_best(rows: Sequence[Row]) -> list[Row]:
    """Which of the rows that are no controls is the best, figure by figure."""
    ranked = [row for row in rows if not row.control]
    top = {name: max((row.figures[name].mean for row in ranked), default=math.nan) for name in FIGURES}
    if len(ranked) < 2:
        return list(rows)
    return [
        replace(row, best=frozenset(n for n in FIGURES if not row.control and row.figures[n].mean == top[n]))
        for row in rows
    ]


def _controls(lines: Sequence[Line], named: set[str]) -> list[Row]:
    """Popularity over the seeds of the longest line, and the negative counter of the line that leaks most."""
    longest = max(lines, key=lambda line: len(line.results))
    leakiest = max(lines, key=_counted)
    found = []
    for control, name, line in (
        ("popularity", "popularity", longest),
        ("counter", "negative counter", leakiest),
    ):
        if name in named:
            continue
        figures = {}
        for metric in ("hr@10", "ndcg@10"):
            values = [result["controls"][control].get(metric) for result in line.results]
            if None not in values:
                std = float(np.std(values, ddof=1)) if len(values) > 1 else None
                figures[metric] = Figure(float(np.mean(values)), std)
        found.append(Row(name, figures, control=True, seeds=len(line.results)))
    return found


def _counted(line: Line) -> float:
    """How well counting a line's training negatives finds the test item: the AUC, over seeds."""
    return float(np.mean([result["controls"]["counter"]["auc"] or 0 for result in line.results]))


def _rounds(line: Line) -> str:
    """The selected round, or the range of it over seeds."""
    chosen = [result["selected_round"] for result in line.results]
    if None in chosen:
        return "-"
    return f"{min(chosen)}-{max(chosen)}" if min(chosen) < max(chosen) else str(chosen[0])
