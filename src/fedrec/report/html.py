"""Pieces of the page: tables that sort, figures with their numbers. Everything from outside is escaped."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape as e
from typing import Any

from fedrec.figures.theme import DASHES, LIGHT, altair
from fedrec.report.drawn import Figure, Panel


@dataclass(frozen=True)
class Cell:
    """What is shown, and by what it sorts."""

    text: str
    value: float | str | None = None
    strong: bool = False
    code: bool = False


def table(
    caption: str,
    heads: Sequence[tuple[str, str]],
    rows: Sequence[Sequence[Cell]],
    foot: Sequence[Sequence[Cell]] = (),
) -> str:
    """``heads``: names and what they mean. Lines of ``foot`` stay below however the others are sorted."""
    head = "".join(
        f'<th scope="col" aria-sort="none"><button type="button" title="{e(about)}">{e(name)}</button></th>'
        for name, about in heads
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{e(caption)}"><table class="sorts">'
        f"<caption>{e(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(map(_row, rows))}</tbody>"
        + (f"<tfoot>{''.join(map(_row, foot))}</tfoot>" if foot else "")
        + "</table></div>"
    )


def _row(cells: Sequence[Cell]) -> str:
    first, *others = cells
    tail = "".join(f"<td{_value(cell)}>{_text(cell)}</td>" for cell in others)
    return f'<tr><th scope="row"{_value(first)}>{_text(first)}</th>{tail}</tr>'


def _value(cell: Cell) -> str:
    kind = ' class="n"' if isinstance(cell.value, float) else ""
    return kind + ("" if cell.value is None else f' data-value="{e(str(cell.value))}"')


def _text(cell: Cell) -> str:
    text = f"<code>{e(cell.text)}</code>" if cell.code else e(cell.text)
    return f"<strong>{text}</strong>" if cell.strong else text


@dataclass
class Store:
    """Tables that charts share, each in the page once; columns, because names would be repeated in every row."""

    tables: dict[str, Any] = field(default_factory=dict)

    def put(self, rows: Sequence[dict[str, Any]]) -> str:
        text = json.dumps(rows, separators=(",", ":"), sort_keys=True)
        name = "d" + hashlib.sha256(text.encode()).hexdigest()[:12]
        names = list(dict.fromkeys(key for row in rows for key in row))
        self.tables[name] = {key: [row.get(key) for row in rows] for key in names}
        return name

    def spec(self, chart: Any) -> dict[str, Any]:
        """A chart as Vega-Lite that names its table instead of holding it."""
        alt = altair()
        with alt.data_transformers.enable("default", max_rows=None):
            spec: dict[str, Any] = chart.to_dict()
        spec.pop("$schema", None)
        spec.pop("config", None)
        held = {name: self.put(rows) for name, rows in spec.pop("datasets", {}).items()}

        def renamed(part: Any) -> Any:
            if isinstance(part, dict):
                if part.get("name") in held:
                    return {**part, "name": held[part["name"]]}
                if isinstance(part.get("values"), list) and part["values"]:
                    return {"name": self.put(part["values"])}
                return {k: renamed(v) for k, v in part.items()}
            return [renamed(v) for v in part] if isinstance(part, list) else part

        found: dict[str, Any] = renamed(spec)
        return found


def figure(one: Figure, prefix: str, store: Store) -> str:
    """A figure with caption, legend, downloads and its numbers."""
    key = f"{prefix}-{one.key}"
    numbers = store.put(one.numbers.to_dicts())
    choices = list(dict.fromkeys(panel.choice for panel in one.panels if panel.choice))
    panels = "".join(_panel(panel, key, one, store, choices) for panel in one.panels)
    finding = f"<p class='finding'>{e(one.finding)}</p>" if one.finding else ""
    return (
        f'<figure id="{key}">'
        f'<h3 id="{key}-title">{e(one.title)}</h3>'
        + (_choices(key, choices) if len(choices) > 1 else "")
        + (_legend(one) if one.legend else "")
        + f'<div class="{"panels pairs" if one.pairs else "panels"}">{panels}</div>'
        f"<figcaption>{e(one.caption)}{finding}</figcaption>"
        f'<div class="tools"><button type="button" data-save="csv" data-table="{numbers}" data-name="{key}">'
        f'Numbers as CSV<span class="unseen">: {e(one.title)}</span></button>'
        f'<details data-table="{numbers}"><summary>Numbers as a table<span class="unseen">: {e(one.title)}</span>'
        "</summary></details></div></figure>"
    )


def _choices(key: str, choices: Sequence[str]) -> str:
    buttons = "".join(
        f'<label><input type="radio" name="{key}-choice" value="{e(c)}"{" checked" if i == 0 else ""}> {e(c)}</label>'
        for i, c in enumerate(choices)
    )
    return f'<fieldset class="choices"><legend>Against</legend>{buttons}</fieldset>'


def _legend(one: Figure) -> str:
    """Lines as they are drawn: the colours are the page's, the same in all figures of a group."""
    at = {method: i for i, method in enumerate(one.order or one.legend)}
    entries = "".join(
        f'<li><svg viewBox="0 0 28 10" width="28" height="10" aria-hidden="true"><line x1="1" y1="5" x2="27" y2="5" '
        f'class="c{at[method] % len(LIGHT)}" stroke-dasharray="{_dash(at[method])}"/></svg>{e(method)}</li>'
        for method in one.legend
    )
    return f'<ul class="legend" aria-label="Methods">{entries}</ul>'


def _dash(at: int) -> str:
    return " ".join(map(str, DASHES[(at // len(LIGHT)) % len(DASHES)]))


def _panel(panel: Panel, key: str, one: Figure, store: Store, choices: Sequence[str]) -> str:
    spec = json.dumps(store.spec(panel.chart), separators=(",", ":")).replace("<", "\\u003c")
    name = f"{key}-{slug(panel.key)}"
    title = f"<h4>{e(panel.title)}</h4>" if panel.title else ""
    hidden = " hidden" if panel.choice and panel.choice != choices[0] else ""
    legend = "page" if one.legend and not panel.own_legend else "chart"
    what = e(panel.title or panel.alt.partition(".")[0])
    tools = "".join(
        f'<button type="button" data-save="{kind}" data-name="{name}">{kind.upper()}'
        f'<span class="unseen"> of {what}</span></button>'
        for kind in ("svg", "png")
    )
    return (
        f'<div class="panel" data-choice="{e(panel.choice)}" data-legend="{legend}"{hidden}>{title}'
        f'<div class="chart" role="img" aria-label="{e(panel.alt)}"></div>'
        f'<script type="application/json" class="spec">{spec}</script><div class="tools">{tools}</div></div>'
    )


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
