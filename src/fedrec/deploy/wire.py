"""What crosses the network as bytes: a head of plain facts, then arrays as they lie in memory. No pickle.

Layout: ``FEDR``, the length of the head (4 bytes), the head as JSON, the arrays one after another. The head lists
names, kinds and shapes; a message in which anything is missing, left over or of another kind is refused whole.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError

MAGIC = b"FEDR"
KINDS: dict[str, np.dtype[Any]] = {
    "f4": np.dtype("<f4"),
    "i4": np.dtype("<i4"),
    "i8": np.dtype("<i8"),
    "u1": np.dtype("u1"),
}
LONGEST_HEAD = 1 << 22
LARGEST = 1 << 31  # bytes of a message


class Malformed(FedrecError):
    """Bytes that are no message, or not one that was asked for."""


def pack(head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None) -> bytes:
    listed, parts = [], []
    for name, values in (arrays or {}).items():
        kind = next((k for k, dtype in KINDS.items() if values.dtype == dtype), None)
        if kind is None:
            raise Malformed(f"'{name}' is of kind {values.dtype}, which no message carries")
        listed.append([name, kind, list(values.shape)])
        parts.append(np.ascontiguousarray(values, KINDS[kind]).tobytes())
    text = json.dumps({"head": dict(head), "arrays": listed}, separators=(",", ":")).encode()
    return b"".join([MAGIC, struct.pack("<I", len(text)), text, *parts])


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    if not 8 <= len(data) <= LARGEST or data[:4] != MAGIC:
        raise Malformed("not a message of fedrec")
    (length,) = struct.unpack("<I", data[4:8])
    if length > min(LONGEST_HEAD, len(data) - 8):
        raise Malformed("a message that was cut off")
    try:
        text = json.loads(data[8 : 8 + length])
        head, listed = text["head"], text["arrays"]
        if not isinstance(head, dict):
            raise TypeError
        declared = [(str(name), KINDS[kind], tuple(int(n) for n in shape)) for name, kind, shape in listed]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Malformed("a message with a head that cannot be read") from error
    if len({name for name, *_ in declared}) < len(declared):
        raise Malformed("a message that has an array twice")
    arrays, at = {}, 8 + length
    for name, dtype, shape in declared:
        size = dtype.itemsize
        for n in shape:
            if n < 0:
                raise Malformed(f"'{name}' has a shape below zero")
            size *= n
        if at + size > len(data):
            raise Malformed(f"'{name}' was cut off")
        arrays[name] = np.frombuffer(data, dtype, size // dtype.itemsize, at).reshape(shape)
        at += size
    if at != len(data):
        raise Malformed("a message with more bytes than it declares")
    return head, arrays


def asked(head: Mapping[str, Any], **kinds: type) -> list[Any]:
    """Facts of a head by name, each of the kind that it must have."""
    for name, kind in kinds.items():
        if type(head.get(name)) is not kind:
            raise Malformed(f"a message without a sound '{name}'")
    return [head[name] for name in kinds]
