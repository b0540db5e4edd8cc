"""A run whose clients are with workers: who may have them, and what is asked of the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedrec.channel import stage
from fedrec.channel.secure import Fixed
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.core.protocol import protocol as named_protocol
from fedrec.data.interactions import Interactions, Origin
from fedrec.data.load import source_of
from fedrec.data.shards import Loading
from fedrec.data.sums import BY_CELLS
from fedrec.runs import border
from fedrec.runs.config import RunConfig
from fedrec.simulate.crew import Crew
from fedrec.simulate.hire import hire


def check_apart(method: Any, settings: Any, local: bool, start: Any) -> None:
    """What cannot be shared out is refused before a worker starts."""
    found = border.method_of(method, settings)
    if not isinstance(found, Federated):
        raise FedrecError(f"--workers does not apply to {found.label}: it is not federated")
    if local:
        raise FedrecError("--local adds nothing up, so --workers does not apply: leave one of them out")
    if start is not None:
        raise FedrecError("--start takes devices over one by one, which workers cannot: leave --workers out")


def in_fixed_point(channel: Any) -> tuple[str, ...]:
    """A channel whose sums do not hang on who adds up what."""
    texts = border.texts(channel)
    fixed = any(isinstance(stage.parse(text), Fixed) for text in texts)
    return tuple(texts) if fixed else (*texts, Fixed.name)


def hired(workers: str, data: Any, protocol: Any, seed: int, all_data: bool, threads: int | None) -> Crew:
    """Workers that have loaded the data."""
    origin = data.origin if isinstance(data, Interactions) else data if isinstance(data, Origin) else None
    if isinstance(data, str | Path):
        origin = Origin(source_of(str(data)))
    if origin is None:
        raise FedrecError("workers load data themselves: give the name of a data set, or the path of a file")
    how = named_protocol(border.check_protocol(protocol))
    return hire(workers, Loading(origin.source, dict(origin.options), how, seed, not all_data), threads)


def hired_again(workers: str, config: RunConfig, data: Any, path: str, threads: int | None) -> Crew:
    """Workers with the data that a run was made on, and no others."""
    source, options = config.source, dict(config.load)
    if data is not None:
        source, options = source_of(str(data)), {}
    if source is None:
        raise FedrecError(
            f"the data of {path} were given in Python, where workers cannot load them: leave --workers out"
        )
    crew = hire(workers, Loading(source, options, config.protocol, config.seed, not config.all_data), threads)
    found, made = crew.outline.fingerprint, config.fingerprint
    if found == made:
        return crew
    crew.close()
    if found.startswith(BY_CELLS) != made.startswith(BY_CELLS):
        raise FedrecError(
            f"{path} was made by one process on a file that workers read in parts: leave --workers out"
        )
    raise FedrecError(
        f"{path} was made on other data than workers found under {source}: their contents differ"
    )
