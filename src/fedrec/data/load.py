"""From a name or a path to Interactions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedrec.core.errors import DataError, nearest
from fedrec.data.sources.build import build, read_source
from fedrec.data.sources.catalog import SOURCES
from fedrec.data.sources.download import find_or_download
from fedrec.data.sources.find import Place
from fedrec.data.sources.imported import imported_names, imported_path
from fedrec.data.sources.source import Source
from fedrec.data.sources.table import part_of, read_table

if TYPE_CHECKING:
    from fedrec.data.interactions import Interactions

DEMO = "demo"
BUILT_IN = (DEMO, *SOURCES)


@dataclass(frozen=True)
class Located:
    """What a name stands for: where its data are and how they are read."""

    name: str
    where: str
    read: Callable[[], Interactions]
    source: Source | None = None


def load(
    name: str | Path = DEMO,
    *,
    minimum: int | None = None,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
) -> Interactions:
    """Load a data set by name (``ml-100k``, or ``amazon-video:10`` for users with 10 rows) or from a file.

    ``user``, ``item`` and ``time`` name the columns of a file where they are not called by a usual name;
    ``time=""`` leaves the times out. Named sets are looked up in FEDREC_DATA, then in the cache, and
    downloaded where they are in neither.
    """
    return locate(name, minimum=minimum, user=user, item=item, time=time).read()


def locate(
    name: str | Path,
    *,
    minimum: int | None = None,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
) -> Located:
    """Find what a name stands for, downloading it if need be, without reading it yet."""
    base, given = split_name(str(name))
    if given is not None and minimum is not None and given != minimum:
        raise DataError(f"'{name}' and minimum={minimum} disagree: give the minimum once")
    least = minimum if given is None else given
    if least is not None and least < 1:
        raise DataError(f"the minimum of interactions per user is {least}: give a whole number of at least 1")
    found = _locate(base, user, item, time)
    if least is None:
        return found

    def filtered() -> Interactions:
        data = found.read()
        return replace(data.at_least(least), name=f"{data.name}:{least}")

    return replace(found, name=f"{found.name}:{least}", read=filtered)


def _locate(base: str, user: str | None, item: str | None, time: str | None) -> Located:
    columns_given = any(column is not None for column in (user, item, time))
    if is_name(base):
        if columns_given:
            raise DataError(f"the columns of '{base}' are known: name columns for files of your own only")
        if base == DEMO:
            from fedrec.data.worlds import demo

            return Located(DEMO, "made by fedrec, needs no file", demo)
        if base in SOURCES:
            source = SOURCES[base]
            place: Place = find_or_download(source)
            return Located(base, str(place.path), lambda: read_source(source, place), source)
        path = imported_path(base)
        return Located(base, str(path), lambda: build(base, read_table(part_of(path))))
    path = Path(base).expanduser()
    if not path.exists() and not _looks_like_path(base):
        raise DataError(f"unknown data set '{base}': {nearest(base, [*BUILT_IN, *imported_names()])}")
    part = part_of(path)
    short = part.path.name.split(".")[0] or part.path.name
    return Located(short, str(path), lambda: build(short, read_table(part, user, item, time)))


def split_name(text: str) -> tuple[str, int | None]:
    """``name:10`` as name and minimum. A path may hold a colon: what exists as it stands is a path."""
    if is_name(text) or Path(text).exists() or ":" not in text:
        return text, None
    base, _, tail = text.rpartition(":")
    if tail.isdecimal():
        return base, int(tail)
    if is_name(base):
        raise DataError(f"'{tail}' in '{text}' is no minimum: write a whole number, such as {base}:10")
    return text, None


def is_name(text: str) -> bool:
    return text in BUILT_IN or text in imported_names()


def _looks_like_path(text: str) -> bool:
    endings = (".csv", ".tsv", ".txt", ".dat", ".parquet", ".pq", ".gz", ".zip")
    return "/" in text or "\\" in text or text.lower().endswith(endings)
