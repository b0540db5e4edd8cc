"""A fleet of one-client devices gives what the simulator gives: every method, every wrapper over every base."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import ClassVar

import pytest

from fedrec.core.federated import Federated
from fedrec.testing import MethodContract

spec = importlib.util.spec_from_file_location("everything", Path(__file__).with_name("everything.py"))
assert spec is not None
assert spec.loader is not None
everything = importlib.util.module_from_spec(spec)
spec.loader.exec_module(everything)
EVERYTHING = everything.everything()


# That everyone takes part the contract of each method checks as well: here the harder half is enough, mostly.
EVERYONE = pytest.param(None, id="everyone", marks=pytest.mark.slow)


@pytest.mark.parametrize("clients", [EVERYONE, pytest.param(0.5, id="sampled")])
@pytest.mark.parametrize("name", EVERYTHING)
def test_one_device_alone(name: str, clients: float | None) -> None:
    class Alone(MethodContract):
        method: ClassVar[Federated] = EVERYTHING[name]

    Alone().check_fleet(clients)
