"""Processes that work for this one: they find the same fedrec, and end when it does."""

from __future__ import annotations

import _thread
import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WORKER = "FEDREC_WORKER"  # set in the environment of a command that works for another one
GRACE = 60.0  # seconds to write a checkpoint in, on a machine that may be busy


def environment() -> dict[str, str]:
    """The same Python path here and there, however fedrec was found."""
    import fedrec

    source = str(Path(fedrec.__file__).parents[1])
    paths = [source, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def apart() -> dict[str, Any]:
    """Ctrl-C reaches this process alone, which tells the others once."""
    if os.name == "nt":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}  # type: ignore[attr-defined,unused-ignore]
    return {"start_new_session": True}


def interrupt(process: subprocess.Popen[str]) -> None:
    """Closing what it reads is how it is told: the same on every system."""
    if process.stdin is not None:
        _quietly(process.stdin.close)


def close(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            _quietly(stream.close)


def _quietly(action: Callable[[], None]) -> None:
    with contextlib.suppress(OSError):
        action()


def end_with_parent() -> None:
    """In such a process: the other end of stdin closes when the parent ends, in whatever way; that is Ctrl-C then."""
    threading.Thread(target=_wait_for_the_end, daemon=True).start()


def _wait_for_the_end() -> None:
    sys.stdin.read()
    _thread.interrupt_main()
    time.sleep(GRACE)
    os._exit(1)
