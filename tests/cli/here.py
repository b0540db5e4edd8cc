"""The command line in this process: another one for every command would take most of the time of its tests."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

from fedrec.cli.main import main


def fedrec(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a process would say and end with that runs these words in a folder."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        patch.object(sys, "argv", ["fedrec", *words]),
        patch.dict(os.environ, environment),
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
