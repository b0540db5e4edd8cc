"""A run as one page for a browser: a visitor picks what they like, and is recommended more, on their own device.

The page holds the exported run (docs/export.md) and follows its recipe with the modules of ``browser/``. It connects to
nothing: its policy forbids that, and a test in a browser watches it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.files import replacing
from fedrec.serve.export import Export

MODULES = ("dom", "model", "random", "score", "solve", "train", "rank", "search", "store", "why", "picker")
WORKER = "worker.js"
MOST = 384 * 2**20  # bytes of a model: browsers hold no longer text than about 500 million letters
ORDERED = "The newest is first, and counts most: move what you like up and down."
ANY_ORDER = "The newest is first. This model looks at what you like, not at its order."
COPY = " Your browser keeps a copy of this page, so that it opens without a network."


class Page(NamedTuple):
    """The page as text, and what a server has to give beside it for use without a network."""

    html: bytes
    worker: bytes


def page(found: Export, data: str, label: str, *, half: bool = False, worker: bool = False) -> Page:
    """The page of an exported run. ``half``: item tables in 16 bits, half as large. ``worker``: for a web server."""
    recipe = found.recipe
    if recipe["score"] is None:
        raise FedrecError(f"no page can be made of this run, {recipe['words'][0]}")
    if half:
        found = found.with_arrays({n: _halved(a, found.n_items) for n, a in found.arrays.items()})
    model = found.packed()
    if len(model) > MOST:
        raise FedrecError(
            f"the page would hold {len(model) / 2**20:,.0f} MB, more than browsers open: train with fewer dimensions"
            + ("" if half else ", or ask for half of it (half=True, --half)")
        )
    modules = {f"{name}.js": _data_url(_bare(_text(f"{name}.js"))) for name in MODULES}
    imports, script = json.dumps({"imports": modules}), _bare(_text("page.js"))
    allowed = " ".join(f"'sha256-{_sha(text)}'" for text in (imports, script))
    told = {
        "policy": f"default-src 'none'; connect-src 'none'; script-src {allowed} data:; style-src 'unsafe-inline'; "
        "img-src data:; worker-src 'self'; form-action 'none'; base-uri 'none'",
        "data": escape(data),
        "label": escape(label),
        "items": f"{found.n_items:,}",
        "order": ORDERED if _ordered(recipe["private"]) else ANY_ORDER,
        "size": f"{len(model) / 2**20:.1f} MB",
        "copy": COPY if worker else "",
        "version": fedrec.__version__,
        "round": found.about["round"],
        "facts": json.dumps({"data": data, "worker": WORKER if worker else None}).replace("<", "\\u003c"),
        "css": _text("page.css"),
        "model": base64.b64encode(model).decode(),
        "imports": imports,
        "script": script,
    }
    # In one pass: nothing that is put in is looked into again.
    text = re.sub(r"\{(" + "|".join(told) + r")\}", lambda hit: told[hit[1]], _text("page.html"))
    return Page(text.encode(), _text(WORKER).encode())


def write_page(path: Path, made: Page, force: bool = False) -> Path:
    """One file, or a folder for a web server: ``index.html`` and what keeps it usable without a network."""
    site = path.suffix not in (".html", ".htm")
    if path.is_file() if site else path.is_dir():
        raise FedrecError(f"{path} is a {'file' if site else 'folder'}: choose another name")
    wanted = {path / "index.html": made.html, path / WORKER: made.worker} if site else {path: made.html}
    for file in wanted:
        if file.exists() and not force:
            raise FedrecError(f"{file} exists already: choose another name, or overwrite it (--force)")
    try:
        for file, content in wanted.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(file) as out:
                out.write(content)
    except OSError as error:
        raise FedrecError(f"cannot write {path}: {error.strerror}") from None
    return next(iter(wanted))


def _halved(array: Any, n_items: int) -> Any:
    """Item tables alone, and only where their numbers fit: solutions need the small arrays exactly."""
    table = array.dtype == np.float32 and array.ndim == 2 and array.shape[0] == n_items
    return array.astype(np.float16) if table and np.abs(array).max(initial=0) < 6e4 else array


def _ordered(private: dict[str, Any]) -> bool:
    if private["how"] == "solve":
        return bool(private["recency"] or private["next"])
    return any(phase["recency"] for turn in private.get("passes", ()) for phase in turn["phases"])


def _bare(script: str) -> str:
    """Modules of a page in one file call each other by bare names, which its import map knows."""
    return script.replace('from "./', 'from "')


def _data_url(script: str) -> str:
    return "data:text/javascript;base64," + base64.b64encode(script.encode()).decode()


def _sha(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _text(name: str) -> str:
    return (files("fedrec.serve") / "browser" / name).read_text(encoding="utf-8")
