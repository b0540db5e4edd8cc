"""What a device may not do to a federation: everything that is not a sound answer is refused and counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fleets import Fleet

from fedrec.deploy.wire import Malformed, pack, unpack

BAD = 3  # the node that does not behave
Change = Callable[[dict[str, Any], dict[str, Any]], None]


def put(name: str, make: Callable[[Any], Any]) -> Change:
    return lambda head, arrays: arrays.__setitem__(name, make(arrays[name]))


CHANGES: dict[str, tuple[Change, str]] = {
    "wrong shape": (put("rows/items", lambda v: v[:, :-1].copy()), "has shape"),
    "one row too few": (put("rows/items", lambda v: v[:-1].copy()), "has shape"),
    "floats, not a number": (
        put("rows/items", lambda v: np.full(v.shape, np.nan, np.float32)),
        "whole numbers",
    ),
    "huge": (put("rows/items", lambda v: v + 2**62), "beyond what a sum has room for"),
    "a huge weight": (
        put("more", lambda v: v + np.array([0, 2**61, 0, 0, 0])),
        "beyond what a sum has room for",
    ),
    "negative weight": (put("more", lambda v: v * np.array([1, -1, 1, 1, 1])), "counts that are not"),
    "counts as ten": (put("more", lambda v: v * np.array([10, 1, 1, 1, 1])), "counts that are not"),
    "more hits than questions": (
        put("more", lambda v: v + np.array([0, 0, 0, 2**16, 0])),
        "figures that no exam gives",
    ),
    "undeclared": (
        lambda head, arrays: arrays.update({"rows/score": np.zeros(3)[:0].astype(np.int64)}),
        "not declared",
    ),
    "left out": (lambda head, arrays: arrays.__delitem__("rows/items"), "missing"),
    "item out of range": (put("items", lambda v: v + 100), "catalogue does not have"),
    "item below zero": (put("items", lambda v: v - 100), "catalogue does not have"),
    "items twice": (put("items", lambda v: np.zeros_like(v)), "twice there"),
    "another round": (lambda head, arrays: head.update(digest="00"), "another round"),
}


def changed(data: bytes, change: Change) -> bytes:
    """A node's answer in which one device's answer is another."""
    head, said = unpack(data)
    for name, values in said.items():
        inner, arrays = unpack(values.tobytes())
        arrays = dict(arrays)
        if "more" in arrays:
            change(inner, arrays)
            said[name] = np.frombuffer(pack(inner, arrays), np.uint8)
    return pack(head, said)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return Fleet(tmp_path_factory.mktemp("fleet"))


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_not_sound_is_refused_and_the_others_go_on(fleet: Fleet, name: str) -> None:
    change, says = CHANGES[name]
    fleet.carrier.up = lambda node, data: changed(data, change) if node == BAD else data
    record = fleet.rounds.play()
    assert record.devices == 7
    assert list(record.refused) == ["d00002"]
    assert says in record.refused["d00002"]
    for values in fleet.rounds.server.state.shared.values():
        assert np.isfinite(values).all()


def test_an_old_answer_is_not_added_again(fleet: Fleet) -> None:
    kept: list[bytes] = []
    fleet.carrier.up = lambda node, data: (kept.append(data) if node == BAD else None) or data
    fleet.rounds.play()
    fleet.carrier.up = lambda node, data: kept[-1] if node == BAD else data
    record = fleet.rounds.play()
    assert record.devices == 7
    assert "another question" in record.refused[f"node {BAD}"]


def test_an_answer_for_somebody_else_is_not_added(fleet: Fleet) -> None:
    def pretend(node: int, data: bytes) -> bytes:
        head, said = unpack(data)
        return pack(head, dict(zip(["d00000"], said.values(), strict=False))) if node == BAD else data

    fleet.carrier.up = pretend
    record = fleet.rounds.play()
    assert record.devices == 7
    assert "not asked there" in record.refused[f"node {BAD}"]


@pytest.mark.parametrize(
    "data", [b"", b"FEDR", b"\x80\x04K\x01.", pack({"a": 1})[:-1], pack({"a": 1}) + b"x"]
)
def test_bytes_that_are_no_message_are_refused(fleet: Fleet, data: bytes) -> None:
    with pytest.raises(Malformed):
        unpack(data)
    fleet.carrier.up = lambda node, real: data if node == BAD else real
    record = fleet.rounds.play()
    assert record.devices == 7
    assert f"node {BAD}" in record.refused


def test_a_head_that_lies_about_sizes_is_refused() -> None:
    import json
    import struct

    for arrays in (
        [["a", "i8", [2**60]]],
        [["a", "i8", [-1]]],
        [["a", "O", [1]]],
        [["a", "u1", [0]]] * 2,
        "x",
    ):
        text = json.dumps({"head": {}, "arrays": arrays}).encode()
        with pytest.raises(Malformed):
            unpack(b"FEDR" + struct.pack("<I", len(text)) + text)


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"method": "pfedrec"}, "method is 'pfedrec' there"), ({"fedrec": "9.9"}, "fedrec is '9.9' there"),
     ({"channel": ["secure"]}, "channel is"), ({"threshold": 1}, "threshold is 1 there")],
)  # fmt: skip
def test_a_device_refuses_a_server_under_other_terms(
    fleet: Fleet, changes: dict[str, Any], says: str
) -> None:
    """And the server is told so, in the same sentence."""

    def other(node: int, data: bytes) -> bytes:
        head, arrays = unpack(data)
        return pack({**head, "terms": {**head["terms"], **changes}}, arrays) if node == BAD else data

    fleet.carrier.up, fleet.carrier.down = (lambda node, data: data), other
    try:
        record = fleet.rounds.play()
    finally:
        fleet.carrier.down = lambda node, data: data
    assert record.devices == 7
    assert "another federation" in record.refused["d00002"]
    assert says in record.refused["d00002"]


def test_a_device_with_another_catalogue_is_told_so(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    (device,) = fleet.carrier.there[BAD].devices.values()
    device.file.name_items(["only here"], None)
    fleet.restart_devices()
    record = fleet.rounds.play()
    assert record.devices == 7
    assert "another catalogue (41 items" in record.refused["d00002"]
