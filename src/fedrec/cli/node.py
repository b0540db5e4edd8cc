"""fedrec node: one or more devices that take part in a federation, in one process."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from fedrec.cli.terminal import say


def node(
    devices: Annotated[list[Path], typer.Argument(metavar="DIR…", help="Folders of devices.")],
    server: Annotated[str, typer.Option(help="Address of the server, as host:port.")],
    ca: Annotated[Path, typer.Option(help="Certificate of the deployment's authority (ca.pem).")],
    key: Annotated[Path, typer.Option(help="Key of this node (node.key).")],
) -> None:
    """Take part in a federation, until it is stopped."""
    from fedrec.deploy.flower.light import serve

    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    serve(server, ca, key, devices, stop, say)
