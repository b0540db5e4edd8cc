"""Two presets of a method's settings: ``paper``, as published, and ``honest``, searched on validation without a leak.

``paper`` is the default under the protocol ``paper``, ``honest`` under the others that have a name. What differs from
the defaults in the methods' files stands in ``presets.toml``, with where it comes from. A wrapped method takes the
longest beginning of its name that is there (``fedrecon+dualper``, else ``fedrecon``), and what is there for each
wrapper beyond (``+dualper``).
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from fedrec.core.errors import FedrecError, nearest
from fedrec.core.protocol import PROTOCOLS, Protocol
from fedrec.methods import full_names, make, settings_of

PAPER, HONEST = "paper", "honest"
NAMES = (PAPER, HONEST)


class Preset(NamedTuple):
    """What a preset says of a method; settings by their full names."""

    name: str
    settings: dict[str, Any]
    rounds: int | None = None
    source: tuple[str, ...] = ()  # where its values come from

    def under(self, spec: str, given: dict[str, Any]) -> dict[str, Any]:
        """Its settings with those that are given in place of its own."""
        asked = full_names(spec, given)
        return {**{name: value for name, value in self.settings.items() if name not in asked}, **given}

    def contradicted(self, spec: str, settings: dict[str, Any]) -> dict[str, Any]:
        """Values of the preset in whose place others are given."""
        asked = full_names(spec, settings)
        mine = {name: value for name, value in self.settings.items() if name in asked}
        if not mine:
            return {}
        as_given, as_is = (
            settings_of(make(spec, {**self.settings, **each})) for each in ({n: asked[n] for n in mine}, mine)
        )
        return {name: value for name, value in mine.items() if as_given[name] != as_is[name]}

    def changed(self, spec: str, settings: dict[str, Any]) -> list[str]:
        """Settings, of all that the method has, in which these differ from the preset's."""
        mine, theirs = (settings_of(make(spec, each)) for each in (self.settings, settings))
        return sorted(name for name, value in theirs.items() if value != mine[name])


def check_preset(name: Any) -> str | None:
    """One of the two, or none."""
    if name is None or name in NAMES:
        return name
    raise FedrecError(f"unknown preset '{name}': {nearest(str(name), NAMES)}")


def preset(spec: str, name: str) -> Preset:
    """A preset of a method. Both say something of the same settings: those in which they differ."""
    mine, other = (_said(spec, each) for each in (name, PAPER if name == HONEST else HONEST))
    usual = settings_of(make(spec)) if other.settings else {}
    return mine._replace(settings={**{n: usual[n] for n in other.settings}, **mine.settings})


def differ(spec: str) -> bool:
    """Whether a method's two presets are not the same."""
    return preset(spec, PAPER)[1:3] != preset(spec, HONEST)[1:3]


def implied(spec: str, protocol: Protocol) -> str:
    """The preset that goes with a protocol, also with a changed one; of one's own it has to be said."""
    known = protocol.name.partition("+")[0]
    if known in PROTOCOLS:
        return PAPER if known == PAPER else HONEST
    if differ(spec):
        raise FedrecError(
            f"{spec} has two presets, and protocol '{protocol.name}' is one of your own: say --preset paper or "
            "--preset honest"
        )
    return HONEST


def chosen(spec: str, name: str | None, protocol: Protocol, settings: dict[str, Any]) -> Preset:
    """The preset of a run. One that was asked for by name is not changed; one that goes with the protocol may be."""
    found = preset(spec, name or implied(spec, protocol))
    if name is None:
        return found
    for setting, value in found.contradicted(spec, settings).items():
        given = full_names(spec, settings)[setting]
        raise FedrecError(
            f"preset {name} of {spec} has {setting}={value}, not {given}: leave --preset or --set {setting} out"
        )
    return found


def _said(spec: str, name: str) -> Preset:
    """What ``presets.toml`` says of a method under one of the presets."""
    table, parts = _table()[name], spec.split("+")
    known = next((n for n in range(len(parts), 0, -1) if "+".join(parts[:n]) in table), 0)
    entries = ["+".join(parts[:known])] if known else []
    entries += [f"+{part}" for part in parts[max(known, 1) :] if f"+{part}" in table]
    settings: dict[str, Any] = {}
    rounds, source = None, []
    for entry in entries:
        said = table[entry]
        owner = entry.removeprefix("+")
        settings |= (
            full_names(owner, said["settings"]) if not entry.startswith("+") else _of(owner, said["settings"])
        )
        rounds = said.get("rounds", rounds)
        source.append(said["source"])
    return Preset(name, settings, rounds, tuple(source))


def _of(wrapper: str, settings: dict[str, Any]) -> dict[str, Any]:
    return {f"{wrapper}.{name}": value for name, value in settings.items()}


@cache
def _table() -> dict[str, dict[str, Any]]:
    text = files("fedrec.methods").joinpath("presets.toml").read_text(encoding="utf-8")
    return {name: tomllib.loads(text).get(name, {}) for name in NAMES}
