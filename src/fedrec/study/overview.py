"""Several data sets at a glance: every method's NDCG@10 on each, and what it gains over the baseline on average.

An average of gains and not of figures, over the data sets that a method and the baseline both have. A gain hangs on the
data, so averages over different data sets do not compare: how many there are stands beside one that lacks some, and
who has less than half of them stands last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING

from fedrec.study.table import Difference, Row, Section

if TYPE_CHECKING:
    from rich.table import Table

METRIC = "ndcg@10"
COLUMNS = 6  # data sets that a terminal has room for


@dataclass(frozen=True)
class Overview:
    """One protocol: a line for each method, a column for each data set."""

    protocol: str
    data: list[str]
    baseline: str | None
    lines: list[Glance]  # who gains most first; without a baseline, by the mean figure

    @property
    def partial(self) -> bool:
        """Whether there are means over some of the data alone."""
        return any(0 < len(line.differences) < len(self.data) for line in self.lines)


@dataclass(frozen=True)
class Glance:
    """What a method has on each data set."""

    name: str
    rows: dict[str, Row]  # by data set, where it was run
    baseline: str | None

    @property
    def differences(self) -> dict[str, Difference]:
        """To the baseline, on the data sets where both were run."""
        base = self.baseline or ""
        return {data: row.differences[base] for data, row in self.rows.items() if base in row.differences}

    @property
    def gain(self) -> float | None:
        """Over the baseline, the mean over the data sets that both have."""
        return mean(each.mean for each in self.differences.values()) if self.differences else None

    @property
    def verdicts(self) -> tuple[int, int, int]:
        """On how many data sets it is better, not told apart, and worse, by tests."""
        tested = [each for each in self.differences.values() if each.tested]
        better, worse = (
            sum(each.certain and (each.mean > 0) is up for each in tested) for up in (True, False)
        )
        return better, len(tested) - better - worse, worse


def overviews(sections: Sequence[Section]) -> list[Overview]:
    """One for each protocol under which methods were compared on more than one data set."""
    found = []
    for protocol in dict.fromkeys(section.protocol for section in sections):
        by_data = {
            section.data: rows
            for section in sections
            if section.protocol == protocol and (rows := [row for row in section.rows if not row.control])
        }
        rows = [row for some in by_data.values() for row in some]
        asked = next(section.asked for section in sections if section.protocol == protocol)
        baseline = next((base for base in asked if any(base in row.differences for row in rows)), None)
        lines = [
            Glance(
                name,
                {data: row for data, some in by_data.items() for row in some if row.name == name},
                baseline,
            )
            for name in dict.fromkeys(row.name for row in rows)
        ]
        lines.sort(key=lambda line: _order(line, len(by_data)), reverse=True)
        if len(by_data) > 1 and len(lines) > 1:
            found.append(Overview(protocol, list(by_data), baseline, lines))
    return found


def _order(line: Glance, data: int) -> tuple[bool, float, float]:
    here = line.rows if line.name == line.baseline or not line.baseline else line.differences
    figure = mean(row.figures[METRIC].mean for row in line.rows.values())
    return 2 * len(here) >= data, line.gain or 0.0, figure


def at_a_glance(
    overview: Overview, bold: str, name: str = "{}", text: Callable[[str], str] = str, digits: int = 2
) -> list[list[str]]:
    """The heading and a line for each method: percent, the best of each data set in bold."""
    base = overview.baseline
    lines = [["method", *overview.data, *([f"mean − {base}", "better, alike, worse"] if base else [])]]
    for line in overview.lines:
        told = [name.format(text(line.name))]
        told += [_figure(line.rows.get(data), base, bold, digits) for data in overview.data]
        if base:
            told += [_gain(line, len(overview.data), digits), ", ".join(map(str, line.verdicts))]
        if base and line.gain is None:
            told[-2:] = ["-", "-"]
        lines.append(told)
    return lines


def _gain(line: Glance, data: int, digits: int) -> str:
    if line.gain is None:
        return "-"
    here = len(line.differences)
    return f"{100 * line.gain:+.{digits}f}" + (f" ({here} of {data})" if here < data else "")


def _figure(row: Row | None, baseline: str | None, bold: str, digits: int) -> str:
    if row is None:
        return "-"
    told = f"{100 * row.figures[METRIC].mean:.{digits}f}"
    difference = row.differences.get(baseline or "")
    star = "*" if difference is not None and difference.certain else ""
    return (bold.format(told) if METRIC in row.best else told) + star


def how_to_read(overview: Overview) -> str:
    said = "NDCG@10 in percent, the mean over seeds; the best on each data set in bold."
    if overview.baseline is None:
        return said
    return (
        f"{said} *mean − {overview.baseline}* averages the differences over the data sets, and the seeds, that both "
        "have; where that is not all data it says how many, and does not compare with other lines. A * marks a "
        "difference that is not likely to be luck, by the tests of the tables below; the last column counts data sets "
        "on which a method is better by them, not told apart, and worse. What has one seed is not tested."
    )


def terminal(overview: Overview) -> Table:
    """Within 80 columns: one digit, no verdicts, and of many data sets the mean alone."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=f"all data, protocol {overview.protocol}: NDCG@10", title_justify="left", box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0), pad_edge=False,
    )  # fmt: skip
    cells = at_a_glance(overview, "<{}>", digits=1)  # <>: in bold
    if overview.baseline:  # a mean over some of the data alone in brackets
        cells = [[*line[:-2], _brief(line[-2])] for line in cells]
        if len(overview.data) > COLUMNS:
            cells = [[line[0], line[-1]] for line in cells]
    heading, *rows = cells
    table.add_column("", overflow="fold", min_width=min(20, max(len(row[0]) for row in rows)))
    for at, name in enumerate(heading[1:]):
        width = 7 if at == len(overview.data) else max(6, 42 // (len(overview.data) + 1))
        table.add_column(name, justify="right", overflow="fold", max_width=width, min_width=5)
    for name, *told in rows:
        bold = ["bold" if cell.startswith("<") else "" for cell in told]
        table.add_row(
            name, *(Text(c.strip("<").replace(">", ""), b) for c, b in zip(told, bold, strict=True))
        )
    return table


def _brief(gain: str) -> str:
    number, _, some = gain.partition(" (")
    return f"({number})" if some else gain
