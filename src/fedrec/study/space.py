"""Where to search for settings: the ranges that stand beside them in each method's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fedrec.core.errors import FedrecError, nearest
from fedrec.core.settings import Choice, Search
from fedrec.core.wrapper import chain
from fedrec.methods import full_names, make, own_fields, settings_of

DIGITS = 3  # that a number found has: more would promise too much


@dataclass(frozen=True)
class Dimension:
    """A setting by its full name, where to look for it, and its default."""

    name: str
    search: Search | Choice
    whole: bool
    default: Any

    def suggest(self, trial: Any) -> Any:
        """A value for a trial of Optuna; a word such as ``auto`` competes with the numbers."""
        if isinstance(self.search, Choice):
            return trial.suggest_categorical(self.name, list(self.search.options))
        low, high, log = self.search.low, self.search.high, self.search.log
        if self.word and trial.suggest_categorical(f"{self.name}={self.word}", [True, False]):
            return self.word
        if self.whole:
            return int(trial.suggest_int(self.name, int(low), int(high), log=log))
        return rounded(trial.suggest_float(self.name, low, high, log=log))

    @property
    def word(self) -> str:
        """A default that is no number; empty where it is one."""
        return self.default if isinstance(self.default, str) else ""

    def at(self, value: Any) -> dict[str, Any]:
        """A value as Optuna's parameters: at the border where it lies beyond."""
        if isinstance(self.search, Choice):
            return {self.name: value}
        if self.word:
            named = f"{self.name}={self.word}"
            return {named: True} if value == self.word else {named: False, **self._number(value)}
        return self._number(value)

    def _number(self, value: Any) -> dict[str, Any]:
        assert isinstance(self.search, Search)
        inside = min(max(value, self.search.low), self.search.high)
        return {self.name: int(inside) if self.whole else float(inside)}


def space(spec: str, fixed: dict[str, Any], usual: Mapping[str, Any] | None = None) -> list[Dimension]:
    """All settings of a method and its wrappers that have a range and are not fixed; ``usual``: where they begin."""
    method, kept = make(spec, {**(usual or {}), **full_names(spec, fixed)}), full_names(spec, fixed)
    found = []
    for part in reversed(list(chain(method))):
        for name in own_fields(type(part)):
            field = type(part).model_fields[name]
            ranges = [each for each in field.metadata if isinstance(each, Search | Choice)]
            if ranges and f"{part.name}.{name}" not in kept:
                whole = field.annotation is int
                found.append(Dimension(f"{part.name}.{name}", ranges[0], whole, getattr(part, name)))
    if not found:
        raise FedrecError(
            f"{spec} has nothing left to search for: leave a --set out, or put a range beside a setting, "
            "as in lr: Annotated[float, Search(0.01, 1, log=True)]"
        )
    return found


def parameters(
    spec: str, usual: Mapping[str, Any], dimensions: list[Dimension], given: Mapping[str, Any]
) -> dict[str, Any]:
    """A trial with some settings, the others as usual, as Optuna's parameters."""
    named = full_names(spec, dict(given))
    for name in named:
        if name not in (each.name for each in dimensions):
            raise FedrecError(
                f"a first trial with {name} is none of this search: {nearest(name, [d.name for d in dimensions])}"
            )
    values = settings_of(make(spec, {**usual, **named}))
    return {name: value for each in dimensions for name, value in each.at(values[each.name]).items()}


def described(dimensions: list[Dimension]) -> dict[str, Any]:
    """Ranges as plain values: what makes two searches the same."""
    return {each.name: asdict(each.search) for each in dimensions}


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
