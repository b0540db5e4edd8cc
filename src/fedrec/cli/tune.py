"""fedrec tune: settings of a method, found on validation."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedrec.cli.options import Preset, pairs
from fedrec.cli.terminal import complain, console, escape, say, say_json
from fedrec.study.processes import WORKER, apart, close, environment, interrupt

if TYPE_CHECKING:
    from fedrec.study.tune import Heard, Tuned

POLL = 1.0  # seconds


def tune(
    method: Annotated[str, typer.Argument(help="Such as fedmf or fedncf+gel.")],
    data: Annotated[str, typer.Option(help="Name, name:MINIMUM or file.")] = "demo",
    trials: Annotated[int, typer.Option(help="Trials of the study in all.")] = 40,
    protocol: Annotated[str, typer.Option(help="strict or paper.")] = "strict",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Fix a setting, key=value; repeatable.")
    ] = None,
    preset: Preset = None,
    first: Annotated[
        list[str] | None,
        typer.Option(
            help="A trial to make after that with the preset's settings, such as lr=0.03,eta=400; repeatable."
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help=escape("Rounds of a trial [default: 100]."))] = None,
    seed: Annotated[int, typer.Option(help="Of the trials' runs and of the search.")] = 0,
    clients: Annotated[
        str | None, typer.Option(help=escape("Clients per round: a fraction or a number [default: all]."))
    ] = None,
    eval_every: Annotated[int, typer.Option(help="Rounds from one validation to the next.")] = 1,
    patience: Annotated[
        int | None, typer.Option(help="Stop a trial after so many validations without a better one.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help=escape("Folder of the study [default: one in runs/]."))
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="A file of what was tried: the search begins with its trials, new ones are added."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that share the study.")] = 1,
    threads: Annotated[int | None, typer.Option(help="Threads in all; trials do not depend on it.")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Search for settings on validation: test items are not looked at. Goes on where it was."""
    from fedrec.core.errors import Interrupted
    from fedrec.study.tune import open_study
    from fedrec.study.tune import tune as search

    options: dict[str, Any] = {
        "settings": pairs(set_),
        "preset": preset,
        "rounds": rounds,
        "seed": seed,
        "clients": clients,
    }
    options["first"] = [pairs(each.split(","), "--first", "lr=0.03,eta=400") for each in first or ()]
    options |= {"eval_every": eval_every, "patience": patience, "out": out, "ledger": ledger}
    try:
        with _display() as heard:
            if jobs > 1:
                tuned, _ = open_study(method, data, protocol, trials, **options)
                try:
                    _together(tuned, jobs, threads, heard)
                finally:
                    tuned.note()
            else:
                tuned = search(method, data, protocol, trials, threads=threads, heard=heard, **options)
    except Interrupted as stop:
        complain(str(stop).replace("the same command", shlex.join(["fedrec", *sys.argv[1:]])))
        raise typer.Exit(130) from None
    if WORKER not in os.environ:
        _print(tuned, json)


def _together(tuned: Tuned, jobs: int, threads: int | None, heard: Heard) -> None:
    """The same command in several processes; they share the study, and end with this one."""
    from fedrec.core.errors import FedrecError, Interrupted
    from fedrec.runs.border import threads_or_all
    from fedrec.runs.presets import preset as named

    config = tuned.config
    command = [sys.executable, "-m", "fedrec.cli.main", "tune", config.method, "--data", tuned.data]
    command += ["--protocol", config.protocol.name, "--trials", str(tuned.wanted), "--seed", str(config.seed)]
    command += ["--eval-every", str(config.eval_every), "--out", str(tuned.folder)]
    command += ["--threads", str(max(1, threads_or_all(threads) // jobs))]
    for option in ("rounds", "clients", "patience"):
        if (value := getattr(config, option)) is not None:
            command += [f"--{option}", str(value)]
    if config.preset and not named(config.method, config.preset).contradicted(config.method, tuned.fixed):
        command += ["--preset", config.preset]
    command += [word for name, value in tuned.fixed.items() for word in ("--set", f"{name}={value}")]
    workers = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env={**environment(), WORKER: "1"}, **apart(),
        )
        for _ in range(jobs)
    ]  # fmt: skip
    seen = tuned.ended
    try:
        while any(worker.poll() is None for worker in workers):
            time.sleep(POLL)
            if tuned.ended != seen:
                seen = tuned.ended
                heard(tuned, "")
    except KeyboardInterrupt:
        for worker in workers:
            interrupt(worker)
        for worker in workers:
            worker.wait()
        raise Interrupted(f"the same command: {tuned.ended} of {tuned.wanted} trials are done") from None
    finally:
        said = [worker.stderr.read().strip() for worker in workers if worker.stderr]
        for worker in workers:
            close(worker)
    if any(worker.returncode for worker in workers):
        sentence = next(text for worker, text in zip(workers, said, strict=True) if worker.returncode)
        raise FedrecError(sentence.removeprefix("error: "))


@contextmanager
def _display() -> Iterator[Heard]:
    """A bar on stderr with the best so far; elsewhere a line a trial."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    shown = console(stderr=True)
    columns = (TextColumn("trials"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    figures = TextColumn("{task.fields[figures]}", markup=False)
    with Progress(*columns, figures, console=shown, transient=True, disable=not shown.is_terminal) as bar:
        task = bar.add_task("", total=None, figures="")

        def heard(tuned: Tuned, said: str) -> None:
            best = f"best {100 * tuned.value:.2f}" if tuned.count("COMPLETE") else ""
            bar.update(task, completed=tuned.ended, total=tuned.wanted, figures=best)
            if not shown.is_terminal and said:
                complain(f"{tuned.ended} of {tuned.wanted}, {best or 'none complete so far'}: {said}")

        yield heard


def _print(tuned: Tuned, json: bool) -> None:
    metric = tuned.config.protocol.select_on
    best, states = tuned.best, ("COMPLETE", "PRUNED", "FAIL")
    counts = {state.lower(): tuned.count(state) for state in states}
    if json:
        facts: dict[str, Any] = {
            "study": str(tuned.folder),
            "trials": counts,
            "metric": f"validation {metric}",
        }
        facts |= {"value": tuned.value, "trial": best.number, "round": best.user_attrs.get("round")}
        say_json(
            {**facts, "settings": tuned.settings, "importance": tuned.importance, "command": tuned.command}
        )
        return
    from rich.table import Table

    table = Table(
        title=f"{tuned.config.method} on {tuned.data}, protocol {tuned.config.protocol.name}: best of "
        f"{tuned.ended} trials",
        title_justify="left",
    )
    for heading in ("setting", "best", "first", "importance"):
        table.add_column(heading, justify="left" if heading == "setting" else "right")
    weights = tuned.importance
    for name, value in tuned.settings.items():
        weight = "fixed" if name in tuned.fixed else f"{weights[name]:.2f}" if name in weights else "-"
        table.add_row(name, str(value), str(tuned.config.settings[name]), weight)
    console().print(table)
    first = next((t.value for t in tuned.trials if t.number == 0 and t.value is not None), None)
    say(
        f"validation {metric} {100 * tuned.value:.2f} in trial {best.number}"
        + ("" if first is None else f", in the first {100 * first:.2f}")
        + f"; {counts['complete']} complete, {counts['pruned']} stopped early, {counts['fail']} failed; "
        f"study: {tuned.folder}"
    )
    say("The best is the best of many on one seed: measure it with others. Run it with:")
    print(tuned.command)
