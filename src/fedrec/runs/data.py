"""The data of a run, found again: by what they were loaded from, else from the copy kept with the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedrec.core.errors import DataError, FedrecError
from fedrec.data.interactions import Interactions
from fedrec.data.kept import keep, read_kept
from fedrec.data.load import load
from fedrec.data.outline import Outline
from fedrec.data.sums import matches
from fedrec.runs.config import RunConfig

COPY = "data.parquet"


def loaded(data: Any) -> Any:
    """Data as they are (or what is known of those that workers hold), or loaded: a name, a path or a frame."""
    return data if isinstance(data, Interactions | Outline) else load(data)


def origin_of(data: Interactions) -> dict[str, Any]:
    """What a config says about where data came from."""
    return {"source": data.origin.source, "load": dict(data.origin.options)} if data.origin else {}


def keep_data(folder: Path, data: Interactions) -> None:
    """Keep a copy with the run where the data could not be loaded again."""
    if data.origin is None:
        keep(data, folder / COPY)


def data_of(config: RunConfig, given: Any, path: str) -> Interactions:
    """The data that a run was made on, and no others."""
    data = _again(config, Path(path)) if given is None else loaded(given)
    if not matches(data, config.fingerprint):
        raise FedrecError(
            f"{path} was made on other data than this {data.name}: their contents differ, "
            f"so give the same with {_how(path)}"
        )
    return data


def _again(config: RunConfig, path: Path) -> Interactions:
    if config.source is None and (path / COPY).exists():
        return read_kept(path / COPY, config.data)
    try:
        return load(config.source or config.data, **config.load)
    except DataError as error:
        if config.source is None:
            raise DataError(
                f"the data of {path} were given in Python and {COPY} is not there: give them again with {_how(path)}"
            ) from error
        raise DataError(
            f"the data of {path} cannot be loaded ({error}), or give them with {_how(path)}"
        ) from error


def _how(path: str | Path) -> str:
    return f"fedrec.open({str(path)!r}, data=…)"
