"""A comparison as a frame, as Markdown, as LaTeX, as HTML and for the terminal. Files have percent, two digits."""

from __future__ import annotations

import html as markup
from collections.abc import Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from fedrec.core.protocol import Protocol
from fedrec.core.protocol import protocol as named_protocol
from fedrec.study.case import run_seconds
from fedrec.study.overview import at_a_glance, how_to_read, overviews
from fedrec.study.published import Published
from fedrec.study.table import CERTAIN, FIGURES, Difference, Figure, Section

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

HEADINGS = {
    "hr@10": "HR@10",
    "ndcg@10": "NDCG@10",
    "full hr@10": "full HR@10",
    "full ndcg@10": "full NDCG@10",
}
COSTS = ("rounds", "s/run", "kB up", "kB down", "rounds to 99%", "MB to 99%", "seeds")
Cell = Callable[[Figure, bool], str]  # how a format writes a figure, and the best one


def frame(sections: Sequence[Section]) -> pl.DataFrame:
    """One row a line: fractions, seconds and bytes."""
    import polars as pl

    rows = []
    for section in sections:
        for row in section.rows:
            facts: dict[str, Any] = {"data": section.data, "protocol": section.protocol, "method": row.name}
            facts |= {"control": row.control, "seeds": row.seeds}
            for name in FIGURES:
                figure = row.figures.get(name)
                facts |= {name: figure and figure.mean, f"{name} std": figure and figure.std}
            for at, base in enumerate(section.asked or [""]):
                found = row.differences.get(base)
                more = f" to {base}" if at else ""  # the first one's are plain names
                facts |= {f"difference{more}": found and found.mean, f"p{more}": found and found.p}
                facts |= {f"paired_over{more}": found and ("seeds" if found.over_seeds else "users")}
            facts |= {"selected_rounds": row.rounds, "seconds": row.seconds}
            facts |= {"bytes_up_per_client": row.up, "bytes_down_per_client": row.down}
            rounds, size = row.nearly or (None, None)
            facts |= {"rounds_to_99": rounds, "bytes_to_99": size}
            paper = row.published
            facts |= {
                "published hr@10": paper and paper.hr / 100,
                "published ndcg@10": paper and paper.ndcg / 100,
            }
            rows.append(facts)
    numbers = {name: pl.Float64 for name in rows[0] if _is_number(name)} if rows else {}
    return pl.DataFrame(rows, infer_schema_length=None, schema_overrides=numbers)


def _is_number(name: str) -> bool:
    words = ("data", "protocol", "method", "control", "seeds", "selected_rounds")
    return name not in words and not name.startswith("paired_over")


def markdown(sections: Sequence[Section], title: str | None, day: date | None = None) -> str:
    """A page: a table for each data set and protocol, with what must be known to read it."""
    versions: dict[str, str] = next((s.result["versions"] for s in sections if s.result), {})
    made = ", ".join(f"{name} {number}" for name, number in versions.items())
    results = [result for section in sections for line in section.lines for result in line.results]
    took = lasted(sum(run_seconds(result) or 0.0 for result in results))
    text = [] if title is None else [f"# {title}", ""]
    text += [
        f"Made on {day or date.today()} with {made} by `fedrec compare`: {len(results):,} runs, whose rounds took "
        f"{took} in all.",
        "",
        legend(sections),
    ]
    for overview in overviews(sections):
        text += ["", f"## All data, protocol `{overview.protocol}`", "", how_to_read(overview), ""]
        text += pipes(at_a_glance(overview, "**{}**", "`{}`"))
    for section in sections:
        text += ["", f"## {section.data}, protocol `{section.protocol}`", ""]
        if section.result:
            text += [about(section), "", *pipes(_cells(section, _bold_markdown, "`{}`"))]
        text += [part for source in section.sources for part in ("", f"Published: {source}.")]
        text += [part for note in (*variants(section), *section.notes) for part in ("", note)]
    return "\n".join(text) + "\n"


def lasted(seconds: float) -> str:
    """So that a person takes it in."""
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 100 else f"{minutes / 60:,.1f} hours"


def legend(sections: Sequence[Section]) -> str:
    """How the figures are to be read."""
    bases = list(dict.fromkeys(base for section in sections for base in section.baselines))
    said = (
        "Percent: mean ± standard deviation over seeds, of the round selected on validation; the best in bold. "
        "*Full* ranks the whole catalogue instead of sampled items. Seconds are those of a run's rounds, evaluation "
        "included; kB are per client and round, up and down; *to 99%* is what it takes to come within 1% of the best "
        "validation figure: rounds, and MB that a client sends and fetches in all. Controls stand under the line."
    )
    if not bases:
        return said
    columns = " and ".join(f"*− {base}*" for base in bases)
    said = (
        f"{said} {columns}: the difference in NDCG@10, paired over users (and over the seeds that both have); "
        f"* marks p < {CERTAIN} (Wilcoxon's signed-rank test, corrected by Holm within a column)."
    )
    if any(over_seeds(section) for section in sections):
        said += " Where a ledger has figures alone, they are paired over seeds (Student's test)."
    return said


def over_seeds(section: Section) -> bool:
    """Whether a test was over seeds because users are not known."""
    return any(found.over_seeds for row in section.rows for found in row.differences.values())


def about(section: Section) -> str:
    """Whose figures these are, and whether they can be trusted."""
    result = section.result
    assert result is not None
    rule, counter = named_protocol(section.lines[0].case.protocol), section.counter
    verdict = (
        "**this protocol leaks the test item into training**" if counter["leaks"] else "no leak is found"
    )
    area = "-" if counter["auc"] is None else f"{100 * counter['auc']:.1f}"
    return (
        f"{result['users']:,} users, {result['items']:,} items; training negatives from {rule.negatives_from} items; "
        f"{selected(rule)}. The negative counter, without any model, has AUC {area} "
        f"(chance 50): {verdict}."
    )


def selected(rule: Protocol) -> str:
    """By what the reported round was chosen."""
    if rule.select_by == "test":
        return f"**the round is the best of all on test {rule.select_on}**, so the figures are too good"
    return f"selected on validation {rule.select_on}"


def variants(section: Section) -> list[str]:
    """Settings that differ from the defaults."""
    return [
        f"`{line.case.name}` with {', '.join(f'`{name}` {value}' for name, value in line.case.settings.items())}."
        for line in section.lines
        if line.case.settings and line.results
    ]


def latex(sections: Sequence[Section]) -> str:
    """A tabular for each section, for booktabs; and one of all data."""
    text = ["% made by fedrec compare; needs \\usepackage{booktabs}"]
    for overview in overviews(sections):
        text += _tabular(
            f"all data, protocol {overview.protocol}: NDCG@10", at_a_glance(overview, "\\textbf{{{}}}")
        )
    for section in sections:
        if section.rows:
            told = f"{section.data}, protocol {section.protocol}"
            text += _tabular(told, _cells(section, _bold_latex, "{}"), _first_control_at(section))
    return "\n".join(text) + "\n"


def _tabular(comment: str, cells: Sequence[Sequence[str]], ruled: int | None = None) -> list[str]:
    heading, *rows = [" & ".join(map(_escaped, line)) + r" \\" for line in cells]
    if ruled is not None:
        rows.insert(ruled, "\\midrule")
    columns = f"l{'r' * (len(cells[0]) - 1)}"
    top = ["", f"% {comment}", f"\\begin{{tabular}}{{{columns}}}", "\\toprule", heading, "\\midrule"]
    return [*top, *rows, "\\bottomrule", "\\end{tabular}"]


def html(sections: Sequence[Section]) -> str:
    """Tables for a notebook."""
    text = []
    for overview in overviews(sections):
        text.append(f"<h4>All data, protocol {markup.escape(overview.protocol)}: NDCG@10</h4>")
        text.append(_html_table(at_a_glance(overview, "<b>{}</b>", text=markup.escape)))
    for section in sections:
        text.append(f"<h4>{markup.escape(section.data)}, protocol {markup.escape(section.protocol)}</h4>")
        if section.result:
            text.append(f"<p>{markup.escape(about(section).replace('**', ''))}</p>")
        text.append(_html_table(_cells(section, _bold_html, "{}", markup.escape), _first_control_at(section)))
        text += [f"<p>{markup.escape(note)}</p>" for note in section.notes]
    return "\n".join(text)


def _html_table(cells: Sequence[Sequence[str]], ruled: int | None = None) -> str:
    heading, *rows = cells
    text = ["<table><thead><tr>" + "".join(f"<th>{markup.escape(c)}</th>" for c in heading)]
    text.append("</tr></thead><tbody>")
    for at, row in enumerate(rows):
        line = ' style="border-top: 2px solid"' if at == ruled else ""
        text.append(f"<tr{line}>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>")
    return "\n".join([*text, "</tbody></table>"])


def terminal(section: Section) -> Table:
    """Within 80 columns: one digit, bytes up and down together."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    leaks = ", LEAKING" if section.leaks else ""
    table = Table(
        title=f"{section.data}, protocol {section.protocol}{leaks}", title_justify="left", box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0), pad_edge=False,
    )  # fmt: skip
    table.add_column("", overflow="fold")
    for heading in ("HR@10", "NDCG@10", "full\nHR", "full\nNDCG", "−base", "round", "s", "kB"):
        table.add_column(heading, justify="right", no_wrap=True)
    for at, row in enumerate(section.rows):
        if at == _first_control_at(section):
            table.add_section()
        figures = [
            Text(spread(row.figures.get(name), 1, "±"), style="bold" if name in row.best else "")
            for name in FIGURES
        ]
        bytes_ = None if row.up is None and row.down is None else (row.up or 0) + (row.down or 0)
        costs = [row.rounds, _number(row.seconds), _number(None if bytes_ is None else bytes_ / 1e3)]
        first = _difference(row.differences.get(section.asked[0]), 1) if section.asked else "-"
        table.add_row(row.name, *figures, first, *costs, style="dim" if row.control else "")
    return table


# -- cells ---------------------------------------------------------------------------------------


def _cells(section: Section, cell: Cell, name: str, text: Callable[[str], str] = str) -> list[list[str]]:
    """The heading and a line of cells for each row."""
    known = any(row.published for row in section.rows)
    heading = ["method", *HEADINGS.values()]
    heading += [f"− {base}" for base in section.baselines]
    heading += ["published HR@10", "published NDCG@10"] if known else []
    lines = [[*heading, *COSTS]]
    for row in section.rows:
        cells = [name.format(text(row.name)) + (" (control)" if row.control else "")]
        cells += [cell(row.figures.get(figure), figure in row.best) for figure in FIGURES]  # type: ignore[arg-type]
        cells += [_difference(row.differences.get(base), 2) for base in section.baselines]
        found = row.published
        cells += [*printed(found)] if known else []
        kilo = [None if value is None else value / 1e3 for value in (row.up, row.down)]
        rounds, size = row.nearly or (None, None)
        cost = (row.seconds, *kilo, rounds, None if size is None else size / 1e6)
        lines.append([*cells, row.rounds, *map(_number, cost), str(row.seeds)])
    return lines


def pipes(cells: Sequence[Sequence[str]]) -> list[str]:
    heading, *rows = cells
    rule = ["---", *["---:"] * (len(heading) - 1)]
    return [
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |"
        for line in (heading, rule, *rows)
    ]


def _first_control_at(section: Section) -> int | None:
    """Before which row the line is drawn."""
    return next((at for at, row in enumerate(section.rows) if row.control), None) or None


def _bold_markdown(figure: Figure | None, best: bool) -> str:
    text = spread(figure, 2)
    return f"**{text}**" if best else text


def _bold_latex(figure: Figure | None, best: bool) -> str:
    text = spread(figure, 2)
    return f"\\textbf{{{text}}}" if best else text


def _bold_html(figure: Figure | None, best: bool) -> str:
    text = spread(figure, 2)
    return f"<b>{text}</b>" if best else text


def spread(figure: Figure | None, digits: int, between: str = " ± ") -> str:
    if figure is None:
        return "-"
    text = f"{100 * figure.mean:.{digits}f}"
    return text if figure.std is None else f"{text}{between}{100 * figure.std:.{digits}f}"


def _difference(found: Difference | None, digits: int) -> str:
    if found is None:
        return "-"
    return f"{100 * found.mean:+.{digits}f}{'*' if found.certain else ''}"


def printed(found: Published | None) -> tuple[str, str]:
    """HR and NDCG as a paper has them."""
    if found is None:
        return "-", "-"
    pairs = ((found.hr, found.hr_std), (found.ndcg, found.ndcg_std))
    if found.about:
        return f"about {found.hr:.0f}", f"about {found.ndcg:.0f}"
    return tuple(f"{value:.2f}" + ("" if std is None else f" ± {std:.2f}") for value, std in pairs)  # type: ignore[return-value]


def _number(value: float | None) -> str:
    """Three digits that matter."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _escaped(text: str) -> str:
    for letter, code in (
        ("$", r"\$"), ("&", r"\&"), ("%", r"\%"), ("#", r"\#"), ("_", r"\_"), ("^", r"\^{}"), ("~", r"\~{}"),
        ("±", r"$\pm$"), ("−", "$-$"),
    ):  # fmt: skip
        text = text.replace(letter, code)
    return text
