"""FedAE keeps the contract."""

from __future__ import annotations

from typing import ClassVar

from fedrec.core.federated import Federated
from fedrec.methods.fedae import FedAE
from fedrec.testing import MethodContract


class TestFedAE(MethodContract):
    method: ClassVar[Federated] = FedAE(hidden=8, lr=0.02)
