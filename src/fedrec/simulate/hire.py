"""Workers from what a person asks for: ``ray``, ``ray:HOST:PORT``, either with ``,count=3``."""

from __future__ import annotations

from fedrec.core.errors import FedrecError
from fedrec.data.cells import CELLS
from fedrec.data.shards import Loading
from fedrec.simulate.carrier import Carrier, Here
from fedrec.simulate.crew import Crew

KINDS = ("ray", "threads")
OPTIONS = ("count", "store")


def hire(text: str, loading: Loading, threads: int | None = None) -> Crew:
    """Start workers, and let each read its part of the data."""
    kind, address, options = asked_for(text)
    carrier: Carrier
    if kind == "threads":
        carrier = Here(options.get("count", 1))
        threads = threads or 1
    else:
        from fedrec.simulate.onray import OnRay

        carrier = on_ray = OnRay(address, options.get("count"), options.get("store"))
        threads = threads or on_ray.threads()
    try:
        return Crew(carrier, loading, threads)
    except BaseException:
        carrier.close()
        raise


def asked_for(text: str) -> tuple[str, str | None, dict[str, int]]:
    """Kind, address and options."""
    head, *pairs = text.split(",")
    kind, _, address = head.partition(":")
    if kind not in KINDS or (address and kind != "ray"):
        raise FedrecError(f"workers '{text}' are unknown: write ray, ray:HOST:PORT, or threads,count=2")
    options: dict[str, int] = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        if (
            key not in OPTIONS
            or not value.isdecimal()
            or int(value) < 1
            or (key, kind) == ("store", "threads")
        ):
            raise FedrecError(f"workers '{text}': '{pair}' is no option of {kind}: write for example count=3")
        options[key] = int(value)
    if options.get("count", 1) > CELLS:
        raise FedrecError(f"workers '{text}' are too many: users are cut into at most {CELLS} cells")
    return kind, address or None, options
