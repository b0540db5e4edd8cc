"""A run from its description: the very ``config.toml`` that a run writes, or one written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import fedrec
from fedrec.core.errors import FedrecError, nearest
from fedrec.core.files import read_toml
from fedrec.core.protocol import Protocol, protocol
from fedrec.runs.config import RunConfig
from fedrec.runs.presets import check_preset, preset

if TYPE_CHECKING:
    from fedrec.runs.run import Run

# What a config says besides the arguments of ``fedrec.run``: where its data came from, and what it came to.
FACTS = ("fedrec", "source", "load", "fingerprint", "start_leaks", "spent_before")


def rerun(config: dict[str, Any], data: Any, **options: Any) -> Run:
    """Run what a config says, on these data."""
    asked = {n: v for n, v in config.items() if n not in (*FACTS, "data", "method")}
    how = asked.pop("protocol", "strict")
    how = protocol(Protocol(**how) if isinstance(how, dict) else how)
    name = check_preset(asked.get("preset"))
    if name and preset(config["method"], name).contradicted(config["method"], asked.get("settings", {})):
        del asked["preset"]  # it was changed, as one may be that goes with the protocol: so it is again
    return fedrec.run(config["method"], data, how, **{**asked, **options})


def run_config(path: str | Path, *, data: Any = None, **options: Any) -> Run:
    """Run what a TOML file says: ``method`` and whatever else ``fedrec.run`` takes, as in a run's own config.toml."""
    path = Path(path)
    values = read_toml(path)
    for name in values:
        if name not in RunConfig.model_fields:
            raise FedrecError(f"{path} has no use for '{name}': {nearest(name, RunConfig.model_fields)}")
    if "method" not in values:
        raise FedrecError(f"{path} names no method: add for example method = 'pfedrec'")
    if data is None:
        data = fedrec.load(values.get("source") or values.get("data", "demo"), **values.get("load", {}))
    return rerun(values, data, **options)


def same_again(config: RunConfig, data: Any, rounds: int | None, **options: Any) -> Run:
    """The same once more, for other rounds, or with other options."""
    how = config.protocol
    if options.get("all_data") and how.known == "validation":  # there is none: everything is trained on
        how = how.with_(name="strict", known="train")
    values = {**config.model_dump(), "protocol": how, "rounds": rounds}
    return rerun(values, data, **options)
