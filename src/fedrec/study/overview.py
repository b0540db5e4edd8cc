"""Several data sets at a glance: every method's NDCG@10 on each, and what it gains over the baseline on average.

An average of gains and not of figures: a method that was measured on some of the data alone is compared with the
baseline there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

from fedrec.study.table import Difference, Row, Section

METRIC = "ndcg@10"


@dataclass(frozen=True)
class Overview:
    """One protocol: a line for each method, a column for each data set."""

    protocol: str
    data: list[str]
    baseline: str | None
    lines: list[Glance]  # the most gained first

    @property
    def leading(self) -> dict[str, float]:
        """The best figure on each data set."""
        return {
            data: max(line.rows[data].figures[METRIC].mean for line in self.lines if data in line.rows)
            for data in self.data
        }


@dataclass(frozen=True)
class Glance:
    """What a method has on each data set."""

    name: str
    rows: dict[str, Row]  # by data set, where it was run
    baseline: str | None

    @property
    def differences(self) -> list[Difference]:
        """To the baseline, where both were run."""
        found = (row.differences.get(self.baseline or "") for row in self.rows.values())
        return [difference for difference in found if difference is not None]

    @property
    def gain(self) -> float | None:
        """Over the baseline, the mean over the data sets that both have."""
        return mean(each.mean for each in self.differences) if self.differences else None

    @property
    def verdicts(self) -> tuple[int, int, int]:
        """On how many data sets it is better, not told apart, and worse."""
        certain = [each.mean for each in self.differences if each.certain]
        better = sum(gain > 0 for gain in certain)
        return better, len(self.differences) - len(certain), len(certain) - better

    @property
    def order(self) -> tuple[float, float]:
        gain = 0.0 if self.name == self.baseline else self.gain
        figures = mean(row.figures[METRIC].mean for row in self.rows.values())
        return (float("-inf") if gain is None else gain), figures


def overviews(sections: Sequence[Section]) -> list[Overview]:
    """One for each protocol under which methods were compared on more than one data set."""
    found = []
    for protocol in dict.fromkeys(section.protocol for section in sections):
        under = [section for section in sections if section.protocol == protocol and section.rows]
        baseline = next((base for section in under for base in section.baselines), None)
        by_name: dict[str, dict[str, Row]] = {}
        for section in under:
            for row in section.rows:
                if not row.control:
                    by_name.setdefault(row.name, {})[section.data] = row
        lines = [Glance(name, rows, baseline) for name, rows in by_name.items()]
        lines.sort(key=lambda line: line.order, reverse=True)
        if len(under) > 1 and len(lines) > 1:
            found.append(Overview(protocol, [section.data for section in under], baseline, lines))
    return found


def at_a_glance(
    overview: Overview, bold: str, name: str = "{}", text: Callable[[str], str] = str, digits: int = 2
) -> list[list[str]]:
    """The heading and a line for each method: percent, the best of each data set in bold."""
    base, leading = overview.baseline, overview.leading
    lines = [["method", *overview.data, *([f"mean − {base}", "better, alike, worse"] if base else [])]]
    for line in overview.lines:
        told = [name.format(text(line.name))]
        for data in overview.data:
            told.append(_figure(line.rows.get(data), leading[data], base, bold, digits))
        if base:
            gain = "-" if line.gain is None else f"{100 * line.gain:+.{digits}f}"
            told += [gain, "-" if line.gain is None else ", ".join(map(str, line.verdicts))]
        lines.append(told)
    return lines


def _figure(row: Row | None, leading: float, baseline: str | None, bold: str, digits: int) -> str:
    if row is None:
        return "-"
    figure = row.figures[METRIC].mean
    told = f"{100 * figure:.{digits}f}"
    difference = row.differences.get(baseline or "")
    star = "*" if difference is not None and difference.certain else ""
    return (bold.format(told) if figure == leading else told) + star


def how_to_read(overview: Overview) -> str:
    said = "NDCG@10 in percent, the mean over seeds; the best on each data set in bold."
    if overview.baseline is None:
        return said
    return (
        f"{said} *mean − {overview.baseline}* averages the differences over the data sets that both have. A * marks a "
        "difference that is not likely to be luck, by the tests of the tables below; the last column counts data sets "
        "on which a method is better by them, not told apart, and worse."
    )
