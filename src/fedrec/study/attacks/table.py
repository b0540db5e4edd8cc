"""The table of attacks: for the terminal, as Markdown, CSV and JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrec.core.files import write as write_text
from fedrec.study.attacks.attack import Attacked
from fedrec.study.attacks.outcome import Outcome
from fedrec.study.formats import pipes

if TYPE_CHECKING:
    from rich.table import Table

HEADINGS = ("attack", "sees", "", "found", "95%", "chance", "TPR at 1% FPR", "ε at least", "ε allowed")


def cells(one: Outcome) -> list[str]:
    def number(value: float | None, form: str = ".2f") -> str:
        return "-" if value is None else f"{value:{form}}"

    return [
        one.attack, one.sees, one.measure, number(one.value, ".3f"), f"{one.low:.2f}–{one.high:.2f}",
        number(one.chance, ".3f"), "-" if one.tpr is None else f"{one.tpr:.1%}", number(one.epsilon),
        number(one.allowed),
    ]  # fmt: skip


def verdict(found: Attacked) -> str:
    """One sentence on ε."""
    worst, stated = found.worst, found.privacy.get("epsilon")
    if found.exceeded:
        one = found.exceeded[0]
        return (
            f"EXCEEDED: attack '{one.attack}' shows an epsilon of at least {one.epsilon:.2f} with 95% confidence, and "
            f"the accountant allows {one.allowed:.2f} between what it tells apart: the guarantee does not hold"
        )
    if stated is None:
        most = (
            ""
            if worst is None or not worst.epsilon
            else f"; it would have to be at least {worst.epsilon:.2f}"
        )
        return f"No epsilon is stated{most}."
    least = 0.0 if worst is None else worst.epsilon or 0.0
    return f"Empirical ε ≥ {least:.2f} (95%), stated ε = {stated:.3g}: no attack exceeds what the accountant allows."


def about(found: Attacked) -> str:
    channel = ", ".join(re.sub(r"(\d+\.\d{4})\d+", r"\1", text) for text in found.channel) or "none"
    return (
        f"{found.label} on {found.data}: {found.users:,} users, {found.items:,} items; round {found.rounds}; "
        f"channel: {channel}. {found.privacy['line']}."
    )


def markdown(found: Attacked) -> str:
    lines = [
        f"# Attacks on {found.label}",
        "",
        about(found),
        "",
        *pipes([HEADINGS, *map(cells, found.outcomes)]),
    ]
    lines += ["", verdict(found), ""]
    lines += [f"Not applied: `{name}`, {why}." for name, why in found.left_out.items()]
    return "\n".join(lines) + "\n"


def terminal(found: Attacked) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for place, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if place < 3 else "right", overflow="fold")
    for one in found.outcomes:
        table.add_row(*cells(one), style="bold red" if one.exceeds else "")
    return table


def write(found: Attacked, folder: Path) -> Path:
    """Three files of one name, which says what was attacked; returns it without its ending."""
    import polars as pl

    said = found.privacy.get("epsilon")
    words = [found.label, found.data, *(text.partition("=")[0] for text in found.channel)]
    words += [] if said is None else [f"eps{said:.3g}"]
    stem = folder / re.sub(r"[^A-Za-z0-9._+-]+", "-", "-".join(words))[:120]
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = [
        {"method": found.label, "data": found.data, **one.facts()} for one in found.outcomes
    ]
    numbers = dict.fromkeys(("tpr", "epsilon", "allowed"), pl.Float64)
    frame = pl.DataFrame(rows, infer_schema_length=None, schema_overrides=numbers if rows else None)
    write_text(stem.with_name(stem.name + ".csv"), frame.write_csv())
    write_text(stem.with_name(stem.name + ".md"), markdown(found))
    write_text(stem.with_name(stem.name + ".json"), json.dumps(found.facts(), indent=1) + "\n")
    return stem
