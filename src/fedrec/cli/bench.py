"""fedrec bench: how fast methods train here."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from fedrec.cli.terminal import complain, console, escape, say, say_json

DEFAULT = ["pfedrec", "fedmf", "fedrecon", "fedncf"]
COMPILED = ["pfedrec", "fedmf", "fedrecon", "fedncf", "fedals"]
WITHOUT_TORCH = "PyTorch is not installed, so that the compiled engine alone is measured"


def bench(
    method: Annotated[list[str] | None, typer.Argument(help=escape("Methods [default: a few]."))] = None,
    data: Annotated[str, typer.Option(help="Name, name:MINIMUM or file.")] = "demo",
    threads: Annotated[int | None, typer.Option(help="Threads of the engines.")] = None,
    loop_seconds: Annotated[float, typer.Option(help="How long to time the per-client loop; 0: not.")] = 5.0,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Clients per second on each engine, against a per-client PyTorch loop and the machine's bound."""
    from rich.progress import track

    import fedrec
    from fedrec.bench.measure import has_torch, measure
    from fedrec.bench.roofline import measure_rates
    from fedrec.core.errors import FedrecError
    from fedrec.core.federated import Federated
    from fedrec.data.split import split
    from fedrec.methods import make
    from fedrec.runs.border import threads_or_all

    if not (math.isfinite(loop_seconds) and loop_seconds >= 0):
        raise FedrecError(
            f"--loop-seconds {loop_seconds:g} is no time: give seconds, or 0 to leave the loop out"
        )
    count, torch = threads_or_all(threads), has_torch()
    chosen = [make(name) for name in method or (DEFAULT if torch else COMPILED)]
    for one in chosen:
        if not isinstance(one, Federated):
            raise FedrecError(f"{one.label} is not federated: bench measures how fast clients are trained")
    parts, bar = split(fedrec.load(data)), console(stderr=True)
    rates = measure_rates(count)
    results = [
        measure(one, parts, count, rates, loop_seconds)  # type: ignore[arg-type]
        for one in track(chosen, "measuring", console=bar, transient=True, disable=not bar.is_terminal)
    ]
    if not torch:
        complain(f"{WITHOUT_TORCH}: pip install 'fedrec[torch]' for the others")
    if json:
        say_json({"data": parts.data.name, "results": results})
        return
    console().print(table(parts.data.name, results))
    say(
        "loop: a deep copy, DataLoader and optimizers per client, as the papers' code does, on one thread.\n"
        "bound: the arithmetic and memory traffic that no engine can avoid, at rates measured just now."
    )


def table(data: str, results: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    title = f"{data}, {results[0]['threads']} threads, clients per second"
    shown = Table(title=title, title_justify="left", box=None, pad_edge=False)
    shown.add_column("method", overflow="fold")
    for heading in ("loop", "plain", "× loop", "fused", "× loop", "samples/s", "ms/round", "× bound"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for row in results:
        loop, plain, fused = (row.get(name, {}) for name in ("loop", "plain", "fused"))
        best = fused or plain
        shown.add_row(
            row["method"],
            _number(loop.get("clients_per_second")),
            _number(plain.get("clients_per_second")),
            _number(plain.get("times_the_loop"), 1),
            _number(fused.get("clients_per_second")),
            _number(fused.get("times_the_loop"), 1),
            _number(best["samples_per_second"]),
            f"{1000 * best['seconds_per_round']:,.1f}",
            _number(row.get("roofline", {}).get("times_the_roofline"), 1),
        )
    return shown


def _number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
