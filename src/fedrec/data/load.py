"""From a name, a path or a frame to Interactions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrec.core.errors import DataError, nearest
from fedrec.core.files import exists
from fedrec.data.sources.build import build, read_source
from fedrec.data.sources.catalog import SOURCES
from fedrec.data.sources.download import find_or_download
from fedrec.data.sources.find import Place
from fedrec.data.sources.frame import table_of
from fedrec.data.sources.imported import imported_names, imported_path
from fedrec.data.sources.reading import Reading, at_least_one
from fedrec.data.sources.source import Source
from fedrec.data.sources.table import part_of, read_table

if TYPE_CHECKING:
    from fedrec.data.interactions import Interactions
    from fedrec.data.worlds.scalable import Scalable

DEMO = "demo"
BUILT_IN = (DEMO, *SOURCES)
FRAME = "frame"  # what data from a frame are called
MADE = re.compile(r"scalable-(\d+)-(\d+)-(\d+)(?:-(\d+))?")  # users, items, interactions and perhaps a seed


@dataclass(frozen=True)
class Located:
    """What a name stands for: where its data are and how they are read."""

    name: str
    where: str
    read: Callable[[], Interactions]
    source: Source | None = None


def load(
    name: Any = DEMO,
    *,
    minimum: int | None = None,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    items: Any = None,
    min_rating: float | None = None,
    core: int | None = None,
) -> Interactions:
    """Load a data set by name (``ml-100k``, or ``amazon-video:10`` for users with 10 rows), file or frame.

    ``scalable-5000-1000-100000`` is a made world of so many users, items and interactions (``-7`` behind it: its
    seed).

    ``user``, ``item`` and ``time`` name the columns of a file or frame (polars, pandas) where they are not
    called by a usual name; ``time=""`` leaves the times out. ``items`` is a file or frame with the items'
    titles and genres; ``min_rating`` leaves out rows rated lower; ``core`` leaves out users and items with
    fewer rows, again and again. Named sets are looked up in FEDREC_DATA, then in the cache, and downloaded
    where they are in neither.
    """
    reading = Reading(user, item, time, items, min_rating)
    return locate(name, reading, minimum=minimum, core=core).read()


def locate(
    name: Any, reading: Reading | None = None, *, minimum: int | None = None, core: int | None = None
) -> Located:
    """Find what a name stands for, downloading it if need be, without reading it yet."""
    from fedrec.data.interactions import Origin

    reading = reading or Reading()
    known = isinstance(name, str | Path)
    base, given = split_name(str(name)) if known else (FRAME, None)
    if given is not None and minimum is not None and given != minimum:
        raise DataError(f"'{name}' and minimum={minimum} disagree: give the minimum once")
    least = minimum if given is None else given
    at_least_one("minimum of interactions per user", least)
    at_least_one("core", core)
    found = _locate(base, reading) if known else _from_frame(name, reading)
    parts = [found.name] if least is None else [found.name, str(least)]
    parts += [] if reading.min_rating is None else [f"rating{reading.min_rating:g}"]
    parts += [] if core is None else [f"core{core}"]

    def whole() -> Interactions:
        data = found.read()
        if core is not None:
            from fedrec.data.kcore import k_core

            data = k_core(data, core, least or 1)
        elif least is not None:
            data = data.at_least(least)
        data = replace(data, name=":".join(parts))
        options = reading.options() if known else None
        if options is None:  # a frame cannot be loaded again
            return data
        source = source_of(base) + ("" if least is None else f":{least}")
        return data.loaded_from(Origin(source, options if core is None else {**options, "core": int(core)}))

    return replace(found, name=":".join(parts), read=whole)


def source_of(text: str) -> str:
    """What to load again later: a name as it is, a file by its whole path."""
    base, minimum = split_name(text)
    if is_name(base) or not exists(Path(base).expanduser()):
        return text
    return str(Path(base).expanduser().resolve()) + ("" if minimum is None else f":{minimum}")


def _locate(base: str, reading: Reading) -> Located:
    if is_name(base):
        reading.refuse_for(base, base in SOURCES and SOURCES[base].ratings is not None)
        if base == DEMO:
            from fedrec.data.worlds import demo

            return Located(DEMO, "made by fedrec, needs no file", demo)
        if made := made_world(base):
            return Located(base, "made by fedrec, needs no file", lambda: made.some(0, len(made.indptr) - 1))
        if base in SOURCES:
            source = SOURCES[base]
            place: Place = find_or_download(source)
            return Located(
                base, str(place.path), lambda: read_source(source, place, reading.min_rating), source
            )
        path = imported_path(base)
        return Located(base, str(path), lambda: build(base, read_table(part_of(path))))
    path = Path(base).expanduser()
    if not exists(path) and not _looks_like_path(base):
        raise DataError(f"unknown data set '{base}': {nearest(base, [*BUILT_IN, *imported_names()])}")
    part_of(path)
    short = path.name.split(".")[0] or path.name
    return Located(short, str(path), lambda: build(short, reading.read(table_of(path))))


def _from_frame(frame: Any, reading: Reading) -> Located:
    table = table_of(frame)
    return Located(FRAME, "given in Python", lambda: build(FRAME, reading.read(table)))


def split_name(text: str) -> tuple[str, int | None]:
    """``name:10`` as name and minimum. A path may hold a colon: what exists as it stands is a path."""
    if is_name(text) or exists(Path(text)) or ":" not in text:
        return text, None
    base, _, tail = text.rpartition(":")
    if tail.isdecimal():
        return base, int(tail)
    if is_name(base):
        raise DataError(f"'{tail}' in '{text}' is no minimum: write a whole number, such as {base}:10")
    return text, None


def is_name(text: str) -> bool:
    return text in BUILT_IN or MADE.fullmatch(text) is not None or text in imported_names()


def made_world(name: str) -> Scalable | None:
    """The made world of any size that a name such as ``scalable-5000-1000-100000`` stands for."""
    found = MADE.fullmatch(name)
    if found is None:
        return None
    from fedrec.data.worlds.scalable import Scalable

    return Scalable(*(int(number or 0) for number in found.groups()))


def _looks_like_path(text: str) -> bool:
    endings = (".csv", ".tsv", ".txt", ".dat", ".parquet", ".pq", ".gz", ".zip")
    return "/" in text or "\\" in text or text.lower().endswith(endings)
