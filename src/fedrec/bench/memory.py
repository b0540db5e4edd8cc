"""How much memory some work takes at its peak, where the system tells."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc/self")


def started() -> Callable[[], float | None]:
    """Ask for the peak anew; the answer is a function that gives the megabytes that were added since."""
    gc.collect()
    _give_back()
    try:
        (PROC / "clear_refs").write_text("5")  # the peak begins again at what is resident now
        before = _kilobytes("VmRSS")
    except (OSError, LookupError):
        return lambda: None
    return lambda: max(_kilobytes("VmHWM") - before, 0) / 1024


def _give_back() -> None:
    """What was freed and is still held for later goes back to the system: else later work would seem to need none."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _kilobytes(name: str) -> int:
    for line in (PROC / "status").read_text().splitlines():
        key, _, rest = line.partition(":")
        if key == name:
            return int(rest.split()[0])
    raise LookupError(name)
