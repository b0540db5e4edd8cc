"""fedrec compare: methods side by side, with paired tests and controls."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedrec.cli.board import display
from fedrec.cli.options import Preset, pairs
from fedrec.cli.terminal import complain, console, escape, say, say_json

if TYPE_CHECKING:
    from fedrec.study.compare import Comparison

Jobs = Annotated[
    int | None, typer.Option(help=escape("Runs at a time [default: one a core where memory allows]."))
]
Longest = Annotated[
    float | None, typer.Option(help="Leave out what would take more seconds a run, and say so.")
]
LedgerFile = Annotated[
    Path | None,
    typer.Option(help="Figures of finished runs: what it has is not run again, what is run is added."),
]
Finished = Annotated[bool, typer.Option("--finished", help="Run nothing: lay out what is finished so far.")]


def compare(
    context: typer.Context,
    methods: Annotated[
        list[str] | None, typer.Argument(help="Such as fedmf pfedrec ease; not with --grid.")
    ] = None,
    data: Annotated[list[str] | None, typer.Option(help="Name, name:MINIMUM or file; repeatable.")] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0 on.")] = 5,
    protocol: Annotated[
        str, typer.Option(help="strict, next, temporal, paper, or both: strict and paper.")
    ] = "strict",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A setting, METHOD.key=value, or key=value for all that have it; repeatable."
        ),
    ] = None,
    preset: Preset = None,
    local: Annotated[
        bool, typer.Option("--local", help="Add the controls: the same models, never aggregated.")
    ] = False,
    baseline: Annotated[
        list[str] | None,
        typer.Option(help=escape("What differences are tested against; repeatable [default: the first].")),
    ] = None,
    grid: Annotated[Path | None, typer.Option(help="All of this from a TOML file.")] = None,
    rounds: Annotated[int | None, typer.Option(help=escape("Rounds of a run [default: 100]."))] = None,
    clients: Annotated[
        str | None, typer.Option(help=escape("Clients per round: a fraction or a number [default: all]."))
    ] = None,
    channel: Annotated[
        list[str] | None, typer.Option(help="What uploads pass through, such as laplace=0.5; repeatable.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy ε of a whole user's data that each run may spend.")
    ] = None,
    eval_every: Annotated[int | None, typer.Option(help="Rounds from one validation to the next.")] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop a run after so many validations without a better one.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs and tables.")] = Path("runs/compare"),
    jobs: Jobs = None,
    threads: Annotated[int | None, typer.Option(help="Threads in all; results do not depend on it.")] = None,
    longest: Longest = None,
    keep_models: Annotated[
        bool, typer.Option("--keep-models", help="Keep what runs learned, to recommend or to look at.")
    ] = False,
    ledger: LedgerFile = None,
    page: Annotated[
        Path | None,
        typer.Option(help="Write the tables into this Markdown file, as a section named after --out."),
    ] = None,
    finished: Finished = False,
    figures: Annotated[
        Path | None,
        typer.Option(help="Folder for a picture of the differences on all data, with its numbers."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write over the tables of another comparison.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Run what is missing, and print one table of means, spreads, paired tests, costs and controls."""
    import fedrec
    from fedrec.core.errors import FedrecError, Interrupted

    if grid is not None:
        free = (
            "grid",
            "baseline",
            "out",
            "jobs",
            "threads",
            "longest",
            "keep_models",
            "ledger",
            "page",
            "finished",
            "figures",
            "force",
            "json",
        )
        for name in context.params:
            source = context.get_parameter_source(name)
            if name not in free and source is not None and source.name == "COMMANDLINE":
                raise FedrecError(f"{grid} says it all: leave {name.rstrip('_').replace('_', '-')} out")
    if figures is not None:  # a sentence now, and not after all runs
        from fedrec.report.files import drawing

        drawing()
        if figures.exists() and not figures.is_dir():
            raise FedrecError(f"--figures {figures} is a file: name a folder")
    with display() as changed:
        try:
            found = fedrec.compare(
                methods or (), data or ["demo"], protocol, seeds,
                settings=pairs(set_, "--set", "fedmf.dim=64"), preset=preset, local=local, baseline=baseline, grid=grid,
                rounds=rounds, clients=clients, channel=channel, epsilon=epsilon,  # type: ignore[arg-type]
                eval_every=eval_every, patience=patience,
                out=out, jobs=jobs, threads=threads, longest=longest, keep_models=keep_models,
                only_finished=finished, force=force, ledger=ledger, page=page, changed=changed,
            )  # fmt: skip
        except Interrupted as stop:
            interrupted = str(stop)
        else:
            interrupted = ""
    if interrupted:
        complain(interrupted.replace("the same command", shlex.join(["fedrec", *sys.argv[1:]])))
        raise typer.Exit(130)
    files = _drawn(found, figures)
    show(found, json, files)
    if json:
        return
    if files:
        say(f"Pictures and numbers: {', '.join(path.name for path in files)} in {figures}")
    elif figures is not None:
        say(
            "No picture: it takes two data sets, and two methods of which one is the baseline.",
            style="yellow",
        )


def _drawn(found: Comparison, folder: Path | None) -> list[Path]:
    if folder is None:
        return []
    from fedrec.report.overview import write_overviews
    from fedrec.study.overview import overviews

    return write_overviews(overviews(found.sections), folder)


def show(found: Comparison, json: bool = False, files: Sequence[Path] = ()) -> None:
    """The tables, what must be known to read them, and where they are."""
    if json:
        told = {"folder": str(found.folder), "runs_made": found.played, "lines": facts(found)}
        say_json({**told, "figures": [str(path) for path in files]})
        return
    from fedrec.study.formats import over_seeds
    from fedrec.study.overview import overviews, terminal

    shown = console()
    for section, table in zip([s for s in found.sections if s.rows], found.table, strict=True):
        shown.print(table)
        for note in section.notes:
            say(note, style="yellow")
    for section in found.sections:
        if not section.rows:
            for note in section.notes:
                say(f"{section.data}, {section.protocol}: {note}", style="yellow")
    glances = overviews(found.sections)
    for overview in glances:
        shown.print(terminal(overview))
    if any(overview.partial for overview in glances):
        say("In brackets: a mean over some of the data alone, which does not compare with the others.")
    leaking = [section.protocol for section in found.sections if section.leaks]
    if leaking:
        say(
            f"The protocol {leaking[0]} leaks the test item into training: see docs/protocols.md.",
            style="yellow",
        )
    seeds = any(over_seeds(section) for section in found.sections)
    over = "Wilcoxon over users, Student over seeds where a ledger tells" if seeds else "Wilcoxon over users"
    tested = (
        found.baselines and f"−base: NDCG@10 less that of {found.baselines[0]}, * p < 0.05 ({over}; Holm). "
    )
    say(
        f"Percent, mean±std over seeds. {tested or ''}s: seconds of a run; kB: per client and "
        f"round. {found.played} runs made; tables: {found.folder}/comparison.csv, .md, .tex"
    )


def facts(found: Comparison) -> list[dict[str, Any]]:
    return found.frame.to_dicts()
