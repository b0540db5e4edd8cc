"""FedRAP keeps the contract, on both engines and in its ablations.

Its personal rows rank: it learns the two tastes where the held-out item is kept out of the negatives.
"""

from __future__ import annotations

from typing import ClassVar

from fedrec.core.federated import Federated, View
from fedrec.methods.fedrap import FedRAP
from fedrec.testing import MethodContract
from fedrec.wrap.dualper import DualPer
from fedrec.wrap.gel import GEL


class TestFedRAP(MethodContract):
    method: ClassVar[Federated] = FedRAP(dim=8, lr_args=10)
    rounds: ClassVar[int] = 30
    view: ClassVar[View] = "own"
    protocol: ClassVar[str] = "paper"


class TestFedRAPPlain(TestFedRAP):
    engine: ClassVar[str] = "plain"


class TestFedRAPCommonOnly(TestFedRAP):
    method: ClassVar[Federated] = FedRAP(dim=8, lr_args=10, mu=0.01, parts="common")
    view: ClassVar[View] = "global"  # there is no other


class TestFedRAPWithThreshold(TestFedRAP):
    method: ClassVar[Federated] = FedRAP(dim=8, lr_args=10, prox=0.001)


class TestFedRAPWithDualPer(TestFedRAP):
    method: ClassVar[Federated] = DualPer(FedRAP(dim=8, lr_args=10))


class TestFedRAPWithGEL(TestFedRAP):
    method: ClassVar[Federated] = GEL(FedRAP(dim=8, lr_args=10))
