"""fedrec reproduce: tables and figures of the papers, published beside measured."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from fedrec.cli.board import display
from fedrec.cli.compare import Finished, Jobs, LedgerFile
from fedrec.cli.terminal import complain, console, say, say_json


def reproduce(
    target: Annotated[str | None, typer.Argument(help="A table or figure; without: list them all.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One seed, ML-100K, and no run of more than three minutes.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of runs, tables and figures.")] = Path("runs/reproduce"),
    page: Annotated[
        Path | None,
        typer.Option(help="Put the section into this page as well, such as docs/reproduction.md."),
    ] = None,
    ledger: LedgerFile = None,
    jobs: Jobs = None,
    threads: Annotated[int | None, typer.Option(help="Threads in all; results do not depend on it.")] = None,
    finished: Finished = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Published beside measured beside strict, differences marked. Goes on where it was."""
    from fedrec.core.errors import Interrupted
    from fedrec.study.reproduce import reproduce as again

    if target is None:
        _list(json)
        return
    try:
        with display() as changed:
            found = again(
                target, quick, out=out, page=page, jobs=jobs, threads=threads, only_finished=finished,
                ledger=ledger, changed=changed,
            )  # fmt: skip
    except Interrupted as stop:
        complain(str(stop).replace("the same command", shlex.join(["fedrec", *sys.argv[1:]])))
        raise typer.Exit(130) from None
    if json:
        facts = {"target": found.target.name, "quick": quick, "seconds": found.seconds}
        say_json({**facts, "rows": found.comparison.frame.to_dicts(), "left_out": found.left_out})
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from fedrec.study.formats import lasted

    heading, *rows = found.rows
    table = Table(
        title=found.target.title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False
    )
    for name in heading[:-1]:
        table.add_column(name.replace("`", ""), justify="left" if name in ("data", "method") else "right")
    for row in rows:
        table.add_row(*(cell.replace("`", "").replace("**", "*").replace(" / ", "\n") for cell in row[:-1]))
    console().print(table)
    for name, summary in found.summaries().items():
        _print_frame(name, summary)
    for sentence in found.left_out:
        say(f"{sentence}.", style="yellow")
    if found.unseen:
        say(f"Not drawn: {found.unseen}.", style="yellow")
    stem = f"{found.target.name}{'-quick' if quick else ''}"
    say(
        "HR@10 above NDCG@10, percent; a difference between stars is beyond noise. Run time "
        f"{lasted(found.seconds)} in all; written to {found.comparison.folder}/{stem}.md and .csv"
    )


def _print_frame(name: str, frame: object) -> None:
    from rich.table import Table

    table = Table(title=name, title_justify="left")
    for column in frame.columns:  # type: ignore[attr-defined]
        table.add_column(column)
    for row in frame.rows():  # type: ignore[attr-defined]
        table.add_row(*(f"{value:.2f}" if isinstance(value, float) else str(value) for value in row))
    console().print(table)


def _list(json: bool) -> None:
    from rich.table import Table

    from fedrec.runs.border import threads_or_all
    from fedrec.study.targets import TARGETS

    cores = threads_or_all(None)
    if json:
        names = {name: aim.title for name, aim in TARGETS.items()}
        minutes = {
            name: [aim.minutes(True, cores), aim.minutes(False, cores)] for name, aim in TARGETS.items()
        }
        say_json({"targets": names, "minutes": minutes})
        return
    table = Table(
        "target", "what", "--quick", "all of it", title=f"About, on {cores} cores", title_justify="left"
    )
    for name, aim in TARGETS.items():
        table.add_row(name, aim.title, _time(aim.minutes(True, cores)), _time(aim.minutes(False, cores)))
    console().print(table)


def _time(minutes: float) -> str:
    if minutes < 1:
        return "1 min"
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
