"""Freed memory is kept for the next arrays: the system is not asked for its pages again."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource
import numpy as np
from fedrec.core.freed import give_back, keep_freed_memory

def taken(times):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        np.ones(1 << 22, np.int8)  # not so large that numpy asks for huge pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

usual = taken(20)
keep_freed_memory()
taken(1)
print(usual, taken(20))
give_back()
print(taken(1))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told to keep memory")
def test_the_same_pages_are_used_again() -> None:
    usual, kept, again = _faults({})
    assert kept < usual / 10
    assert again > kept  # they had been given back


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told to keep memory")
def test_what_somebody_else_has_set_stays() -> None:
    usual, kept, _ = _faults({"MALLOC_MMAP_THRESHOLD_": "1000000"})
    assert kept > usual / 2


def _faults(environment: dict[str, str]) -> list[int]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS],
        env={**mine, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return [int(word) for word in done.stdout.split()]
