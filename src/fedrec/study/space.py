"""Where to search for settings: the ranges that stand beside them in each method's file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fedrec.core.errors import FedrecError
from fedrec.core.settings import Search
from fedrec.core.wrapper import chain
from fedrec.methods import expand, make, own_fields, qualified

DIGITS = 3  # that a number found has: more would promise too much


@dataclass(frozen=True)
class Dimension:
    """A setting by its full name, where to look for it, and its default."""

    name: str
    search: Search
    whole: bool
    default: Any

    def suggest(self, trial: Any) -> Any:
        """A value for a trial of Optuna; a word such as ``auto`` competes with the numbers."""
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

    @property
    def start(self) -> dict[str, Any]:
        """The default as Optuna's parameters: at the border where it lies beyond."""
        if self.word:
            return {f"{self.name}={self.word}": True}
        inside = min(max(self.default, self.search.low), self.search.high)
        return {self.name: int(inside) if self.whole else float(inside)}


def space(spec: str, fixed: dict[str, Any]) -> list[Dimension]:
    """All settings of a method and its wrappers that have a range and are not fixed."""
    method, kept = make(spec, fixed), full_names(spec, fixed)
    found = []
    for part in reversed(list(chain(method))):
        for name in own_fields(type(part)):
            field = type(part).model_fields[name]
            ranges = [each for each in field.metadata if isinstance(each, Search)]
            if ranges and f"{part.name}.{name}" not in kept:
                whole = field.annotation is int
                found.append(Dimension(f"{part.name}.{name}", ranges[0], whole, getattr(part, name)))
    if not found:
        raise FedrecError(
            f"{spec} has nothing left to search for: leave a --set out, or put a range beside a setting, "
            "as in lr: Annotated[float, Search(0.01, 1, log=True)]"
        )
    return found


def full_names(spec: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings by their full names, ``fedmf.lr`` for ``lr``."""
    return qualified(expand(spec)[0], settings)


def described(dimensions: list[Dimension]) -> dict[str, Any]:
    """Ranges as plain values: what makes two searches the same."""
    return {each.name: asdict(each.search) for each in dimensions}


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
