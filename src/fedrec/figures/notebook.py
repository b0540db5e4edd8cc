"""A result as a small table for a notebook; needs no extra, and reads well on light and dark."""

from __future__ import annotations

from html import escape as e
from typing import Any

from fedrec.figures.tables import leaking, notes, percent


def run_html(result: dict[str, Any]) -> str:
    """One run: figures beside controls, how they came about, and what to know."""
    title = f"{result['method']} on {result['data']}"
    if result["all_data"]:
        return f"<p><b>{e(title)}</b>, seed {result['seed']}: trained on all data, no figures.</p>"
    test, controls = result["test"], result["controls"]
    names = [name for name in test if name.startswith(("hr@", "ndcg@"))] + ["auc"]
    rows = {
        f"test, {result['protocol_settings']['candidates']:,} candidates": test,
        "test, full ranking": test["full"],
        "validation": result["validation"],
        "control: popularity": controls["popularity"],
        "control: negative counter": controls["counter"],
    }
    head = "".join(f'<th scope="col">{e(name.upper())}</th>' for name in names)
    body = "".join(
        f'<tr><th scope="row" style="text-align:left">{e(name)}</th>'
        + "".join(f"<td>{percent(figures.get(k))}</td>" for k in names)
        + "</tr>"
        for name, figures in rows.items()
    )
    leak = " <b>(leaking)</b>" if leaking(result) else ""
    played = "" if result["rounds"] is None else f", round {result['selected_round']} of {result['rounds']}"
    said = "".join(f"<li>{e(note)}</li>" for note in notes(result))
    return (
        f"<div><b>{e(title)}</b>, protocol {e(result['protocol'])}{leak}, seed {result['seed']}{played}"
        f"<table><thead><tr><th>percent</th>{head}</tr></thead><tbody>{body}</tbody></table>"
        + (f"<ul>{said}</ul>" if said else "")
        + "</div>"
    )
