"""fedrec cluster: a Ray cluster on this machine, to try things out."""

from __future__ import annotations

from typing import Annotated

import typer

from fedrec.cli.terminal import say

app = typer.Typer(no_args_is_help=True, help="A Ray cluster on this machine, to try things out.")


@app.command()
def up(
    workers: Annotated[int, typer.Option(min=1, max=64, help="Nodes on loopback, a worker each.")] = 2,
    cpus: Annotated[int, typer.Option(min=1, help="Threads of a worker.")] = 1,
    store: Annotated[int, typer.Option(min=80, help="Megabytes of Ray's store of objects, a node.")] = 256,
) -> None:
    """Start it; it stays until fedrec cluster down."""
    from fedrec.simulate.tryout import up as start

    found = start(workers, cpus, store)
    say(f"{workers} nodes are up at {found['address']}: fedrec run METHOD --workers ray:{found['address']}")


@app.command()
def down() -> None:
    """End the cluster that fedrec cluster up started, and no other."""
    from fedrec.simulate.tryout import down as end

    say(f"the cluster at {end()} has ended")
