"""fedrec bench: how fast methods train here."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from fedrec.cli.terminal import complain, console, escape, say, say_json

DEFAULT = ["pfedrec", "fedmf", "fedrecon", "fedncf"]
COMPILED = ["pfedrec", "fedmf", "fedrecon", "fedncf", "fedals"]
# With --all, beside every method: wrappers over the bases on which they cost most.
WRAPPED = [
    "fedmf+gel",
    "fedncf+gel",
    "fedncf+dualper",
    "fedmf+recent",
    "fedmf+plgc",
    "pfedrec+plgc",
    "fedrecon+plgc",
    "fedncf+plgc",
]
MARK = "fedrec bench"  # of its section in a page
LOOP_SECONDS_OF_ALL = 2.0
CENTRAL = "it is not federated: nothing is trained on clients"
WITHOUT_TORCH = "PyTorch is not installed, so that the compiled engine alone is measured"


def bench(
    method: Annotated[list[str] | None, typer.Argument(help=escape("Methods [default: a few]."))] = None,
    all: Annotated[bool, typer.Option("--all", help="Every method; takes minutes.")] = False,
    data: Annotated[str, typer.Option(help="Name, name:MINIMUM or file.")] = "demo",
    threads: Annotated[int | None, typer.Option(help="Threads of the engines.")] = None,
    loop_seconds: Annotated[
        float | None,
        typer.Option(help=escape("How long to time the per-client loop; 0: not [default: 5; 2 with --all].")),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write the table into this Markdown file, as a section between marks.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Clients per CPU second on each engine, against a per-client PyTorch loop and the machine's bound."""
    import fedrec
    from fedrec.bench.measure import has_torch, measure
    from fedrec.bench.page import section
    from fedrec.bench.roofline import measure_rates
    from fedrec.core.errors import FedrecError
    from fedrec.core.federated import Federated
    from fedrec.core.pages import check_page, put
    from fedrec.data.split import split
    from fedrec.methods import METHODS, make
    from fedrec.runs.border import threads_or_all

    seconds = (LOOP_SECONDS_OF_ALL if all else 5.0) if loop_seconds is None else loop_seconds
    if not (math.isfinite(seconds) and seconds >= 0):
        raise FedrecError(f"--loop-seconds {seconds:g} is no time: give seconds, or 0 to leave the loop out")
    if all and method:
        raise FedrecError(f"--all is every method: leave out {method[0]}, or --all")
    if page is not None:
        check_page(page, MARK)
    count, torch = threads_or_all(threads), has_torch()
    names = [*METHODS, *WRAPPED] if all else method or (DEFAULT if torch else COMPILED)
    parts, skipped = split(fedrec.load(data)), {}
    results: list[dict[str, Any]] = []
    rates = measure_rates()
    for name in _watched(names):
        one = make(name)
        if not isinstance(one, Federated):
            if not all:
                raise FedrecError(
                    f"{one.label} is not federated: bench measures how fast clients are trained"
                )
            skipped[name] = CENTRAL
            continue
        try:
            results.append(measure(one, parts, count, rates, seconds))
        except FedrecError as error:  # such as a method that needs PyTorch
            if not all:
                raise
            skipped[name] = str(error)
    if not torch:
        complain(f"{WITHOUT_TORCH}: pip install 'fedrec[torch]' for the others")
    if page is not None:
        head = (
            f"`{parts.data.name}`, {parts.n_users:,} clients, {count} threads. Clients per CPU second of all threads, "
            "the least of several rounds; engines in turn. Milliseconds are of the compiled engine where there is one."
        )
        put(page, MARK, section(head, results, skipped))
    if json:
        say_json({"data": parts.data.name, "results": results, "skipped": skipped})
        return
    _show(parts.data.name, results, skipped)


def _watched(names: list[str]) -> Iterator[str]:
    """The names one after another, with a bar on stderr where a person looks on."""
    from rich.progress import Progress

    shown = console(stderr=True)
    with Progress(console=shown, transient=True, disable=not shown.is_terminal) as bar:
        task = bar.add_task("measuring", total=len(names))
        for name in names:
            bar.update(task, description=f"measuring {name}")
            yield name
            bar.advance(task)


def _show(data: str, results: list[dict[str, Any]], skipped: dict[str, str]) -> None:
    from fedrec.bench.page import notes

    if results:
        console().print(table(data, results))
    say(
        "Clients per CPU second of all threads, the least of several rounds: other work on the machine counts little.\n"
        "loop: a deep copy, DataLoader and optimizers per client, as the papers' code does, on one thread.\n"
        "bound: the arithmetic and memory traffic that no engine can avoid, at rates measured just now.\n"
        "MB: what the engine that CPU ms/round is of added to the process's memory at its peak."
    )
    if said := notes(results, skipped):
        say(said)


def table(data: str, results: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    from fedrec.bench.page import number

    title = f"{data}, {results[0]['threads']} threads, clients per CPU second"
    shown = Table(title=title, title_justify="left", box=None, pad_edge=False)
    shown.add_column("method", overflow="fold")
    for heading in ("loop", "plain", "× loop", "fused", "× loop", "CPU ms/round", "× bound", "MB"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for row in results:
        loop, plain, fused = (row.get(name, {}) for name in ("loop", "plain", "fused"))
        best = fused or plain
        shown.add_row(
            row["method"],
            number(loop.get("clients_per_cpu_second")),
            number(plain.get("clients_per_cpu_second")),
            number(plain.get("times_the_loop"), 1),
            number(fused.get("clients_per_cpu_second")),
            number(fused.get("times_the_loop"), 1),
            f"{1000 * best['cpu_seconds_per_round']:,.1f}",
            number(row.get("roofline", {}).get("times_the_roofline"), 1),
            number(best["peak_mb"]),
        )
    return shown
