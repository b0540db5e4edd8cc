"""The border of the Python surface: what people give becomes a plain value, or one sentence.

NumPy's numbers, ``"3"`` and ``3.0`` are numbers; a single text is one text, not a list of letters.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from fedrec.core.errors import FedrecError, nearest
from fedrec.core.federated import View
from fedrec.core.method import Method
from fedrec.core.protocol import PROTOCOLS, Protocol
from fedrec.core.settings import plain_value
from fedrec.methods import make

if TYPE_CHECKING:
    from fedrec.runs.train import Callback


def whole(name: str, value: Any, least: int | None = None) -> int:
    """A whole number; ``3.0`` and ``"3"`` are, ``1.5`` and ``True`` are not."""
    found = _number(value)
    if found is None or not math.isfinite(found) or found != int(found):
        raise FedrecError(f"{name}={value} is no whole number: give one, such as {name}={max(least or 0, 3)}")
    if least is not None and found < least:
        raise FedrecError(f"{name}={value} is too small: give at least {least}")
    return int(found)


def number(name: str, value: Any) -> float:
    """A finite number."""
    found = _number(value)
    if found is None or not math.isfinite(found):
        raise FedrecError(f"{name} {_short(value)} is no number: give one, such as {name} 5")
    return float(found)


def seconds(name: str, value: Any, advice: str = "or 0 for every round") -> float:
    """A time of at least no seconds."""
    found = _number(value)
    if found is None or not math.isfinite(found) or found < 0:
        raise FedrecError(
            f"{name} {_short(value)} is no time: give seconds, such as 30{advice and f', {advice}'}"
        )
    return float(found)


def _number(value: Any) -> float | int | None:
    """A number that stands for itself, or as text; None where it is none."""
    value = plain_value(value)
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
    return value if isinstance(value, int | float) else None


def method_of(method: Any, settings: Any = None) -> Method:
    """A method by name or as an object."""
    settings = settings_of(settings)
    if isinstance(method, str):
        return make(method, settings)
    if isinstance(method, type) and issubclass(method, Method):
        raise FedrecError(f"{method.__name__} is a class: give an object, such as {method.__name__}()")
    if not isinstance(method, Method):
        raise FedrecError(
            f"{_short(method)} is no method: give a name, such as 'fedmf', or an object such as FedMF()"
        )
    if settings:
        raise FedrecError("give settings to the method's class or by name, not both")
    return method


def settings_of(settings: Any) -> dict[str, Any]:
    """Settings by name."""
    if settings is not None and not isinstance(settings, Mapping):
        raise FedrecError(
            f"settings={_short(settings)} are no names with values: give a dict, such as {{'dim': 16}}"
        )
    return dict(settings or {})


def method_name(method: Any) -> str:
    """Where a method is asked for by its name: it is made again, with other settings or in other processes."""
    if isinstance(method, str):
        return method
    raise FedrecError(f"{_short(method)} is no name of a method: give text, such as 'fedmf'")


def check_protocol(protocol: Any) -> str | Protocol:
    """The name of a protocol, or one itself."""
    if isinstance(protocol, str | Protocol):
        return protocol
    raise FedrecError(f"protocol={_short(protocol)} is no protocol: give {_either(PROTOCOLS)}, or a Protocol")


def check_view(view: Any) -> View | None:
    """One of the views that there are, or none."""
    if view is None or view in get_args(View):
        return view
    raise FedrecError(f"unknown view '{view}': {nearest(str(view), get_args(View))}")


def path_of(name: str, value: Any) -> Path:
    """A folder or file, as text or as a Path."""
    if isinstance(value, str | os.PathLike) and str(value):
        return Path(value)
    raise FedrecError(f"{name}={_short(value)} is no path: give it as text or as a Path")


def texts(value: Any) -> tuple[str, ...]:
    """Several texts; one alone stands for itself."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(map(str, several(value)))


def several(value: Any) -> list[Any]:
    """Items that were given as a list, an array, a column, or as a single one: ``"12"`` is one item."""
    value = value.to_list() if hasattr(value, "to_list") else plain_value(value)
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        return list(value)
    return [value]


def callbacks_of(value: Any) -> list[Callback]:
    """Functions to call after every round; one alone will do."""
    found = [value] if callable(value) else several(value or ())
    for one in found:
        if not callable(one):
            raise FedrecError(
                f"the callback {_short(one)} cannot be called: give a function of (record, training)"
            )
    return found


def threads_or_all(threads: Any) -> int:
    """How many threads to use: all that the machine offers, unless a number is given."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = whole("threads", threads)
    if count < 1:
        raise FedrecError(f"threads={count} cannot work: give at least 1")
    return count


def _either(names: Any) -> str:
    return " or ".join(f"'{name}'" for name in names)


def _short(value: Any) -> str:
    """A value as a message shows it."""
    text = str(value) if isinstance(value, str | float | int) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
