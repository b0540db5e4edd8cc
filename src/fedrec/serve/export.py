"""A run as one file for devices: the shared arrays, the catalogue, and nothing private.

The format is that of safetensors: eight bytes with the length of a JSON header, the header, then the
raw arrays. NumPy alone reads it in a few lines, and so does a browser; docs/export.md has both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.files import replacing
from fedrec.core.kernel import LeastSquares
from fedrec.data.split import Split
from fedrec.server.server import Server, ServerState

TYPES = {"float32": "F32", "int32": "I32", "int64": "I64"}
ALIGN = 8  # a browser maps an array without copying where it starts at a multiple of its item size


def export(
    server: Server, state: ServerState, split: Split, spec: str, settings: dict[str, Any], path: str | Path
) -> Path:
    """Write what a device needs to recommend without the server; a file that exists is not replaced."""
    path, label, data = Path(path), server.method.label, split.data
    if not state.shared:
        if server.local:
            raise FedrecError(f"this run of {label} shared nothing (--local): nothing to export")
        raise FedrecError(
            f"{label} cannot be exported for devices: its server makes a model for each of them and shares none"
        )
    if path.exists():
        raise FedrecError(f"{path} exists already: choose another file")
    arrays: dict[str, NDArray[Any]] = {**state.shared}
    arrays["popularity"] = np.bincount(split.trained.items, minlength=data.n_items).astype(np.int32)
    form = server.method.kernel(server.catalog)
    if isinstance(form, LeastSquares):  # what the closed form needs besides the arrays
        arrays["prior"] = form.prior
        settings = settings | {f"{server.method.name}.{n}": getattr(form, n) for n in ("alpha", "lam")}
    about = {
        "format": "fedrec 1",
        "fedrec": fedrec.__version__,
        "method": spec,
        "settings": json.dumps(settings),
        "round": str(state.round),
        "items": json.dumps(data.item_ids.tolist(), ensure_ascii=False),
        "titles": json.dumps([data.title(i) for i in range(data.n_items)], ensure_ascii=False),
    }
    try:
        with replacing(path) as file:
            file.write(pack(arrays, about))
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
