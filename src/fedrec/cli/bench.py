"""fedrec bench: how fast methods train here."""

from __future__ import annotations

from typing import Annotated, Any

import typer

DEFAULT = ["pfedrec", "fedmf", "fedrecon", "fedncf"]


def bench(
    method: Annotated[list[str] | None, typer.Argument(help="Methods [default: a few].")] = None,
    data: Annotated[str, typer.Option(help="Name, name:MINIMUM or file.")] = "demo",
    threads: Annotated[int | None, typer.Option(help="Threads of the engines.")] = None,
    loop_seconds: Annotated[float, typer.Option(help="How long to time the per-client loop; 0: not.")] = 5.0,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Clients per second on each engine, against a per-client PyTorch loop and the machine's bound."""
    import json as json_format

    from rich.console import Console
    from rich.progress import track

    import fedrec
    from fedrec.bench.measure import measure
    from fedrec.bench.roofline import measure_rates
    from fedrec.core.errors import FedrecError
    from fedrec.core.federated import Federated
    from fedrec.data.split import split
    from fedrec.methods import make
    from fedrec.runs.api import threads_or_all

    count = threads_or_all(threads)
    chosen = [make(name) for name in method or DEFAULT]
    for one in chosen:
        if not isinstance(one, Federated):
            raise FedrecError(f"{one.label} is not federated: bench measures how fast clients are trained")
    parts = split(fedrec.load(data))
    rates = measure_rates(count)
    results = [
        measure(one, parts, count, rates, loop_seconds)  # type: ignore[arg-type]
        for one in track(chosen, "measuring", console=Console(stderr=True), transient=True)
    ]
    if json:
        typer.echo(json_format.dumps({"data": parts.data.name, "results": results}))
        return
    console = Console(highlight=False, width=110)
    console.print(table(parts.data.name, results))
    console.print(
        "loop: a deep copy, DataLoader and optimizers per client, as the papers' code does, on one thread.\n"
        "bound: the arithmetic and memory traffic that no engine can avoid, at rates measured just now."
    )


def table(data: str, results: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    shown = Table(title=f"{data}, {results[0]['threads']} threads, clients per second", title_justify="left")
    shown.add_column("method", no_wrap=True)
    for heading in ("loop", "plain", "× loop", "fused", "× loop", "samples/s", "ms/round", "× bound"):
        shown.add_column(heading, justify="right")
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
