"""Downloads against a server of our own: checked, atomic, remembered."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fedrec.core.errors import DataError
from fedrec.data.load import load
from fedrec.data.sources.catalog import SOURCES
from fedrec.data.sources.download import download
from fedrec.data.sources.source import Counts

ROWS = "1\t10\t4\t100\n1\t30\t5\t200\n2\t20\t3\t500\n"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def site(tmp_path):
    """A folder served on 127.0.0.1."""
    folder = tmp_path / "site"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield Site(folder, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


class Site:
    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address = folder, address

    def publish(self, rows: str = ROWS, md5: str | None = None) -> None:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("ml-100k/u.data", rows)
        (self.folder / "ml-100k.zip").write_bytes(packed.getvalue())
        if md5 is not None:
            true = hashlib.md5(packed.getvalue()).hexdigest()
            (self.folder / "ml-100k.zip.md5").write_text(md5.format(true))


@pytest.fixture
def source(home, site, monkeypatch):
    """ml-100k as if the site were its home."""
    source = replace(SOURCES["ml-100k"], urls=(f"{site.address}/ml-100k.zip",), counts=Counts(3, 2, 3))
    monkeypatch.setitem(SOURCES, "ml-100k", source)
    return source


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file()) if folder.exists() else []


@pytest.mark.parametrize("form", ["MD5 (ml-100k.zip) = {}\n", "{}  ml-100k.zip\n"])
def test_download_with_the_publishers_checksum(home, site, source, form):
    site.publish(md5=form)
    assert len(load("ml-100k")) == 3
    assert files(home.cache) == ["ml-100k.zip", "sums.json"]
    (site.folder / "ml-100k.zip").unlink()
    assert len(load("ml-100k")) == 3  # from the cache


def test_checksum_mismatch_leaves_nothing_behind(home, site, source):
    site.publish(md5="MD5 (ml-100k.zip) = " + "0" * 32)
    with pytest.raises(DataError, match="does not match the checksum its publisher states: try again later"):
        load("ml-100k")
    assert list(home.cache.iterdir()) == []


def test_first_download_is_remembered_where_there_is_no_checksum(home, site, source):
    site.publish()
    download(source)
    assert len(json.loads((home.cache / "sums.json").read_text())) == 1
    site.publish(ROWS.replace("500", "600"))
    with pytest.raises(DataError, match=r"differs from its first download.*data get ml-100k --force"):
        download(source)
    assert load("ml-100k").times.max() == 500  # what was there stays
    download(source, renewed=True)
    assert load("ml-100k").times.max() == 600
    assert files(home.cache) == ["ml-100k.zip", "sums.json"]


def test_wrong_counts_leave_nothing_behind(home, site, source):
    site.publish(ROWS * 2)
    with pytest.raises(DataError, match="not the published one: ml-100k has 6 rows, 2 users, 3 items"):
        load("ml-100k")
    assert list(home.cache.iterdir()) == []


def test_download_without_the_file_in_it(home, site, source):
    with zipfile.ZipFile(site.folder / "ml-100k.zip", "w") as archive:
        archive.writestr("readme.txt", "nothing here")
    with pytest.raises(DataError, match=r"holds no u.data"):
        load("ml-100k")
    assert list(home.cache.iterdir()) == []


def test_server_without_the_file(home, site, source):
    with pytest.raises(DataError, match=r"404 .*: get it from https://grouplens\.org"):
        load("ml-100k")
    assert list(home.cache.iterdir()) == []


def test_no_network(home, source, monkeypatch):
    gone = replace(source, urls=("http://127.0.0.1:9/ml-100k.zip",))  # nobody listens there
    monkeypatch.setitem(SOURCES, "ml-100k", gone)
    sentence = "neither in FEDREC_DATA nor in the cache, and .* cannot be reached: check the network"
    with pytest.raises(DataError, match=sentence):
        load("ml-100k")
    assert list(home.cache.iterdir()) == []


def test_download_that_breaks_off(home, site, source, monkeypatch):
    site.publish()

    def half(self, *args):
        content = (site.folder / "ml-100k.zip").read_bytes()
        self.send_response(404 if self.path.endswith(".md5") else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        self.close_connection = True

    monkeypatch.setattr(Quiet, "do_GET", half)
    with pytest.raises(DataError):
        load("ml-100k")
    assert list(home.cache.iterdir()) == []


def test_several_files(home, site, monkeypatch):
    (site.folder / "ratings.dat").write_text("1::10::4::100\n")
    (site.folder / "movies.dat").write_text("10::Ten (2000)::Drama\n")
    urls = (f"{site.address}/ratings.dat", f"{site.address}/movies.dat")
    tweets = replace(SOURCES["movietweetings-100k"], urls=urls, counts=None)
    monkeypatch.setitem(SOURCES, "movietweetings-100k", tweets)
    assert load("movietweetings-100k").titles == ("Ten (2000)",)
    assert files(home.cache) == ["movies.dat", "ratings.dat", "sums.json"]


def test_cache_that_cannot_be_written(home, source):
    home.cache.parent.mkdir(parents=True)
    home.cache.write_text("a file where the folder should be")
    with pytest.raises(DataError, match="cannot write to"):
        load("ml-100k")


def test_official_addresses_are_https():
    assert all(url.startswith("https://") for source in SOURCES.values() for url in source.urls)
    assert all(source.urls or source.by_hand for source in SOURCES.values())
