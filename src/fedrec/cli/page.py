"""fedrec page: a run in a browser, where a visitor is recommended something on their own device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedrec.cli.recommend import Data, Json, RunFolder
from fedrec.cli.terminal import say, say_json


def page(
    run: RunFolder,
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--out", help="The page; a name without .html is a folder to put on a web server."
        ),
    ] = Path("page.html"),
    half: Annotated[
        bool, typer.Option("--half", help="Item tables in 16 bits: half as large, scores to about 1e-3.")
    ] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Write nothing; show it at a local address until it is stopped.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of --serve; 0: any that is free.")] = 8321,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
    data: Data = None,
    json: Json = False,
) -> None:
    """One page that opens offline: a visitor picks what they like, and the page ranks and explains, on their device."""
    import fedrec
    from fedrec.serve.host import HOST, host

    opened = fedrec.open(run, data)
    if serve:
        with host(opened.page(half=half), port) as server:
            address = f"http://{HOST}:{server.server_port}/"
            shown = f"{address} shows it, on this machine alone; Ctrl-C ends it"
            say_json({"address": address}) if json else say(shown)
            try:
                server.serve_forever(poll_interval=0.2)
            except KeyboardInterrupt:
                return
    made = opened.page(out, half=half, force=force)
    size, items = len(made.html), opened.split.n_items
    if json:
        say_json({"file": str(out), "bytes": size, "items": items})
        return
    say(f"{out}: {items:,} items, {size / 2**20:.1f} MB; it opens in any browser, offline, and sends nothing")
