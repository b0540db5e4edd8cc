"""fedrec curve: what privacy costs, as a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedrec.cli.board import display
from fedrec.cli.options import pairs
from fedrec.cli.terminal import console, escape, say, say_json


def curve(
    method: Annotated[str, typer.Argument(help="Such as fedals or fedmf.")] = "fedals",
    data: Annotated[list[str] | None, typer.Option(help="Name, name:MINIMUM or file; repeatable.")] = None,
    epsilon: Annotated[str, typer.Option(help="Every ε to draw, with commas between.")] = "1,2,5,10,20",
    users: Annotated[
        str, typer.Option(help="How many users, drawn at random, with commas between, such as 1000,all.")
    ] = "all",
    protocol: Annotated[str, typer.Option(help="strict, next, temporal or paper.")] = "strict",
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0 on.")] = 3,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting, key=value; repeatable.")] = None,
    figures: Annotated[
        Path | None, typer.Option(help=escape("Folder of figures and numbers [default: that of --out]."))
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs/curve"),
    jobs: Annotated[
        int | None, typer.Option(help=escape("Runs at a time [default: one a core where memory allows]."))
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads in all; results do not depend on it.")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Draw HR and NDCG against ε, beside private popularity and the same method without noise; finished runs stay."""
    import fedrec
    from fedrec.figures.theme import altair
    from fedrec.report.curve import write_curve

    altair()  # a sentence now, where it is missing, and not after all runs
    with display() as changed:
        found = fedrec.curve(
            method, data or ["demo"], _list(epsilon), _list(users), protocol, seeds, settings=pairs(set_),
            out=out, jobs=jobs, threads=threads, changed=changed,
        )  # fmt: skip
    files = write_curve(found, figures or out)
    if json:
        say_json({"points": found.rows, "runs_made": found.played, "files": [str(path) for path in files]})
        return
    console().print(_table(found.rows))
    over = f"mean of {seeds} seeds" if seeds > 1 else "one seed"
    say(
        f"Percent, test, {over}; the figures themselves are not private. {found.played} runs made. "
        f"Figures and numbers: {', '.join(path.name for path in files)} in {figures or out}"
    )


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _table(rows: list[dict[str, Any]]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for place, heading in enumerate(("data", "users", "", "ε", "HR@10", "NDCG@10")):
        table.add_column(heading, justify="left" if place in (0, 2) else "right")
    for row in rows:
        epsilon = "-" if row["epsilon"] is None else f"{row['epsilon']:.3g}"
        figures = (f"{row['hr']:.1f}", f"{row['ndcg']:.1f}")
        table.add_row(row["data"], f"{row['users']:,}", row["method"], epsilon, *figures)
    return table
