"""fedrec report: a page about runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedrec.cli.terminal import console, escape, say, say_json


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Folders of runs, or folders that hold some.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The page.")] = Path("report.html"),
    baseline: Annotated[
        str | None,
        typer.Option(help=escape("Method that the others are tested against [default: the first].")),
    ] = None,
    models: Annotated[
        int, typer.Option(help="Of how many methods the trained model is looked into; 0: of none.")
    ] = 4,
    figures: Annotated[
        Path | None, typer.Option(help="Also write each chart as SVG, PNG and PDF into this folder.")
    ] = None,
    title: Annotated[
        str | None, typer.Option(help=escape("Title of the page [default: what it is about]."))
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Write one page about runs that opens offline: summary, tables, figures, and what to trust."""
    from fedrec.report.build import report as build

    shown = console(stderr=True)
    with shown.status("reading runs") as status:
        made = build(
            runs, out, baseline=baseline, models=models, figures=figures, title=title, force=force,
            say=lambda text: status.update(text),
        )  # fmt: skip
    size = made.path.stat().st_size
    if json:
        say_json(
            {
                "file": str(made.path),
                "bytes": size,
                "runs": sum(len(part.group.entries) for part in made.parts),
                "figures": [f"{part.key}-{one.key}" for part in made.parts for one in part.figures],
                "files": [str(path) for path in made.files],
                "left_out": made.left_out,
            }
        )
        return
    for sentence in made.left_out:
        say(f"left out: {sentence}", style="yellow")
    drawn = sum(len(part.figures) for part in made.parts)
    say(f"{made.path}: {drawn} figures, {size / 1e6:.1f} MB; it opens in any browser, offline")
    if made.files:
        say(f"{figures}: {len(made.files)} files of figures")
