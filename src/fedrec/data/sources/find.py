"""Finding files: FEDREC_DATA first, then the cache; plain, gzip or inside the official zip."""

from __future__ import annotations

import gzip
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from fedrec.core.errors import DataError

if TYPE_CHECKING:
    from fedrec.data.sources.source import Source

VARIABLE = "FEDREC_DATA"


def cache() -> Path:
    """The folder fedrec keeps downloads and imports in."""
    from platformdirs import user_cache_path

    return user_cache_path("fedrec") / "data"


def roots() -> list[Path]:
    """Folders that are searched, in order."""
    given = os.environ.get(VARIABLE, "").split(os.pathsep)
    return [Path(folder).expanduser() for folder in given if folder] + [cache()]


@dataclass(frozen=True)
class Part:
    """One file of a data set, wherever it lies."""

    path: Path
    member: str | None = None  # its name inside the zip

    @property
    def name(self) -> str:
        """The file's own name, without the folders and the ``.gz`` around it."""
        return PurePosixPath(self.member).name if self.member else self.path.name.removesuffix(".gz")

    def __str__(self) -> str:
        return f"{self.path}/{self.member}" if self.member else str(self.path)

    def raw(self) -> Path | bytes:
        """What polars reads: the path of a plain file, else the unpacked bytes."""
        plain = self.member is None and self.path.suffix != ".gz"
        return self.path if plain else self.content()

    def content(self) -> bytes:
        """The unpacked bytes, all of them or an error: half a file must not pass for a whole one."""
        try:
            if self.member is not None:
                with zipfile.ZipFile(self.path) as archive:
                    return archive.read(self.member)
            packed = self.path.read_bytes()
            return gzip.decompress(packed) if self.path.suffix == ".gz" else packed
        except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
            raise damaged(self.path) from error
        except OSError as error:
            raise DataError(f"cannot read {self} ({error.strerror}): check that you may open it") from error

    def text(self) -> str:
        """The file as text: UTF-8, or Latin-1 as the older MovieLens titles are."""
        content = self.content()
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError:
            return content.decode("latin-1")


@dataclass(frozen=True)
class Place:
    """A folder or a zip with files of a data set in it."""

    path: Path

    def part(self, *names: str) -> Part | None:
        """The first of these files that is here."""
        if self.path.is_dir():
            paths = (self.path / (name + ending) for name in names for ending in ("", ".gz"))
            return next((Part(path) for path in paths if path.is_file()), None)
        by_name = {PurePosixPath(member).name: member for member in members(self.path)}
        return next((Part(self.path, by_name[name]) for name in names if name in by_name), None)


def members(path: Path) -> list[str]:
    """The files in a zip."""
    try:
        with zipfile.ZipFile(path) as archive:
            return [name for name in archive.namelist() if not name.endswith("/")]
    except zipfile.BadZipFile as error:
        raise damaged(path) from error


def damaged(path: Path) -> DataError:
    return DataError(f"{path} is cut short or damaged: delete it and fetch it again")


def find(source: Source) -> Place | None:
    """Where the files of a data set lie, or None."""
    folders = source.folders or (source.name,)
    for root in roots():
        places = [root / folder for folder in folders]
        places += [root / folder / archive for folder in folders for archive in source.archives]
        places += [root / archive for archive in source.archives]
        for path in places:
            if path.exists() and Place(path).part(*source.files):
                return Place(path)
    return None
