"""Ctrl-C at a good moment: not between two things that belong together, such as a round and its line of history."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Held:
    """Ctrl-C while it is held back: it is remembered, and heard later."""

    def __init__(self) -> None:
        self.usual: Any = signal.getsignal(signal.SIGINT) or signal.default_int_handler
        self.came = False

    def begin(self) -> None:
        signal.signal(signal.SIGINT, self._remember)

    def end(self) -> None:
        """From here on it is heard at once, and so is one that came meanwhile."""
        signal.signal(signal.SIGINT, self.usual)
        if self.came:
            self.came = False
            signal.raise_signal(signal.SIGINT)

    def _remember(self, *_: Any) -> None:
        self.came = True


_held: list[_Held] = []


@contextmanager
def held_back() -> Iterator[None]:
    """Ctrl-C within is heard when this is over, however it ends."""
    if _held or threading.current_thread() is not threading.main_thread():  # others never hear it
        yield
        return
    held = _Held()
    _held.append(held)
    held.begin()
    try:
        yield
    finally:
        _held.pop()
        held.end()


@contextmanager
def heard_at_once() -> Iterator[None]:
    """A stretch within ``held_back`` that may be cut short."""
    if not _held or threading.current_thread() is not threading.main_thread():
        yield
        return
    held = _held[-1]
    held.end()
    try:
        yield
    finally:
        held.begin()
