"""A checked copy in the cache: whole, as its publisher made it, or not there at all."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from fedrec.core.errors import DataError
from fedrec.data.sources.build import compare, read_source
from fedrec.data.sources.find import VARIABLE, Place, cache, find
from fedrec.data.sources.progress import download_bar
from fedrec.data.sources.rows import first_line
from fedrec.data.sources.source import Source

if TYPE_CHECKING:
    from fedrec.data.interactions import Interactions

TIMEOUT = 30  # seconds without an answer


def find_or_download(source: Source) -> Place:
    """Where a data set lies; downloads it first where it lies nowhere."""
    return find(source) or download(source)


def download(source: Source, *, renewed: bool = False) -> Place:
    """Fetch, check, move into the cache. ``renewed`` accepts a file that differs from the first download."""
    if not source.urls:
        raise DataError(f"{source.name} is not downloaded ({source.by_hand}): {by_hand(source)}")
    folder = cache() / source.folder
    try:
        cache().mkdir(parents=True, exist_ok=True)
        room = Path(tempfile.mkdtemp(prefix=".download-", dir=cache()))
    except OSError as error:
        raise DataError(f"cannot write to the cache {cache()} ({error.strerror}): make it writable") from None
    try:
        sums = {url: _fetch(source, url, room, renewed) for url in source.urls}
        _check_counts(source, room)
        folder.mkdir(exist_ok=True)
        for url in source.urls:
            os.replace(room / _file(url), folder / _file(url))
        _remember(sums)
    finally:
        shutil.rmtree(room, ignore_errors=True)
    place = find(source)
    assert place is not None
    return place


def by_hand(source: Source) -> str:
    """What to do where fedrec cannot fetch a data set."""
    return (
        f"get it from {source.home} and put {source.files[0]} into a folder '{source.folder}' "
        f"inside a folder that {VARIABLE} names"
    )


def _fetch(source: Source, url: str, room: Path, renewed: bool) -> str:
    """Download one file and return its sha256; refused where it is not what its publisher made."""
    import logging

    import pooch
    import requests

    pooch.get_logger().setLevel(logging.WARNING)
    published = remembered = None
    try:
        published = _published_md5(url) if source.md5 else None
        remembered = None if published or renewed else _sums().get(url)
        with download_bar(_file(url)) as bar:
            fetch = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=TIMEOUT)
            pooch.retrieve(url, published or remembered, fname=_file(url), path=room, downloader=fetch)
    except ValueError:  # pooch's word for a sum that does not match
        if published is None and remembered is None:
            raise
        if published:
            advice = "try again later; a file that does not match must not be used"
            raise DataError(f"{url} does not match the checksum its publisher states: {advice}") from None
        advice = f"if its publisher has renewed it, run 'fedrec data get {source.name} --force'"
        raise DataError(f"{url} differs from its first download (by its checksum): {advice}") from None
    except requests.exceptions.HTTPError as error:
        raise DataError(f"cannot download {source.name} ({first_line(error)}): {by_hand(source)}") from None
    except (requests.exceptions.RequestException, OSError):
        raise DataError(
            f"{source.name} is neither in {VARIABLE} nor in the cache, and {url} cannot be reached: "
            f"check the network, or {by_hand(source)}"
        ) from None
    return f"sha256:{pooch.file_hash(str(room / _file(url)))}"


def _published_md5(url: str) -> str | None:
    """The sum GroupLens puts beside a zip, as ``MD5 (name) = sum`` or ``sum  name``, or None."""
    import requests

    answer = requests.get(url + ".md5", timeout=TIMEOUT)
    if answer.status_code == 404:
        return None
    answer.raise_for_status()
    found = re.search(r"\b[0-9a-f]{32}\b", answer.text.lower())
    return f"md5:{found.group()}" if found else None


def _check_counts(source: Source, room: Path) -> None:
    """Read what was fetched: sums say that a file is whole, counts that it is the right one."""
    place = next((Place(path) for path in (room, *room.iterdir()) if _holds(source, path)), None)
    if place is None:
        raise DataError(f"the download of {source.name} holds no {source.files[0]}: {by_hand(source)}")
    data: Interactions = read_source(source, place)
    difference = compare(data, source.counts)
    if difference:
        raise DataError(f"the download is not the published one: {difference}; {by_hand(source)}")


def _holds(source: Source, path: Path) -> bool:
    return (path.is_dir() or path.suffix == ".zip") and Place(path).part(*source.files) is not None


def _file(url: str) -> str:
    return url.rsplit("/", 1)[-1]


def _sums() -> dict[str, str]:
    """Checksums of first downloads, by address."""
    try:
        return dict(json.loads((cache() / "sums.json").read_text()))
    except (OSError, ValueError):
        return {}


def _remember(sums: dict[str, str]) -> None:
    path = cache() / "sums.json"
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(_sums() | sums, indent=1, sort_keys=True))
    os.replace(draft, path)
