"""A run as one file for devices: plain arrays, the catalogue, a recipe, and nothing private.

The format is that of safetensors: eight bytes with the length of a JSON header, the header, then the
raw arrays. NumPy alone reads it in a few lines, and so does a browser; docs/export.md has both.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.files import replacing
from fedrec.data.split import Split
from fedrec.serve.recipes import Exported

FORMAT = "fedrec 2"
TYPES = {"float32": "F32", "float16": "F16", "int32": "I32", "int64": "I64"}
ALIGN = 8  # a browser maps an array without copying where it starts at a multiple of its item size


@dataclass(frozen=True, eq=False)
class Export:
    """What a device needs to recommend without the server."""

    arrays: dict[str, NDArray[Any]]
    recipe: dict[str, Any]
    about: dict[str, str]
    n_items: int

    def with_arrays(self, arrays: dict[str, NDArray[Any]]) -> Export:
        return replace(self, arrays=arrays)

    def packed(self) -> bytes:
        return pack(self.arrays, self.about)


def exported(found: Exported, split: Split, spec: str, settings: dict[str, Any], round: int | None) -> Export:
    """Arrays and recipe with the catalogue and what made them."""
    data = split.data
    popularity = np.bincount(split.trained.items, minlength=data.n_items).astype(np.int32)
    about = {
        "format": FORMAT,
        "fedrec": fedrec.__version__,
        "method": spec,
        "settings": json.dumps(settings),
        "round": str(round or 0),
        "recipe": json.dumps(found.recipe, ensure_ascii=False),
        "items": json.dumps(data.item_ids.tolist(), ensure_ascii=False),
        "titles": json.dumps([data.title(i) for i in range(data.n_items)], ensure_ascii=False),
    }
    return Export({**found.arrays, "popularity": popularity}, found.recipe, about, data.n_items)


def write_export(path: Path, made: Export) -> Path:
    """As one file; a file that exists is not replaced."""
    if path.exists():
        raise FedrecError(f"{path} exists already: choose another file")
    try:
        with replacing(path) as file:
            file.write(made.packed())
    except OSError as error:
        raise FedrecError(f"cannot write {path}: {error.strerror}") from None
    return path


def pack(arrays: dict[str, NDArray[Any]], about: dict[str, str]) -> bytes:
    header: dict[str, Any] = {"__metadata__": about}
    parts, end = [], 0
    for name, array in arrays.items():
        parts.append(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes())
        start, end = end, end + len(parts[-1])
        header[name] = {
            "dtype": TYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGN)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def recipe_in(path: Path) -> dict[str, Any]:
    """The recipe of an exported file."""
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return dict(json.loads(header["__metadata__"]["recipe"]))
