"""A home for data that belongs to the test alone: an empty FEDREC_DATA and an empty cache."""

from __future__ import annotations

import gzip
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Home:
    data: Path  # what FEDREC_DATA names
    cache: Path

    def write(self, path: str, text: str, encoding: str = "utf-8") -> Path:
        """A file under FEDREC_DATA, packed as its name says."""
        target = self.data / path
        target.parent.mkdir(parents=True, exist_ok=True)
        content = text.encode(encoding)
        target.write_bytes(gzip.compress(content) if target.suffix == ".gz" else content)
        return target

    def zip(self, path: str, files: dict[str, str], encoding: str = "utf-8") -> Path:
        target = self.data / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(target, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text.encode(encoding))
        return target


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    home = Home(tmp_path / "data", tmp_path / "cache" / "data")
    home.data.mkdir()
    monkeypatch.setenv("FEDREC_DATA", str(home.data))
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache")
    return home
