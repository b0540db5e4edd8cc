"""The command line that makes a run again, from its configuration."""

from __future__ import annotations

import shlex
from typing import Any

from fedrec.core.protocol import PROTOCOLS, Protocol
from fedrec.methods import make, settings_of
from fedrec.runs.config import RunConfig
from fedrec.runs.presets import implied, preset


def command_of(config: RunConfig) -> str:
    """``fedrec run …`` with what differs from the defaults. Data that were given in Python have no command."""
    words = ["fedrec", "run", config.method, "--data", config.source or config.data]
    words += ["--protocol", *_protocol(config.protocol), "--seed", str(config.seed)]
    for option in ("rounds", "clients", "epsilon", "delta", "view", "patience", "start"):
        if (value := getattr(config, option)) is not None:
            words += [f"--{option}", str(value)]
    for name, value in config.load.items():
        words += [f"--{name.replace('_', '-')}", str(value)] if value is not None else []
    words += [word for stage in config.channel for word in ("--channel", stage)]
    words += ["--eval-every", str(config.eval_every)] if config.eval_every > 1 else []
    words += ["--k", ",".join(map(str, config.k))] if config.k != (10,) else []
    words += ["--engine", config.engine] if config.engine != "auto" else []
    words += [flag for flag, on in (("--local", config.local), ("--all-data", config.all_data)) if on]
    usual = settings_of(make(config.method))
    if config.preset is not None:
        found = preset(config.method, config.preset)
        named = config.protocol.name.partition("+")[0] in PROTOCOLS
        usually = implied(config.method, config.protocol) if named else ""
        if config.preset != usually and not found.contradicted(config.method, config.settings):
            words += ["--preset", config.preset]
        elif usually:
            found = preset(config.method, usually)
        usual |= found.settings
    for name, value in config.settings.items():
        if _plain(usual.get(name)) != _plain(value):
            words += ["--set", f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"]
    return shlex.join(words)


def _protocol(protocol: Protocol) -> list[str]:
    """A named one, and what was changed about it."""
    name = protocol.name.partition("+")[0]
    named = PROTOCOLS.get(name, PROTOCOLS["strict"])
    changed = {k: v for k, v in protocol.model_dump().items() if k != "name" and v != getattr(named, k)}
    return [named.name, *(word for k, v in changed.items() for word in ("--protocol-set", f"{k}={v}"))]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
