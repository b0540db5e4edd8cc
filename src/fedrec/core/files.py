"""Files that are replaced as a whole: a reader sees the old one or the new one, never half of it.

And TOML files that people write: what is wrong with one is a sentence.
"""

from __future__ import annotations

import io
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from fedrec.core.errors import FedrecError


@contextmanager
def replacing(path: Path) -> Iterator[IO[Any]]:
    """Write to a temporary file beside it; on success it is on disk and takes the place, else it goes."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def exists(path: Path) -> bool:
    """Whether there is such a file or folder; one whose name no system could hold is not there."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def write_parquet(path: Path, frame: Any) -> None:
    """A table of polars. It is made in memory: polars itself would say of a full disk that the file is wrong."""
    made = io.BytesIO()
    frame.write_parquet(made)
    with replacing(path) as file:
        file.write(made.getbuffer())


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FedrecError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FedrecError(f"{path} is not valid TOML: {error}") from None
