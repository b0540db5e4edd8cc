"""What a comparison consists of: methods × data sets × protocols, from names or from a TOML file, checked whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedrec.core.errors import FedrecError, nearest
from fedrec.core.federated import Federated
from fedrec.core.files import read_toml
from fedrec.core.protocol import PAPER, PROTOCOLS, STRICT, Protocol
from fedrec.core.settings import Settings
from fedrec.data.interactions import Interactions
from fedrec.methods import expand, find, make, own_fields
from fedrec.methods.central.base import Central, CentralAtOnce
from fedrec.runs import border
from fedrec.study.case import Case

# Options of fedrec.run that only some methods know.
OF_ROUNDS = ("rounds", "eval_every", "patience")
OF_CLIENTS = ("clients", "channel", "epsilon", "delta", "view", "local", "engine")
BOTH = (STRICT.name, PAPER.name)
NOT_ALONE = (
    "clients",
    "channel",
    "epsilon",
    "delta",
    "view",
)  # alone there is nobody to sample from and nothing to send


class Options(Settings):
    """What is passed on to ``fedrec.run``."""

    rounds: int | None = None
    clients: int | float | None = None
    channel: tuple[str, ...] | None = None
    epsilon: float | None = None
    delta: float | None = None
    view: str | None = None
    preset: str | None = None
    eval_every: int | None = None
    patience: int | None = None

    def given(self) -> dict[str, Any]:
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name in Options.model_fields
            if (value := getattr(self, name)) is not None
        }


class Lines(Options):
    """Some methods of a grid with what is special about them."""

    called: ClassVar[str | None] = "[[lines]]"

    methods: tuple[str, ...] = Field(min_length=1)
    label: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    data: tuple[str, ...] | None = None
    protocol: str | tuple[str, ...] | None = None
    seeds: int | tuple[int, ...] | None = None
    local: bool | None = None

    def cases(self, grid: Grid) -> list[Case]:
        if self.label and len(self.methods) > 1:
            raise FedrecError(
                f"the label '{self.label}' is one line's: give it one method, not {len(self.methods)}"
            )
        options = {**grid.given(), **self.given()}
        seeds = None if self.seeds is None else numbers(self.seeds)
        found = [
            Case(method, data, protocol, self.settings, applicable(method, options), self.label, seeds)
            for data in self.data or grid.data
            for protocol in protocols(self.protocol or grid.protocol)
            for method in self.methods
        ]
        return with_controls(found) if (grid.local if self.local is None else self.local) else found


class Grid(Options):
    """A comparison as a TOML file has it."""

    called: ClassVar[str | None] = "the grid"

    methods: tuple[str, ...] = ()
    lines: tuple[dict[str, Any], ...] = Field((), description="methods with settings, data, … of their own")
    data: tuple[str, ...] = ("demo",)
    protocol: str | tuple[str, ...] = "strict"
    seeds: int | tuple[Annotated[int, Field(ge=0)], ...] = 5
    local: bool = Field(False, description="after each federated method the same, never aggregated")
    baseline: str | tuple[str, ...] | None = None

    def cases(self) -> list[Case]:
        """Every method on every data set under every protocol, unless its lines say otherwise."""
        groups = [Lines(methods=self.methods)] if self.methods else []
        groups += [Lines(**each) for each in self.lines]
        if not groups:
            raise FedrecError("it has no methods: add for example methods = ['fedmf', 'pfedrec']")
        return [case for group in groups for case in group.cases(self)]


def read_grid(path: str | Path) -> tuple[Grid, list[Case]]:
    """A grid from its file, and its cases; a typo anywhere is one sentence."""
    path = Path(path)
    values = read_toml(path)
    try:
        grid = Grid(**values)
        return grid, grid.cases()
    except FedrecError as error:
        raise FedrecError(f"{path}: {error}") from None


def numbers(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """``3`` is the seeds 0, 1 and 2."""
    numbers = [border.whole("seeds", seed) for seed in border.several(seeds)]
    counted = isinstance(seeds, str) or not hasattr(seeds, "__len__")
    found = tuple(range(numbers[0])) if counted else tuple(numbers)
    if not found or min(found) < 0 or len(set(found)) < len(found):
        raise FedrecError(f"seeds={seeds} are no seeds: give how many, at least 1, or different numbers")
    return found


def protocols(name: Any) -> list[str | Protocol]:
    """By name or as they are; ``both`` is the honest and the published one."""
    names = [name] if isinstance(name, Protocol) else border.several(name)
    found = [each for one in names for each in (BOTH if one == "both" else (one,))]
    for one in map(border.check_protocol, found):
        if isinstance(one, str) and one not in PROTOCOLS:
            raise FedrecError(f"unknown protocol '{one}': {nearest(one, (*PROTOCOLS, 'both'))}")
    return list(dict.fromkeys(found))


def product(
    methods: Sequence[str],
    data: Sequence[str | Path | Interactions],
    protocol: str | Protocol | Sequence[str | Protocol],
    settings: Mapping[str, Any],
    options: Mapping[str, Any],
    local: bool,
) -> list[Case]:
    """Every method on every data set under every protocol. Settings may name their method: ``fedmf.dim``."""
    if not methods:
        raise FedrecError("say which methods to compare, such as fedmf pfedrec: fedrec methods lists them")
    for method in methods:
        border.method_name(method)
    mine = settings_by_method(methods, settings)
    cases = [
        Case(method, where, how, mine[method], applicable(method, options))
        for how in protocols(protocol)
        for where in data
        for method in dict.fromkeys(methods)
    ]
    return with_controls(cases) if local else cases


def settings_by_method(methods: Sequence[str], settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """``fedmf+gel.dim`` is one method's; ``dim`` and ``gel.radius_shared`` are those of all that have it."""
    found: dict[str, dict[str, Any]] = {method: {} for method in methods}
    for key, value in settings.items():
        named = [method for method in methods if key.startswith(f"{method}.")]
        if named:
            method = max(named, key=len)
            found[method][key.removeprefix(f"{method}.")] = value
            continue
        owners = [method for method in methods if _has(method, key)]
        if not owners:
            known = {name for method in methods for name in _names(method)}
            raise FedrecError(f"none of {', '.join(methods)} has a setting '{key}': {nearest(key, known)}")
        for method in owners:
            found[method][key] = value
    return found


def _names(spec: str) -> list[str]:
    return [name for part in expand(spec)[0].split("+") for name in own_fields(find(part))]


def _has(spec: str, key: str) -> bool:
    part, dot, name = key.rpartition(".")
    parts = expand(spec)[0].split("+")
    return any(name in own_fields(find(one)) for one in parts if not dot or one == part)


def applicable(spec: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those options of a comparison that mean something to a method: EASE has no rounds and no clients."""
    for name in OF_ROUNDS:  # also where a method has none
        if options.get(name) is not None:
            border.whole(name, options[name], 1)
    method = make(spec)
    without: tuple[str, ...] = OF_CLIENTS if isinstance(method, Central) else ()
    without += OF_ROUNDS if isinstance(method, CentralAtOnce) else ()
    return {name: value for name, value in options.items() if value is not None and name not in without}


def with_controls(cases: Sequence[Case]) -> list[Case]:
    """After each federated method the same model, never aggregated."""
    found = []
    for case in cases:
        found.append(case)
        if not case.local and isinstance(make(case.method, case.settings), Federated):
            options = {name: value for name, value in case.options.items() if name not in NOT_ALONE}
            label, options = f"{case.name}, local only", {**options, "local": True}
            found.append(
                Case(case.method, case.data, case.protocol, case.settings, options, label, case.seeds)
            )
    return found


def check(cases: Sequence[Case], seeds: Sequence[int]) -> None:
    """Every run of a comparison is described before the first one begins: a mistake costs no time."""
    for case in cases:
        for seed in case.seeds or seeds:
            case.described(seed)
    named: dict[tuple[str, str, str], Case] = {}
    for case in cases:
        key = (case.name, case.data_name, case.protocol_name)
        if key in named:
            raise FedrecError(
                f"two lines are called {case.name} on {case.data_name}: give one of them a label of its own"
            )
        named[key] = case
