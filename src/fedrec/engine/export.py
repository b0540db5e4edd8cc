"""A run as one file for devices: the shared arrays, the catalogue, and nothing private.

The format is that of safetensors: eight bytes with the length of a JSON header, the header, then the
raw arrays. NumPy alone reads it in a few lines, and so does a browser; docs/export.md has both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.methods.fedals import FedALS

if TYPE_CHECKING:
    from fedrec.engine.run import Run

TYPES = {"float32": "F32", "int32": "I32", "int64": "I64"}
ALIGN = 8  # a browser maps an array without copying where it starts at a multiple of its item size


def export(run: Run, path: str | Path) -> Path:
    """Write what a device needs to recommend without the server; a file that exists is not replaced."""
    path = Path(path)
    if not isinstance(run.method, Federated):
        raise FedrecError(f"{run.method.label} cannot be exported for devices: it is not federated")
    assert run.federation is not None
    assert run.federation.selected is not None
    shared = run.federation.selected.moment.after.shared
    if not shared:
        raise FedrecError(f"this run of {run.method.label} shared nothing (--local): nothing to export")
    if path.exists():
        raise FedrecError(f"{path} exists already: choose another file")
    data = run.split.data
    counts = np.bincount(run.split.trained.items, minlength=data.n_items).astype(np.int32)
    about = {
        "format": "fedrec 1",
        "fedrec": fedrec.__version__,
        "method": run.config.method,
        "settings": json.dumps(run.result["settings"]),
        "round": str(run.federation.selected.round),
        "items": json.dumps([str(i) for i in data.item_ids.tolist()], ensure_ascii=False),
        "titles": json.dumps([data.title(i) for i in range(data.n_items)], ensure_ascii=False),
    }
    arrays: dict[str, NDArray[Any]] = {**shared, "popularity": counts}
    if isinstance(run.method, FedALS):  # what the closed form needs besides the arrays
        arrays["prior"] = run.method.prior()
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.write_bytes(pack(arrays, about))
        temporary.replace(path)
    except OSError as error:
        raise FedrecError(f"cannot write {path}: {error.strerror}") from None
    return path


def pack(arrays: dict[str, NDArray[Any]], about: dict[str, str]) -> bytes:
    header: dict[str, Any] = {"__metadata__": about}
    body = b""
    for name, array in arrays.items():
        raw = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
        place = [len(body), len(body) + len(raw)]
        header[name] = {"dtype": TYPES[array.dtype.name], "shape": list(array.shape), "data_offsets": place}
        body += raw
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGN)
    return len(text).to_bytes(8, "little") + text + body
