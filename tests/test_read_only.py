"""An installation that nobody may write to works: compiled code is kept elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import fedrec


@pytest.mark.parametrize("home", [True, False], ids=["home", "no home"])
def test_compiled_code_finds_a_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: bool) -> None:
    here, access = os.path.dirname(fedrec.__file__), os.access

    def refuses(path: Any, mode: int) -> bool:
        unwritable = str(path) == here or (not home and str(path).startswith(str(tmp_path / "home")))
        return access(path, mode) and not (mode == os.W_OK and unwritable)

    monkeypatch.setenv("NUMBA_CACHE_DIR", "as it was")  # so that it is put back
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "aside"))
    monkeypatch.setattr(os, "access", refuses)
    fedrec._place_for_compiled_code()
    chosen = os.environ["NUMBA_CACHE_DIR"]
    assert chosen.startswith(str(tmp_path / ("home" if home else "aside")))


def test_an_installation_that_can_be_written_keeps_it_beside_the_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    fedrec._place_for_compiled_code()
    assert "NUMBA_CACHE_DIR" not in os.environ
