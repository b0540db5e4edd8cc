"""Small worlds that every test may use."""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import hashlib
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from fedrec.data.interactions import Interactions
from fedrec.data.split import Split, split
from fedrec.data.worlds import scalable, two_tastes

pytest.register_assert_rewrite("fedrec.testing")
signal.signal(
    signal.SIGINT, signal.default_int_handler
)  # what a shell starts with `&` would be deaf to Ctrl-C

_compile = Dispatcher.compile


def _compile_once(self: Any, sig: Any) -> Any:
    """Of the processes that run tests the first to need a kernel compiles it; others wait and read its cache."""
    if self._cache.cache_path is None:
        return _compile(self, sig)
    name = hashlib.sha256(
        f"{self.py_func.__module__} {self._cache.cache_path} {self.py_func.__qualname__}".encode()
    ).hexdigest()[:20]
    with global_compiler_lock, contextlib.closing((LOCKS / name).open("w")) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return _compile(self, sig)


LOCKS = Path(tempfile.gettempdir()) / f"fedrec-test-locks-{getpass.getuser()}"
LOCKS.mkdir(exist_ok=True)
Dispatcher.compile = _compile_once

# The same examples each time, so that a change and not luck breaks the tests; `make fuzz` looks further.
settings.register_profile("steady", deadline=None, max_examples=15, derandomize=True)
settings.register_profile("fuzz", deadline=None, max_examples=400, print_blob=True)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def tastes() -> Interactions:
    """40 users, 40 items; even users like even items."""
    return two_tastes()


@pytest.fixture(scope="session")
def small() -> Interactions:
    """60 users of very different activity, 80 items."""
    return scalable(60, 80, 1500)


@pytest.fixture(scope="session")
def small_split(small: Interactions) -> Split:
    return split(small)


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., None]:
    """Waits for something that another process does, as long as a busy machine may take, and while it lives."""

    def wait(happened: Callable[[], object], process: subprocess.Popen[Any] | None = None) -> None:
        until = time.monotonic() + 300
        while not happened():
            assert process is None or process.poll() is None, "the process has ended"
            assert time.monotonic() < until, "it did not happen in 300 seconds"
            time.sleep(0.05)

    return wait
