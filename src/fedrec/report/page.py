"""One page that needs nothing else: text, tables, figures and what draws them, in one file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from html import escape as e
from importlib.resources import files
from typing import Any

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.figures.theme import DARK, LIGHT, config
from fedrec.report.drawn import Figure
from fedrec.report.groups import Case, Group
from fedrec.report.html import Cell, Store, figure, slug, table
from fedrec.report.numbers import epsilon_of
from fedrec.report.trust import trust
from fedrec.report.words import p_value, signed, spread, summary

# Nothing is fetched, whatever a title or a note says. Expressions of charts are compiled, which is "eval".
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; img-src data: blob:"


@dataclass
class Part:
    """A group with its figures."""

    group: Group
    figures: list[Figure] = field(default_factory=list)

    @property
    def key(self) -> str:
        return slug(self.group.name)


def page(parts: Sequence[Part], title: str, left_out: Sequence[str] = (), day: date | None = None) -> str:
    """The whole page as text."""
    store = Store()
    body = "".join(_section(part, store, len(parts) > 1) for part in parts)
    entries = [entry for part in parts for entry in part.group.entries]
    head = (
        f"<p class='lead'>{len(entries)} run{'s' if len(entries) > 1 else ''} on "
        f"{e(', '.join(dict.fromkeys(p.group.data for p in parts)))}. Written by fedrec {fedrec.__version__} on "
        f"{day or date.today()}; every sentence and figure comes from the runs.</p>"
    )
    left = "".join(f"<li>{e(sentence)}.</li>" for sentence in left_out)
    theme = {
        "light": config("light"),
        "dark": config("dark"),
        "paper": {**config("light"), "background": "#ffffff"},
    }
    data = {"tables": store.tables, "themes": theme}
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{e(title)}</title><style>{_colours()}{_text('page.css')}</style></head><body>"
        '<a class="skip" href="#main">Skip to the results</a>'
        f"<header><h1>{e(title)}</h1>{head}{_contents(parts)}</header>"
        f'<main id="main" tabindex="-1">{_summary(parts)}{body}{_trust(parts)}'
        + (f"<section><h2>Left out</h2><ul>{left}</ul></section>" if left else "")
        + "<noscript><p>Figures are drawn by the page itself: allow it to run scripts. "
        "It fetches nothing.</p></noscript>"
        "</main><footer><p>fedrec: personalized federated recommendation, honestly measured.</p></footer>"
        f'<script id="data" type="application/json">{_json(data)}</script>'
        f"<script>{_library()}</script><script>{_text('page.js')}</script></body></html>\n"
    )


def _contents(parts: Sequence[Part]) -> str:
    links = ['<li><a href="#summary">Summary</a></li>']
    for part in parts:
        inner = "".join(
            f'<li><a href="#{part.key}-{one.key}">{e(one.title)}</a></li>' for one in part.figures
        )
        links.append(f'<li><a href="#{part.key}">{e(_heading(part, parts))}</a><ul>{inner}</ul></li>')
    links.append('<li><a href="#trust">Can this number be trusted?</a></li>')
    return f'<nav aria-label="Contents"><ul>{"".join(links)}</ul></nav>'


def _heading(part: Part, parts: Sequence[Part]) -> str:
    return f"Results: {part.group.name}" if len(parts) > 1 else "Results"


def _summary(parts: Sequence[Part]) -> str:
    said = ""
    for part in parts:
        heading = f"<h3>{e(part.group.name)}</h3>" if len(parts) > 1 else ""
        first, *others = summary(part.group)
        leaks = any(entry.result["leaks"] for entry in part.group.entries)
        more = "".join(f"<li>{e(sentence)}</li>" for sentence in others)
        kind = "summary leaks" if leaks else "summary"
        said += f"{heading}<div class='{kind}'><p><strong>{e(first)}</strong></p><ul>{more}</ul></div>"
    return f'<section aria-labelledby="summary"><h2 id="summary">Summary</h2>{said}</section>'


def _section(part: Part, store: Store, several: bool) -> str:
    heading = f"Results: {part.group.name}" if several else "Results"
    drawn = "".join(figure(one, part.key, store) for one in part.figures)
    return (
        f'<section aria-labelledby="{part.key}"><h2 id="{part.key}">{e(heading)}</h2>'
        f"{_table(part.group)}{drawn}</section>"
    )


def _trust(parts: Sequence[Part]) -> str:
    inner = "".join(f"<h3>{e(part.group.name)}</h3>{trust(part.group)}" for part in parts)
    return (
        f'<section aria-labelledby="trust"><h2 id="trust">Can this number be trusted?</h2>{inner}</section>'
    )


def _table(group: Group) -> str:
    base = group.baseline.label if group.baseline else None
    private = any(epsilon_of(case.first.result) for case in group.cases)
    several = max(len(case.entries) for case in group.cases) > 1
    spreads = "mean ± standard deviation over seeds" if several else "one seed"
    heads = [
        ("method", "sort by name"),
        ("NDCG@10", f"test, percent, {spreads}"),
        ("HR@10", f"test, percent, {spreads}"),
    ]
    if base:
        heads += [
            (f"− {base}", "difference in NDCG@10, paired over users"),
            ("p", "Wilcoxon, corrected by Holm"),
        ]
    heads += [("ε", "of a whole user's data")] if private else []
    heads += [
        ("full NDCG@10", "ranked among the whole catalogue"),
        ("full HR@10", "ranked among the whole catalogue"),
        ("round", "selected on validation, the mean over seeds"),
        ("seconds", "of training, all rounds, the mean over seeds"),
        ("kB up", "per client and round"),
        ("kB down", "per client and round"),
    ]
    uneven = len({len(case.entries) for case in group.cases}) > 1
    heads += [("seeds", "runs that it is the mean of")] if uneven else []
    best = {
        (name, full): max(group.cases, key=lambda case: case.mean(name, full))
        for name in ("ndcg@10", "hr@10")
        for full in (False, True)
    }

    def value(case: Case, name: str, full: bool = False) -> Cell:
        return Cell(
            spread(case, name, full), case.mean(name, full), best[name, full] is case and len(group.cases) > 1
        )

    rows = []
    for case in group.cases:
        row = [Cell(case.label, case.label), value(case, "ndcg@10"), value(case, "hr@10")]
        if base:
            gap = group.differences.get(case.label)
            row += [
                Cell(signed(gap.mean), gap.mean, gap.certain) if gap else Cell("-"),
                Cell(p_value(gap.p).removeprefix("p = ").removeprefix("p "), gap.p) if gap else Cell("-"),
            ]
        if private:
            stated = epsilon_of(case.first.result)
            row.append(Cell(f"{stated[0]:.4g}", stated[0]) if stated else Cell("no ε", float("inf")))
        row += [value(case, "ndcg@10", True), value(case, "hr@10", True), *_costs(case)]
        row += [Cell(str(len(case.entries)), float(len(case.entries)))] if uneven else []
        rows.append(row)
    width = len(heads)
    caption = f"Test figures in percent: {group.name}"
    note = (
        f"Bold: the highest of a column{', and differences that chance does not explain' if base else ''}. "
        "Select a heading to sort. Controls stand below the line."
    )
    return table(caption, heads, rows, _controls(group, width)) + (
        f'<div class="tools"><button type="button" data-save="table" data-name="{slug(group.name)}">'
        f"Table as CSV</button></div><p class='note'>{e(note)}</p>"
    )


def _costs(case: Case) -> list[Cell]:
    results = [entry.result for entry in case.entries]

    def mean(values: Sequence[Any]) -> float | None:
        return None if any(v is None for v in values) else float(sum(values) / len(values))

    def cell(value: float | None, digits: int = 0) -> Cell:
        return Cell("-") if value is None else Cell(f"{value:,.{digits}f}", value)

    seconds = mean([r["rounds"] and r["rounds"] * r["seconds_per_round"] for r in results])
    up, down = (mean([r[f"bytes_{way}_per_client"] for r in results]) for way in ("up", "down"))
    if case.central:
        up = down = None
    return [
        cell(mean([r["selected_round"] for r in results])),
        cell(seconds, 1),
        *(cell(None if v is None else v / 1e3, 1) for v in (up, down)),
    ]


def _controls(group: Group, width: int) -> list[list[Cell]]:
    popularity, counter = group.result["controls"]["popularity"], group.counter
    figures = [
        [
            Cell("control: popularity"),
            Cell(f"{100 * popularity['ndcg@10']:.2f}"),
            Cell(f"{100 * popularity['hr@10']:.2f}"),
        ],
        [Cell("control: negative counter"), Cell("-"), Cell(f"{100 * counter['hr@10']:.2f}")],
    ]
    return [[*row, *[Cell("")] * (width - len(row))] for row in figures]


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _text(name: str) -> str:
    return files("fedrec.report").joinpath(name).read_text(encoding="utf-8")


def _colours() -> str:
    """Lines of legends, in the colours of the charts."""

    def rules(colours: Sequence[str]) -> str:
        return "".join(f".c{i}{{stroke:{colour}}}" for i, colour in enumerate(colours))

    return f"{rules(LIGHT)}@media (prefers-color-scheme:dark){{{rules(DARK)}}}"


def _library() -> str:
    """Vega-Lite and what draws it, as one script."""
    try:
        import vl_convert
    except ImportError:
        raise FedrecError(
            "reports need vl-convert-python, which is not installed: pip install 'fedrec[report]'"
        ) from None
    found: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return found.replace("</script", "<\\/script")
