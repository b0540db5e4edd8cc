"""Blocks on several threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import fedrec

SLOW = """
import time
time.sleep(1)
def get_num_threads(): return 2
def set_num_threads(count): print("set to", count)
"""
RACE = """
import threading, sys, time
from fedrec.core.blocks import _one_torch_thread
first = threading.Thread(target=lambda: __import__("torch"))
first.start()
while "torch" not in sys.modules:
    time.sleep(0.01)
_one_torch_thread()
first.join()
"""


def test_a_thread_waits_for_torch_that_another_one_is_importing(tmp_path: Path) -> None:
    """A run of SASRec that is opened imports it on the first thread that scores, while the pool starts the next."""
    (tmp_path / "torch.py").write_text(SLOW)
    paths = [str(tmp_path), str(Path(fedrec.__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, "-c", RACE], env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert "set to 1" in done.stdout
