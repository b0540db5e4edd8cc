"""What is compiled while a person waits: kernels compile when first used, once for a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def told(tell: Callable[[str], None]) -> Iterator[None]:
    """``tell`` the name of each function while it is compiled, and an empty one when all are done."""
    from numba.core import event

    under_way: list[str] = []  # a function compiles those that it calls

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            under_way.append(event.data["dispatcher"].py_func.__name__)
            tell(under_way[-1])

        def on_end(self, event: Any) -> None:
            under_way.pop()
            tell(under_way[-1] if under_way else "")

    listener = Listener()
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
